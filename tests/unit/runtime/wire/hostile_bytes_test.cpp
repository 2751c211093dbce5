// Bytes of a peer that nobody vouches for: every cut, flip and lie ends in an error or a value, never in a crash, and
// nothing is allocated by a claimed length. Runs under the sanitizers too.
#include <catch2/catch.hpp>

#include "runtime/base/random.hpp"
#include "runtime/wire/data_codec.hpp"
#include "runtime/wire/frame.hpp"
#include "tests/unit/runtime/wire/allocation_watch.hpp"

namespace memopd {
namespace {

struct Report {
  StepBatch batch;
  std::optional<Turn> turn;
  std::vector<std::vector<std::string>> names;
  std::vector<std::int32_t> ids;
};
MEMOPD_MESSAGE(Report, 1, batch, turn, names, ids)

std::vector<std::byte> a_frame() {
  Report report;
  Trajectory trajectory;
  trajectory.id = {"train", 1, 2, 3};
  Invocation invocation;
  invocation.prompt_token_ids = {1, 200, 70000};
  invocation.rollout_log_probs = {-1.5F, -2.5F};
  trajectory.invocations = {invocation, invocation};
  trajectory.metrics = {{"em", 0.5}};
  report.batch.trajectories = {trajectory};
  report.turn = Turn{"observation", 1, false, ToolCall{"retrieve", "query"}, {}};
  report.names = {{"a", "b"}, {}};
  return *encode_frame(report);
}

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

TEST_CASE("every truncation of a frame is an error", "[wire][error]") {
  const auto frame = a_frame();
  REQUIRE(decode_frame<Report>(frame));

  for (std::size_t length = 0; length < frame.size(); ++length) {
    const auto decoded = decode_frame<Report>(std::span(frame).first(length));
    REQUIRE_FALSE(decoded);
    REQUIRE_FALSE(decoded.error().message.empty());
  }
}

TEST_CASE("flipped bytes never crash and never allocate by a claimed length", "[wire][error]") {
  const auto frame = a_frame();
  SplitMix random(20260101);
  std::size_t num_refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto damaged = frame;
    const std::uint64_t flips = 1 + random.below(4);
    for (std::uint64_t i = 0; i < flips; ++i) {
      damaged[random.below(damaged.size())] = static_cast<std::byte>(random.below(256));
    }
    testing::reset_largest_allocation();
    const auto decoded = decode_frame<Report>(damaged);
    num_refused += decoded ? 0 : 1;
    // Element types are larger than their wire form; 64 KiB is far above that and far below any claimed length.
    REQUIRE(testing::largest_allocation_bytes() < 65536);
  }
  CHECK(num_refused > 10000);
}

TEST_CASE("random bytes behind a valid header are refused", "[wire][error]") {
  SplitMix random(7);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::byte> body(1 + random.below(64));
    for (auto& byte : body) {
      byte = static_cast<std::byte>(random.below(256));
    }
    REQUIRE_FALSE(decode<Report>(body));
  }
}

TEST_CASE("claimed lengths beyond the input are refused before anything is allocated", "[wire][error]") {
  const auto key = [](const char* name, std::initializer_list<int> value) {
    auto bytes = bytes_of({0x81, 0xa0 | static_cast<int>(std::string_view(name).size())});
    for (const char c : std::string_view(name)) {
      bytes.push_back(static_cast<std::byte>(c));
    }
    const auto tail = bytes_of(value);
    bytes.insert(bytes.end(), tail.begin(), tail.end());
    return bytes;
  };
  const std::vector<std::vector<std::byte>> hostile{
      key("ids", {0xdd, 0xff, 0xff, 0xff, 0xff}),          // array of 4 G numbers, which would be reserved
      key("names", {0xdd, 0xff, 0xff, 0xff, 0xff}),        // array of 4 G
      key("batch", {0xdf, 0xff, 0xff, 0xff, 0xff}),        // map of 4 G
      key("other", {0xdb, 0xff, 0xff, 0xff, 0xff}),        // unknown key, string of 4 GiB
      key("other", {0xc6, 0x80, 0x00, 0x00, 0x00}),        // unknown key, bin of 2 GiB
      key("other", {0xdd, 0x00, 0x00, 0x00, 0x08, 0x01}),  // eight claimed, one there
      key("other", {0xc9, 0xff, 0xff, 0xff, 0xff, 0x01}),  // extension of 4 GiB
      bytes_of({0xdf, 0xff, 0xff, 0xff, 0xff}),            // the message itself
      bytes_of({0xc1}),                                    // reserved
  };
  for (const auto& bytes : hostile) {
    testing::reset_largest_allocation();
    const auto decoded = decode<Report>(bytes);
    REQUIRE_FALSE(decoded);
    CHECK(decoded.error().code == ErrorCode::parse_error);
    CHECK(testing::largest_allocation_bytes() < 4096);
  }
}

TEST_CASE("nesting of any depth under an unknown key costs no stack", "[wire][error]") {
  // A million arrays of one element, inside each other.
  auto bytes = bytes_of({0x81, 0xa1, 'x'});
  bytes.insert(bytes.end(), 1'000'000, std::byte{0x91});
  bytes.push_back(std::byte{0xc0});

  const auto decoded = decode<Report>(bytes);

  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().message == "missing key \"batch\"");
}

}  // namespace
}  // namespace memopd
