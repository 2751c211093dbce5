// A whole training run in one process, on real questions, with models of a few thousand parameters.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "runtime/ledger/read_ledger.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tests/support/tiny_run.hpp"

using namespace memopd;
using namespace memopd::testing;
namespace fs = std::filesystem;

TEST_CASE("a run goes from cold start to verdict and leaves everything it promises", "[integration]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  const Config config = tiny_config(scratch.path());

  const RunEnded ended = run_to_end(config);

  CHECK(ended.verdict == "completed");
  const fs::path run = scratch.path() / "run";
  const auto summary = load_summary(run / "summary.json");
  REQUIRE(summary);
  CHECK(summary->steps == 2);
  CHECK(summary->counts.trained + summary->counts.dropped == 8);
  CHECK(summary->counts.trained > 0);
  CHECK(summary->metrics.count("cold_start") == 1);
  CHECK(summary->metrics.count("final") == 1);
  CHECK(training_records(run).size() == 2);
  CHECK(fs::exists(run / "checkpoints/step-2/policy/model.safetensors"));
  CHECK(fs::exists(run / "checkpoints/step-2/state.json"));
  CHECK_FALSE(fs::is_empty(run / "tensorboard"));
  CHECK_FALSE(fs::is_empty(run / "trajectories"));
}

TEST_CASE("the ledger has every invocation before the step that trains it", "[integration][RL-1][RL-2]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  run_to_end(tiny_config(scratch.path()));

  const auto ledger = read_ledger(scratch.path() / "run/ledger");

  REQUIRE(ledger);
  std::map<TrajectoryId, std::int32_t> calls;
  std::map<TrajectoryId, std::int32_t> announced;
  std::set<TrajectoryId> trained;
  for (const LedgerRecord& record : ledger->records) {
    if (const auto* invocation = std::get_if<InvocationRecord>(&record)) {
      ++calls[invocation->invocation.trajectory_id];
    } else if (const auto* trajectory = std::get_if<TrajectoryRecord>(&record)) {
      announced[trajectory->trajectory.id] = static_cast<std::int32_t>(trajectory->trajectory.metrics.at("turns"));
    } else if (const auto* step = std::get_if<StepRecord>(&record)) {
      for (const TrajectoryId& id : step->trajectories) {
        CHECK(trained.insert(id).second);  // once
        CHECK(calls[id] == announced.at(id));
      }
    }
  }
  CHECK(trained.size() == 8);
}

TEST_CASE("after a step every sampled token carries the new version", "[integration][RL-3][pain:T20]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  run_to_end(tiny_config(scratch.path()));

  const auto ledger = read_ledger(scratch.path() / "run/ledger");

  REQUIRE(ledger);
  std::set<std::int32_t> steps;
  for (const LedgerRecord& record : ledger->records) {
    const auto* invocation = std::get_if<InvocationRecord>(&record);
    if (invocation == nullptr || invocation->invocation.trajectory_id.split != "train") {
      continue;
    }
    const std::int32_t step = invocation->invocation.trajectory_id.step;
    steps.insert(step);
    for (const VersionRun& versions : invocation->invocation.policy_versions) {
      CHECK(versions.policy_version == step);
    }
  }
  CHECK(steps == std::set<std::int32_t>{0, 1});
}

TEST_CASE("with the teacher as student the divergence is zero", "[integration][pain:T32]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  Config config = tiny_config(scratch.path());
  config.teacher.model = config.student.model;
  config.optimizer.lr = 1e-12;
  config.run.num_steps = 1;

  run_to_end(config);

  const auto records = training_records(scratch.path() / "run");
  REQUIRE(records.size() == 1);
  CHECK(std::abs(records.front().at("opd/divergence").get<double>()) <= 1e-6);
}

TEST_CASE("one slot, one sequence at a time and odd batch sizes still finish a step", "[integration][pain:T22]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  Config config = tiny_config(scratch.path());
  config.env.front().num_slots = 1;
  config.student.max_sequences = 1;
  config.learner.tasks_per_step = 5;
  config.learner.mini_batch_trajectories = 3;
  config.learner.num_ranks = 2;
  config.run.num_steps = 1;

  CHECK(run_to_end(config).verdict == "completed");
}

TEST_CASE("a model folder that lacks a tensor ends the run with the tensor named", "[integration][error]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  const Config config = tiny_config(scratch.path());  // no teacher there

  const auto checked = check_inputs(config, launch_roles(config, {}));

  REQUIRE_FALSE(checked);
  CHECK(checked.error().message.find("teacher") != std::string::npos);
}
