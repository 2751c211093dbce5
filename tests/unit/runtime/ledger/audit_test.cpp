#include "runtime/ledger/audit.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/runtime/ledger/ledger_example.hpp"

using namespace memopd;
using namespace memopd::testing;
using strings = std::vector<std::string>;

namespace {

const TrajectoryId kFirst{"train", 0, 0, 0};
const TrajectoryId kSecond{"train", 0, 1, 0};

/// The records of one attempt: `num_calls` invocations of policy version `version`, then the trajectory.
LedgerContents& attempt(LedgerContents& contents, const TrajectoryId& id, std::int32_t number = 0,
                        std::int32_t num_calls = 2, std::int64_t lineage = 0, std::int64_t version = 0) {
  for (std::int32_t i = 0; i < num_calls; ++i) {
    Invocation call = of(id, invocation(i, {1, 2}, {3}, number));
    call.policy_versions = {{version, 1}};
    contents.records.emplace_back(InvocationRecord{lineage, call});
  }
  Trajectory ended = of(id, trajectory({}));
  ended.attempt = number;
  contents.records.emplace_back(TrajectoryRecord{lineage, num_calls, ended});
  return contents;
}

void step(LedgerContents& contents, std::int32_t number, std::vector<TrajectoryId> trained, std::int64_t lineage = 0,
          std::int64_t version = 0) {
  contents.records.emplace_back(StepRecord{lineage, number, version, std::move(trained)});
}

}  // namespace

TEST_CASE("every attempt is exactly one of trained, dropped, superseded and pending", "[ledger][RL-2]") {
  LedgerContents contents;
  attempt(contents, kFirst);
  attempt(contents, kFirst, 1);  // counts: it is the later one
  attempt(contents, kSecond);
  attempt(contents, {"train", 1, 0, 0});
  attempt(contents, {"val", 0, 0, 0});
  contents.records.emplace_back(DroppedRecord{0, kSecond, 0, "stale"});
  contents.records.emplace_back(DroppedRecord{0, {"train", 0, 2, 0}, 0, "timeout"});  // never recorded anything
  step(contents, 0, {kFirst});

  const LedgerAudit audit = audit_ledger(contents);

  CHECK(audit.violations == strings{});
  CHECK(audit.num_trained == 1);
  CHECK(audit.dropped == std::map<std::string, std::int64_t>{{"stale", 1}, {"timeout", 1}});
  CHECK(audit.num_dropped() == 2);
  CHECK(audit.num_superseded == 1);
  CHECK(audit.num_pending == 1);
  CHECK(audit.num_evaluations == 1);
  CHECK(audit.num_steps == 1);
}

TEST_CASE("what was rolled back is superseded and may be trained again", "[ledger][RL-2]") {
  LedgerContents contents;
  attempt(contents, kFirst);
  step(contents, 0, {kFirst});
  attempt(contents, {"train", 1, 0, 0});
  step(contents, 1, {{"train", 1, 0, 0}});
  attempt(contents, {"train", 2, 0, 0});
  contents.records.emplace_back(RolledBackRecord{0, 1, 2, 1});
  attempt(contents, {"train", 1, 0, 0}, 0, 2, 1);
  step(contents, 1, {{"train", 1, 0, 0}}, 1);

  const LedgerAudit audit = audit_ledger(contents);

  CHECK(audit.violations == strings{});
  CHECK(audit.num_trained == 2);
  CHECK(audit.num_superseded == 2);
  CHECK(audit.num_pending == 0);
  CHECK(audit.num_steps == 2);
  CHECK(audit.num_rollbacks == 1);
}

TEST_CASE("a trajectory trained twice is a violation", "[ledger][RL-2]") {
  LedgerContents contents;
  attempt(contents, kFirst);
  step(contents, 0, {kFirst});
  step(contents, 1, {kFirst});
  CHECK(audit_ledger(contents).violations ==
        strings{"step 1: trajectory train.0.0.0: trained after it was trained in step 0"});
}

TEST_CASE("a trajectory trained and dropped is a violation, in either order", "[ledger][RL-2]") {
  LedgerContents contents;
  attempt(contents, kFirst);
  attempt(contents, kSecond);
  contents.records.emplace_back(DroppedRecord{0, kFirst, 0, "stale"});
  step(contents, 0, {kFirst, kSecond});
  contents.records.emplace_back(DroppedRecord{0, kSecond, 0, "empty"});
  contents.records.emplace_back(DroppedRecord{0, kFirst, 0, "empty"});
  CHECK(audit_ledger(contents).violations ==
        strings{"step 0: trajectory train.0.0.0: trained after it was dropped (stale)",
                "trajectory train.0.1.0: dropped (empty) after it was trained in step 0",
                "trajectory train.0.0.0: dropped (empty) after it was dropped (stale)"});
}

TEST_CASE("a step may train only what is recorded whole before it", "[ledger][RL-1][RL-2]") {
  LedgerContents contents;
  attempt(contents, kFirst);
  contents.records.erase(contents.records.begin());  // its first call
  step(contents, 0, {kFirst, kSecond, {"val", 0, 0, 0}});
  CHECK(audit_ledger(contents).violations ==
        strings{"step 0: trajectory train.0.0.0, attempt 0: 1 of 2 invocations recorded",
                "step 0: trajectory train.0.1.0, attempt 0: without record",
                "step 0: trajectory val.0.0.0: of an evaluation"});
}

TEST_CASE("calls of two attempts do not make one", "[ledger][RL-2]") {
  LedgerContents contents;
  attempt(contents, kFirst, 0, 2);
  attempt(contents, kFirst, 1, 2);
  contents.records.erase(contents.records.begin() + 4);  // the last call of attempt 1
  step(contents, 0, {kFirst});
  CHECK(audit_ledger(contents).violations ==
        strings{"step 0: trajectory train.0.0.0, attempt 1: 1 of 2 invocations recorded"});
}

TEST_CASE("a record after its end, or a second one, is a violation", "[ledger][RL-2]") {
  LedgerContents contents;
  attempt(contents, kFirst, 0, 1);
  contents.records.emplace_back(InvocationRecord{0, of(kFirst, invocation(0, {1}, {2}))});
  contents.records.emplace_back(DroppedRecord{0, kFirst, 0, "timeout"});
  contents.records.emplace_back(InvocationRecord{0, of(kFirst, invocation(1, {1}, {2}))});
  CHECK(audit_ledger(contents).violations ==
        strings{"trajectory train.0.0.0, attempt 0: invocation 0 recorded twice",
                "trajectory train.0.0.0, attempt 0: a record after it was dropped (timeout)"});
}

TEST_CASE("a trajectory that its step was closed without is lost, not pending", "[ledger][RL-2]") {
  LedgerContents contents;
  attempt(contents, kFirst);
  attempt(contents, kSecond);
  step(contents, 0, {kFirst});
  const LedgerAudit audit = audit_ledger(contents);
  CHECK(audit.num_pending == 0);
  CHECK(audit.violations == strings{"trajectory train.0.1.0: lost: its step was closed without it"});
}

TEST_CASE("steps close in order, and only trained statuses are trained", "[ledger][RL-2]") {
  LedgerContents contents;
  attempt(contents, {"train", 1, 0, 0});
  std::get<TrajectoryRecord>(contents.records.back()).trajectory.status = TrajectoryStatus::timeout;
  step(contents, 1, {{"train", 1, 0, 0}});
  step(contents, 0, {});
  CHECK(audit_ledger(contents).violations ==
        strings{"step 1: trajectory train.1.0.0, attempt 0: of status timeout", "step 0: closed after step 1"});
}

TEST_CASE("the lag of a trained trajectory is counted from its oldest token", "[ledger][RL-3]") {
  LedgerContents contents;
  attempt(contents, kFirst, 0, 1, 0, 3);
  std::get<InvocationRecord>(contents.records[0]).invocation.policy_versions = {{5, 0}, {2, 1}};
  step(contents, 0, {kFirst}, 0, 6);
  CHECK(audit_ledger(contents).max_lag == 4);
  CHECK(audit_ledger(contents, {.max_policy_lag = 4}).violations.empty());
  CHECK(audit_ledger(contents, {.max_policy_lag = 3}).violations ==
        strings{"step 0: trajectory train.0.0.0, attempt 0: lag 4, allowed 3"});
}

TEST_CASE("every token carries a version, and none of the future", "[ledger][RL-3]") {
  LedgerContents contents;
  attempt(contents, kFirst, 0, 1, 0, 9);
  attempt(contents, kSecond, 0, 1);
  std::get<InvocationRecord>(contents.records[2]).invocation.policy_versions.clear();
  step(contents, 0, {kFirst, kSecond}, 0, 8);
  CHECK(audit_ledger(contents).violations ==
        strings{"trajectory train.0.1.0, attempt 0: invocation 0: 0 versions for 1 response tokens",
                "step 0: trajectory train.0.0.0, attempt 0: sampled by version 9, closed at version 8"});
}

TEST_CASE("of a pruned ledger only what is complete is audited", "[ledger][RL-2]") {
  LedgerContents contents;
  step(contents, 0, {kFirst});  // its calls were in a segment that is gone
  attempt(contents, {"train", 1, 0, 0});
  step(contents, 1, {{"train", 1, 0, 0}});
  contents.records.emplace_back(PrunedRecord{0, 1, 1});
  const LedgerAudit audit = audit_ledger(contents);
  CHECK(audit.violations == strings{});
  CHECK(audit.complete_from_step == 1);
  CHECK(audit.num_trained == 1);
  CHECK(audit.num_steps == 1);
}

TEST_CASE("the auditor says what became of an attempt", "[ledger][RL-2][pain:T30]") {
  LedgerContents contents;
  attempt(contents, kFirst);
  attempt(contents, kFirst, 1);
  attempt(contents, kSecond);
  contents.records.emplace_back(DroppedRecord{0, kSecond, 0, "empty"});
  step(contents, 0, {kFirst});
  attempt(contents, {"train", 1, 0, 0});
  contents.records.emplace_back(RolledBackRecord{0, 1, 2, 1});
  attempt(contents, {"train", 1, 0, 0}, 0, 2, 1);
  LedgerAuditor auditor;
  for (const LedgerRecord& record : contents.records) {
    auditor.add(record);
  }
  CHECK(to_string(auditor.fate_of(0, kFirst, 0)) == "superseded");
  CHECK(to_string(auditor.fate_of(0, kFirst, 1)) == "trained in step 0");
  CHECK(to_string(auditor.fate_of(0, kSecond, 0)) == "dropped (empty)");
  CHECK(to_string(auditor.fate_of(0, {"train", 1, 0, 0}, 0)) == "superseded");
  CHECK(to_string(auditor.fate_of(1, {"train", 1, 0, 0}, 0)) == "pending");
  CHECK(to_string(auditor.fate_of(0, {"val", 1, 0, 0}, 0)) == "evaluation");
}
