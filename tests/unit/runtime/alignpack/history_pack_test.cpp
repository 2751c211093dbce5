#include "runtime/alignpack/history_pack.hpp"

#include <catch2/catch.hpp>
#include <utility>

#include "runtime/alignpack/dense_mask.hpp"
#include "runtime/alignpack/validate.hpp"
#include "runtime/base/random.hpp"
#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd {
namespace {

using testing::Ints;
using testing::invocation;
using testing::trajectory;

// Ids say what a token is, so that tests can tell without reading spans.
constexpr std::int32_t kResponse = 100;     // 100 .. 199 sampled; below 100 the question
constexpr std::int32_t kObservation = 200;  // 200 .. 299

/// Call of a rewritten context: [question][kept][observation] -> response, with its spans.
Invocation call(const Ints& question, const Ints& kept, const Ints& observation, Ints response) {
  Invocation made;
  const auto append = [&](const Ints& ids, SpanKind kind) {
    const auto begin = static_cast<std::int32_t>(made.prompt_token_ids.size());
    made.prompt_token_ids.insert(made.prompt_token_ids.end(), ids.begin(), ids.end());
    if (!ids.empty()) {
      made.spans.push_back({begin, static_cast<std::int32_t>(made.prompt_token_ids.size()), kind});
    }
  };
  append(question, SpanKind::question);
  append(kept, SpanKind::kept);
  append(observation, SpanKind::observation);
  made.response_token_ids = std::move(response);
  return made;
}

/// protocol.md's example: q = 1 2, a_0 = 103 104 105 (all kept), o_0 = 206 207, a_1 = 108 109, o_1 = 210, a_2 = 111 112.
Trajectory worked_example() {
  return trajectory(7, {call({1, 2}, {}, {}, {103, 104, 105}), call({1, 2}, {103, 104, 105}, {206, 207}, {108, 109}),
                        call({1, 2}, {108, 109}, {210}, {111, 112})});
}

/// r_0 = 105, r_1 = 109, r_2 = 112.
std::int32_t all_but_the_last(const Invocation& call) {
  return static_cast<std::int32_t>(call.response_token_ids.size()) - 1;
}

Expected<std::vector<PackedBatch>> pack_one(const Trajectory& one, HistoryState state,
                                            const AlignPackOptions& options = {},
                                            const ReasoningEnd& reasoning_end = all_but_the_last) {
  const Trajectory* const pointer = &one;
  return pack_histories({&pointer, 1}, state, options, reasoning_end);
}

Trajectory random_trajectory(SplitMix& random, std::int32_t task_index) {
  const auto ids = [&](std::uint64_t low, std::uint64_t high, std::int32_t first_id) {
    Ints run(low + random.below(high - low + 1));
    for (std::int32_t& id : run) {
      id = first_id + static_cast<std::int32_t>(random.below(90));
    }
    return run;
  };
  const Ints question = ids(1, 4, 0);
  std::vector<Invocation> calls;
  Ints kept;
  Ints observation;
  const std::uint64_t num_calls = 1 + random.below(6);
  for (std::uint64_t j = 0; j < num_calls; ++j) {
    Ints response = ids(0, 5, kResponse);
    calls.push_back(call(question, kept, observation, response));
    kept.assign(response.begin() + static_cast<std::ptrdiff_t>(random.below(response.size() + 1)), response.end());
    observation = ids(0, 3, kObservation);
  }
  return trajectory(task_index, std::move(calls));
}

/// A made-up end of the reasoning, the same for the same call.
std::int32_t hashed_end(const Invocation& call) {
  const std::uint64_t size = call.response_token_ids.size();
  return static_cast<std::int32_t>(splitmix64(static_cast<std::uint64_t>(call.invocation_index) * 31 + size) %
                                   (size + 1));
}

enum class Part : std::uint8_t { question, response, observation };

/// A token of a history and what the rule says about it.
struct Token {
  std::int32_t id;
  Part part;
  std::int32_t call;        // j of a_j, o_j
  bool is_after_reasoning;  // belongs to r_j
  std::size_t trajectory;
  std::int32_t position;
};

/// The history by its definition, read off the ids' ranges.
void append_tokens(const Trajectory& one, std::size_t number, std::vector<Token>& tokens) {
  const std::size_t first = tokens.size();
  const auto add = [&](std::int32_t id, Part part, std::int32_t of_call, bool is_after) {
    tokens.push_back({id, part, of_call, is_after, number, static_cast<std::int32_t>(tokens.size() - first)});
  };
  for (const Invocation& call : one.invocations) {
    const std::int32_t j = call.invocation_index;
    for (const std::int32_t id : call.prompt_token_ids) {
      if (j == 0) {
        add(id, Part::question, 0, false);
      } else if (id >= kObservation) {
        add(id, Part::observation, j - 1, false);
      }
    }
    const std::int32_t end = hashed_end(call);
    for (std::int32_t t = 0; t < static_cast<std::int32_t>(call.response_token_ids.size()); ++t) {
      add(call.response_token_ids[static_cast<std::size_t>(t)], Part::response, j, t >= end);
    }
  }
}

/// protocol.md section 3, sentence by sentence.
bool sees(const Token& row, const Token& other, HistoryState state) {
  if (row.trajectory != other.trajectory || other.position > row.position) {
    return false;
  }
  if (state == HistoryState::persistent_history) {
    return true;
  }
  if (row.part != Part::response) {
    return row.part == other.part && row.call == other.call;
  }
  switch (other.part) {
    case Part::question:
      return true;
    case Part::observation:
      return other.call == row.call - 1;
    case Part::response:
      return other.call == row.call || (other.call == row.call - 1 && other.is_after_reasoning);
  }
  return false;
}

/// (id, position) of what a row sees, in order.
std::vector<std::pair<std::int32_t, std::int32_t>> state_of(const PackedBatch& pack, std::int32_t row) {
  const auto num_tokens = static_cast<std::size_t>(pack.num_tokens());
  const std::vector<std::uint8_t> mask = dense_mask(pack);
  std::vector<std::pair<std::int32_t, std::int32_t>> state;
  for (std::size_t other = 0; other < num_tokens; ++other) {
    if (mask[static_cast<std::size_t>(row) * num_tokens + other] != 0) {
      state.emplace_back(pack.input_ids[other], pack.position_ids[other]);
    }
  }
  return state;
}

/// Whether every token of invocation `index` is predicted in the same state in both packs.
bool same_states(const PackedBatch& a, const PackedBatch& b, std::size_t index) {
  const PackedInvocation& of_a = a.invocations[index];
  const PackedInvocation& of_b = b.invocations[index];
  bool is_same = of_a.response_end - of_a.response_begin == of_b.response_end - of_b.response_begin;
  for (std::int32_t t = 0; is_same && t < of_a.response_end - of_a.response_begin; ++t) {
    is_same = state_of(a, a.response_index[static_cast<std::size_t>(of_a.response_begin + t)]) ==
              state_of(b, b.response_index[static_cast<std::size_t>(of_b.response_begin + t)]);
  }
  return is_same;
}

}  // namespace

TEST_CASE("a persistent history lays the worked example out in 12 causal rows at running positions",
          "[alignpack][history][AP-1][AP-4]") {
  const auto packs = pack_one(worked_example(), HistoryState::persistent_history);

  REQUIRE(packs);
  REQUIRE(packs->size() == 1);
  const PackedBatch& pack = packs->front();
  CHECK(pack.input_ids == Ints{1, 2, 103, 104, 105, 206, 207, 108, 109, 210, 111, 112});
  CHECK(pack.position_ids == Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(pack.cu_seqlens_q == Ints{0, 12});
  CHECK(pack.cu_seqlens_k == Ints{0, 12});
  CHECK(pack.kv_index == pack.position_ids);
  CHECK(pack.response_index == Ints{1, 2, 3, /**/ 6, 7, /**/ 9, 10});
  CHECK(pack.response_token_ids == Ints{103, 104, 105, /**/ 108, 109, /**/ 111, 112});
}

TEST_CASE("the memory mask shows a call the question, the last action and its observation, and observations nothing",
          "[alignpack][history][AP-1][AP-4]") {
  const auto packs = pack_one(worked_example(), HistoryState::memory_mask);

  REQUIRE(packs);
  const PackedBatch& pack = packs->front();
  CHECK(pack.input_ids == Ints{1, 2, 103, 104, 105, 206, 207, 108, 109, 210, 111, 112});
  CHECK(pack.position_ids == Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(pack.cu_seqlens_q == Ints{0, 5, 7, 9, 10, 12});
  CHECK(pack.kv_index == Ints{0,
                              1,
                              2,
                              3,
                              4,
                              /* o_0 */ 5,
                              6,
                              /* a_1: q r_0 o_0 */ 0,
                              1,
                              4,
                              5,
                              6,
                              7,
                              8,
                              /* o_1 */ 9,
                              /* a_2: q r_1 o_1 */ 0,
                              1,
                              8,
                              9,
                              10,
                              11});
  CHECK(pack.cu_seqlens_k == Ints{0, 5, 7, 14, 15, 21});
  CHECK(pack.response_index == Ints{1, 2, 3, /**/ 6, 7, /**/ 9, 10});
}

TEST_CASE("the row that predicts the first token of a call sees the observation alone under the memory mask",
          "[alignpack][history][AP-4]") {
  const PackedBatch pack = pack_one(worked_example(), HistoryState::memory_mask)->front();
  CHECK(state_of(pack, pack.response_index[3]) ==
        std::vector<std::pair<std::int32_t, std::int32_t>>{{206, 5}, {207, 6}});
  CHECK(state_of(pack, pack.response_index[5]) == std::vector<std::pair<std::int32_t, std::int32_t>>{{210, 9}});
}

TEST_CASE("packed histories equal a dense mask made from the text of the rule, on random trajectories",
          "[alignpack][history]") {
  SplitMix random(17);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const std::vector<Trajectory> trajectories{random_trajectory(random, 0), random_trajectory(random, 1),
                                               random_trajectory(random, 2)};
    std::vector<Token> tokens;
    std::vector<const Trajectory*> pointers;
    std::vector<const Invocation*> calls;
    for (std::size_t i = 0; i < trajectories.size(); ++i) {
      pointers.push_back(&trajectories[i]);
      if (num_response_tokens(trajectories[i]) > 0) {
        append_tokens(trajectories[i], i, tokens);
        for (const Invocation& one : trajectories[i].invocations) {
          if (!one.response_token_ids.empty()) {
            calls.push_back(&one);
          }
        }
      }
    }
    for (const HistoryState state : {HistoryState::persistent_history, HistoryState::memory_mask}) {
      const auto packs = pack_histories(pointers, state, {.max_tokens = 10000}, hashed_end);

      REQUIRE(packs);
      if (tokens.empty()) {
        CHECK(packs->empty());
        continue;
      }
      const PackedBatch& pack = packs->front();
      REQUIRE(validate(pack));
      REQUIRE(pack.input_ids.size() == tokens.size());
      const std::vector<std::uint8_t> mask = dense_mask(pack);
      bool is_equal = true;
      for (std::size_t row = 0; row < tokens.size(); ++row) {
        CHECK(pack.input_ids[row] == tokens[row].id);
        CHECK(pack.position_ids[row] == tokens[row].position);
        for (std::size_t other = 0; other < tokens.size(); ++other) {
          is_equal = is_equal && (mask[row * tokens.size() + other] != 0) == sees(tokens[row], tokens[other], state);
        }
      }
      CHECK(is_equal);
      REQUIRE(pack.invocations.size() == calls.size());
      for (std::size_t i = 0; i < calls.size(); ++i) {
        CHECK(pack.invocations[i].trajectory_id == calls[i]->trajectory_id);
        CHECK(pack.invocations[i].invocation_index == calls[i]->invocation_index);
        REQUIRE(pack.invocations[i].response_end - pack.invocations[i].response_begin ==
                static_cast<std::int32_t>(calls[i]->response_token_ids.size()));
        for (std::size_t t = 0; t < calls[i]->response_token_ids.size(); ++t) {
          const auto r = static_cast<std::size_t>(pack.invocations[i].response_begin) + t;
          const auto row = static_cast<std::size_t>(pack.response_index[r]) + 1;
          CHECK(pack.response_token_ids[r] == calls[i]->response_token_ids[t]);
          CHECK(pack.input_ids[row] == calls[i]->response_token_ids[t]);
          CHECK(tokens[row].call == calls[i]->invocation_index);
        }
      }
    }
  }
}

TEST_CASE("where all of a_0 is kept, calls 0 and 1 of a persistent history are as sampled and later ones are not",
          "[alignpack][history][AP-6]") {
  const Trajectory example = worked_example();
  const PackedBatch truth = align_pack({&example, 1}, {.share_prefixes = false})->front();
  const PackedBatch flat = pack_one(example, HistoryState::persistent_history)->front();
  CHECK(same_states(truth, flat, 0));
  CHECK(same_states(truth, flat, 1));
  CHECK_FALSE(same_states(truth, flat, 2));
}

TEST_CASE("under the memory mask call 0 alone is as sampled", "[alignpack][history][AP-6]") {
  const Trajectory example = worked_example();
  const PackedBatch truth = align_pack({&example, 1}, {.share_prefixes = false})->front();
  const PackedBatch masked = pack_one(example, HistoryState::memory_mask)->front();
  CHECK(same_states(truth, masked, 0));
  CHECK_FALSE(same_states(truth, masked, 1));
  CHECK_FALSE(same_states(truth, masked, 2));
}

TEST_CASE("only the observation after the last kept span is new to a history", "[alignpack][history][AP-1]") {
  // A prompt that shows the whole past: q, kept a_0, o_0, kept a_1, o_1.
  Trajectory shown = worked_example();
  Invocation& last = shown.invocations[2];
  last.prompt_token_ids = {1, 2, 103, 104, 105, 206, 207, 108, 109, 210};
  last.spans = {{0, 2, SpanKind::question},
                {2, 5, SpanKind::kept},
                {5, 7, SpanKind::observation},
                {7, 9, SpanKind::kept},
                {9, 10, SpanKind::observation}};
  CHECK(pack_one(shown, HistoryState::persistent_history)->front().input_ids ==
        pack_one(worked_example(), HistoryState::persistent_history)->front().input_ids);
}

TEST_CASE("a call without response tokens leaves its observation in the history and has no entry",
          "[alignpack][history]") {
  const Trajectory silent = trajectory(3, {call({1}, {}, {}, {101}), call({1}, {101}, {201}, {}),
                                           call({1}, {}, {202}, {103}), call({1}, {103}, {204}, {})});
  const PackedBatch pack = pack_one(silent, HistoryState::persistent_history)->front();
  CHECK(pack.input_ids == Ints{1, 101, 201, 202, 103, 204});
  REQUIRE(pack.invocations.size() == 2);
  CHECK(pack.invocations[1].invocation_index == 2);
  CHECK(pack.response_index == Ints{0, 3});
}

TEST_CASE("a history is never split: a pack is closed by the first that does not fit", "[alignpack][history]") {
  const std::vector<Trajectory> three{worked_example(), worked_example(), worked_example()};
  const std::vector<const Trajectory*> pointers{&three[0], &three[1], &three[2]};
  const auto packs = pack_histories(pointers, HistoryState::persistent_history, {.max_tokens = 24});
  REQUIRE(packs);
  REQUIRE(packs->size() == 2);
  CHECK((*packs)[0].num_tokens() == 24);
  CHECK((*packs)[0].cu_seqlens_q == Ints{0, 12, 24});
  CHECK((*packs)[0].position_ids[12] == 0);
  CHECK((*packs)[1].invocations.size() == 3);
}

TEST_CASE("what cannot be a history is refused by name", "[alignpack][history][error]") {
  Trajectory broken = worked_example();
  const auto error_of = [&](HistoryState state, const AlignPackOptions& options = {},
                            const ReasoningEnd& reasoning_end = all_but_the_last) {
    const auto packs = pack_one(broken, state, options, reasoning_end);
    REQUIRE_FALSE(packs);
    return packs.error();
  };
  SECTION("more rows than a pack holds") {
    const Error error = error_of(HistoryState::persistent_history, {.max_tokens = 11});
    CHECK(error.code == ErrorCode::invocation_too_long);
    CHECK(error.message == "trajectory train.0.7.0: 12 tokens of its history exceed max_tokens 11");
  }
  SECTION("a span outside its prompt") {
    broken.invocations[1].spans.back().end = 9;
    CHECK(error_of(HistoryState::persistent_history).message ==
          "trajectory train.0.7.0, invocation 1: span 5 .. 9 in a prompt of 7 tokens");
  }
  SECTION("a reasoning that ends beyond its response") {
    const auto beyond = [](const Invocation&) { return 3; };
    CHECK(error_of(HistoryState::memory_mask, {}, beyond).message ==
          "trajectory train.0.7.0, invocation 1: the reasoning ends at 3, allowed 0 .. 2");
  }
  SECTION("nobody who knows where the reasoning ends") {
    CHECK(error_of(HistoryState::memory_mask, {}, {}).code == ErrorCode::invalid_argument);
  }
  SECTION("a negative id") {
    broken.invocations[2].response_token_ids[1] = -4;
    CHECK(error_of(HistoryState::persistent_history).message ==
          "trajectory train.0.7.0: token 11 of its history has id -4, allowed >= 0");
  }
  SECTION("an empty first prompt") {
    broken.invocations[0].prompt_token_ids.clear();
    broken.invocations[0].spans.clear();
    CHECK(error_of(HistoryState::persistent_history).message ==
          "trajectory train.0.7.0, invocation 0: the prompt is empty");
  }
  SECTION("a pack that holds nothing") {
    CHECK(error_of(HistoryState::persistent_history, {.max_tokens = 0}).message == "max_tokens is 0, allowed >= 1");
  }
}

}  // namespace memopd
