#include "runtime/alignpack/validate.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <string>

#include "runtime/alignpack/align_pack.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd {
namespace {

using testing::invocation;
using testing::trajectory;

/// Ids 1 | 2 3 | 4 5 6: a shared id and two branches, rows 0 | 1 2 | 3 4 5. Responses {3} and {5, 6}.
PackedBatch small_pack() {
  const Trajectory example = trajectory(0, {invocation({1, 2}, {3}), invocation({1, 4}, {5, 6})});
  return align_pack({&example, 1}, {})->front();
}

/// What validate says of small_pack() after `corrupt`.
std::string refusal(const std::function<void(PackedBatch&)>& corrupt) {
  PackedBatch pack = small_pack();
  corrupt(pack);
  const auto result = validate(pack);
  if (result) {
    return "valid";
  }
  CHECK(result.error().code == ErrorCode::invalid_argument);
  return result.error().message;
}

}  // namespace

TEST_CASE("validate accepts what align_pack makes", "[alignpack]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto packs = align_pack(testing::random_trajectories(seed, 4, {}), {.max_tokens = 64});
    REQUIRE(packs);
    for (const PackedBatch& pack : *packs) {
      CHECK(validate(pack));
    }
  }
}

TEST_CASE("validate accepts a segment without rows", "[alignpack]") {
  PackedBatch pack = small_pack();
  pack.cu_seqlens_q.push_back(pack.cu_seqlens_q.back());
  pack.cu_seqlens_k.push_back(pack.cu_seqlens_k.back());

  CHECK(validate(pack));
}

TEST_CASE("validate refuses sizes that disagree", "[alignpack][error]") {
  CHECK(refusal([](PackedBatch& p) { p.position_ids.pop_back(); }) ==
        "pack: position_ids has 5 entries, input_ids has 6");
  CHECK(refusal([](PackedBatch& p) { p.response_token_ids.push_back(1); }) ==
        "pack: response_token_ids has 4 entries, response_index has 3");
  CHECK(refusal([](PackedBatch& p) { p.cu_seqlens_q.insert(p.cu_seqlens_q.begin(), 0); }) ==
        "pack: cu_seqlens_k has 4 entries, cu_seqlens_q has 5");
}

TEST_CASE("validate refuses offsets that do not run from 0 to their end", "[alignpack][error]") {
  CHECK(refusal([](PackedBatch& p) { p = {}; }) == "pack: cu_seqlens_q must start with 0");
  CHECK(refusal([](PackedBatch& p) { p.cu_seqlens_q[0] = 1; }) == "pack: cu_seqlens_q must start with 0");
  CHECK(refusal([](PackedBatch& p) { p.cu_seqlens_q[2] = 0; }) ==
        "pack: cu_seqlens_q[2] is 0, below the entry before it");
  CHECK(refusal([](PackedBatch& p) { p.cu_seqlens_q[3] = 7; }) == "pack: cu_seqlens_q ends at 7, not at 6");
  CHECK(refusal([](PackedBatch& p) { p.cu_seqlens_k[3] = std::numeric_limits<std::int32_t>::max(); }) ==
        "pack: cu_seqlens_k ends at 2147483647, not at 8");
  CHECK(refusal([](PackedBatch& p) { p.cu_seqlens_k[1] = 0; }) == "pack: segment 0 has 1 rows and sees 0");
}

TEST_CASE("validate refuses values out of range", "[alignpack][error]") {
  CHECK(refusal([](PackedBatch& p) { p.input_ids[2] = -1; }) == "pack: input_ids[2] is -1, allowed 0 .. 2147483647");
  CHECK(refusal([](PackedBatch& p) { p.position_ids[0] = -1; }) ==
        "pack: position_ids[0] is -1, allowed 0 .. 2147483647");
  CHECK(refusal([](PackedBatch& p) { p.kv_index[1] = 6; }) == "pack: kv_index[1] is 6, allowed 0 .. 5");
  CHECK(refusal([](PackedBatch& p) { p.response_index[0] = -2; }) == "pack: response_index[0] is -2, allowed 0 .. 5");
  CHECK(refusal([](PackedBatch& p) { p.response_token_ids[0] = -2; }) ==
        "pack: response_token_ids[0] is -2, allowed 0 .. 2147483647");
}

TEST_CASE("validate refuses a segment that sees later rows, its own rows elsewhere, or a row twice",
          "[alignpack][AP-3][error]") {
  CHECK(refusal([](PackedBatch& p) { p.kv_index[1] = 3; }) == "pack: kv_index[1] is 3, segment 1 allows < 1");
  CHECK(refusal([](PackedBatch& p) { std::swap(p.kv_index[2], p.kv_index[3]); }) ==
        "pack: kv_index[2] is 2, segment 1 allows 1");
  CHECK(refusal([](PackedBatch& p) { p.position_ids[3] = 0; }) == "pack: segment 2 sees position 0 after position 0");
}

TEST_CASE("validate refuses response rows that do not predict the tokens they claim", "[alignpack][AP-4][error]") {
  CHECK(refusal([](PackedBatch& p) { p.response_token_ids[1] = 7; }) ==
        "pack: response token 1 is 7, the row after it holds 5");
  CHECK(refusal([](PackedBatch& p) {
          p.input_ids[1] = 5;
          p.response_index[2] = 1;
        }) == "pack: response tokens 1 and 2 do not have consecutive positions");
}

TEST_CASE("validate refuses response ranges that overlap, leave gaps or run over", "[alignpack][AP-4][error]") {
  CHECK(refusal([](PackedBatch& p) { p.invocations[1].response_begin = 0; }) ==
        "pack: invocation 1 has response rows 0 .. 3, allowed from 1 to at most 3");
  CHECK(refusal([](PackedBatch& p) { p.invocations[0].response_end = -1; }) ==
        "pack: invocation 0 has response rows 0 .. -1, allowed from 0 to at most 3");
  CHECK(refusal([](PackedBatch& p) { p.invocations[1].response_end = 4; }) ==
        "pack: invocation 1 has response rows 1 .. 4, allowed from 1 to at most 3");
  CHECK(refusal([](PackedBatch& p) { p.invocations.pop_back(); }) ==
        "pack: the invocations have 1 response rows, response_index 3");
}

}  // namespace memopd
