#include "policies/training/advantages.hpp"

#include <array>
#include <cmath>

namespace memopd {

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
