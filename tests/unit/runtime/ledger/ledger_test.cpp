#include "runtime/ledger/ledger.hpp"

#include <catch2/catch.hpp>
#include <thread>

#include "runtime/ledger/read_ledger.hpp"
#include "tests/unit/runtime/ledger/ledger_example.hpp"

using namespace memopd;
using namespace memopd::testing;
using ints = std::vector<std::int32_t>;

TEST_CASE("what is appended is on disk when append returns, and reads back in order", "[ledger][RL-1][LE-1]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  CHECK((*writer)->append(invocation(0, {1, 2, 70000}, {4, 5})).value_or(AppendResult::repeated) ==
        AppendResult::written);
  CHECK((*writer)->append(trajectory({}), 1).value_or(AppendResult::repeated) == AppendResult::written);
  REQUIRE((*writer)->append_dropped({"train", 12, 4, 0}, 1, "timeout"));
  REQUIRE((*writer)->append_step(12, 8, {{"train", 12, 3, 0}}));

  const auto contents = read_ledger(folder.path());  // while the writer still has it open, without sync

  REQUIRE(contents);
  CHECK(contents->torn_bytes == 0);
  REQUIRE(contents->records.size() == 4);
  const auto& first = std::get<InvocationRecord>(contents->records[0]).invocation;
  CHECK(first.trajectory_id == TrajectoryId{"train", 12, 3, 0});
  CHECK(first.prompt_token_ids == ints{1, 2, 70000});
  CHECK(first.response_token_ids == ints{4, 5});
  CHECK(first.rollout_log_probs == std::vector<float>{-0.5F, -0.5F});
  CHECK(first.policy_versions == std::vector<VersionRun>{{7, 2}});
  CHECK(first.sampling.seed == 18446744073709551615ULL);
  const auto& second = std::get<TrajectoryRecord>(contents->records[1]);
  CHECK(second.num_invocations == 1);
  CHECK(second.trajectory.invocations.empty());
  CHECK(second.trajectory.answer == "Lima; Quito");
  CHECK(second.trajectory.metrics.at("f1") == 0.5);
  const auto& third = std::get<DroppedRecord>(contents->records[2]);
  CHECK(third.trajectory_id == TrajectoryId{"train", 12, 4, 0});
  CHECK(third.attempt == 1);
  CHECK(third.reason == "timeout");
  const auto& fourth = std::get<StepRecord>(contents->records[3]);
  CHECK(fourth.step == 12);
  CHECK(fourth.policy_version == 8);
  CHECK(fourth.trajectories == std::vector<TrajectoryId>{{"train", 12, 3, 0}});
}

TEST_CASE("a repeated invocation is dropped and reported, whatever its timings", "[ledger][RL-2][LE-2]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  REQUIRE((*writer)->append(invocation(0, {1, 2}, {4, 5})));
  Invocation again = invocation(0, {1, 2}, {4, 5});
  again.timings.decode_ms = 99;

  CHECK(*(*writer)->append(again) == AppendResult::repeated);
  CHECK((*writer)->num_repeated() == 1);
  CHECK(read_ledger(folder.path())->records.size() == 1);
}

TEST_CASE("the same key with other ids is refused by name", "[ledger][RL-2][LE-2][error]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  REQUIRE((*writer)->append(invocation(2, {1, 2}, {4, 5}, 1)));
  // The last moves a token from prompt to response: the concatenation is the same.
  for (const Invocation& other :
       {invocation(2, {1, 2}, {4, 6}, 1), invocation(2, {1, 3}, {4, 5}, 1), invocation(2, {1}, {2, 4, 5}, 1)}) {
    const auto result = (*writer)->append(other);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::already_exists);
    CHECK(result.error().message.find(
              "ledger: lineage 0, trajectory train.12.3.0, attempt 1, invocation 2: already written "
              "with other token ids") == 0);
  }
  CHECK(read_ledger(folder.path())->records.size() == 1);
}

TEST_CASE("another attempt, invocation or lineage is another key", "[ledger][RL-2][LE-2]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  CHECK(*(*writer)->append(invocation(0, {1}, {4})) == AppendResult::written);
  CHECK(*(*writer)->append(invocation(0, {1}, {5}, 1)) == AppendResult::written);
  CHECK(*(*writer)->append(invocation(1, {1}, {6})) == AppendResult::written);
  REQUIRE((*writer)->append_rolled_back(12, 10));
  CHECK((*writer)->lineage() == 1);
  CHECK(*(*writer)->append(invocation(0, {1}, {7})) == AppendResult::written);

  const auto contents = read_ledger(folder.path());
  REQUIRE(contents);
  const auto& rolled_back = std::get<RolledBackRecord>(contents->records.at(3));
  CHECK(rolled_back.from_lineage == 0);
  CHECK(rolled_back.to_lineage == 1);
  CHECK(rolled_back.from_step == 12);
  CHECK(rolled_back.to_step == 10);
  CHECK(std::get<InvocationRecord>(contents->records.at(4)).lineage == 1);
}

TEST_CASE("a repeated trajectory is dropped, one with another outcome refused", "[ledger][RL-2][LE-2][error]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  Trajectory ended = trajectory({});
  REQUIRE((*writer)->append(ended, 0));
  ended.metrics["wall_s"] = 3;
  CHECK(*(*writer)->append(ended, 0) == AppendResult::repeated);
  ended.status = TrajectoryStatus::timeout;
  const auto result = (*writer)->append(ended, 0);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::already_exists);
  CHECK(result.error().message.find("trajectory train.12.3.0, attempt 0: already written with other content") !=
        std::string::npos);
}

TEST_CASE("a new segment begins after so many closed steps", "[ledger]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path(), {.lineage = 3, .steps_per_segment = 2});
  REQUIRE(writer);
  for (std::int32_t step = 0; step < 5; ++step) {
    REQUIRE((*writer)->append_step(step, step, {}));
  }
  REQUIRE((*writer)->sync());

  CHECK(std::filesystem::exists(folder.segment(2)));
  CHECK_FALSE(std::filesystem::exists(folder.segment(3)));
  const auto contents = read_ledger(folder.path());
  REQUIRE(contents);
  REQUIRE(contents->records.size() == 5);
  CHECK(std::get<StepRecord>(contents->records[4]).step == 4);
  CHECK(std::get<StepRecord>(contents->records[4]).lineage == 3);
  const auto size = read_bytes(folder.segment(0)).size() + read_bytes(folder.segment(1)).size() +
                    read_bytes(folder.segment(2)).size();
  CHECK((*writer)->size_bytes() == static_cast<std::int64_t>(size));
}

TEST_CASE("a trajectory is recorded without its invocations, with their number", "[ledger]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  REQUIRE((*writer)->append(trajectory({invocation(0, {1}, {4})}), 3));
  const auto contents = read_ledger(folder.path());
  REQUIRE(contents);
  CHECK(std::get<TrajectoryRecord>(contents->records[0]).num_invocations == 3);
  CHECK(std::get<TrajectoryRecord>(contents->records[0]).trajectory.invocations.empty());
}

TEST_CASE("a new record of a trajectory that was trained or dropped is stale and not written", "[ledger][RL-2][LE-4]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  const TrajectoryId trained{"train", 5, 0, 0};
  const TrajectoryId dropped{"train", 5, 1, 0};
  const TrajectoryId open{"train", 5, 2, 0};
  REQUIRE((*writer)->append(of(trained, invocation(0, {1}, {2}))));
  REQUIRE((*writer)->append_dropped(dropped, 0, "timeout"));
  REQUIRE((*writer)->append_step(5, 5, {trained}));

  CHECK(*(*writer)->append(of(trained, invocation(1, {1}, {2}))) == AppendResult::stale);
  CHECK(*(*writer)->append(of(trained, invocation(0, {1}, {2}, 1))) == AppendResult::stale);
  CHECK(*(*writer)->append(of(dropped, invocation(0, {1}, {2}))) == AppendResult::stale);
  CHECK(*(*writer)->append(of(trained, invocation(0, {1}, {2}))) == AppendResult::repeated);
  CHECK(*(*writer)->append(of(open, invocation(0, {1}, {2}))) == AppendResult::written);
  CHECK((*writer)->num_stale() == 3);
  CHECK(read_ledger(folder.path())->records.size() == 4);
}

TEST_CASE("repeats are known for two closed steps, and stale after", "[ledger][RL-2][LE-4]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  const Invocation old = of({"val", 1, 0, 0}, invocation(0, {1}, {2}));
  const Invocation recent = of({"val", 2, 0, 0}, invocation(0, {1}, {2}));
  REQUIRE((*writer)->append(old));
  REQUIRE((*writer)->append(recent));
  for (std::int32_t step = 0; step <= 4; ++step) {
    REQUIRE((*writer)->append_step(step, step, {}));
  }

  CHECK(*(*writer)->append(old) == AppendResult::stale);
  CHECK(*(*writer)->append(recent) == AppendResult::repeated);
  CHECK(*(*writer)->append(of({"train", 1, 7, 0}, invocation(0, {1}, {2}))) == AppendResult::stale);
  CHECK(*(*writer)->append(of({"train", 9, 0, 0}, invocation(0, {1}, {2}))) == AppendResult::written);
}

TEST_CASE("long records are stored compressed and read back equal", "[ledger]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  const Invocation call = invocation(0, ints(2000, 70000), {4, 5});
  REQUIRE((*writer)->append(call));

  const std::string bytes = read_bytes(folder.segment(0));
  CHECK(bytes.size() < 1000);
  CHECK(static_cast<int>(bytes[16 + 5]) == 1);  // the encoding of the first record
  const auto contents = read_ledger(folder.path());
  REQUIRE(contents);
  CHECK(std::get<InvocationRecord>(contents->records[0]).invocation.prompt_token_ids == call.prompt_token_ids);
}

TEST_CASE("a ledger that is there is never written over", "[ledger][error]") {
  const LedgerFolder folder;
  REQUIRE(LedgerWriter::create(folder.path()));
  const auto second = LedgerWriter::create(folder.path());
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::already_exists);
  CHECK(second.error().message == "ledger " + folder.path().string() + ": holds segment-000000.ledger already");
  const auto bad = LedgerWriter::create(folder.path() / "x", {.steps_per_segment = 0});
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message == "ledger: steps_per_segment: found 0, allowed >= 1");
  const auto forgetful = LedgerWriter::create(folder.path() / "x", {.remembered_steps = -1});
  REQUIRE_FALSE(forgetful);
  CHECK(forgetful.error().message == "ledger: remembered_steps: found -1, allowed >= 0");
}

TEST_CASE("after a failed write nothing follows the record that is not whole", "[ledger][error]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path(), {.steps_per_segment = 1});
  REQUIRE(writer);
  REQUIRE((*writer)->append(invocation(0, {1}, {2})));
  std::filesystem::remove_all(folder.path());  // the next segment has nowhere to go

  CHECK_FALSE((*writer)->append_step(0, 1, {}));
  const auto refused = (*writer)->append(invocation(1, {1}, {2}));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::io_error);
  CHECK_FALSE((*writer)->sync());
}

TEST_CASE("records of several threads are all there and whole", "[ledger]") {
  const LedgerFolder folder;
  const auto writer = LedgerWriter::create(folder.path());
  REQUIRE(writer);
  std::vector<std::thread> threads;
  for (std::int32_t attempt = 0; attempt < 4; ++attempt) {
    threads.emplace_back([&, attempt] {
      for (std::int32_t i = 0; i < 50; ++i) {
        if (!(*writer)->append(invocation(i, {1, 2, i}, {attempt}, attempt))) {
          std::abort();
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  const auto contents = read_ledger(folder.path());
  REQUIRE(contents);
  CHECK(contents->records.size() == 200);
  CHECK(contents->torn_bytes == 0);
}
