#include "actors/alarm_watch.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace memopd;

namespace {

std::vector<std::string> names(const std::vector<Alarm>& alarms) {
  std::vector<std::string> result;
  for (const Alarm& alarm : alarms) {
    result.push_back(alarm.name);
  }
  return result;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("each limit raises its own alarm and names its setting", "[alarms][pain:T29]") {
  AlarmWatch watch({}, true);
  const auto alarms = watch.check({{"train/entropy", 0.001},
                                   {"train/repeat_frac", 0.5},
                                   {"train/truncated_frac", 0.9},
                                   {"train/grad_norm", 1e3},
                                   {"ppo/approx_kl", 1.0},
                                   {"train/rollout_gap", 0.2}});
  CHECK(names(alarms) == Names{"entropy_low", "repeats", "truncation", "grad_norm", "approx_kl", "rollout_gap"});
  CHECK(alarms.front().setting == "alarms.min_entropy");
  CHECK(alarms.front().limit == 0.002);
  CHECK(alarms.front().value == 0.001);
}

TEST_CASE("values within their limits and absent metrics raise nothing", "[alarms]") {
  AlarmWatch watch({}, true);
  CHECK(watch.check({{"train/entropy", 1.0}, {"train/grad_norm", 2.0}, {"train/rollout_gap", 1e-6}}).empty());
  CHECK(watch.check({}).empty());
}

TEST_CASE("a metric that is not a number raises its alarm", "[alarms]") {
  AlarmWatch watch({}, true);
  CHECK(names(watch.check({{"train/grad_norm", std::nan("")}})) == Names{"grad_norm"});
}

TEST_CASE("an alarm is raised once while its condition holds, and again after it ceased", "[alarms]") {
  AlarmWatch watch({}, true);
  CHECK(watch.check({{"train/grad_norm", 1e3}}).size() == 1);
  CHECK(watch.check({{"train/grad_norm", 1e3}}).empty());
  CHECK(watch.check({{"train/grad_norm", 1.0}}).empty());
  CHECK(watch.check({{"train/grad_norm", 1e3}}).size() == 1);
}

TEST_CASE("a gap that grows over where it began raises an alarm even far below its limit", "[alarms][pain:T11]") {
  AlarmWatch watch({}, true);
  for (int step = 0; step < 5; ++step) {
    CHECK(watch.check({{"train/rollout_gap", 1e-6}}).empty());
  }
  CHECK(watch.check({{"train/rollout_gap", 9e-6}}).empty());
  CHECK(names(watch.check({{"train/rollout_gap", 1.1e-5}})) == Names{"rollout_gap_growth"});
}

TEST_CASE("with lag the gap measures the lag and raises nothing", "[alarms]") {
  AlarmWatch watch({}, false);
  CHECK(watch.check({{"train/rollout_gap", 5.0}}).empty());
}

TEST_CASE("a restored watch measures growth against the first values of the run", "[alarms][CL-3]") {
  AlarmWatch first({}, true);
  for (int step = 0; step < 5; ++step) {
    (void)first.check({{"train/entropy", 0.5}});
  }
  AlarmWatch resumed({}, true);
  resumed.restore(first.first_values());
  CHECK(names(resumed.check({{"train/entropy", 2.0}})) == Names{"entropy_growth"});
}
