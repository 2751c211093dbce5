#include "actors/alarm_watch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace memopd {
namespace {

constexpr std::size_t kNumFirstValues = 5;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

AlarmWatch::AlarmWatch(const AlarmsConfig& limits, bool is_lag_free) {
  rules_ = {
      {"entropy_low", "train/entropy", "alarms.min_entropy", limits.min_entropy, true, false},
      {"entropy_growth", "train/entropy", "alarms.max_entropy_growth", limits.max_entropy_growth, false, true},
      {"repeats", "train/repeat_frac", "alarms.max_repeat_frac", limits.max_repeat_frac, false, false},
      {"truncation", "train/truncated_frac", "alarms.max_truncated_frac", limits.max_truncated_frac, false, false},
      {"grad_norm", "train/grad_norm", "alarms.max_grad_norm", limits.max_grad_norm, false, false},
      {"approx_kl", "ppo/approx_kl", "alarms.max_approx_kl", limits.max_approx_kl, false, false},
  };
  if (is_lag_free) {
    rules_.push_back(
        {"rollout_gap", "train/rollout_gap", "alarms.max_rollout_gap", limits.max_rollout_gap, false, false});
    rules_.push_back(
        {"rollout_gap_growth", "train/rollout_gap", "alarms.max_gap_growth", limits.max_gap_growth, false, true});
  }
}

double AlarmWatch::limit_of(const Rule& rule) const {
  if (!rule.is_growth) {
    return rule.limit;
  }
  const auto first = first_values_.find(rule.metric);
  if (first == first_values_.end() || first->second.size() < kNumFirstValues) {
    return std::numeric_limits<double>::infinity();
  }
  return rule.limit * median(first->second);
}

std::vector<Alarm> AlarmWatch::check(const std::map<std::string, double>& metrics) {
  std::vector<Alarm> alarms;
  for (const Rule& rule : rules_) {
    const auto metric = metrics.find(rule.metric);
    if (metric == metrics.end()) {
      continue;
    }
    const double limit = limit_of(rule);
    const bool is_bad = std::isnan(metric->second) || (rule.is_floor ? metric->second < limit : metric->second > limit);
    if (!is_bad) {
      raised_.erase(rule.name);
    } else if (raised_.insert(rule.name).second) {
      alarms.push_back({rule.name, rule.metric, metric->second, limit, rule.setting});
    }
  }
  for (const Rule& rule : rules_) {
    const auto metric = metrics.find(rule.metric);
    if (!rule.is_growth || metric == metrics.end() || !std::isfinite(metric->second)) {
      continue;
    }
    std::vector<double>& first = first_values_[rule.metric];
    if (first.size() < kNumFirstValues) {
      first.push_back(metric->second);
    }
  }
  return alarms;
}

}  // namespace memopd
