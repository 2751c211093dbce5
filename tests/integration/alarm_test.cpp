// The canary of a state mismatch: at standing weights sampler and learner must agree, for ever.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/tiny_run.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

/// Twenty steps at standing weights; a random policy never stops by itself, which is no alarm here.
Config canary(const std::filesystem::path& folder) {
  Config config = tiny_world(folder);
  config.run.num_steps = 20;
  config.optimizer.lr = 0;
  config.critic.lr = 1e-12;
  config.alarms.max_truncated_frac = 1.0;
  config.alarms.max_rollout_gap = 1e-3;
  config.eval.splits.clear();
  return config;
}

}  // namespace

TEST_CASE("a canary at learning rate 0 keeps its gap for 20 steps and raises no alarm", "[integration][pain:T11]") {
  const Scratch scratch;

  REQUIRE(run_to_end(canary(scratch.path())).verdict == "completed");

  const auto records = training_records(scratch.path() / "run");
  REQUIRE(records.size() == 20);
  for (const auto& record : records) {
    CHECK(record.at("train/rollout_gap").get<double>() < 1e-5);
    CHECK(record.at("align/mismatch").get<double>() == 0);
    CHECK(record.at("align/checked").get<double>() > 0);
  }
  CHECK(events(scratch.path() / "run", "alarm").empty());
}

TEST_CASE("a learner at misaligned positions raises the alarm of the gap", "[integration][pain:T11]") {
  const Scratch scratch;
  Config config = canary(scratch.path());
  config.run.num_steps = 2;
  config.learner.state = "persistent_history";

  REQUIRE(run_to_end(config).verdict == "completed");

  const auto alarms = events(scratch.path() / "run", "alarm");
  CHECK(std::any_of(alarms.begin(), alarms.end(),
                    [](const auto& event) { return event.dump().find("rollout_gap") != std::string::npos; }));
  CHECK(training_records(scratch.path() / "run").front().at("align/mismatch").get<double>() > 0);
}

TEST_CASE("while nothing moves the run says who waits for whom", "[integration][pain:T22]") {
  const Scratch scratch;
  Config config = canary(scratch.path());
  config.student.model = (std::filesystem::path(MEMOPD_SOURCE_DIR) / "envs/atlas/teacher").string();
  config.teacher.model = config.student.model;
  config.protocol.question = "Question: {question}\n";
  config.protocol.observation = "\n<information>{documents}</information>\n";
  config.protocol.hint = "";
  config.protocol.hint_last = "";
  config.sampling.max_response_tokens = 36;
  config.run.num_steps = 1;
  config.learner.tasks_per_step = 2;
  config.retriever.delay_ms = 4000;
  config.protocol.max_turns = 2;
  config.alarms.no_progress_s = 1;

  REQUIRE(run_to_end(config).verdict == "completed");

  const auto reports = events(scratch.path() / "run", "no_progress");
  REQUIRE_FALSE(reports.empty());
  const std::string report = reports.front().dump();
  CHECK(report.find("coordinator/0 waits for env/0 (RunTask, ") != std::string::npos);
  CHECK(report.find("env/0 waits for retriever/0 (Retrieve, ") != std::string::npos);
}

TEST_CASE("a teacher in another state shows up as mismatches and ends nothing", "[integration][AP-6]") {
  for (const char* const state : {"persistent_history", "memory_mask"}) {
    const Scratch scratch;
    Config config = canary(scratch.path());
    config.run.num_steps = 1;
    config.opd.state = state;

    REQUIRE(run_to_end(config).verdict == "completed");

    CHECK(training_records(scratch.path() / "run").front().at("align/mismatch").get<double>() > 0);
  }
}
