#include "policies/model/packed_tensors.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>

#include "runtime/alignpack/align_pack.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd {
namespace {

using testing::invocation;
using testing::trajectory;

PackedBatch pack_of(const Trajectory& one) { return align_pack({&one, 1}, {})->front(); }

at::Tensor longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

}  // namespace

TEST_CASE("to_tensors keeps ids, positions and response rows as they are in the pack", "[model][AP-1][AP-2][AP-4]") {
  const auto tensors = to_tensors(pack_of(trajectory(0, {invocation({1, 2}, {3}), invocation({1, 4}, {5})})));

  REQUIRE(tensors);
  CHECK(tensors->num_tokens() == 5);
  CHECK(at::equal(tensors->input_ids, longs({1, 2, 3, 4, 5})));
  CHECK(at::equal(tensors->position_ids, longs({0, 1, 2, 1, 2})));
  CHECK(at::equal(tensors->response_index, longs({1, 3})));
  CHECK(at::equal(tensors->response_token_ids, longs({3, 5})));
}

TEST_CASE("to_tensors cuts long segments into blocks that see the same rows", "[model][AP-3]") {
  const auto tensors = to_tensors(pack_of(trajectory(0, {invocation(testing::Ints(100, 7), {8, 9})})));

  REQUIRE(tensors);
  const auto& blocks = tensors->plan->blocks;
  REQUIRE(blocks.size() == 3);
  std::int32_t next_row = 0;
  for (const AttentionBlock& block : blocks) {
    CHECK(block.q_begin == next_row);
    CHECK(block.q_end - block.q_begin <= AttentionPlan::kMaxBlockRows);
    CHECK(block.visible_begin == 0);
    CHECK(block.num_visible == block.q_end);  // one segment from position 0: row i sees rows 0 .. i
    next_row = block.q_end;
  }
  CHECK(next_row == 102);
}

TEST_CASE("to_tensors makes no block of a segment without rows", "[model]") {
  PackedBatch pack = pack_of(trajectory(0, {invocation({1, 2}, {3})}));
  pack.cu_seqlens_q.push_back(3);
  pack.cu_seqlens_k.push_back(3);

  const auto tensors = to_tensors(pack);

  REQUIRE(tensors);
  CHECK(tensors->plan->blocks.size() == 1);
}

TEST_CASE("to_tensors refuses a pack that indexes outside itself", "[model][error]") {
  PackedBatch pack = pack_of(trajectory(0, {invocation({1, 2}, {3})}));
  pack.kv_index[1] = 9;

  const auto tensors = to_tensors(pack);

  REQUIRE_FALSE(tensors);
  CHECK(tensors.error().code == ErrorCode::invalid_argument);
  CHECK(tensors.error().message == "pack: kv_index[1] is 9, allowed 0 .. 2");
}

}  // namespace memopd
