#include "tools/bench/call_lengths.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "runtime/alignpack/align_pack.hpp"

namespace memopd {
namespace {

const std::string kHeader = "task\ttrajectory\tcall\tinstruction\tquestion\tkept\tobservation\tresponse\n";

/// Writes `text` to a file of this test and reads it as call lengths.
Expected<std::vector<CallLengths>> read_text(const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(MEMOPD_BINARY_DIR) / "call_lengths_test.tsv";
  std::ofstream(file) << text;
  return read_call_lengths(file);
}

std::string refusal(const std::string& text) {
  const auto result = read_text(text);
  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::parse_error);
  const std::string& message = result.error().message;
  return message.substr(message.find(".tsv") + 4);
}

}  // namespace

TEST_CASE("read_call_lengths reads the lengths shipped for the quickstart", "[bench]") {
  const auto lengths =
      read_call_lengths(std::filesystem::path(MEMOPD_SOURCE_DIR) / "tools/bench/data/quickstart_lengths.tsv");

  REQUIRE(lengths);
  CHECK(lengths->front().call == 0);
  CHECK(lengths->size() > 100);
}

TEST_CASE("read_call_lengths skips comments and keeps order", "[bench]") {
  const auto lengths = read_text("# why\n" + kHeader + "3\t7\t0\t1\t2\t0\t0\t5\n3\t7\t1\t1\t2\t4\t6\t5\n");

  REQUIRE(lengths);
  CHECK(*lengths == std::vector<CallLengths>{{3, 7, 0, 1, 2, 0, 0, 5}, {3, 7, 1, 1, 2, 4, 6, 5}});
}

TEST_CASE("read_call_lengths names the line that it refuses", "[bench][error]") {
  CHECK(refusal("task\n").starts_with(":1: the header is \"task\""));
  CHECK(refusal(kHeader) == ": holds no calls");
  CHECK(refusal(kHeader + "0\t0\t0\t1\t2\t0\tx\t5\n").starts_with(":2: \"0\t0\t0\t1\t2\t0\tx\t5\" is not 8 "));
  CHECK(refusal(kHeader + "0\t0\t0\t1\t2\t0\t0\t-5\n").starts_with(":2: "));
  CHECK(refusal(kHeader + "0\t0\t0\t1\t2\t0\t0\t5\t1\n").starts_with(":2: "));
  CHECK(refusal(kHeader + "0\t0\t1\t1\t2\t0\t0\t5\n") == ":2: call is 1, allowed 0");
  CHECK(refusal(kHeader + "0\t0\t0\t1\t2\t0\t0\t5\n0\t0\t1\t1\t2\t6\t0\t5\n") == ":3: kept is 6, allowed at most 5");
  CHECK(refusal(kHeader + "0\t0\t0\t0\t0\t0\t0\t5\n") == ":2: question and response must have tokens");
}

TEST_CASE("read_call_lengths names a file that is not there", "[bench][error]") {
  const auto result = read_call_lengths("no/such.tsv");

  REQUIRE_FALSE(result);
  CHECK(result.error().code == ErrorCode::not_found);
  CHECK(result.error().message == "no/such.tsv: cannot be read");
}

TEST_CASE("trajectories_of shares instructions, the question of a task and a response that is kept whole", "[bench]") {
  // Two samples of one task and one of another: 1 instruction, 2 question ids.
  const std::vector<CallLengths> lengths = {
      {0, 0, 0, 1, 2, 0, 0, 5}, {0, 0, 1, 1, 2, 5, 3, 4}, {0, 1, 0, 1, 2, 0, 0, 5}, {1, 2, 0, 1, 2, 0, 0, 5}};
  const auto trajectories = trajectories_of(lengths, 1 << 30, 1);

  REQUIRE(trajectories.size() == 3);
  const auto packs = align_pack(trajectories, {});
  REQUIRE(packs);
  // instruction 1 + two questions 2 + 2 + first calls 5 + 5 + 5 + what call 1 adds 3 + 4.
  CHECK(packs->front().num_tokens() == 27);
}

TEST_CASE("memopd_like_lengths are 8 trajectories of 2 to 6 calls that keep whole responses", "[bench]") {
  const auto lengths = memopd_like_lengths(1);

  CHECK(lengths == memopd_like_lengths(1));
  CHECK(lengths != memopd_like_lengths(2));
  CHECK(lengths.back().trajectory == 7);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    CHECK(lengths[i].instruction == 300);
    CHECK(lengths[i].call <= 5);
    const bool is_last = i + 1 == lengths.size() || lengths[i + 1].call == 0;
    CHECK((!is_last || lengths[i].call >= 1));
    CHECK(lengths[i].kept == (lengths[i].call == 0 ? 0 : lengths[i - 1].response));
  }
}

}  // namespace memopd
