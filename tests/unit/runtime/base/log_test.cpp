#include "runtime/base/log.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace memopd;

namespace {

LogEvent event_with(std::vector<LogField> fields) {
  LogEvent event;
  event.unix_time_ms = 1'767'225'600'123;
  event.level = LogLevel::info;
  event.component = "learner";
  event.name = "step_done";
  event.fields = std::move(fields);
  return event;
}

}  // namespace

TEST_CASE("an event prints as time, level, component, name and fields", "[base]") {
  CHECK(to_string(event_with({{"step", 12}, {"loss", 0.31}, {"is_last", false}})) ==
        "2026-01-01T00:00:00.123Z info learner step_done step=12 loss=0.31 is_last=false");
}

TEST_CASE("an event is one line whatever its values hold", "[base]") {
  const std::string line =
      to_string(event_with({{"a", "two\nlines\r"}, {"b", "tab\there"}, {"c", "say \"hi\" \\ x=y"}, {"d", ""}}));
  CHECK(line.substr(line.find(" a=")) == R"( a="two\nlines\r" b="tab\there" c="say \"hi\" \\ x=y" d="")");
}

TEST_CASE("a plain value is not quoted", "[base]") {
  const std::string line = to_string(event_with({{"id", "train.12.3.0"}}));
  CHECK(line.substr(line.find(" id=")) == " id=train.12.3.0");
}

TEST_CASE("the sink of the process receives every level with its fields", "[base]") {
  std::vector<LogEvent> seen;
  set_log_sink([&](const LogEvent& event) { seen.push_back(event); });
  log_debug("env/3", "slow", {{"ms", 5}});
  log_error("env/3", "failed");
  set_log_sink({});

  REQUIRE(seen.size() == 2);
  CHECK(seen[0].level == LogLevel::debug);
  CHECK(seen[0].component == "env/3");
  CHECK(seen[0].fields[0].key == "ms");
  CHECK(seen[0].fields[0].value == "5");
  CHECK(seen[1].level == LogLevel::error);
}
