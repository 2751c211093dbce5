#include "tests/support/restarting_cluster.hpp"

#include "runtime/actor/detail/address.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/random.hpp"

namespace memopd::testing {

RestartingCluster::RestartingCluster(std::uint64_t seed, std::int32_t restart_after_ms)
    : seed_(seed), restart_after_ms_(restart_after_ms), supervisor_({{"local", 1, 1, {}}}, std::chrono::hours(1)) {
  supervisor_.node_up("local", {});
  cluster_ = make_deterministic_cluster({.is_returning = [this](const Down& down) { return is_returning(down); }});
}

ActorRef RestartingCluster::find(const std::string& name) const {
  const auto slash = name.find('/');
  return (*cluster_->find(name.substr(0, slash)))[static_cast<std::size_t>(std::stoi(name.substr(slash + 1)))];
}

/// An actor that the supervisor has not heard of runs: it was spawned before any supervision.
void RestartingCluster::adopt(const std::string& name) {
  const std::string group = name.substr(0, name.find('/'));
  const std::uint64_t draw = chain_seed(seed_, {supervisor_.directory().version()});
  const RestartPolicy policy{200, std::chrono::hours(1),
                             std::chrono::milliseconds(1 + draw % static_cast<std::uint64_t>(restart_after_ms_))};
  MEMOPD_CHECK(supervisor_.add_processes({{{name, group, 0, 0, {}, PlacementRule::pack}, policy}}, cluster_->now()),
               "a process that takes no room was not placed");
  (void)supervisor_.add_group({{name, name, group, 0, 1, false, 1, name}}, cluster_->now());
  (void)supervisor_.take_actions();
  (void)supervisor_.said_hello(name, 1, {}, {"in this process"});
  supervisor_.hosted(name, 1, name, std::nullopt);
}

bool RestartingCluster::is_returning(const Down& down) {
  if (down.name.starts_with("coordinator/")) {
    return false;
  }
  if (supervisor_.directory().process(down.name) == nullptr) {
    adopt(down.name);
  }
  const ProcessEntry before = *supervisor_.directory().process(down.name);
  supervisor_.exited(down.name, before.incarnation, {down.reason, 137, false, {}, 0, ""}, cluster_->now());
  cluster_->call_after(std::chrono::milliseconds(1), [this] { turn(); });
  return supervisor_.directory().process(down.name)->state == ProcessState::waiting;
}

/// What the head does each few milliseconds, as long as something is to come.
void RestartingCluster::turn() {
  supervisor_.tick(cluster_->now());
  for (const SupervisorAction& action : supervisor_.take_actions()) {
    ++num_restarts_;
    const ActorRef actor = find(action.process);
    if (cluster_->restart(actor)) {
      MEMOPD_CHECK(actor.address()->incarnation() == action.incarnation,
                   "supervisor and actor count starts differently");
      (void)supervisor_.said_hello(action.process, action.incarnation, {}, {"in this process"});
      supervisor_.hosted(action.process, action.incarnation, action.process, std::nullopt);
    }
  }
  if (!supervisor_.describe_missing(cluster_->now()).empty()) {
    cluster_->call_after(std::chrono::milliseconds(1), [this] { turn(); });
  }
}

void RestartingCluster::kill_in(std::chrono::milliseconds delay, const std::string& name) {
  cluster_->call_after(delay, [this, actor = find(name)] {
    if (actor.is_alive()) {
      cluster_->kill(actor, "by the test");
    }
  });
}

}  // namespace memopd::testing
