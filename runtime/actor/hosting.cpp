// Members that are started apart from the rest of their group: those of a larger cluster that live in this process, and
// those that are started once more.
#include <algorithm>
#include <utility>

#include "runtime/actor/detail/actor_cell.hpp"
#include "runtime/actor/detail/cluster_core.hpp"
#include "runtime/base/check.hpp"

namespace memopd::detail {

Expected<Payload> ClusterCore::decode_init(const ActorClass& actor_class, const HostedMembers& members) {
  if ((actor_class.init_type == nullptr) != (members.init == nullptr)) {
    return unexpected(ErrorCode::bad_schema, "actor class \"" + actor_class.name + "\" takes " +
                                                 (members.init == nullptr ? "an" : "no") + " init message");
  }
  return members.init == nullptr ? Expected<Payload>(Payload{}) : decode_message(*members.init, *actor_class.init_type);
}

Expected<std::vector<ActorRef>> ClusterCore::host_members(const HostedMembers& members,
                                                          const std::function<void(const ActorRef&)>& announce) {
  const auto actor_class = find_actor_class(members.actor);
  if (!actor_class) {
    return unexpected(actor_class.error());
  }
  auto init = decode_init(**actor_class, members);
  if (!init) {
    return unexpected(init.error());
  }
  std::vector<std::unique_ptr<ActorCell>> cells;
  std::vector<ActorRef> refs;
  for (const std::int32_t rank : members.ranks) {
    AddressInfo info{members.group + "/" + std::to_string(rank),
                     members.group,
                     (*actor_class)->name,
                     rank,
                     members.group_size,
                     members.is_blocking,
                     members.max_mailbox};
    auto address = std::make_shared<Address>(std::move(info), *this);
    address->set_back(members.incarnation);
    cells.push_back(std::make_unique<ActorCell>(address, *this));
    if (auto made = cells.back()->construct(**actor_class, init->value.get()); !made) {
      return unexpected(made.error());
    }
    refs.push_back(cells.back()->self());
  }
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) {
      return unexpected(ErrorCode::refused, "the cluster is shutting down");
    }
    for (auto& cell : cells) {
      host(std::move(cell));
    }
    num_alive_ += static_cast<std::int64_t>(refs.size());
    groups_.push_back({members.group, ActorGroup(members.group, refs), *actor_class, *init});
  }
  for (const ActorRef& ref : refs) {
    announce(ref);
  }
  start(refs);
  return refs;
}

Expected<void> ClusterCore::respawn(const std::shared_ptr<Address>& address) {
  const ActorClass* actor_class = nullptr;
  Payload init;
  {
    const std::lock_guard lock(mutex_);
    const Group* const group = find_locked(address->info().group);
    MEMOPD_CHECK(group != nullptr, "an actor without a group");
    actor_class = group->actor_class;
    init = group->init;
  }
  std::deque<HeldEnvelope> held = address->set_back(address->incarnation() + 1);
  auto cell = std::make_unique<ActorCell>(address, *this);
  if (auto made = cell->construct(*actor_class, init.value.get()); !made) {
    cell.reset();
    address->set_ended(true, made.error().message);
    return made;
  }
  {
    const std::lock_guard lock(mutex_);
    host(std::move(cell));
    ++num_alive_;
  }
  start({ActorRef(address)});
  for (HeldEnvelope& waiting : held) {
    if (waiting.envelope.reply) {
      waiting.envelope.reply->redirect(address->incarnation());
    }
    (void)carry(waiting.from, address, std::move(waiting.envelope));
  }
  return {};
}

}  // namespace memopd::detail
