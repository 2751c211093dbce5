#include "tools/memopd/ledger_verify.hpp"

#include "runtime/telemetry/run_directory.hpp"
#include "tests/unit/tools/memopd/run_example.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

VerifyReport verify(const RunExample& run, const VerifyOptions& options = {}) {
  const auto report = verify_ledger(run.open(), run.tokenizer(), options);
  INFO((report ? std::string() : report.error().message));
  REQUIRE(report);
  return *report;
}

}  // namespace

TEST_CASE("every recorded call whose weights are kept scores as it was sampled, alone and packed",
          "[ledger][RL-1][AP-5]") {
  RunExample run;
  run.add_trajectory({"train", 0, 0, 0}, 0);
  run.add_trajectory({"train", 0, 1, 0}, 0);
  run.add_trajectory({"train", 1, 0, 0}, 1);
  REQUIRE(run.ledger().append(run.call(run.version(1), {"near", 1, 0, 0}, 0, 1, 0.0)));
  REQUIRE(run.ledger().append(run.call(run.teacher(), {"teacher_near", 0, 0, 0}, 0, 0, 0.0)));

  const VerifyReport report = verify(run);

  CHECK(report.mismatches.empty());
  CHECK(report.num_invocations == 8);
  CHECK(report.num_checked == 8);
  CHECK(report.num_verified == 8);
  CHECK(report.by_policy == std::map<std::string, std::int64_t>{{"teacher", 1}, {"version 0", 4}, {"version 1", 3}});
  CHECK(report.max_alone_difference <= 1e-5);
  CHECK(report.max_recorded_difference <= 1e-4);
  CHECK(to_text(report).find("8 of 8 invocations") != std::string::npos);
}

TEST_CASE("a call recorded with another log-prob is named", "[ledger][RL-1][error]") {
  RunExample run;
  run.add_trajectory({"train", 0, 0, 0}, 0);
  Invocation wrong = run.call(run.version(0), {"train", 0, 1, 0}, 3, 0);
  wrong.rollout_log_probs[1] += 0.002F;
  REQUIRE(run.ledger().append(wrong));
  Invocation shorter = run.call(run.version(0), {"train", 0, 2, 0}, 0, 0);
  shorter.rollout_log_probs.pop_back();
  REQUIRE(run.ledger().append(shorter));

  const VerifyReport report = verify(run);

  CHECK(report.num_checked == 4);
  CHECK(report.num_verified == 2);
  REQUIRE(report.mismatches.size() == 2);
  CHECK(report.mismatches[0].find("trajectory train.0.1.0, attempt 0, invocation 3: response token 1: log-prob") == 0);
  CHECK(report.mismatches[1].find("trajectory train.0.2.0, attempt 0, invocation 0:") == 0);
  CHECK(report.max_recorded_difference == Approx(0.002).margin(1e-4));
}

TEST_CASE("a call whose engine saw another state than the pack is named, one without digest is not compared",
          "[ledger][AP-6][error]") {
  RunExample run;
  Invocation shifted = run.call(run.version(0), {"train", 0, 1, 0}, 0, 0);
  shifted.digest[1] ^= 1;
  Invocation silent = run.call(run.version(0), {"train", 0, 2, 0}, 0, 0);
  silent.digest = {};
  run.add_trajectory({"train", 0, 0, 0}, 0);
  REQUIRE(run.ledger().append(shifted));
  REQUIRE(run.ledger().append(silent));

  const VerifyReport report = verify(run);

  CHECK(report.num_digests == 3);
  CHECK(report.num_verified == 3);
  REQUIRE(report.mismatches.size() == 1);
  CHECK(report.mismatches[0].find("trajectory train.0.1.0, attempt 0, invocation 0: digest ") == 0);
}

TEST_CASE("a call sampled by other weights than its version says is a mismatch", "[ledger][RL-3][error]") {
  RunExample run;
  REQUIRE(run.ledger().append(run.call(run.version(0), {"train", 0, 0, 0}, 0, 1)));
  CHECK(verify(run).num_verified == 0);
}

TEST_CASE("calls that cannot be scored again are counted, not passed over", "[ledger][RL-1]") {
  RunExample run;
  run.add_trajectory({"train", 0, 0, 0}, 0);
  REQUIRE(run.ledger().append(run.call(run.version(0), {"train", 7, 0, 0}, 0, 7)));  // version 7 is not kept
  Invocation mixed = run.call(run.version(0), {"train", 1, 0, 0}, 0, 0);
  mixed.policy_versions = {{0, 1}, {1, static_cast<std::int32_t>(mixed.response_token_ids.size()) - 1}};
  REQUIRE(run.ledger().append(mixed));
  Invocation empty = run.call(run.version(0), {"train", 1, 1, 0}, 0, 0);
  empty.response_token_ids.clear();
  empty.policy_versions.clear();
  REQUIRE(run.ledger().append(empty));

  const VerifyReport report = verify(run);

  CHECK(report.num_invocations == 5);
  CHECK(report.num_not_kept == 1);
  CHECK(report.num_mixed == 1);
  CHECK(report.num_empty == 1);
  CHECK(report.num_checked == 2);
}

TEST_CASE("a limit is shared out among the versions, and the seed chooses", "[ledger]") {
  RunExample run;
  for (std::int32_t index = 0; index < 8; ++index) {
    run.add_trajectory({"train", 0, index, 0}, 0);
    run.add_trajectory({"train", 1, index, 0}, 1);
  }
  const VerifyReport report = verify(run, {.limit = 8});
  CHECK(report.by_policy == std::map<std::string, std::int64_t>{{"version 0", 4}, {"version 1", 4}});
  CHECK(verify(run, {.limit = 0}).num_checked == 32);
}

TEST_CASE("after a rollback a version means the weights of its own lineage", "[ledger][CL-3]") {
  RunExample run;
  run.add_trajectory({"train", 0, 0, 0}, 0);
  run.add_trajectory({"train", 1, 0, 0}, 1);  // lineage 0, version 1: the checkpoint of step 1
  REQUIRE(run.ledger().append_rolled_back(1, 0));
  REQUIRE(run.ledger().append(run.call(run.version(0), {"train", 0, 0, 0}, 0, 0)));  // still the cold start
  REQUIRE(run.ledger().append(run.call(run.teacher(), {"train", 1, 0, 0}, 0, 1)));   // version 1 of lineage 1
  run.add_checkpoint("step-1b", 1, 1, run.teacher());

  const VerifyReport report = verify(run);

  CHECK(report.mismatches.empty());
  CHECK(report.by_policy ==
        std::map<std::string, std::int64_t>{{"lineage 1 version 1", 1}, {"version 0", 3}, {"version 1", 2}});
}

TEST_CASE("a cold start that changed since the run read it is not kept", "[ledger][error]") {
  RunExample run;
  run.add_trajectory({"train", 0, 0, 0}, 0);
  const auto then = fingerprint_input(run.student_folder());
  REQUIRE(then);
  write_file(run.path() / "manifest.json", nlohmann::json{{"inputs", {{run.student_folder().string(), *then}}}}.dump());
  CHECK(verify(run).num_verified == 2);
  REQUIRE(save_transformer(run.student_folder(), run.teacher()));

  const auto report = verify_ledger(run.open(), run.tokenizer(), {});

  REQUIRE_FALSE(report);
  CHECK(report.error().code == ErrorCode::not_found);
  CHECK(report.error().message.find("2 invocations, none with its weights kept") != std::string::npos);
}
