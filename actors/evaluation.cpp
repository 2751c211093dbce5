#include "actors/evaluation.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/random.hpp"

namespace memopd {
namespace {

constexpr std::uint64_t kEvaluationSeed = hash_name("evaluation");

double metric_of(const TrajectoryDone& done, const std::string& name) {
  const auto found = done.metrics.find(name);
  return found == done.metrics.end() ? 0.0 : found->second;
}

}  // namespace

Expected<std::vector<RunTask>> evaluation_tasks(const EvalConfig& config, const TaskSource& source,
                                                const EvaluationRequest& request) {
  std::vector<RunTask> result;
  for (const EvalSplitConfig& split : config.splits) {
    if (request.is_interval && !split.at_intervals) {
      continue;
    }
    std::int32_t count = split.num_tasks;
    if (request.is_interval && config.interval_tasks > 0) {
      count = std::min(count, config.interval_tasks);
    }
    auto tasks = source.tasks({split.split, kEvaluationSeed, 0, count, split.num_objectives});
    if (!tasks) {
      return unexpected(tasks.error());
    }
    for (std::int32_t index = 0; index < static_cast<std::int32_t>(tasks->size()); ++index) {
      RunTask task;
      task.trajectory_id = {request.prefix + split.name, request.step, index, 0};
      task.task = std::move((*tasks)[static_cast<std::size_t>(index)]);
      task.sampling.temperature = config.temperature;
      task.sampling.max_response_tokens = config.max_response_tokens;
      task.student = request.student;
      task.seed = trajectory_seed(kEvaluationSeed, {split.name, 0, index, 0});
      task.is_training = false;
      result.push_back(std::move(task));
    }
  }
  return result;
}

EvaluationResult summarize(const EvalConfig& config, const EvaluationRequest& request,
                           const std::vector<TrajectoryDone>& done) {
  EvaluationResult result;
  for (const EvalSplitConfig& split : config.splits) {
    const std::string id_split = request.prefix + split.name;
    std::vector<double> f1;
    std::vector<double> em;
    std::map<std::string, double> sums;
    for (const TrajectoryDone& trajectory : done) {
      if (trajectory.trajectory_id.split != id_split) {
        continue;
      }
      f1.push_back(metric_of(trajectory, "f1"));
      em.push_back(metric_of(trajectory, "em"));
      for (const auto& [name, value] : trajectory.metrics) {
        sums[name] += value;
      }
      sums["failed"] += is_trained(trajectory.status) ? 0 : 1;
    }
    if (f1.empty()) {
      continue;
    }
    const double count = static_cast<double>(f1.size());
    result.summary[split.name] = bootstrap_interval(f1);
    result.summary[split.name + "_em"] = bootstrap_interval(em);
    result.summary[split.name + "_num_tasks"] = count;
    for (const auto& [name, sum] : sums) {
      result.metrics["eval/" + id_split + "/" + name] = sum / count;
    }
  }
  return result;
}

std::map<std::string, double> rollout_metrics(const std::vector<TrajectoryDone>& done) {
  std::map<std::string, double> sums;
  std::map<std::string, double> result;
  double count = 0;
  for (const TrajectoryDone& trajectory : done) {
    result["rollout/status/" + std::string(to_string(trajectory.status))] += 1.0 / static_cast<double>(done.size());
    if (!is_trained(trajectory.status)) {
      continue;
    }
    count += 1;
    for (const auto& [name, value] : trajectory.metrics) {
      sums["rollout/" + name] += value;
    }
    for (const auto& [name, value] : trajectory.rewards) {
      sums["rollout/reward/" + name] += value;
    }
  }
  for (const auto& [name, sum] : sums) {
    result[name] = sum / count;
  }
  return result;
}

}  // namespace memopd
