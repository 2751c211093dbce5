#include "policies/training/advantages.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <tuple>

namespace memopd {
namespace {

constexpr double kGrpoEpsilon = 1e-6;

/// Advantages of one group of at least two, in place of its returns.
void compare(std::vector<double>& returns, Estimator estimator) {
  const auto count = static_cast<double>(returns.size());
  double sum = 0;
  for (const double value : returns) {
    sum += value;
  }
  const double mean = sum / count;
  double squares = 0;
  for (const double value : returns) {
    squares += (value - mean) * (value - mean);
  }
  const double scale =
      estimator == Estimator::grpo ? 1.0 / (std::sqrt(squares / (count - 1)) + kGrpoEpsilon) : count / (count - 1);
  for (double& value : returns) {
    value = (value - mean) * scale;
  }
}

}  // namespace

std::vector<double> token_rewards(const Trajectory& trajectory) {
  std::vector<double> rewards(static_cast<std::size_t>(num_response_tokens(trajectory)), 0.0);
  if (rewards.empty()) {
    return rewards;
  }
  std::size_t end = 0;
  for (const Invocation& invocation : trajectory.invocations) {
    end += invocation.response_token_ids.size();
    if (end > 0) {
      rewards[end - 1] += invocation.reward;
    }
  }
  if (const auto final_reward = trajectory.rewards.find("final"); final_reward != trajectory.rewards.end()) {
    rewards.back() += final_reward->second;
  }
  return rewards;
}

void gae(std::span<const double> rewards, std::span<const double> values, double gamma, double lambda,
         std::span<double> advantages, std::span<double> returns) {
  MEMOPD_CHECK(
      values.size() == rewards.size() && advantages.size() == rewards.size() && returns.size() == rewards.size(),
      "gae needs spans of one length");
  double next_value = 0;
  double next_advantage = 0;
  for (std::size_t t = rewards.size(); t-- > 0;) {
    const double delta = rewards[t] + gamma * next_value - values[t];
    next_advantage = delta + gamma * lambda * next_advantage;
    next_value = values[t];
    advantages[t] = next_advantage;
    returns[t] = next_advantage + values[t];
  }
}

Expected<Estimator> parse_estimator(std::string_view name) {
  if (name == "gae") {
    return Estimator::gae;
  }
  if (name == "grpo") {
    return Estimator::grpo;
  }
  if (name == "rloo") {
    return Estimator::rloo;
  }
  return unexpected(ErrorCode::invalid_argument, "estimator \"" + std::string(name) + "\" is none of gae, grpo, rloo");
}

GroupAdvantages group_advantages(std::span<const TrajectoryId> ids, std::span<const double> returns,
                                 Estimator estimator) {
  MEMOPD_CHECK(returns.size() == ids.size() && estimator != Estimator::gae, "groups compare one return per trajectory");
  std::map<std::tuple<std::string, std::int32_t, std::int32_t>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (std::isfinite(returns[i])) {
      groups[{ids[i].split, ids[i].step, ids[i].task_index}].push_back(i);
    }
  }
  GroupAdvantages result;
  result.advantages.assign(ids.size(), std::numeric_limits<double>::quiet_NaN());
  for (const auto& [task, members] : groups) {
    std::vector<double> values(members.size(), 0.0);
    if (members.size() == 1) {
      result.num_single_groups += 1;
    } else {
      for (std::size_t k = 0; k < members.size(); ++k) {
        values[k] = returns[members[k]];
      }
      compare(values, estimator);
    }
    for (std::size_t k = 0; k < members.size(); ++k) {
      result.advantages[members[k]] = values[k];
    }
  }
  return result;
}

Expected<void> whiten(std::span<double> advantages, std::span<const std::uint8_t> is_included, Collective& collective) {
  MEMOPD_CHECK(is_included.size() == advantages.size(), "whiten needs spans of one length");
  std::array<double, 2> sum_and_count{0, 0};
  for (std::size_t i = 0; i < advantages.size(); ++i) {
    if (is_included[i] != 0) {
      sum_and_count[0] += advantages[i];
      sum_and_count[1] += 1;
    }
  }
  MEMOPD_RETURN_IF_ERROR(collective.all_reduce_sum(std::span<double>(sum_and_count)));
  const double count = sum_and_count[1];
  const double mean = count > 0 ? sum_and_count[0] / count : 0;

  // A second pass over the deviations: a difference of large squares would lose the variance.
  double squares = 0;
  for (std::size_t i = 0; i < advantages.size(); ++i) {
    squares += is_included[i] != 0 ? (advantages[i] - mean) * (advantages[i] - mean) : 0;
  }
  MEMOPD_RETURN_IF_ERROR(collective.all_reduce_sum(std::span<double>(&squares, 1)));
  const double scale = count > 0 ? 1.0 / std::sqrt(squares / count + 1e-8) : 0;
  for (std::size_t i = 0; i < advantages.size(); ++i) {
    advantages[i] = is_included[i] != 0 ? (advantages[i] - mean) * scale : 0;
  }
  return {};
}

}  // namespace memopd
