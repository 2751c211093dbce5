// A run that is interrupted and goes on is the run that was not.
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "actors/checkpoint_keeper.hpp"
#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tests/support/tiny_run.hpp"

using namespace memopd;
using namespace memopd::testing;
namespace fs = std::filesystem;

namespace {

/// Five steps of a student that acts (the shipped teacher, off its temperature) with everything that has state: moments,
/// schedule, critic, evaluations, checkpoints; several actors of every role, so that arrival times differ.
Config long_config(const fs::path& folder) {
  Config config = tiny_config(folder);
  config.student.model = (fs::path(MEMOPD_SOURCE_DIR) / "envs/atlas/teacher").string();
  config.teacher.model = config.student.model;
  config.protocol.question = "Question: {question}\n";
  config.protocol.observation = "\n<information>{documents}</information>\n";
  config.protocol.hint = "";
  config.protocol.hint_last = "";
  config.sampling.max_response_tokens = 36;
  config.run.num_steps = 5;
  config.run.is_deterministic = true;
  config.optimizer.schedule = "linear";
  config.optimizer.warmup_steps = 3;
  config.learner.num_threads = 2;
  config.env.front().num_actors = 2;
  config.student.num_actors = 2;
  config.teacher.num_actors = 2;
  config.eval.every = 2;
  config.checkpoint.every = 2;
  config.checkpoint.keep = 9;
  return config;
}

/// Stops the run once `step` steps are done.
std::function<void(LocalSession&)> stop_after(const fs::path& run, std::int64_t step) {
  return [run, step, is_sent = std::make_shared<bool>(false)](LocalSession& session) {
    const auto summary = load_summary(run / "summary.json");
    if (!*is_sent && summary && summary->steps >= step) {
      *is_sent = true;
      REQUIRE(session.cluster().tell(session.coordinator(), StopRun{}));
    }
  };
}

void cut_last_checkpoint(const fs::path& run) {
  const auto steps = complete_checkpoints(run / "checkpoints");
  REQUIRE(steps.size() > 1);
  fs::remove_all(run / "checkpoints" / ("step-" + std::to_string(steps.back())));
}

}  // namespace

TEST_CASE("two deterministic runs of one seed give equal bits", "[integration][RL-6]") {
  const Scratch first;
  const Scratch second;
  REQUIRE(run_to_end(long_config(first.path())).verdict == "completed");
  REQUIRE(run_to_end(long_config(second.path())).verdict == "completed");

  const auto metrics = reproducible_metrics(first.path() / "run");

  CHECK(metrics.size() > 250);
  CHECK(first_difference(metrics, reproducible_metrics(second.path() / "run")) == "");
}

TEST_CASE("another seed gives other numbers", "[integration][RL-6]") {
  const Scratch first;
  const Scratch second;
  Config config = long_config(first.path());
  config.run.num_steps = 1;
  run_to_end(config);
  Config other = long_config(second.path());
  other.run.num_steps = 1;
  other.run.seed = 1;
  run_to_end(other);

  CHECK_FALSE(first_difference(reproducible_metrics(first.path() / "run"), reproducible_metrics(second.path() / "run"))
                  .empty());
}

TEST_CASE("a run that was stopped and resumed gives the bits of one that was not",
          "[integration][CL-3][RL-6][pain:T23]") {
  const Scratch whole;
  const Scratch parts;
  REQUIRE(run_to_end(long_config(whole.path())).verdict == "completed");
  const Config config = long_config(parts.path());
  const fs::path run = parts.path() / "run";
  REQUIRE(run_to_end(config, stop_after(run, 3)).verdict == "stopped");

  const RunEnded ended = resume_to_end(config);

  CHECK(ended.verdict == "completed");
  CHECK(first_difference(reproducible_metrics(run), reproducible_metrics(whole.path() / "run")) == "");
}

TEST_CASE("a run that lost steps after its last checkpoint repeats them to the bit", "[integration][CL-3][RL-2]") {
  const Scratch whole;
  const Scratch parts;
  REQUIRE(run_to_end(long_config(whole.path())).verdict == "completed");
  const Config config = long_config(parts.path());
  const fs::path run = parts.path() / "run";
  REQUIRE(run_to_end(config, stop_after(run, 3)).verdict == "stopped");
  const auto stopped = load_summary(run / "summary.json");
  REQUIRE(stopped);
  cut_last_checkpoint(run);  // as if the process had died between the checkpoint of step 2 and the next

  REQUIRE(resume_to_end(config).verdict == "completed");

  CHECK(first_difference(reproducible_metrics(run), reproducible_metrics(whole.path() / "run")) == "");
  const auto ledger = read_ledger(run / "ledger");
  REQUIRE(ledger);
  const LedgerAudit audit = audit_ledger(*ledger, {.max_policy_lag = 0});
  CHECK(audit.violations == std::vector<std::string>{});
  CHECK(audit.num_rollbacks == 1);
  CHECK(audit.num_steps == 5);
  CHECK(audit.num_trained + audit.num_dropped() == 5 * 4);
  CHECK(audit.num_superseded == (stopped->steps - 2) * 4);  // of the steps that were lost
  CHECK(audit.num_pending == 0);
  const auto summary = load_summary(run / "summary.json");
  REQUIRE(summary);
  CHECK(summary->counts.trained == audit.num_trained);
  CHECK(summary->counts.dropped == audit.num_dropped());
}

TEST_CASE("a run without a checkpoint begins anew", "[integration][CL-3]") {
  const Scratch scratch;
  Config config = long_config(scratch.path());
  config.run.num_steps = 1;
  REQUIRE(run_to_end(config).verdict == "completed");
  const auto before = reproducible_metrics(scratch.path() / "run");
  fs::remove_all(scratch.path() / "run/checkpoints/step-1");

  REQUIRE(resume_to_end(config).verdict == "completed");

  CHECK(first_difference(reproducible_metrics(scratch.path() / "run"), before) == "");
}

TEST_CASE("a run out of hours checkpoints and stops", "[integration]") {
  const Scratch scratch;
  Config config = tiny_world(scratch.path());
  config.run.num_steps = 1000;
  config.run.max_hours = 1e-9;

  CHECK(run_to_end(config).verdict == "stopped");

  CHECK(complete_checkpoints(scratch.path() / "run/checkpoints") == std::vector<std::int32_t>{1});
}

TEST_CASE("a checkpoint with another version than its weights is refused by name", "[integration][CL-3][error]") {
  const Scratch scratch;
  const Config config = tiny_world(scratch.path());
  REQUIRE(run_to_end(config).verdict == "completed");
  const fs::path state = scratch.path() / "run/checkpoints/step-2/state.json";
  auto json = nlohmann::json::parse(std::ifstream(state));
  json["run"]["policy_version"] = 7;
  std::ofstream(state) << json.dump();

  const RunEnded ended = resume_to_end(config);

  CHECK(ended.verdict == "failed");
  CHECK(ended.first_failure.find("policy_version") != std::string::npos);
}
