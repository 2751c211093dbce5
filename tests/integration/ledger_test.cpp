// What the ledger of a whole run proves: its accounts balance, and its calls score again as they were sampled.
#include <catch2/catch.hpp>
#include <fstream>

#include "runtime/config/load.hpp"
#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "runtime/telemetry/summary.hpp"
#include "tests/support/tiny_run.hpp"
#include "tools/memopd/ledger_run.hpp"
#include "tools/memopd/ledger_verify.hpp"

using namespace memopd;
using namespace memopd::testing;
namespace fs = std::filesystem;

namespace {

LedgerAudit audit_of(const fs::path& run, std::int32_t max_policy_lag) {
  const auto contents = read_ledger(run / "ledger");
  REQUIRE(contents);
  return audit_ledger(*contents, {.max_policy_lag = max_policy_lag});
}

Config with_checkpoints(Config config, std::int32_t num_steps, std::int32_t keep) {
  config.run.num_steps = num_steps;
  config.checkpoint.every = 1;
  config.checkpoint.keep = keep;
  return config;
}

VerifyReport verify(const Config& config, const fs::path& run) {
  std::ofstream(run / "config.toml") << dump_config(config);
  const auto opened = open_ledger_run(run);
  REQUIRE(opened);
  const auto tokenizer = load_run_tokenizer(*opened);
  REQUIRE(tokenizer);
  const auto report = verify_ledger(*opened, *tokenizer, {});
  INFO((report ? std::string() : report.error().message));
  REQUIRE(report);
  return *report;
}

}  // namespace

TEST_CASE("the accounts of a run balance, and its summary says the same", "[integration][RL-1][RL-2][RL-3]") {
  const Scratch scratch;
  run_to_end(tiny_world(scratch.path()));

  const LedgerAudit audit = audit_of(scratch.path() / "run", 0);

  CHECK(audit.violations == std::vector<std::string>{});
  CHECK(audit.num_steps == 2);
  CHECK(audit.num_pending == 0);
  CHECK(audit.num_trained + audit.num_dropped() == 8);
  CHECK(audit.num_evaluations == 6);
  const auto summary = load_summary(scratch.path() / "run/summary.json");
  REQUIRE(summary);
  CHECK(audit.num_trained == summary->counts.trained);
  CHECK(audit.num_dropped() == summary->counts.dropped);
}

TEST_CASE("every call of a kept version scores again as it was sampled, across a resume",
          "[integration][RL-1][RL-2][AP-5][CL-3]") {
  const Scratch scratch;
  const fs::path run = scratch.path() / "run";
  const Config config = with_checkpoints(tiny_world(scratch.path()), 3, 9);
  run_to_end(config);
  fs::remove_all(run / "checkpoints/step-3");  // as after a crash before it was written
  fs::remove_all(run / "checkpoints/step-2");
  resume_to_end(config);

  const LedgerAudit audit = audit_of(run, 0);
  const VerifyReport report = verify(config, run);

  CHECK(audit.violations == std::vector<std::string>{});
  CHECK(audit.num_rollbacks == 1);
  CHECK(audit.num_superseded >= 8);  // steps 1 and 2 of the first lineage
  CHECK(report.mismatches == std::vector<std::string>{});
  CHECK(report.num_not_kept > 0);  // versions 2 and 3 of the first lineage
  CHECK(report.by_policy.count("version 0") == 1);
  CHECK(report.by_policy.count("version 1") == 1);
  CHECK(report.by_policy.count("lineage 1 version 2") == 1);
  CHECK(report.num_verified == report.num_checked);
  CHECK(report.max_recorded_difference < 1e-4);
}
