#include "tools/memopd_cluster/logs.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/tools/memopd_cluster/run_folder.hpp"

using namespace memopd;

namespace {

std::string line(int second, const std::string& text) {
  return "2026-11-30T12:00:" + std::string(second < 10 ? "0" : "") + std::to_string(second) + ".000Z " + text + "\n";
}

/// "role text-behind-the-time" of all lines that are there.
std::vector<std::string> drain(LogMerge& merge, bool takes_unfinished = false) {
  std::vector<std::string> result;
  while (auto next = merge.next(takes_unfinished)) {
    const bool is_event = next->level.has_value();
    result.push_back(next->role + " " + (is_event ? next->text.substr(25) : next->text));
  }
  return result;
}

using texts = std::vector<std::string>;

}  // namespace

TEST_CASE("logs of all roles come in order of time", "[memopd_cluster]") {
  const RunFolder run;
  run.write("logs/env-0.log", line(1, "info env/0 a") + line(4, "warning env/0 b"));
  run.write("logs/learner-0.log", line(2, "debug learner c") + line(3, "error learner d"));
  run.write("logs/launcher.out", line(1, "info not a log"));
  LogMerge merge(run.path() / "logs");
  CHECK(drain(merge) ==
        texts{"env/0 info env/0 a", "learner/0 debug learner c", "learner/0 error learner d", "env/0 warning env/0 b"});
}

TEST_CASE("output that is no event keeps its place and is never left out", "[memopd_cluster][pain:L09]") {
  const RunFolder run;
  run.write("logs/env-0.log", "early\n" + line(2, "info env/0 a") + "terminate called after\n");
  run.write("logs/env-1.log", line(1, "info env/1 b") + line(3, "info env/1 c") + "Segmentation fault");
  LogMerge merge(run.path() / "logs");
  // The last line has no end yet: it is shown once nobody writes any more.
  CHECK(drain(merge) == texts{"env/0 early", "env/1 info env/1 b", "env/0 info env/0 a", "env/0 terminate called after",
                              "env/1 info env/1 c"});
  CHECK(drain(merge).empty());
  CHECK(drain(merge, true) == texts{"env/1 Segmentation fault"});
}

TEST_CASE("followed logs say what is appended and what files appear", "[memopd_cluster]") {
  const RunFolder run;
  run.write("logs/env-0.log", line(1, "info env/0 a") + "2026-11-30T12:0");
  LogMerge merge(run.path() / "logs");
  CHECK(drain(merge) == texts{"env/0 info env/0 a"});
  run.append("logs/env-0.log", line(2, "info env/0 b").substr(15));
  run.write("logs/teacher-0.log", line(1, "info teacher c"));
  CHECK(drain(merge) == texts{"teacher/0 info teacher c", "env/0 info env/0 b"});
}

TEST_CASE("a role is a group or one of it", "[memopd_cluster]") {
  const RunFolder run;
  for (const char* name : {"env-1", "env-11", "envy-1"}) {
    run.write(std::string("logs/") + name + ".log", line(1, "info x"));
  }
  LogMerge group(run.path() / "logs", "env");
  CHECK(drain(group).size() == 2);
  LogMerge one(run.path() / "logs", "env/1");
  CHECK(drain(one) == texts{"env/1 info x"});
}

TEST_CASE("a line without end is cut and the next one whole", "[memopd_cluster][error]") {
  const RunFolder run;
  run.write("logs/env-0.log", std::string(1 << 20, 'x') + "\n" + line(1, "info env/0 a"));
  LogMerge merge(run.path() / "logs");
  const auto first = merge.next(false);
  REQUIRE(first);
  CHECK(first->text.size() == 64 * 1024);
  CHECK(drain(merge) == texts{"env/0 info env/0 a"});
}

TEST_CASE("colour follows the level, on terminals only", "[memopd_cluster]") {
  MergedLine shown{"env/0", "", LogLevel::error, "bad \x1b[2J"};
  CHECK(format_line(shown, false) == "env/0          | bad ?[2J\n");
  CHECK_THAT(format_line(shown, true), Catch::Contains("\x1b[31mbad ?[2J\x1b[0m"));
}
