// Random trajectories whose contexts are rewritten as protocol mem1 does it: [q][kept(a)][o] -> a.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd::testing {

using Ints = std::vector<std::int32_t>;

/// Literal invocation; index and trajectory id are set by `trajectory`.
inline Invocation invocation(Ints prompt, Ints response) {
  Invocation result;
  result.prompt_token_ids = std::move(prompt);
  result.response_token_ids = std::move(response);
  return result;
}

/// train.0.`task_index`.0 with these invocations in call order.
inline Trajectory trajectory(std::int32_t task_index, std::vector<Invocation> invocations) {
  Trajectory result;
  result.id = {"train", 0, task_index, 0};
  for (std::size_t i = 0; i < invocations.size(); ++i) {
    invocations[i].trajectory_id = result.id;
    invocations[i].invocation_index = static_cast<std::int32_t>(i);
  }
  result.invocations = std::move(invocations);
  return result;
}

struct RandomTrajectoryOptions {
  std::int32_t vocab_size = 6;  ///< small: accidental common prefixes are frequent
  std::int32_t min_calls = 1;
  std::int32_t max_calls = 8;
  std::int32_t max_run = 6;  ///< tokens of instructions, question, observation and response each
  bool allow_empty_responses = true;
};

/// `count` trajectories that begin with the same instructions, of which a fraction has the same question too.
inline std::vector<Trajectory> random_trajectories(std::uint64_t seed, std::int32_t count,
                                                   const RandomTrajectoryOptions& options) {
  SplitMix random(splitmix64(seed));
  const auto ids = [&](std::int32_t low, std::int32_t high) {
    Ints run(static_cast<std::size_t>(low) + random.below(static_cast<std::uint64_t>(high - low + 1)));
    for (std::int32_t& id : run) {
      id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(options.vocab_size)));
    }
    return run;
  };
  const Ints instructions = ids(1, options.max_run);
  const Ints common_question = ids(1, options.max_run);
  std::vector<Trajectory> trajectories;
  for (std::int32_t t = 0; t < count; ++t) {
    Ints first = instructions;
    const Ints question = random.below(3) == 0 ? common_question : ids(1, options.max_run);
    first.insert(first.end(), question.begin(), question.end());
    const std::int32_t num_calls =
        options.min_calls +
        static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(options.max_calls - options.min_calls + 1)));
    std::vector<Invocation> calls;
    Ints prompt = first;
    for (std::int32_t call = 0; call < num_calls; ++call) {
      Ints response = ids(options.allow_empty_responses && random.below(6) == 0 ? 0 : 1, options.max_run);
      calls.push_back(invocation(prompt, response));
      // Half of the time everything is kept, so that the next call continues this one's rows.
      const std::size_t cut = random.below(2) == 0 ? 0 : random.below(response.size() + 1);
      const Ints observation = ids(0, options.max_run);
      prompt = first;
      prompt.insert(prompt.end(), response.begin() + static_cast<std::ptrdiff_t>(cut), response.end());
      prompt.insert(prompt.end(), observation.begin(), observation.end());
    }
    trajectories.push_back(trajectory(t, std::move(calls)));
  }
  return trajectories;
}

/// prompt ++ response.
inline Ints sequence_of(const Invocation& call) {
  Ints ids = call.prompt_token_ids;
  ids.insert(ids.end(), call.response_token_ids.begin(), call.response_token_ids.end());
  return ids;
}

inline std::vector<const Invocation*> invocations_of(const std::vector<Trajectory>& trajectories) {
  std::vector<const Invocation*> all;
  for (const Trajectory& each : trajectories) {
    for (const Invocation& call : each.invocations) {
      all.push_back(&call);
    }
  }
  return all;
}

}  // namespace memopd::testing
