// ProcessCluster: the Cluster of one process among several. Actors here run on its own scheduler, actors elsewhere are
// reached over ActorLinks; whoever uses it sees no difference.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/actor/cluster.hpp"
#include "runtime/cluster/actor_links.hpp"

namespace memopd {

class ProcessCluster final : public Cluster {
 public:
  /// Spawns `count` members elsewhere or here; the head's business.
  using Spawner = std::function<SpawnedGroup(std::string_view actor, const SpawnOptions& options,
                                             std::string_view group, Payload init)>;

  /// @param local    the scheduler, made by make_local_cluster
  /// @param process  name of this process in the directory
  ProcessCluster(std::unique_ptr<Cluster> local, std::string process, std::uint64_t incarnation,
                 std::unique_ptr<ObjectStore> objects);
  ~ProcessCluster() override;

  [[nodiscard]] ActorLinks& links() { return *links_; }
  [[nodiscard]] detail::ClusterCore& core() { return core_; }
  [[nodiscard]] const std::string& process() const { return process_; }
  void set_spawner(Spawner spawner) { spawner_ = std::move(spawner); }
  /// What other processes report, added to topology(); and the first failure among them.
  void set_elsewhere(std::function<void(Topology&)> add, std::function<std::optional<Down>()> first_failure);
  void set_objects(std::unique_ptr<ObjectStore> objects);

  /// Makes members of a group in this process. @error as ClusterCore::host_members
  Expected<void> host(const HostActors& request, std::uint64_t incarnation);

  [[nodiscard]] Expected<ActorGroup> find(std::string_view group) const override { return links_->find(group); }
  [[nodiscard]] ObjectStore& objects() override { return *objects_; }
  [[nodiscard]] Topology topology() const override;
  /// Of the actors in this process only.
  [[nodiscard]] Topology own_topology() const;
  void stop(const ActorRef& actor, std::string_view reason) override;
  ShutdownReport shutdown(std::chrono::milliseconds patience) override;
  [[nodiscard]] std::optional<Down> first_failure() const override;
  /// @error refused  only the launcher's process spawns
  SpawnedGroup spawn_any(std::string_view actor, const SpawnOptions& options, std::string_view group,
                         Payload init) override;
  std::shared_ptr<detail::FutureState> ask_any(const ActorRef& target, Payload message,
                                               std::chrono::milliseconds timeout) override {
    return local_->ask_any(target, std::move(message), timeout);
  }
  Expected<void> tell_any(const ActorRef& target, Payload message) override {
    return local_->tell_any(target, std::move(message));
  }

 private:
  const std::string process_;
  std::unique_ptr<ObjectStore> objects_;  // outlives the actors
  const std::unique_ptr<Cluster> local_;
  detail::ClusterCore& core_;
  const std::shared_ptr<ActorLinks> links_;
  Spawner spawner_;
  std::function<void(Topology&)> add_elsewhere_;
  std::function<std::optional<Down>()> failure_elsewhere_;
};

}  // namespace memopd
