#include "runtime/alignpack/align_pack.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "runtime/alignpack/dense_mask.hpp"
#include "runtime/alignpack/validate.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd {
namespace {

using testing::Ints;
using testing::invocation;
using testing::invocations_of;
using testing::random_trajectories;
using testing::sequence_of;
using testing::trajectory;

/// protocol.md's example: q = 1 2, a_0 = 3 4 5 (all kept), o_0 = 6 7, a_1 = 8 9, o_1 = 10, a_2 = 11 12.
Trajectory worked_example() {
  return trajectory(7, {invocation({1, 2}, {3, 4, 5}), invocation({1, 2, 3, 4, 5, 6, 7}, {8, 9}),
                        invocation({1, 2, 8, 9, 10}, {11, 12})});
}

Expected<std::vector<PackedBatch>> pack_one(const Trajectory& one, const AlignPackOptions& options) {
  return align_pack({&one, 1}, options);
}

Ints slice(const Ints& ids, std::int32_t size) { return {ids.begin(), ids.begin() + size}; }

/// The ids that row `row` sees, itself included, in order of position: the state in which it stands. Reads the dense
/// mask only; checks that the positions are 0 .. n-1.
Ints state_of(const PackedBatch& pack, const std::vector<std::uint8_t>& mask, std::int32_t row) {
  const auto num_tokens = static_cast<std::size_t>(pack.num_tokens());
  Ints ids(static_cast<std::size_t>(pack.position_ids[static_cast<std::size_t>(row)]) + 1, -1);
  std::size_t num_seen = 0;
  for (std::size_t other = 0; other < num_tokens; ++other) {
    if (mask[static_cast<std::size_t>(row) * num_tokens + other] != 0) {
      const auto position = static_cast<std::size_t>(pack.position_ids[other]);
      REQUIRE(position < ids.size());
      ids[position] = pack.input_ids[other];
      ++num_seen;
    }
  }
  REQUIRE(num_seen == ids.size());
  return ids;
}

/// Checks AP-1..AP-4 for one pack against the definition. @return  the states of its rows
std::vector<Ints> check_pack(const PackedBatch& pack, std::span<const Invocation* const> calls) {
  REQUIRE(validate(pack));
  REQUIRE(pack.invocations.size() == calls.size());
  const std::vector<std::uint8_t> mask = dense_mask(pack);
  const auto num_tokens = static_cast<std::size_t>(pack.num_tokens());
  std::vector<Ints> states;
  for (std::int32_t row = 0; row < pack.num_tokens(); ++row) {
    states.push_back(state_of(pack, mask, row));
    CHECK(states.back().back() == pack.input_ids[static_cast<std::size_t>(row)]);
  }
  // What a row sees was itself computed in the state that belongs to it: the prefix up to its position.
  for (std::size_t row = 0; row < num_tokens; ++row) {
    for (std::size_t seen = 0; seen < num_tokens; ++seen) {
      if (mask[row * num_tokens + seen] != 0) {
        CHECK(states[seen] == slice(states[row], pack.position_ids[seen] + 1));
      }
    }
  }
  const std::set<Ints> known(states.begin(), states.end());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const PackedInvocation& entry = pack.invocations[i];
    const Ints ids = sequence_of(*calls[i]);
    CHECK(entry.trajectory_id == calls[i]->trajectory_id);
    CHECK(entry.invocation_index == calls[i]->invocation_index);
    REQUIRE(entry.response_end - entry.response_begin ==
            static_cast<std::int32_t>(calls[i]->response_token_ids.size()));
    for (std::int32_t j = 0; j < entry.response_end - entry.response_begin; ++j) {
      const auto r = static_cast<std::size_t>(entry.response_begin + j);
      CHECK(pack.response_token_ids[r] == calls[i]->response_token_ids[static_cast<std::size_t>(j)]);
      CHECK(states[static_cast<std::size_t>(pack.response_index[r])] ==
            slice(ids, static_cast<std::int32_t>(calls[i]->prompt_token_ids.size()) + j));
    }
    for (std::int32_t size = 1; size <= static_cast<std::int32_t>(ids.size()); ++size) {
      CHECK(known.contains(slice(ids, size)));
    }
  }
  return states;
}

std::size_t num_distinct_prefixes(std::span<const Invocation* const> calls) {
  std::set<Ints> prefixes;
  for (const Invocation* call : calls) {
    const Ints ids = sequence_of(*call);
    for (std::int32_t size = 1; size <= static_cast<std::int32_t>(ids.size()); ++size) {
      prefixes.insert(slice(ids, size));
    }
  }
  return prefixes.size();
}

std::size_t num_tokens_one_by_one(std::span<const Invocation* const> calls) {
  std::size_t total = 0;
  for (const Invocation* call : calls) {
    total += sequence_of(*call).size();
  }
  return total;
}

}  // namespace

TEST_CASE("align_pack lays the worked example out in 14 rows", "[alignpack][AP-1][AP-2][AP-3][AP-4]") {
  const auto packs = pack_one(worked_example(), {.max_tokens = 64});

  REQUIRE(packs);
  REQUIRE(packs->size() == 1);
  const PackedBatch& pack = packs->front();
  CHECK(pack.input_ids == Ints{1, 2, /* a_0 */ 3, 4, 5, /* o_0 */ 6, 7, /* a_1 */ 8, 9,
                               /* call 2: a_1 o_1 a_2 */ 8, 9, 10, 11, 12});
  CHECK(pack.position_ids == Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, /**/ 2, 3, 4, 5, 6});
  CHECK(pack.cu_seqlens_q == Ints{0, 2, 9, 14});
  CHECK(pack.kv_index == Ints{0, 1, /**/ 0, 1, 2, 3, 4, 5, 6, 7, 8, /**/ 0, 1, 9, 10, 11, 12, 13});
  CHECK(pack.cu_seqlens_k == Ints{0, 2, 11, 18});
  CHECK(pack.response_index == Ints{1, 2, 3, /**/ 6, 7, /**/ 11, 12});
  CHECK(pack.response_token_ids == Ints{3, 4, 5, /**/ 8, 9, /**/ 11, 12});
}

TEST_CASE("align_pack without sharing keeps the worked example at 21 rows", "[alignpack][AP-2]") {
  const auto packs = pack_one(worked_example(), {.max_tokens = 64, .share_prefixes = false});

  REQUIRE(packs);
  const PackedBatch& pack = packs->front();
  CHECK(pack.num_tokens() == 21);
  CHECK(pack.cu_seqlens_q == Ints{0, 5, 14, 21});
  CHECK(pack.cu_seqlens_k == pack.cu_seqlens_q);
  CHECK(pack.position_ids == Ints{0, 1, 2, 3, 4, /**/ 0, 1, 2, 3, 4, 5, 6, 7, 8, /**/ 0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("align_pack shares the question only, 17 rows, where the kept text differs from the response",
          "[alignpack][AP-1]") {
  Trajectory example = worked_example();
  example.invocations[1].prompt_token_ids[2] = 13;  // the first id of the copy of a_0

  const auto packs = pack_one(example, {.max_tokens = 64});

  REQUIRE(packs);
  CHECK(packs->front().num_tokens() == 17);
  CHECK(packs->front().cu_seqlens_q == Ints{0, 2, 5, 12, 17});
}

TEST_CASE("align_pack has one row per distinct id prefix on random trajectories",
          "[alignpack][AP-1][AP-2][AP-3][AP-4]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const auto trajectories =
        random_trajectories(seed, 1 + static_cast<std::int32_t>(seed % 4), {.vocab_size = seed % 2 == 0 ? 3 : 50});
    const auto calls = invocations_of(trajectories);

    const auto packs = align_pack(trajectories, {.max_tokens = 100000});

    REQUIRE(packs);
    REQUIRE(packs->size() == 1);
    const auto states = check_pack(packs->front(), calls);
    CHECK(states.size() == num_distinct_prefixes(calls));
    CHECK(std::set<Ints>(states.begin(), states.end()).size() == states.size());
  }
}

TEST_CASE("align_pack without sharing has every token of every invocation on random trajectories",
          "[alignpack][AP-1][AP-2][AP-3][AP-4]") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    const auto trajectories = random_trajectories(seed, 3, {.vocab_size = 3, .min_calls = 3});
    const auto calls = invocations_of(trajectories);

    const auto packs = align_pack(trajectories, {.max_tokens = 100000, .share_prefixes = false});

    REQUIRE(packs);
    CHECK(check_pack(packs->front(), calls).size() == num_tokens_one_by_one(calls));
    CHECK(packs->front().num_segments() == static_cast<std::int32_t>(calls.size()));
  }
}

TEST_CASE("align_pack copies runs shorter than min_shared_tokens and keeps every state",
          "[alignpack][AP-1][AP-2][AP-3][AP-4]") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto min_shared_tokens = static_cast<std::int32_t>(2 + seed % 5);
    CAPTURE(seed, min_shared_tokens);
    const auto trajectories = random_trajectories(seed, 4, {.vocab_size = 2, .max_run = 9});
    const auto calls = invocations_of(trajectories);

    const auto packs = align_pack(trajectories, {.max_tokens = 100000, .min_shared_tokens = min_shared_tokens});

    REQUIRE(packs);
    const PackedBatch& pack = packs->front();
    const auto states = check_pack(pack, calls);
    CHECK(states.size() >= num_distinct_prefixes(calls));
    CHECK(states.size() <= num_tokens_one_by_one(calls));
    for (std::size_t s = 0; s + 1 < pack.cu_seqlens_q.size(); ++s) {
      // A segment that others see is a shared run.
      const auto last_row = pack.cu_seqlens_q[s + 1] - 1;
      const bool is_shared = std::count(pack.kv_index.begin(), pack.kv_index.end(), last_row) > 1;
      CHECK((!is_shared || pack.cu_seqlens_q[s + 1] - pack.cu_seqlens_q[s] >= min_shared_tokens));
    }
  }
}

TEST_CASE("align_pack splits at min_shared_tokens ids and not below", "[alignpack]") {
  const auto example = trajectory(0, {invocation({1, 2, 3, 4}, {5}), invocation({1, 2, 3, 9}, {6})});

  CHECK(pack_one(example, {.min_shared_tokens = 3})->front().num_tokens() == 7);
  CHECK(pack_one(example, {.min_shared_tokens = 4})->front().num_tokens() == 10);
}

TEST_CASE("align_pack closes a pack at the first invocation that does not fit", "[alignpack]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const auto trajectories = random_trajectories(seed, 6, {.vocab_size = 4});
    const auto calls = invocations_of(trajectories);
    constexpr std::int32_t kBudget = 40;

    const auto packs = align_pack(trajectories, {.max_tokens = kBudget});

    REQUIRE(packs);
    std::size_t first = 0;
    for (std::size_t p = 0; p < packs->size(); ++p) {
      const PackedBatch& pack = (*packs)[p];
      const auto members = std::span(calls).subspan(first, pack.invocations.size());
      check_pack(pack, members);
      CHECK(static_cast<std::size_t>(pack.num_tokens()) == num_distinct_prefixes(members));
      CHECK(pack.num_tokens() <= kBudget);
      first += members.size();
      if (p + 1 < packs->size()) {
        const auto one_more = std::span(calls).subspan(first - members.size(), members.size() + 1);
        CHECK(num_distinct_prefixes(one_more) > static_cast<std::size_t>(kBudget));
      }
    }
    CHECK(first == calls.size());
  }
}

TEST_CASE("align_pack fills a pack to exactly max_tokens", "[alignpack]") {
  const auto example = trajectory(0, {invocation({1, 2}, {3}), invocation({4}, {5})});

  CHECK(pack_one(example, {.max_tokens = 5})->size() == 1);
  CHECK(pack_one(example, {.max_tokens = 4})->size() == 2);
}

TEST_CASE("align_pack gives identical invocations the same rows and repeats their response rows", "[alignpack][AP-4]") {
  const auto example = trajectory(0, {invocation({1, 2}, {3, 4}), invocation({1, 2}, {3, 4})});

  const auto packs = pack_one(example, {});

  REQUIRE(packs);
  CHECK(packs->front().num_tokens() == 4);
  CHECK(packs->front().response_index == Ints{1, 2, 1, 2});
  CHECK(packs->front().invocations[1].response_begin == 2);
}

TEST_CASE("align_pack lets a short invocation end inside rows that a longer one brought", "[alignpack][AP-4]") {
  const auto example = trajectory(0, {invocation({1, 2, 3}, {4, 5}), invocation({1, 2}, {3}), invocation({1}, {7})});

  const auto packs = pack_one(example, {});

  REQUIRE(packs);
  CHECK(packs->front().input_ids == Ints{1, 2, 3, 4, 5, 7});
  CHECK(packs->front().response_index == Ints{2, 3, 1, 0});
}

TEST_CASE("align_pack keeps an empty response as an empty range", "[alignpack][AP-4]") {
  const auto example = trajectory(0, {invocation({1, 2}, {}), invocation({1, 2, 5}, {6})});

  const auto packs = pack_one(example, {});

  REQUIRE(packs);
  CHECK(packs->front().invocations[0].response_begin == 0);
  CHECK(packs->front().invocations[0].response_end == 0);
  CHECK(packs->front().response_index == Ints{2});
}

TEST_CASE(
    "align_pack predicts a response of prompt 3 and 2 tokens from rows 2 and 3, and one token from the last "
    "prompt row",
    "[alignpack][AP-4][pain:T06]") {
  CHECK(pack_one(trajectory(0, {invocation({1, 2, 3}, {4, 5})}), {})->front().response_index == Ints{2, 3});
  CHECK(pack_one(trajectory(0, {invocation({1, 2, 3}, {4})}), {})->front().response_index == Ints{2});
}

TEST_CASE("align_pack gives 3 calls with 4, 2 and 5 response tokens 11 response rows", "[alignpack][AP-4][pain:T19]") {
  const auto example = trajectory(0, {invocation({1}, {2, 3, 4, 5}), invocation({1, 2, 3, 4, 5}, {6, 7}),
                                      invocation({1, 6, 7}, {8, 9, 10, 11, 12})});

  const auto packs = pack_one(example, {});

  REQUIRE(packs);
  CHECK(packs->front().num_response_tokens() == 11);
  CHECK(packs->front().invocations[0].response_end == 4);
  CHECK(packs->front().invocations[1].response_end == 6);
  CHECK(packs->front().invocations[2].response_end == 11);
}

TEST_CASE("align_pack carries attempt and digest of every invocation", "[alignpack][AP-1]") {
  Trajectory example = worked_example();
  example.invocations[1].attempt = 3;
  example.invocations[1].digest = {5, 6};

  const auto packs = pack_one(example, {});

  REQUIRE(packs);
  CHECK(packs->front().invocations[1].attempt == 3);
  CHECK(packs->front().invocations[1].digest == Digest{5, 6});
  CHECK(packs->front().invocations[0].digest == Digest{});
}

TEST_CASE("align_pack gives nothing for nothing", "[alignpack]") {
  const auto packs = align_pack(std::span<const Trajectory>(), {});

  REQUIRE(packs);
  CHECK(packs->empty());
}

TEST_CASE("align_pack names the invocation that is too long", "[alignpack][error]") {
  const auto packs = pack_one(trajectory(7, {invocation({1}, {2}), invocation({1, 2, 3}, {4, 5})}), {.max_tokens = 4});

  REQUIRE_FALSE(packs);
  CHECK(packs.error().code == ErrorCode::invocation_too_long);
  CHECK(packs.error().message == "trajectory train.0.7.0, invocation 1: 5 tokens exceed max_tokens 4");
}

TEST_CASE("align_pack refuses an empty prompt, a negative id and options out of range", "[alignpack][error]") {
  const auto message = [](const Expected<std::vector<PackedBatch>>& packs) {
    REQUIRE_FALSE(packs);
    CHECK(packs.error().code == ErrorCode::invalid_argument);
    return packs.error().message;
  };
  CHECK(message(pack_one(trajectory(7, {invocation({}, {2})}), {})) ==
        "trajectory train.0.7.0, invocation 0: the prompt is empty");
  CHECK(message(pack_one(trajectory(7, {invocation({1, -4}, {2})}), {})) ==
        "trajectory train.0.7.0, invocation 0: prompt token 1 has id -4, allowed >= 0");
  CHECK(message(pack_one(trajectory(7, {invocation({1}, {-1})}), {})) ==
        "trajectory train.0.7.0, invocation 0: response token 0 has id -1, allowed >= 0");
  CHECK(message(pack_one(worked_example(), {.max_tokens = 0})) == "max_tokens is 0, allowed >= 1");
  CHECK(message(pack_one(worked_example(), {.min_shared_tokens = 0})) == "min_shared_tokens is 0, allowed >= 1");
}

}  // namespace memopd
