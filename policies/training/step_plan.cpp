#include "policies/training/step_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/alignpack/history_pack.hpp"
#include "runtime/base/random.hpp"

namespace memopd {
namespace {

using ScoreTable = std::map<std::tuple<TrajectoryId, std::int32_t, std::int32_t>, const ScoreRef*, std::less<>>;

Expected<void> check_score(const Invocation& invocation, const ScoreRef& score, const SelectionRules& rules) {
  const std::int64_t num_rows = std::int64_t{score.row_end} - score.row_begin;
  if (score.row_begin < 0 || num_rows != static_cast<std::int64_t>(invocation.response_token_ids.size())) {
    return unexpected(ErrorCode::row_count_mismatch,
                      name_of(invocation) + ": " + std::to_string(num_rows) + " teacher rows, " +
                          std::to_string(invocation.response_token_ids.size()) + " response tokens");
  }
  if (score.head_fingerprint != rules.head_fingerprint) {
    return unexpected(ErrorCode::invalid_argument,
                      name_of(invocation) + ": scored for head " + std::to_string(score.head_fingerprint) +
                          ", the learner holds head " + std::to_string(rules.head_fingerprint) + " over " +
                          std::to_string(rules.scored_vocab) + " ids");
  }
  return {};
}

/// Every token has a version, none a later one than the learner's (RL-3).
Expected<void> check_versions(const Invocation& invocation, std::int64_t policy_version) {
  const auto num_tokens = static_cast<std::int64_t>(invocation.response_token_ids.size());
  std::int64_t num_versioned = 0;
  for (const VersionRun& run : invocation.policy_versions) {
    if (run.count < 0 || run.policy_version > policy_version) {
      return unexpected(ErrorCode::invalid_argument, name_of(invocation) + ": " + std::to_string(run.count) +
                                                         " tokens of policy_version " +
                                                         std::to_string(run.policy_version) + ", the learner is at " +
                                                         std::to_string(policy_version));
    }
    num_versioned += run.count;
  }
  if (num_versioned != num_tokens) {
    return unexpected(ErrorCode::invalid_argument, name_of(invocation) + ": versions of " +
                                                       std::to_string(num_versioned) + " tokens, the response has " +
                                                       std::to_string(num_tokens));
  }
  return {};
}

Expected<void> check_trajectory(const Trajectory& trajectory, const SelectionRules& rules,
                                std::int64_t policy_version) {
  for (const Invocation& invocation : trajectory.invocations) {
    MEMOPD_RETURN_IF_ERROR(check_invocation(invocation, rules));
    MEMOPD_RETURN_IF_ERROR(check_versions(invocation, policy_version));
    if (rules.needs_rollout && invocation.rollout_log_probs.size() != invocation.response_token_ids.size()) {
      return unexpected(ErrorCode::invalid_argument,
                        name_of(invocation) + ": " + std::to_string(invocation.rollout_log_probs.size()) +
                            " rollout log-probs, the response has " +
                            std::to_string(invocation.response_token_ids.size()) + " tokens");
    }
  }
  if (const std::int64_t size = rules.is_flat ? num_history_tokens(trajectory) : 0; size > rules.max_tokens) {
    return unexpected(ErrorCode::invocation_too_long,
                      "trajectory " + to_string(trajectory.id) + ": " + std::to_string(size) +
                          " tokens of its history exceed pack.max_tokens " + std::to_string(rules.max_tokens));
  }
  return {};
}

/// Empty when a score is missing.
Expected<std::vector<const ScoreRef*>> find_scores(const Trajectory& trajectory, const ScoreTable& table,
                                                   const SelectionRules& rules) {
  std::vector<const ScoreRef*> scores;
  for (const Invocation& invocation : trajectory.invocations) {
    if (invocation.response_token_ids.empty()) {
      scores.push_back(nullptr);
      continue;
    }
    const auto found = table.find(std::tuple(trajectory.id, trajectory.attempt, invocation.invocation_index));
    if (found == table.end()) {
      return std::vector<const ScoreRef*>();
    }
    MEMOPD_RETURN_IF_ERROR(check_score(invocation, *found->second, rules));
    scores.push_back(found->second);
  }
  return scores;
}

}  // namespace

std::string name_of(const Invocation& invocation) {
  return "trajectory " + to_string(invocation.trajectory_id) + ", invocation " +
         std::to_string(invocation.invocation_index);
}

std::int64_t oldest_version(const Trajectory& trajectory) {
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
  for (const Invocation& invocation : trajectory.invocations) {
    for (const VersionRun& run : invocation.policy_versions) {
      oldest = run.count > 0 ? std::min(oldest, run.policy_version) : oldest;
    }
  }
  return oldest;
}

Expected<void> check_invocation(const Invocation& invocation, const SelectionRules& rules) {
  const std::size_t num_tokens = invocation.prompt_token_ids.size() + invocation.response_token_ids.size();
  if (num_tokens > static_cast<std::size_t>(rules.max_tokens)) {
    return unexpected(ErrorCode::invocation_too_long, name_of(invocation) + ": " + std::to_string(num_tokens) +
                                                          " tokens exceed pack.max_tokens " +
                                                          std::to_string(rules.max_tokens));
  }
  const auto check = [&](const std::vector<std::int32_t>& ids, std::int32_t limit, const char* what) -> Expected<void> {
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= limit) {
        return unexpected(ErrorCode::invalid_argument, name_of(invocation) + ": " + what + " id " + std::to_string(id) +
                                                           " is outside [0, " + std::to_string(limit) + ")");
      }
    }
    return {};
  };
  MEMOPD_RETURN_IF_ERROR(check(invocation.prompt_token_ids, rules.vocab_size, "prompt"));
  return check(invocation.response_token_ids, rules.scored_vocab, "response");
}

Expected<Selection> select_trajectories(const StepBatch& batch, const SelectionRules& rules) {
  ScoreTable table;
  for (const ScoreRef& score : batch.scores) {
    table.emplace(std::tuple(score.trajectory_id, score.attempt, score.invocation_index), &score);
  }
  Selection selection;
  for (std::size_t i = 0; i < batch.trajectories.size(); ++i) {
    const Trajectory& trajectory = batch.trajectories[i];
    const auto drop = [&](std::string_view reason) {
      selection.dropped.push_back({trajectory.id, trajectory.attempt, std::string(reason)});
    };
    if (!is_trained(trajectory.status)) {
      drop(to_string(trajectory.status));
      continue;
    }
    if (num_response_tokens(trajectory) == 0) {
      drop("empty");
      continue;
    }
    MEMOPD_RETURN_IF_ERROR(check_trajectory(trajectory, rules, batch.policy_version));
    if (batch.policy_version - oldest_version(trajectory) > rules.max_policy_lag) {
      drop(to_string(TrajectoryStatus::stale));
      continue;
    }
    Selection::Item item{i, std::vector<const ScoreRef*>(trajectory.invocations.size(), nullptr)};
    if (rules.needs_scores) {
      Expected<std::vector<const ScoreRef*>> scores = find_scores(trajectory, table, rules);
      if (!scores) {
        return unexpected(scores.error());
      }
      if (scores->empty()) {
        drop(to_string(TrajectoryStatus::teacher_unavailable));
        continue;
      }
      item.scores = std::move(*scores);
    }
    selection.items.push_back(std::move(item));
  }
  return selection;
}

std::vector<std::vector<std::size_t>> cut_mini_batches(std::size_t count, std::int32_t size, std::uint64_t seed,
                                                       std::int32_t step) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  SplitMix random(chain_seed(seed, {hash_name("mini_batches"), static_cast<std::uint64_t>(step)}));
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[random.below(i)]);
  }
  std::vector<std::vector<std::size_t>> parts;
  for (std::size_t begin = 0; begin < count; begin += static_cast<std::size_t>(size)) {
    const std::size_t end = std::min(count, begin + static_cast<std::size_t>(size));
    parts.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                       order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return parts;
}

std::vector<std::vector<std::size_t>> split_by_tokens(std::span<const std::int64_t> num_tokens,
                                                      std::int32_t num_groups) {
  std::vector<std::size_t> longest_first(num_tokens.size());
  std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](std::size_t a, std::size_t b) { return num_tokens[a] > num_tokens[b]; });
  std::vector<std::vector<std::size_t>> groups(static_cast<std::size_t>(std::max(num_groups, 1)));
  std::vector<std::int64_t> loads(groups.size(), 0);
  for (const std::size_t item : longest_first) {
    const auto lightest = static_cast<std::size_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    groups[lightest].push_back(item);
    loads[lightest] += std::max<std::int64_t>(num_tokens[item], 1);
  }
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  for (auto& group : groups) {
    std::sort(group.begin(), group.end());
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
  return groups;
}

}  // namespace memopd
