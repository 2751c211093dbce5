#include "runtime/telemetry/monitor_store.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

using namespace memopd;
using Json = nlohmann::json;

namespace {

LogEvent event_at(std::int64_t time_ms, std::string name = "step_done") {
  LogEvent event;
  event.unix_time_ms = time_ms;
  event.component = "coordinator";
  event.name = std::move(name);
  event.fields = {{"step", 12}, {"reward", 0.25}};
  return event;
}

Json actor(const std::string& group, int rank, const std::string& state = "running") {
  return {{"name", group + "/" + std::to_string(rank)},
          {"group", group},
          {"type", "environment_actor"},
          {"rank", rank},
          {"is_blocking", false},
          {"state", state},
          {"process", "worker/" + std::to_string(rank / 8)},
          {"reason", ""},
          {"mailbox_depth", 2},
          {"max_mailbox", 1024},
          {"num_handled", 10},
          {"current_call", "Retrieve"},
          {"current_call_age_ms", 12.5},
          {"busy_ms", 1500.0},
          {"num_pending_asks", 1},
          {"waits_for", "retriever/0"},
          {"waits_for_message", "Retrieve"},
          {"waits_for_age_ms", 3.25}};
}

Json topology_of(int num_actors) {
  Json topology = {{"actors", Json::array()}, {"edges", Json::array()}, {"first_failure", nullptr}};
  for (int rank = 0; rank < num_actors; ++rank) {
    topology["actors"].push_back(actor("env", rank));
    topology["edges"].push_back({{"from", "env/" + std::to_string(rank)},
                                 {"to", "retriever/0"},
                                 {"num_messages", 123456},
                                 {"size_bytes", 123456789}});
  }
  return topology;
}

MonitorConfig limits(std::int32_t history_s, std::int32_t max_events) { return {"", history_s, max_events}; }

std::vector<std::int64_t> sequences(const MonitorStore::Page& page) {
  std::vector<std::int64_t> result;
  for (const auto& record : page.records) {
    result.push_back(Json::parse(*record)["seq"]);
  }
  return result;
}

using ints = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("10,000 actors and 24 h of events stay within the stated bound", "[telemetry][MS-1][pain:L08]") {
  MonitorStore store(limits(86400, 100'000));
  store.set_topology(topology_of(10'000));
  CHECK(Json::parse(*store.topology().json)["actors"].size() == 10'000);
  // 300,000 events in 24 h, each with more to say than fits.
  LogEvent event = event_at(0, "trajectory_dropped");
  event.fields.assign(20, LogField("note", std::string(400, 'x')));
  for (std::int64_t index = 0; index < 300'000; ++index) {
    event.unix_time_ms = 1'767'225'600'000 + index * 288;
    store.add_event(event);
  }
  std::map<std::string, double> metrics;
  for (int index = 0; index < 100; ++index) {
    metrics["group/metric_" + std::to_string(index)] = 0.123456789;
  }
  for (int step = 0; step < 20'000; ++step) {
    store.add_metrics(step, metrics, 1'767'225'600 + 4.0 * step);
  }
  CHECK(store.held_bytes() <= MonitorStore::kMaxHeldBytes);
  CHECK(store.held_bytes() > MonitorStore::kMaxHistoryBytes);
  const auto page = store.events_after(0, 10);
  CHECK(page.records.size() == 10);
  CHECK(static_cast<std::int64_t>(page.records.front()->size()) <= MonitorStore::kMaxEventBytes);
  CHECK(sequences(page).front() == page.num_missed + 1);
}

TEST_CASE("a document that is too large is replaced by its size", "[telemetry][MS-1]") {
  MonitorStore store(limits(60, 100));
  store.set_topology(topology_of(50'000));
  const Json shown = Json::parse(*store.topology().json);
  CHECK(shown["num_actors"] == 50'000);
  CHECK(shown["too_large_bytes"] > MonitorStore::kMaxDocumentBytes);
  CHECK(shown["actors"].empty());
  store.set_status({{"text", std::string(static_cast<std::size_t>(MonitorStore::kMaxDocumentBytes), 'x')}});
  CHECK(Json::parse(*store.status().json).contains("too_large_bytes"));
}

TEST_CASE("the oldest events make room and are counted as missed", "[telemetry][MS-2]") {
  MonitorStore store(limits(60, 3));
  for (int index = 0; index < 5; ++index) {
    store.add_event(event_at(1000 + index));
  }
  const auto page = store.events_after(0, 10);
  CHECK(sequences(page) == ints{3, 4, 5});
  CHECK(page.num_missed == 2);
  CHECK(page.next == 5);
  CHECK(sequences(store.events_after(3, 1)) == ints{4});
  CHECK(store.events_after(3, 1).next == 4);
  CHECK(store.events_after(5, 10).records.empty());
  CHECK(store.events_after(99, 10).next == 5);
}

TEST_CASE("events older than the history go, by the newest one's time", "[telemetry][MS-1]") {
  MonitorStore store(limits(60, 100));
  store.add_event(event_at(1'000));
  store.add_event(event_at(61'000));
  CHECK(sequences(store.events_after(0, 10)) == ints{1, 2});
  store.add_event(event_at(61'001));
  CHECK(sequences(store.events_after(0, 10)) == ints{2, 3});
}

TEST_CASE("metrics are asked for by step, the newest first to be kept", "[telemetry]") {
  MonitorStore store(limits(86400, 100));
  for (int step = 1; step <= 4; ++step) {
    store.add_metrics(step, {{"train/loss", 0.5 * step}}, 1000.0 + step);
  }
  CHECK(sequences(store.metrics_from(3, 10)) == ints{3, 4});
  const auto newest = store.metrics_from(1, 2);
  CHECK(sequences(newest) == ints{3, 4});
  CHECK(newest.num_missed == 2);
  CHECK(sequences(store.metrics_after(2, 10)) == ints{3, 4});
  CHECK(Json::parse(*newest.records[0]) == Json({{"seq", 3}, {"step", 3}, {"time", 1003.0}, {"train/loss", 1.5}}));
}

TEST_CASE("whatever a run says becomes valid JSON", "[telemetry]") {
  MonitorStore store(limits(60, 100));
  CHECK(*store.topology().json == "null");
  store.add_metrics(1, {{"a", std::numeric_limits<double>::quiet_NaN()}}, 1);
  CHECK(Json::parse(*store.metrics_from(0, 1).records[0])["a"].is_null());
  LogEvent event = event_at(1, "bad \xff bytes");
  event.fields = {{"text", "line\nbreak </script>"}};
  store.add_event(event);
  const auto page = store.events_after(0, 1);
  CHECK(Json::parse(*page.records[0])["fields"]["text"] == "line\nbreak </script>");
  CHECK(page.records[0]->find('\n') == std::string::npos);
}

TEST_CASE("Prometheus gets actors by group and metrics by name", "[telemetry]") {
  MonitorStore store(limits(60, 100));
  Json topology = {{"actors", {actor("env", 0), actor("env", 1, "failed"), actor("we\"ird", 0)}}};
  store.set_topology(topology);
  store.add_metrics(7, {{"train/loss", 0.5}, {"x", std::numeric_limits<double>::infinity()}}, 1);
  store.add_event(event_at(1));
  const std::string text = store.prometheus();
  for (const char* line :
       {"memopd_step 7\n", "memopd_metric{name=\"train/loss\"} 0.5\n", "memopd_metric{name=\"x\"} +Inf\n",
        "memopd_actors{group=\"env\",state=\"failed\"} 1\n", "memopd_actors{group=\"we\\\"ird\",state=\"running\"} 1\n",
        "memopd_mailbox_depth{group=\"env\"} 4\n", "memopd_busy_seconds_total{group=\"env\"} 3\n",
        "memopd_events_total{level=\"info\"} 1\n"}) {
    CHECK_THAT(text, Catch::Contains(line));
  }
}

TEST_CASE("a reader that waits is woken by a change and by nothing else", "[telemetry]") {
  using namespace std::chrono_literals;
  MonitorStore store(limits(60, 100));
  const auto seen = store.wait_for_change(~std::uint64_t{0}, 0ms);
  CHECK(store.wait_for_change(seen, 1ms) == seen);
  std::thread writer([&] { store.set_status({{"step", 1}}); });
  CHECK(store.wait_for_change(seen, 60s) == seen + 1);
  writer.join();
}
