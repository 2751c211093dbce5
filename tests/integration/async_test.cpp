// Rollouts that run ahead of the learner, within a bound.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tests/support/tiny_run.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

Config async_config(const std::filesystem::path& folder, std::int32_t max_lag) {
  Config config = tiny_world(folder);
  config.run.mode = "async";
  config.run.max_policy_lag = max_lag;
  config.run.num_steps = 5;
  config.eval.splits.clear();
  return config;
}

}  // namespace

TEST_CASE("an async run trains every step within its lag", "[integration][RL-3]") {
  for (const std::int32_t max_lag : {0, 1, 3}) {
    const Scratch scratch;
    REQUIRE(run_to_end(async_config(scratch.path(), max_lag)).verdict == "completed");

    const auto records = training_records(scratch.path() / "run");
    REQUIRE(records.size() == 5);
    for (const auto& record : records) {
      CHECK(record.at("train/max_lag").get<double>() <= max_lag);
    }
    const auto ledger = read_ledger(scratch.path() / "run/ledger");
    REQUIRE(ledger);
    for (const LedgerRecord& record : ledger->records) {
      if (const auto* invocation = std::get_if<InvocationRecord>(&record)) {
        for (const VersionRun& run : invocation->invocation.policy_versions) {
          CHECK(run.policy_version >= invocation->invocation.trajectory_id.step - max_lag);
          CHECK(run.policy_version <= 5);
        }
      }
    }
  }
}

TEST_CASE("either way of swapping weights finishes with one slot, one sequence and odd batches",
          "[integration][pain:T22]") {
  for (const char* const swap : {"finish", "continue"}) {
    const Scratch scratch;
    Config config = async_config(scratch.path(), 2);
    config.student.weight_swap = swap;
    config.env.front().num_slots = 1;
    config.student.max_sequences = 1;
    config.learner.tasks_per_step = 3;
    CHECK(run_to_end(config).verdict == "completed");
  }
}

TEST_CASE("what was dispatched and not trained when an async run stops is counted pending", "[integration][RL-2]") {
  const Scratch scratch;
  Config config = async_config(scratch.path(), 2);
  config.run.num_steps = 1000;
  config.run.max_hours = 1e-9;

  REQUIRE(run_to_end(config).verdict == "stopped");

  const auto summary = load_summary(scratch.path() / "run/summary.json");
  REQUIRE(summary);
  CHECK(summary->counts.trained + summary->counts.dropped == 4);
  CHECK(summary->counts.pending == 8);
  const auto ledger = read_ledger(scratch.path() / "run/ledger");
  REQUIRE(ledger);
  const LedgerAudit audit = audit_ledger(*ledger, {.max_policy_lag = 2});
  CHECK(audit.violations == std::vector<std::string>{});
  CHECK(audit.num_trained == summary->counts.trained);
}

TEST_CASE("an async run goes on from its checkpoint", "[integration][CL-3]") {
  const Scratch scratch;
  Config config = async_config(scratch.path(), 1);
  config.run.num_steps = 1000;
  config.run.max_hours = 1e-9;
  REQUIRE(run_to_end(config).verdict == "stopped");
  config.run.max_hours = 0;
  config.run.num_steps = 4;

  REQUIRE(resume_to_end(config).verdict == "completed");

  CHECK(training_records(scratch.path() / "run").size() == 4);
}
