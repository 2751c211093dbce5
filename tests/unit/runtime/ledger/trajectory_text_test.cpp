#include "runtime/ledger/trajectory_text.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/runtime/ledger/ledger_example.hpp"

using namespace memopd;
using namespace memopd::testing;

TEST_CASE("a trajectory is one line with the text of every call", "[ledger][pain:T30]") {
  const auto line = trajectory_line(trajectory({invocation(0, {1, 2}, {4, 5, 6})}),
                                    std::vector<CallText>{{"Question: a\nb", "<think>"}});
  REQUIRE(line);
  CHECK(*line ==
        R"({"trajectory_id":"train.12.3.0","attempt":0,"task_id":"atlas-17","env":"atlas","status":"completed",)"
        R"("answer":"Lima; Quito","rewards":{"final":0.5},"metrics":{"f1":0.5},)"
        R"("calls":[{"prompt":"Question: a\nb","response":"<think>","prompt_tokens":2,"response_tokens":3,)"
        R"("finish_reason":"stop","reward":0.0}]})");
}

TEST_CASE("bytes that are not UTF-8, as half a character sampled, do not break a line", "[ledger]") {
  const auto line = trajectory_line(trajectory({invocation(0, {1}, {4})}), std::vector<CallText>{{"\xc3\xa9", "\xc3"}});
  REQUIRE(line);
  CHECK(line->find("\"prompt\":\"\xc3\xa9\",\"response\":\"\xef\xbf\xbd\"") != std::string::npos);
}

TEST_CASE("each invocation needs its text", "[ledger][error]") {
  const auto line = trajectory_line(trajectory({invocation(0, {1}, {4})}), {});
  REQUIRE_FALSE(line);
  CHECK(line.error().code == ErrorCode::invalid_argument);
  CHECK(line.error().message == "trajectory train.12.3.0: found 0 texts, allowed 1, one per invocation");
}

TEST_CASE("lines go to a file per split and step", "[ledger]") {
  const LedgerFolder folder;
  const auto writer = TrajectoryTextWriter::create(folder.path());
  REQUIRE(writer);
  Trajectory other = trajectory({});
  other.id = {"val", 0, 1, 0};
  REQUIRE((*writer)->append(trajectory({}), {}));
  REQUIRE((*writer)->append(other, {}));
  REQUIRE((*writer)->append(trajectory({}), {}));

  const std::string train = read_bytes(folder.path() / "train-12.jsonl");
  CHECK(std::count(train.begin(), train.end(), '\n') == 2);
  CHECK(read_bytes(folder.path() / "val-0.jsonl") == *trajectory_line(other, {}) + "\n");
}

TEST_CASE("a split names a file in the folder and nothing else", "[ledger][error]") {
  const LedgerFolder folder;
  const auto writer = TrajectoryTextWriter::create(folder.path());
  REQUIRE(writer);
  Trajectory odd = trajectory({});
  odd.id.split = "../x";
  REQUIRE_FALSE((*writer)->append(odd, {}));
}
