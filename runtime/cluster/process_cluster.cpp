#include "runtime/cluster/process_cluster.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace memopd {

ProcessCluster::ProcessCluster(std::unique_ptr<Cluster> local, std::string process, std::uint64_t incarnation,
                               std::unique_ptr<ObjectStore> objects)
    : process_(std::move(process)),
      objects_(std::move(objects)),
      local_(std::move(local)),
      core_(detail::core_of(*local_)),
      links_(std::make_shared<ActorLinks>(process_, incarnation, core_)) {
  core_.set_front(this);
}

ProcessCluster::~ProcessCluster() {
  links_->close();
  (void)local_->shutdown();
}

void ProcessCluster::set_elsewhere(std::function<void(Topology&)> add,
                                   std::function<std::optional<Down>()> first_failure) {
  add_elsewhere_ = std::move(add);
  failure_elsewhere_ = std::move(first_failure);
}

void ProcessCluster::set_objects(std::unique_ptr<ObjectStore> objects) { objects_ = std::move(objects); }

Expected<void> ProcessCluster::host(const HostActors& request, std::uint64_t incarnation) {
  detail::HostedMembers members{request.actor,       request.group,       request.ranks, request.group_size,
                                request.is_blocking, request.max_mailbox, incarnation,   nullptr};
  if (request.has_init) {
    members.init =
        std::make_shared<EncodedMessage>(EncodedMessage{request.init_message, request.init_version, request.init_body});
  }
  const auto hosted = core_.host_members(members, [this](const ActorRef& actor) { links_->add_local(actor); });
  return hosted ? Expected<void>() : Expected<void>(unexpected(hosted.error()));
}

Topology ProcessCluster::own_topology() const {
  Topology topology = local_->topology();
  for (ActorStatus& actor : topology.actors) {
    actor.process = process_;
  }
  return topology;
}

Topology ProcessCluster::topology() const {
  Topology topology = own_topology();
  if (add_elsewhere_) {
    add_elsewhere_(topology);
    std::sort(topology.edges.begin(), topology.edges.end(),
              [](const EdgeStatus& a, const EdgeStatus& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); });
  }
  topology.first_failure = first_failure();
  return topology;
}

void ProcessCluster::stop(const ActorRef& actor, std::string_view reason) {
  if (!actor) {
    return;
  }
  if (&actor.address()->executor() == links_.get()) {
    links_->stop(actor, reason);
  } else {
    local_->stop(actor, reason);
  }
}

ShutdownReport ProcessCluster::shutdown(std::chrono::milliseconds patience) { return local_->shutdown(patience); }

std::optional<Down> ProcessCluster::first_failure() const {
  auto own = local_->first_failure();
  return own || !failure_elsewhere_ ? own : failure_elsewhere_();
}

SpawnedGroup ProcessCluster::spawn_any(std::string_view actor, const SpawnOptions& options, std::string_view group,
                                       Payload init) {
  if (!spawner_) {
    return unexpected(ErrorCode::refused, "spawn of group " + std::string(group) + " in process " + process_ +
                                              ": only the launcher's process spawns");
  }
  return spawner_(actor, options, group, std::move(init));
}

}  // namespace memopd
