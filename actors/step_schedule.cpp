#include "actors/step_schedule.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace memopd {

StepSchedule::StepSchedule(std::int32_t first_step, std::int32_t num_steps, std::int32_t max_lag)
    : num_trained_(first_step), num_dispatched_(first_step), end_(num_steps), max_lag_(max_lag) {}

std::optional<std::int32_t> StepSchedule::take_to_collect() {
  if (num_dispatched_ >= end_ || num_dispatched_ - num_trained_ > max_lag_) {
    return std::nullopt;
  }
  return num_dispatched_++;
}

void StepSchedule::collected(std::int32_t step) {
  MEMOPD_CHECK(step >= num_trained_ && step < num_dispatched_ && collected_.insert(step).second,
               "a step is collected once, after it was dispatched");
}

std::optional<std::int32_t> StepSchedule::take_to_train() {
  if (is_training_ || num_trained_ >= end_ || collected_.erase(num_trained_) == 0) {
    return std::nullopt;
  }
  is_training_ = true;
  return num_trained_;
}

void StepSchedule::trained() {
  MEMOPD_CHECK(is_training_, "no step is being trained");
  is_training_ = false;
  ++num_trained_;
}

void StepSchedule::stop() {
  end_ = std::min(end_, max_lag_ == 0 ? num_dispatched_ : num_trained_ + (is_training_ ? 1 : 0));
}

}  // namespace memopd
