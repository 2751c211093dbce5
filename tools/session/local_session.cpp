#include "tools/session/local_session.hpp"

#include <utility>

#include "actors/coordinator_actor.hpp"
#include "policies/model/thread_settings.hpp"
#include "tools/session/run_inputs.hpp"

namespace memopd {

ProcessClusterOptions process_options(const Config& config, const RoleSelection& selection,
                                      const std::vector<PlannedNode>& nodes) {
  ProcessClusterOptions options;
  options.links.heartbeat_ms = config.net.heartbeat_ms;
  options.links.dead_after_ms = config.net.dead_after_ms;
  options.links.lease_ms = config.net.lease_ms;
  options.links.tcp_host = config.net.host;
  options.links.port_lo = config.net.ports.empty() ? 0 : config.net.ports[0];
  options.links.port_hi = config.net.ports.empty() ? 0 : config.net.ports[1];
  options.links.encrypt_bulk = config.net.encrypt_bulk;
  options.nodes = capacities(nodes);
  options.remote = remote_nodes(nodes);
  options.inputs = run_inputs(config);
  options.start_timeout = std::chrono::seconds(config.net.start_timeout_s);
  options.num_threads = config.run.num_threads;
  if (!selection.run_directory.empty()) {
    options.log_folder = selection.run_directory + "/logs";
  }
  return options;
}

namespace {

constexpr std::chrono::hours kNoDeadline{24};

/// One process, or several as [[role]] says.
Expected<std::unique_ptr<Cluster>> make_session_cluster(const Config& config, const RoleSelection& selection,
                                                        const std::vector<PlannedNode>& nodes) {
  if (config.role.empty()) {
    return make_local_cluster({.threads = config.run.num_threads});
  }
  auto cluster = make_process_cluster(process_options(config, selection, nodes));
  MEMOPD_RETURN_IF_ERROR(cluster);
  MEMOPD_RETURN_IF_ERROR((*cluster)->wait_for_nodes(std::chrono::seconds(config.net.start_timeout_s)));
  return std::unique_ptr<Cluster>(*std::move(cluster));
}

}  // namespace

LocalSession::LocalSession(Config config, std::unique_ptr<Cluster> cluster)
    : config_(std::move(config)), cluster_(std::move(cluster)) {}

LocalSession::~LocalSession() { cluster_->shutdown(); }

Expected<std::unique_ptr<LocalSession>> LocalSession::start(const Config& config, const RoleSelection& selection,
                                                            const std::vector<PlannedNode>& nodes) {
  set_operation_threads(1);
  auto cluster = make_session_cluster(config, selection, nodes);
  if (!cluster) {
    return unexpected(cluster.error());
  }
  std::unique_ptr<LocalSession> session(new LocalSession(config, *std::move(cluster)));
  auto coordinator = spawn_roles(*session->cluster_, config, selection);
  if (!coordinator) {
    return unexpected(coordinator.error());
  }
  session->coordinator_ = *coordinator;
  auto tasks = open_task_source(config.env.front());
  if (!tasks) {
    return unexpected(tasks.error());
  }
  session->tasks_ = *std::move(tasks);
  return session;
}

Expected<TasksDone> LocalSession::run(std::vector<RunTask> tasks) {
  auto future = begin(std::move(tasks));
  return finish(future);
}

Future<TasksDone> LocalSession::begin(std::vector<RunTask> tasks) {
  return cluster_->ask<TasksDone>(coordinator_, RunTasks{std::move(tasks)}, kNoDeadline);
}

Expected<TasksDone> LocalSession::finish(Future<TasksDone>& future) { return wait_or_first_failure(future, *this); }

Expected<std::shared_ptr<const StepBatch>> LocalSession::close_step(std::int32_t step, std::vector<TrajectoryId> ids) {
  auto align_pack = cluster_->find("align_pack");
  if (!align_pack) {
    return unexpected(align_pack.error());
  }
  auto future = cluster_->ask<StepClosed>((*align_pack)[0], CloseStep{0, step, 0, std::move(ids)}, kNoDeadline);
  auto closed = wait_or_first_failure(future, *this);
  if (!closed) {
    return unexpected(closed.error());
  }
  auto batch = cluster_->objects().get<StepBatch>(closed->batch);
  cluster_->objects().release_scope({ScopeKind::step, step});
  return batch;
}

Expected<void> LocalSession::publish(std::shared_ptr<const WeightSet> weights) {
  const Scope scope{ScopeKind::version, weights->policy_version};
  const ObjectRef object = cluster_->objects().put(std::move(weights), scope);
  auto students = cluster_->find("student");
  if (!students) {
    return unexpected(students.error());
  }
  for (const ActorRef& student : *students) {
    auto future = cluster_->ask<WeightsLoaded>(student, LoadWeights{object}, kNoDeadline);
    if (auto loaded = wait_or_first_failure(future, *this); !loaded) {
      return unexpected(loaded.error());
    }
  }
  cluster_->objects().release_scope(scope);
  return {};
}

Expected<EvaluationResult> LocalSession::evaluate(const EvaluationRequest& request) {
  auto tasks = evaluation_tasks(config_.eval, *tasks_, request);
  if (!tasks) {
    return unexpected(tasks.error());
  }
  auto done = run(*std::move(tasks));
  if (!done) {
    return unexpected(done.error());
  }
  return summarize(config_.eval, request, done->trajectories);
}

std::string LocalSession::first_failure() const {
  const auto failure = cluster_->first_failure();
  return failure ? failure->name + ": " + failure->reason : std::string();
}

}  // namespace memopd
