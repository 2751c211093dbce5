#include "policies/model/scorer.hpp"

#include <ATen/core/grad_mode.h>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <thread>

#include "policies/model/checkpoint.hpp"
#include "policies/model/host_tensors.hpp"
#include "policies/model/weights.hpp"
#include "tests/unit/policies/model/tiny_models.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

const std::vector<Invocation> kCalls = {invocation({5, 6}, {7, 8, 9}), invocation({5, 6, 7}, {4, 4})};

}  // namespace

TEST_CASE("a scorer hands out the hidden state of every response row", "[scorer][AP-4][pain:T19]") {
  const TemporaryFolder folder("scorer");
  const Transformer model = tiny_model();
  REQUIRE(save_transformer(folder.path(), model));
  const auto scorer = Scorer::load(folder.path(), {.scored_vocab = 20}).value();
  const PackedBatch pack = pack_of(kCalls);

  const auto scores = scorer->score(pack);

  REQUIRE(scores);
  const auto tensors = to_tensors(pack).value();
  const auto expected = to_host_tensor("hidden", model.hidden(tensors).index_select(0, tensors.response_index));
  CHECK(scores->hidden.shape == std::vector<std::int64_t>{5, 16});
  CHECK(scores->hidden.bytes == expected.bytes);
  CHECK(scores->row_valid == std::vector<std::uint8_t>(5, 1));
  CHECK(scores->head_fingerprint == head_fingerprint(model, 20));
  CHECK(scorer->head_fingerprint() == scores->head_fingerprint);
}

TEST_CASE("a scorer's digests are those of the calls it scored, as an engine would feed them", "[scorer][AP-6]") {
  const TemporaryFolder folder("scorer_digest");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  const auto scorer = Scorer::load(folder.path(), {}).value();

  const auto scores = scorer->score(pack_of(kCalls)).value();

  REQUIRE(scores.digests.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(scores.digests[i] == aligned_digest(kCalls[i]));
}

TEST_CASE("deterministic: a row has equal bits alone, in any pack, with shared prefixes or without",
          "[scorer][RL-7][pain:T10]") {
  const TemporaryFolder folder("scorer_deterministic");
  REQUIRE(save_transformer(folder.path(), tiny_model(wide_config())));
  const auto scorer = Scorer::load(folder.path(), {.is_deterministic = true}).value();
  const auto trajectories =
      random_trajectories(3, 12, {.vocab_size = 400, .min_calls = 3, .max_calls = 8, .max_run = 12});
  const auto rows_of = [&](const std::vector<PackedBatch>& packs) {
    std::vector<std::byte> rows;
    for (const PackedBatch& pack : packs) {
      const HostTensor hidden = scorer->score(pack).value().hidden;
      rows.insert(rows.end(), hidden.bytes.begin(), hidden.bytes.end());
    }
    return rows;
  };
  std::vector<PackedBatch> alone;
  for (const Invocation* call : invocations_of(trajectories)) alone.push_back(align_pack({&call, 1}, {})->front());
  const auto expected = rows_of(alone);
  REQUIRE(expected.size() > 200 * 96 * sizeof(float));

  for (const std::int32_t budget : {64, 256, 4096}) {
    for (const bool is_shared : {true, false}) {
      CAPTURE(budget, is_shared);
      const auto packs = align_pack(trajectories, {.max_tokens = budget, .share_prefixes = is_shared}).value();
      const bool have_equal_bits = rows_of(packs) == expected;  // not in CHECK, which would print a megabyte
      CHECK(have_equal_bits);
    }
  }
}

TEST_CASE("rows that are not finite are marked and zero", "[scorer]") {
  const TemporaryFolder folder("scorer_nan");
  const Transformer model = tiny_model();
  model.embedding().select(0, 9).fill_(std::numeric_limits<float>::quiet_NaN());
  REQUIRE(save_transformer(folder.path(), model));
  const auto scorer = Scorer::load(folder.path(), {}).value();

  const auto scores = scorer->score(pack_of({invocation({5, 6}, {9, 8, 7})})).value();

  CHECK(scores.row_valid == std::vector<std::uint8_t>{1, 0, 0});  // the row that predicts 9 has not seen it yet
  float second_row = -1;
  std::memcpy(&second_row, scores.hidden.bytes.data() + 16 * sizeof(float), sizeof(float));
  CHECK(second_row == 0.0f);
}

TEST_CASE("rows beyond the model's length are marked", "[scorer]") {
  const TemporaryFolder folder("scorer_long");
  ModelConfig config = tiny_config();
  config.max_position_embeddings = 3;
  REQUIRE(save_transformer(folder.path(), tiny_model(config)));
  const auto scorer = Scorer::load(folder.path(), {.dtype = DType::float64}).value();

  const auto scores = scorer->score(pack_of({invocation({5, 6}, {9, 8, 7})})).value();

  CHECK(scores.hidden.dtype == DType::float64);
  CHECK(scores.row_valid == std::vector<std::uint8_t>{1, 1, 0});
}

TEST_CASE("a scorer refuses ids and options outside the model", "[scorer][error]") {
  const TemporaryFolder folder("scorer_bad");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  const auto scorer = Scorer::load(folder.path(), {}).value();

  CHECK(scorer->score(pack_of({invocation({5, 24}, {1})})).error().code == ErrorCode::invalid_argument);
  PackedBatch broken = pack_of(kCalls);
  broken.kv_index.front() = 999;
  CHECK(scorer->score(broken).error().code == ErrorCode::invalid_argument);
  CHECK(Scorer::load(folder.path(), {.scored_vocab = 25}).error().code == ErrorCode::invalid_argument);
  CHECK(Scorer::load(folder.path(), {.dtype = DType::bfloat16}).error().code == ErrorCode::invalid_argument);
  CHECK(Scorer::load(folder.path() / "absent", {}).error().code == ErrorCode::not_found);
}

TEST_CASE("threads score at the same time with the bits of one thread", "[scorer]") {
  const TemporaryFolder folder("scorer_threads");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  const auto scorer = Scorer::load(folder.path(), {}).value();
  const PackedBatch pack = pack_of(kCalls);
  const auto expected = scorer->score(pack).value();
  std::vector<TeacherScores> found(3);
  std::vector<std::thread> threads;
  for (TeacherScores& scores : found) threads.emplace_back([&] { scores = scorer->score(pack).value(); });
  for (std::thread& thread : threads) thread.join();

  for (const TeacherScores& scores : found) CHECK(scores.hidden.bytes == expected.hidden.bytes);
}
