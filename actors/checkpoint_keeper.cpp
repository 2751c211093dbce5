#include "actors/checkpoint_keeper.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace memopd {
namespace {

namespace fs = std::filesystem;

std::optional<std::int32_t> step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  std::int32_t step = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && rest == end && step >= 0 ? std::optional(step) : std::nullopt;
}

}  // namespace

std::vector<std::int32_t> complete_checkpoints(const fs::path& folder) {
  std::vector<std::int32_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && fs::exists(entry.path() / "state.json", error)) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

CheckpointKeeper::CheckpointKeeper(fs::path folder, std::int32_t keep)
    : folder_(std::move(folder)), keep_(static_cast<std::size_t>(keep)), steps_(complete_checkpoints(folder_)) {}

fs::path CheckpointKeeper::path(std::int32_t step) const { return folder_ / ("step-" + std::to_string(step)); }

bool CheckpointKeeper::has(std::int32_t step) const { return std::binary_search(steps_.begin(), steps_.end(), step); }

std::optional<std::int32_t> CheckpointKeeper::newest() const {
  return steps_.empty() ? std::nullopt : std::optional(steps_.back());
}

void CheckpointKeeper::saved(std::int32_t step) {
  if (!has(step)) {
    steps_.insert(std::upper_bound(steps_.begin(), steps_.end(), step), step);
  }
  prune();
}

void CheckpointKeeper::evaluated(std::int32_t step, double value) {
  if (has(step) && (!best_ || value > best_->value)) {
    best_ = {step, value};
    prune();
  }
}

void CheckpointKeeper::restore_best(std::optional<Best> best) { best_ = best && has(best->step) ? best : std::nullopt; }

void CheckpointKeeper::drop_after(std::int32_t step) {
  while (!steps_.empty() && steps_.back() > step) {
    remove(steps_.back());
    steps_.pop_back();
  }
}

void CheckpointKeeper::remove(std::int32_t step) const {
  std::error_code ignored;
  fs::path doomed = path(step);
  doomed += ".deleting";
  fs::rename(path(step), doomed, ignored);
  fs::remove_all(doomed, ignored);
}

void CheckpointKeeper::prune() {
  std::size_t num_old = steps_.size() > keep_ ? steps_.size() - keep_ : 0;
  std::vector<std::int32_t> kept;
  for (const std::int32_t step : steps_) {
    const bool is_old = num_old > 0;
    num_old -= is_old ? 1 : 0;
    if (is_old && !(best_ && best_->step == step)) {
      remove(step);
    } else {
      kept.push_back(step);
    }
  }
  steps_ = std::move(kept);
}

}  // namespace memopd
