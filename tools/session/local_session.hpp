// A run's actors in this process, and the few things a command asks of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/evaluation.hpp"
#include "actors/messages.hpp"
#include "actors/roles.hpp"
#include "runtime/actor/cluster.hpp"
#include "runtime/cluster/head.hpp"
#include "runtime/config/schema.hpp"
#include "tools/session/node_plan.hpp"

namespace memopd {

/// How the processes of a run are started and linked, as its configuration says.
[[nodiscard]] ProcessClusterOptions process_options(const Config& config, const RoleSelection& selection,
                                                    const std::vector<PlannedNode>& nodes);

class LocalSession {
 public:
  /// Spawns the selected roles. @param nodes  where processes may live, if [[role]] asks for any; none = this host
  static Expected<std::unique_ptr<LocalSession>> start(const Config& config, const RoleSelection& selection,
                                                       const std::vector<PlannedNode>& nodes = {});
  ~LocalSession();

  /// Runs tasks and waits. @error the first failure of any actor, with its name and cause
  Expected<TasksDone> run(std::vector<RunTask> tasks);
  /// The same without waiting; collect with wait_for.
  [[nodiscard]] Future<TasksDone> begin(std::vector<RunTask> tasks);
  Expected<TasksDone> finish(Future<TasksDone>& future);

  /// Closes a step without a teacher: what the trajectories recorded, in id order.
  Expected<std::shared_ptr<const StepBatch>> close_step(std::int32_t step, std::vector<TrajectoryId> ids);
  /// Gives weights to every student.
  Expected<void> publish(std::shared_ptr<const WeightSet> weights);
  /// Evaluates on every split of [eval].
  Expected<EvaluationResult> evaluate(const EvaluationRequest& request);

  [[nodiscard]] Cluster& cluster() { return *cluster_; }
  /// The processes of the session; null when it has none but this one.
  [[nodiscard]] HeadCluster* processes() { return dynamic_cast<HeadCluster*>(cluster_.get()); }
  [[nodiscard]] const ActorRef& coordinator() const { return coordinator_; }
  /// "env/0: cause" once an actor has failed.
  [[nodiscard]] std::string first_failure() const;

 private:
  LocalSession(Config config, std::unique_ptr<Cluster> cluster);

  Config config_;
  std::unique_ptr<Cluster> cluster_;
  ActorRef coordinator_;
  std::unique_ptr<TaskSource> tasks_;
};

/// Waits for `future`, but no longer than until an actor of the session fails.
template <class R>
Expected<R> wait_or_first_failure(Future<R>& future, const LocalSession& session) {
  while (!future.wait_for(std::chrono::milliseconds(100))) {
    if (const std::string failure = session.first_failure(); !failure.empty()) {
      return unexpected(ErrorCode::target_down, failure);
    }
  }
  auto result = future.get();
  if (const std::string failure = session.first_failure(); !result && !failure.empty()) {
    return unexpected(ErrorCode::target_down, failure);
  }
  return result;
}

}  // namespace memopd
