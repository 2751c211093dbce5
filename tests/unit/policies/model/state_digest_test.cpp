// AP-6: engine, teacher and learner agree on a state exactly when they fed the same rows.
#include "policies/model/state_digest.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/unit/policies/model/tiny_models.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

/// Call 1 continues call 0, call 2 continues call 1, call 3 leaves the chain after call 0's response.
const std::vector<Invocation> kChain = {invocation({1, 2}, {3}), invocation({1, 2, 3, 4}, {5, 6}),
                                        invocation({1, 2, 3, 4, 5, 6, 7}, {8, 9}), invocation({1, 2, 3, 9}, {8})};

std::vector<Digest> aligned_digests(const std::vector<Invocation>& calls) {
  std::vector<Digest> digests;
  for (const Invocation& call : calls) digests.push_back(aligned_digest(call));
  return digests;
}

/// q = 1 2, a_0 = 3 4 5, o_0 = 6 7, a_1 = 8 9, o_1 = 10, a_2 = 11 12, each response kept for one call.
const std::vector<Invocation> kRewritten = {invocation({1, 2}, {3, 4, 5}), invocation({1, 2, 3, 4, 5, 6, 7}, {8, 9}),
                                            invocation({1, 2, 8, 9, 10}, {11, 12})};

/// The three calls of kRewritten as one history that only grows.
PackedBatch flat_history() {
  PackedBatch pack;
  pack.input_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  pack.position_ids.resize(12);
  std::iota(pack.position_ids.begin(), pack.position_ids.end(), 0);
  pack.kv_index = pack.position_ids;
  pack.cu_seqlens_q = pack.cu_seqlens_k = {0, 12};
  pack.response_index = {1, 2, 3, /**/ 6, 7, /**/ 9, 10};
  pack.response_token_ids = {3, 4, 5, /**/ 8, 9, /**/ 11, 12};
  const std::vector<std::int32_t> ends = {0, 3, 5, 7};
  for (std::int32_t call = 0; call < 3; ++call) {
    const auto i = static_cast<std::size_t>(call);
    pack.invocations.push_back({{"train", 0, 0, 0}, 0, call, ends[i], ends[i + 1]});
  }
  return pack;
}

}  // namespace

TEST_CASE("a packed call has the digest of the call alone, whatever is shared and in blocks of any size",
          "[digest][AP-6]") {
  std::size_t num_compared = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    // Runs of up to 70 tokens: segments of several attention blocks.
    const auto trajectories =
        random_trajectories(seed, 3, {.vocab_size = 3, .min_calls = 3, .max_calls = 5, .max_run = seed < 2 ? 6 : 70});
    for (const AlignPackOptions& options :
         {AlignPackOptions{.max_tokens = 1 << 14}, AlignPackOptions{.max_tokens = 1 << 14, .share_prefixes = false},
          AlignPackOptions{.max_tokens = 1 << 14, .min_shared_tokens = 4}, AlignPackOptions{.max_tokens = 400}}) {
      std::vector<Digest> from_packs, from_tensors, expected;
      const auto packs = align_pack(trajectories, options).value();
      for (const PackedBatch& pack : packs) {
        for (const Digest& digest : pack_digests(pack)) from_packs.push_back(digest);
        for (const Digest& digest : pack_digests(to_tensors(pack).value(), pack.invocations)) {
          from_tensors.push_back(digest);
        }
      }
      for (const Invocation* call : invocations_of(trajectories)) {
        expected.push_back(call->response_token_ids.empty() ? Digest{} : aligned_digest(*call));
      }
      CAPTURE(seed, options.max_tokens, options.share_prefixes, options.min_shared_tokens);
      CHECK(from_packs == expected);
      CHECK(from_tensors == expected);
      num_compared += expected.size();
    }
  }
  CHECK(num_compared > 100);
}

TEST_CASE("a chain of shared prefixes three segments deep has the digests of the calls alone", "[digest][AP-6]") {
  const PackedBatch pack = pack_of(kChain);

  REQUIRE(pack.num_tokens() == 11);  // 1..9 in a row, and what call 3 has of its own
  CHECK(pack_digests(pack) == aligned_digests(kChain));
}

TEST_CASE("another id or position changes the digest of every call that sees the row, and of no other",
          "[digest][AP-6]") {
  const std::vector<Digest> expected = aligned_digests(kChain);
  const PackedBatch pack = pack_of(kChain, /*share_prefixes=*/false);
  std::size_t begin = 0;
  for (std::size_t call = 0; call < kChain.size(); ++call) {
    const std::size_t num_fed = sequence_of(kChain[call]).size() - 1;  // the last one is predicted only
    for (std::size_t row = begin; row < begin + num_fed; ++row) {
      PackedBatch with_other_id = pack;
      ++with_other_id.input_ids[row];
      PackedTensors moved = to_tensors(pack).value();
      moved.position_ids[static_cast<std::int64_t>(row)].add_(1);
      for (const auto& digests : {pack_digests(with_other_id), pack_digests(moved, pack.invocations)}) {
        for (std::size_t other = 0; other < kChain.size(); ++other) {
          CHECK((digests[other] == expected[other]) == (other != call));
        }
      }
    }
    begin += num_fed + 1;
  }
}

TEST_CASE("another sampled token at the end changes the digest", "[digest][AP-6]") {
  CHECK(aligned_digest(invocation({1, 2}, {3, 4})) != aligned_digest(invocation({1, 2}, {3, 5})));
}

TEST_CASE("a row that does not see what it should changes the digest", "[digest][AP-6]") {
  // Calls 0 and 1 of kChain side by side; ids and positions stay what they are.
  const std::vector<Invocation> calls = {kChain[0], kChain[1]};
  const std::vector<Digest> expected = aligned_digests(calls);
  const PackedBatch pack = pack_of(calls, /*share_prefixes=*/false);
  PackedBatch blind = pack;  // call 1 does not see its first row
  blind.kv_index.erase(blind.kv_index.begin() + 3);
  --blind.cu_seqlens_k.back();
  PackedBatch swapped = pack;  // call 1 sees the first two rows of call 0 instead of its own, which are the same
  swapped.kv_index[3] = 0;
  swapped.kv_index[4] = 1;
  PackedBatch disordered = pack;
  std::swap(disordered.kv_index[3], disordered.kv_index[4]);

  CHECK(pack_digests(pack) == expected);
  CHECK(pack_digests(blind)[0] == expected[0]);
  CHECK(pack_digests(blind)[1] != expected[1]);
  CHECK(pack_digests(swapped)[1] == expected[1]);
  CHECK(pack_digests(disordered)[1] != expected[1]);
}

TEST_CASE("a row whose own view was wrong changes the digest of a call that sees all the right rows",
          "[digest][AP-6]") {
  const std::vector<Invocation> calls = {invocation({1, 2, 3}, {4})};
  PackedBatch right = pack_of(calls);
  right.cu_seqlens_q = {0, 1, 2, 4};
  right.kv_index = {0, /**/ 0, 1, /**/ 0, 1, 2, 3};
  right.cu_seqlens_k = {0, 1, 3, 7};
  PackedBatch wrong = right;  // row 1 was computed without row 0
  wrong.kv_index = {0, /**/ 1, /**/ 0, 1, 2, 3};
  wrong.cu_seqlens_k = {0, 1, 2, 6};

  CHECK(pack_digests(right) == aligned_digests(calls));
  CHECK(pack_digests(wrong) != aligned_digests(calls));
}

TEST_CASE("a flat history has the digests of calls 0 and 1 when all of a_0 is kept, and others from call 2 on",
          "[digest][AP-6]") {
  const std::vector<Digest> flat = pack_digests(flat_history());
  const std::vector<Digest> expected = aligned_digests(kRewritten);

  CHECK(flat[0] == expected[0]);
  CHECK(flat[1] == expected[1]);
  CHECK(flat[2] != expected[2]);
  CHECK(pack_digests(to_tensors(flat_history()).value(), flat_history().invocations) == flat);
}
