// What makes an operator look at a run: limits on the metrics of each step, and growth over where the run began.
//
// An alarm is raised when its condition begins to hold and again only after it has ceased: a run that stays bad is not
// a thousand lines. Growth is measured against the median of the first five steps that have the metric.
// Metrics read (absent ones raise nothing): train/rollout_gap (lag 0 only), train/entropy, train/repeat_frac,
// train/truncated_frac, train/grad_norm, ppo/approx_kl.
// No actor, no thread, no clock.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/config/schema.hpp"

namespace memopd {

struct Alarm {
  std::string name;     ///< "rollout_gap", "entropy_low", ..: stable, for scripts
  std::string metric;   ///< "train/rollout_gap"
  double value = 0;     ///< of this step
  double limit = 0;     ///< that it passed
  std::string setting;  ///< "alarms.max_rollout_gap": where the limit comes from
};

class AlarmWatch {
 public:
  /// @param is_lag_free  false: rollout and learner differ by their weights, so the gap says nothing
  AlarmWatch(const AlarmsConfig& limits, bool is_lag_free);

  /// Alarms that begin with this step.
  std::vector<Alarm> check(const std::map<std::string, double>& metrics);

  /// First values by metric, to go on after a resume as if nothing had happened.
  [[nodiscard]] const std::map<std::string, std::vector<double>>& first_values() const { return first_values_; }
  void restore(std::map<std::string, std::vector<double>> first_values) { first_values_ = std::move(first_values); }

 private:
  struct Rule {
    std::string name;
    std::string metric;
    std::string setting;
    double limit = 0;
    bool is_floor = false;   ///< alarm below the limit instead of above
    bool is_growth = false;  ///< limit is a factor on the median of the first values
  };

  [[nodiscard]] double limit_of(const Rule& rule) const;

  std::vector<Rule> rules_;
  std::map<std::string, std::vector<double>> first_values_;
  std::set<std::string> raised_;
};

}  // namespace memopd
