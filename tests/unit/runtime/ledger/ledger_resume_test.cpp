// Opening a ledger that is there, and pruning it.
#include <catch2/catch.hpp>

#include "runtime/base/log.hpp"
#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/ledger.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "tests/unit/runtime/ledger/ledger_example.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

TrajectoryId train(std::int32_t step) { return {"train", step, 0, 0}; }

/// One trained trajectory of one call in each step; `steps_per_segment` 1 puts each step into a segment of its own.
void write_steps(LedgerWriter& writer, std::int32_t begin, std::int32_t end) {
  for (std::int32_t step = begin; step < end; ++step) {
    REQUIRE(writer.append(of(train(step), invocation(0, {1, 2}, {step}))));
    REQUIRE(writer.append(of(train(step), trajectory({})), 1));
    REQUIRE(writer.append_step(step, 7, {train(step)}));
  }
  REQUIRE(writer.sync());
}

}  // namespace

TEST_CASE("an opened ledger goes on in a new segment and knows what was written", "[ledger][RL-2][CL-3][LE-2]") {
  const LedgerFolder folder;
  {
    const auto writer = LedgerWriter::create(folder.path(), {.lineage = 4});
    REQUIRE(writer);
    write_steps(**writer, 0, 3);
    REQUIRE((*writer)->append(of(train(3), invocation(0, {1}, {2}))));
  }
  const auto writer = LedgerWriter::open(folder.path());
  REQUIRE(writer);

  CHECK((*writer)->lineage() == 4);
  CHECK((*writer)->recovery().num_records == 10);
  CHECK((*writer)->recovery().torn_bytes == 0);
  CHECK((*writer)->recovery().last_closed_step == 2);
  CHECK((*writer)->recovery().newest_step == 3);
  CHECK(*(*writer)->append(of(train(3), invocation(0, {1}, {2}))) == AppendResult::repeated);
  CHECK(*(*writer)->append(of(train(2), invocation(0, {1, 2}, {2}))) == AppendResult::repeated);
  CHECK(*(*writer)->append(of(train(2), invocation(1, {1}, {2}))) == AppendResult::stale);
  CHECK(*(*writer)->append(of(train(3), invocation(1, {1}, {2}))) == AppendResult::written);
  CHECK(std::filesystem::exists(folder.segment(1)));
  CHECK(read_ledger(folder.path())->records.size() == 11);
  CHECK((*writer)->size_bytes() ==
        static_cast<std::int64_t>(read_bytes(folder.segment(0)).size() + read_bytes(folder.segment(1)).size()));
  const auto other = (*writer)->append(of(train(3), invocation(0, {1}, {9})));
  REQUIRE_FALSE(other);
  CHECK(other.error().code == ErrorCode::already_exists);
}

TEST_CASE("a ledger torn anywhere is cut to its last whole record and goes on", "[ledger][RL-1][LE-3]") {
  const LedgerFolder folder;
  std::vector<std::size_t> sizes;
  {
    const auto writer = LedgerWriter::create(folder.path());
    REQUIRE(writer);
    for (std::int32_t i = 0; i < 2; ++i) {
      sizes.push_back(static_cast<std::size_t>((*writer)->size_bytes()));
      REQUIRE((*writer)->append(invocation(i, {1, 2, 3}, {4, i})));
    }
  }
  const std::string whole = read_bytes(folder.segment(0));
  set_log_sink([](const LogEvent&) {});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    INFO("torn at byte " << size);
    write_bytes(folder.segment(0), whole.substr(0, size));
    std::filesystem::remove(folder.segment(1));
    const auto writer = LedgerWriter::open(folder.path());
    REQUIRE(writer);
    const std::size_t kept = size < sizes[0] ? 0 : size < sizes[1] ? sizes[0] : sizes[1];
    CHECK((*writer)->recovery().torn_bytes == static_cast<std::int64_t>(size - kept));
    REQUIRE((*writer)->append(invocation(9, {1}, {2})));
    const auto contents = read_ledger(folder.path());
    REQUIRE(contents);
    CHECK(contents->torn_bytes == 0);
    CHECK(contents->records.size() == (kept == sizes[1] ? 2U : 1U));
  }
  set_log_sink({});
}

TEST_CASE("only a whole ledger is opened", "[ledger][error]") {
  const LedgerFolder folder;
  const auto none = LedgerWriter::open(folder.path());
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::not_found);
  {
    const auto writer = LedgerWriter::create(folder.path());
    REQUIRE(writer);
    write_steps(**writer, 0, 2);
  }
  std::string bytes = read_bytes(folder.segment(0));
  bytes[40] = static_cast<char>(bytes[40] ^ 1);
  write_bytes(folder.segment(0), bytes);
  const auto damaged = LedgerWriter::open(folder.path());
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().code == ErrorCode::parse_error);
  CHECK(read_bytes(folder.segment(0)) == bytes);  // untouched
}

TEST_CASE("after a rollback the same keys are new, also in a ledger opened again", "[ledger][RL-2][CL-3][LE-2]") {
  const LedgerFolder folder;
  {
    const auto writer = LedgerWriter::create(folder.path());
    REQUIRE(writer);
    write_steps(**writer, 0, 3);
  }
  {
    const auto writer = LedgerWriter::open(folder.path());
    REQUIRE(writer);
    REQUIRE((*writer)->append_rolled_back((*writer)->recovery().newest_step + 1, 1));
    CHECK((*writer)->lineage() == 1);
    CHECK(*(*writer)->append(of(train(1), invocation(0, {1, 2}, {99}))) == AppendResult::written);
  }
  const auto writer = LedgerWriter::open(folder.path());
  REQUIRE(writer);
  CHECK((*writer)->lineage() == 1);
  CHECK((*writer)->recovery().last_closed_step == 0);
  CHECK((*writer)->recovery().newest_step == 1);
  CHECK(*(*writer)->append(of(train(1), invocation(0, {1, 2}, {99}))) == AppendResult::repeated);
  CHECK(*(*writer)->append(of(train(2), invocation(0, {1, 2}, {99}))) == AppendResult::written);
}

TEST_CASE("pruning deletes whole old segments and the rest says from where it is complete", "[ledger][RL-2]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path(), {.steps_per_segment = 2});
  REQUIRE(writer);
  write_steps(**writer, 0, 9);  // segments {0, 1} {2, 3} {4, 5} {6, 7} {8}

  CHECK(*(*writer)->prune(4) == 2);  // steps before 8 - 4

  CHECK_FALSE(std::filesystem::exists(folder.segment(0)));
  CHECK_FALSE(std::filesystem::exists(folder.segment(1)));
  CHECK(std::filesystem::exists(folder.segment(2)));
  const auto contents = read_ledger(folder.path());
  REQUIRE(contents);
  CHECK(std::get<InvocationRecord>(contents->records.front()).invocation.trajectory_id == train(4));
  const auto& pruned = std::get<PrunedRecord>(contents->records.back());
  CHECK(pruned.first_segment == 2);
  CHECK(pruned.complete_from_step == 4);
  const LedgerAudit audit = audit_ledger(*contents);
  CHECK(audit.complete_from_step == 4);
  CHECK(audit.num_trained == 5);
  CHECK(audit.violations.empty());
  CHECK(*(*writer)->prune(4) == 0);
}

TEST_CASE("pruning spares what repeats are compared with, and the open segment", "[ledger][LE-4]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path(), {.steps_per_segment = 1, .remembered_steps = 3});
  REQUIRE(writer);
  write_steps(**writer, 0, 5);
  CHECK(*(*writer)->prune(1) == 1);  // step 0; 1 is three steps ago
  CHECK(std::filesystem::exists(folder.segment(1)));

  const auto refused = (*writer)->prune(0);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "ledger: keep_steps: found 0, allowed >= 1");
}

TEST_CASE("a segment that holds calls of a later step outlives its own steps", "[ledger][RL-1]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path(), {.steps_per_segment = 1});
  REQUIRE(writer);
  REQUIRE((*writer)->append(of(train(4), invocation(0, {1, 2}, {4}))));  // sampled ahead, as in async mode
  write_steps(**writer, 0, 5);

  CHECK(*(*writer)->prune(1) == 0);
  CHECK(read_ledger(folder.path())->records.size() == 15);
}

TEST_CASE("a pruned ledger is opened and numbered on", "[ledger][CL-3]") {
  const LedgerFolder folder;
  {
    const auto writer = LedgerWriter::create(folder.path(), {.steps_per_segment = 1});
    REQUIRE(writer);
    write_steps(**writer, 0, 6);
    REQUIRE((*writer)->prune(2));
  }
  const auto writer = LedgerWriter::open(folder.path());
  REQUIRE(writer);
  CHECK((*writer)->recovery().last_closed_step == 5);
  write_steps(**writer, 6, 7);
  CHECK(std::filesystem::exists(folder.segment(7)));
  const auto audit = audit_ledger(*read_ledger(folder.path()));
  CHECK(audit.violations.empty());
  CHECK(audit.complete_from_step == 3);
}

TEST_CASE("what is said again of a step's end is written once, also by the next writer", "[ledger][RL-2]") {
  const LedgerFolder folder;
  const auto say = [](LedgerWriter& writer) {
    REQUIRE(writer.append_dropped({"train", 1, 1, 0}, 0, "timeout"));
    REQUIRE(writer.append_step(1, 7, {train(1)}));
  };
  {
    const auto writer = LedgerWriter::create(folder.path());
    REQUIRE(writer);
    write_steps(**writer, 0, 1);
    REQUIRE((*writer)->append(of(train(1), invocation(0, {1, 2}, {1}))));
    REQUIRE((*writer)->append(of(train(1), trajectory({})), 1));
    REQUIRE((*writer)->append(of({"train", 1, 1, 0}, trajectory({})), 0));
    REQUIRE((*writer)->append_dropped({"train", 1, 1, 0}, 0, "timeout"));  // and killed
  }
  {
    const auto writer = LedgerWriter::open(folder.path());
    REQUIRE(writer);
    say(**writer);
    say(**writer);
  }
  const auto writer = LedgerWriter::open(folder.path());
  REQUIRE(writer);
  say(**writer);

  const LedgerAudit audit = audit_ledger(*read_ledger(folder.path()));
  CHECK(audit.violations == std::vector<std::string>{});
  CHECK(audit.num_steps == 2);
  CHECK(audit.num_trained == 2);
  CHECK(audit.num_dropped() == 1);
}

TEST_CASE("a rollback that is said again before anything was recorded is one", "[ledger][CL-3]") {
  const LedgerFolder folder;
  {
    const auto writer = LedgerWriter::create(folder.path());
    REQUIRE(writer);
    write_steps(**writer, 0, 2);
    REQUIRE((*writer)->append_rolled_back(2, 1));
  }
  const auto writer = LedgerWriter::open(folder.path());
  REQUIRE(writer);

  REQUIRE((*writer)->append_rolled_back(2, 1));
  CHECK((*writer)->lineage() == 1);
  REQUIRE((*writer)->append_rolled_back(2, 0));  // to another step: another one
  CHECK((*writer)->lineage() == 2);
  write_steps(**writer, 0, 1);
  REQUIRE((*writer)->append_rolled_back(1, 0));
  CHECK((*writer)->lineage() == 3);
}

TEST_CASE("who opens a ledger sees its records, and its refusal ends the opening", "[ledger]") {
  const LedgerFolder folder;
  {
    const auto writer = LedgerWriter::create(folder.path());
    REQUIRE(writer);
    write_steps(**writer, 0, 2);
  }
  std::size_t num_seen = 0;
  const auto opened = LedgerWriter::open(folder.path(), {}, [&](const LedgerRecord&) {
    ++num_seen;
    return Expected<void>();
  });
  CHECK(opened);
  CHECK(num_seen == 6);

  const auto refused = LedgerWriter::open(
      folder.path(), {}, [](const LedgerRecord&) { return Expected<void>(unexpected(ErrorCode::refused, "enough")); });
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "enough");
}
