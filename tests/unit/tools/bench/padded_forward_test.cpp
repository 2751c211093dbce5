#include "tools/bench/padded_forward.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>

#include "policies/model/initialization.hpp"
#include "policies/model/packed_tensors.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd {
namespace {

at::Tensor longs(const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); }

}  // namespace

TEST_CASE("pad puts calls side by side and addresses the rows that predict responses", "[bench][AP-4]") {
  const Invocation first = testing::invocation({1, 2}, {3});
  const Invocation second = testing::invocation({4}, {5, 6, 7});
  const std::vector<const Invocation*> calls = {&first, &second, &first};

  const auto batches = pad(calls, 4, 9);

  REQUIRE(batches.size() == 2);
  CHECK(at::equal(batches[0].input_ids, longs({1, 2, 3, 0, 4, 5, 6, 7}).view({2, 4})));
  CHECK(at::equal(batches[0].position_ids, longs({0, 1, 2, 3, 0, 1, 2, 3})));
  CHECK(at::equal(batches[0].next_token_ids, longs({2, 3, 0, 0, 5, 6, 7, 0})));
  CHECK(at::equal(batches[0].response_index, longs({1, 4, 5, 6})));
  CHECK(at::equal(batches[0].response_token_ids, longs({3, 5, 6, 7})));
  CHECK(batches[1].input_ids.size(0) == 1);
}

TEST_CASE("padded_hidden gives the rows of packed attention, grouped heads too", "[bench][AP-5]") {
  ModelConfig config;
  config.vocab_size = 11;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 256;
  const Transformer model = *random_transformer(config, {.seed = 1}, at::kDouble);
  const auto trajectories = testing::random_trajectories(3, 2, {.vocab_size = 11, .allow_empty_responses = false});
  const auto calls = testing::invocations_of(trajectories);
  const PackedTensors pack = *to_tensors(align_pack(trajectories, {})->front());

  const PaddedBatch batch = pad(calls, 64, 1 << 20).front();

  const at::Tensor padded = padded_hidden(model, batch).index_select(0, batch.response_index);
  const at::Tensor packed = model.hidden(pack).index_select(0, pack.response_index);
  CHECK(padded.sub(packed).abs().max().item<double>() < 1e-10);
}

}  // namespace memopd
