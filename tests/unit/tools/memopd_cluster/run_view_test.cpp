#include "tools/memopd_cluster/run_view.hpp"

#include <catch2/catch.hpp>

#include "runtime/telemetry/summary.hpp"
#include "tests/unit/tools/memopd_cluster/run_folder.hpp"
#include "tools/memopd_cluster/status.hpp"
#include "tools/memopd_cluster/top.hpp"

using namespace memopd;

namespace {

constexpr std::int64_t kNow = 5000;

RunView view_of(const RunFolder& run) {
  auto view = load_run_view(run.path(), kNow);
  REQUIRE(view);
  return *view;
}

HostProcess gone() { return {own_host_name(), 0x7ffffff0, 12}; }

std::string summary_of(Verdict verdict, std::int64_t steps, std::string first_failure = "") {
  Summary summary;
  summary.verdict = verdict;
  summary.steps = steps;
  summary.first_failure = std::move(first_failure);
  return to_json(summary);
}

std::string event(const std::string& name) { return R"({"time":1,"level":"info","name":")" + name + "\"}\n"; }

nlohmann::json actor(const std::string& name, double busy_ms) {
  return {{"name", name},
          {"state", "running"},
          {"mailbox_depth", 3},
          {"busy_ms", busy_ms},
          {"current_call", "Score"},
          {"current_call_age_ms", 1500.0},
          {"waits_for", "teacher/0"},
          {"waits_for_message", "Score"},
          {"waits_for_age_ms", 291'000.0}};
}

}  // namespace

TEST_CASE("a run lives as long as its launcher, whatever its files say", "[memopd_cluster]") {
  const RunFolder run;
  run.write("summary.json", summary_of(Verdict::completed, 3));
  run.append("events.jsonl", event("run_ended"));
  run.launched_by(own_identity());
  CHECK(view_of(run).life == RunLife::running);
  CHECK(exit_code_of(RunLife::running) == 0);
  run.launched_by(gone());
  CHECK(view_of(run).life == RunLife::completed);
  CHECK(exit_code_of(RunLife::completed) == 0);
  CHECK(load_run_view(run.path() / "none", kNow).error().code == ErrorCode::not_found);
}

TEST_CASE("a launcher that went without ending its run has lost it", "[memopd_cluster]") {
  const RunFolder run;
  // Written at every step: a killed run's summary reads as that of a stopped one.
  run.write("summary.json", summary_of(Verdict::stopped, 3));
  run.append("events.jsonl", event("run_ended") + event("resumed") + event("step_done"));
  run.launched_by(gone());
  const RunView lost = view_of(run);
  CHECK(lost.life == RunLife::lost);
  CHECK(exit_code_of(lost.life) == 1);
  CHECK_THAT(format_status(lost), Catch::Contains("the launcher, pid 2147483632, is gone"));
  run.append("events.jsonl", event("stop_requested") + event("run_ended"));
  CHECK(view_of(run).life == RunLife::stopped);
  run.write("summary.json", summary_of(Verdict::failed, 3, "env/0: boom"));
  CHECK(view_of(run).life == RunLife::failed);
  CHECK_THAT(format_status(view_of(run)), Catch::Contains("failure  env/0: boom"));
  CHECK(exit_code_of(RunLife::failed) == 1);
}

TEST_CASE("a pid that is another process's by now is no launcher", "[memopd_cluster][pain:L04]") {
  const RunFolder run;
  HostProcess launcher = own_identity();
  --launcher.start_ticks;
  run.launched_by(launcher);
  CHECK(view_of(run).life == RunLife::lost);
  launcher = own_identity();
  launcher.host = "elsewhere";
  run.launched_by(launcher);
  CHECK(view_of(run).life == RunLife::elsewhere);
}

TEST_CASE("a stop is requested until the run has ended or goes on", "[memopd_cluster]") {
  const RunFolder run;
  run.launched_by(own_identity());
  run.append("events.jsonl", event("stop_requested") + event("step_done"));
  CHECK(view_of(run).is_stop_requested);
  run.append("events.jsonl", event("run_ended"));
  CHECK_FALSE(view_of(run).is_stop_requested);
  run.append("events.jsonl", event("stop_requested") + event("resumed"));
  CHECK_FALSE(view_of(run).is_stop_requested);
}

TEST_CASE("status shows step, metrics, processes and how old they are", "[memopd_cluster]") {
  const RunFolder run;
  run.write("summary.json", summary_of(Verdict::stopped, 12));
  run.write("metrics.jsonl", "{\"step\":11,\"rollout/f1\":0.1}\n{\"step\":12,\"rollout/f1\":0.25}\n{\"step\":13,\"ro");
  ProcessRecord worker;
  worker.name = "worker/\x1b[2J3";
  worker.identity = {"host-a", 4711, 99};
  worker.state = RecordedState::suspect;
  worker.rss_bytes = 3 << 20;
  REQUIRE(save_processes(run.path(), {"try2", 1000, own_identity(), {worker}}));
  const RunView view = view_of(run);
  const std::string text = format_status(view);
  CHECK_THAT(text, Catch::Contains("step     12\n") && Catch::Contains("f1 0.25") && Catch::Contains("4.0s old") &&
                       Catch::Contains("worker/?[2J3") && Catch::Contains("suspect") && Catch::Contains("3.0 MiB"));
  CHECK(text.find('\x1b') == std::string::npos);
  const auto json = nlohmann::json::parse(status_json(view));
  CHECK(json["state"] == "running");
  CHECK(json["step"] == 12);
  CHECK(json["num_steps"].is_null());
  CHECK(json["data_age_ms"] == 4000);
  CHECK(json["launcher"]["is_alive"] == true);
  CHECK(json["processes"][0]["pid"] == 4711);
  CHECK(json["metrics"]["rollout/f1"] == 0.25);
}

TEST_CASE("status has an answer for a folder that holds next to nothing", "[memopd_cluster][error]") {
  const RunFolder run;
  run.write("topology.json", "{\"actors\": [");
  run.write("processes.json", "not json");
  run.write("summary.json", "[]");
  run.write("events.jsonl", "\xff\n[]\n{}\n{\"name\":7}\n");
  run.write("metrics.jsonl", "x\n");
  const RunView view = view_of(run);
  CHECK(view.life == RunLife::lost);
  CHECK_FALSE(format_status(view).empty());
  CHECK(nlohmann::json::parse(status_json(view))["processes"].is_null());
  CHECK_FALSE(format_top(view, nullptr, 10).empty());
}

TEST_CASE("top shows the busiest first, and who waits for whom since when", "[memopd_cluster][pain:L15]") {
  RunView before;
  before.topology = {{"actors", {actor("env/0", 100), actor("env/1", 100), actor("env/2", 0)}}};
  before.topology_unix_ms = 10'000;
  RunView view = before;
  view.topology = {{"actors", {actor("env/0", 200), actor("env/1", 600), actor("env/3", 0)}}};
  view.topology_unix_ms = 11'000;
  const std::string text = format_top(view, &before, 2);
  CHECK(text.find("env/1") < text.find("env/0"));
  CHECK_THAT(text, Catch::Contains("50%") && Catch::Contains("10%") && Catch::Contains("Score 1.5s") &&
                       Catch::Contains("waits for teacher/0 (Score) since 4m51s") && Catch::Contains("and 1 more"));
  CHECK_THAT(format_top(view, nullptr, 10), !Catch::Contains("%"));
}

TEST_CASE("the link of a page is given while its launcher lives", "[memopd_cluster]") {
  const RunFolder run;
  run.write("monitor.token", "http://127.0.0.1:1/?token=shown_by_a_test\n");
  run.launched_by(own_identity());
  CHECK(print_monitor_link(run.path().string()) == 0);
  run.launched_by(gone());
  CHECK(print_monitor_link(run.path().string()) == 1);
}

TEST_CASE("text of a run cannot move the cursor", "[memopd_cluster]") {
  CHECK(visible("a\x1b[31m\nb\r\x7f\xc2\x9b"
                "1m\xc3\xa4") == "a?[31m?b???1m\xc3\xa4");
}
