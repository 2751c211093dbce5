#include "runtime/cluster/actor_links.hpp"

#include <algorithm>
#include <utility>

#include "runtime/actor/registry.hpp"
#include "runtime/base/log.hpp"
#include "runtime/cluster/reach.hpp"

namespace memopd {
namespace {

constexpr std::chrono::milliseconds kDialAgain{200};

}  // namespace

void ActorLinks::Aftermath::add(const detail::Address::Watchers& watchers, const Down& down) {
  for (const auto& [watcher, id] : watchers) {
    notices.push_back({watcher, id, down});
  }
}

void ActorLinks::Aftermath::run() {
  for (Failed& call : failed) {
    call.slot->answer({{}, std::move(call.error)});
  }
  for (Notice& notice : notices) {
    detail::Envelope envelope;
    envelope.kind = detail::EnvelopeKind::down;
    envelope.id = notice.id;
    envelope.down = std::move(notice.down);
    notice.watcher->executor().enqueue(notice.watcher, std::move(envelope), {});
  }
}

ActorLinks::ActorLinks(std::string self, std::uint64_t incarnation, detail::ClusterCore& core)
    : self_(std::move(self)), incarnation_(incarnation), core_(core) {}

ActorLinks::~ActorLinks() = default;

void ActorLinks::connect(Transport& transport) {
  const std::lock_guard lock(mutex_);
  transport_ = &transport;
}

void ActorLinks::close() {
  Aftermath aftermath;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    transport_ = nullptr;
    for (auto& [name, process] : processes_) {
      process->entry.reason = "this process is ending";
      end_process(*process, aftermath);
    }
  }
  aftermath.run();
}

void ActorLinks::add_local(const ActorRef& actor) {
  const std::lock_guard lock(mutex_);
  local_[actor.name()] = actor.address();
}

void ActorLinks::apply(const DirectoryUpdate& update) {
  Aftermath aftermath;
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) {
      return;
    }
    directory_.apply(update);
    for (const ProcessEntry& process : update.processes) {
      if (process.name != self_) {
        auto& place = processes_[process.name];
        place = place ? std::move(place) : std::make_unique<Process>();
        apply_process(process, aftermath);
      }
    }
    for (const ActorEntry& actor : update.actors) {
      if (actor.process != self_ && !remote_.contains(actor.name)) {
        apply_actor(actor);
      }
    }
  }
  aftermath.run();
}

void ActorLinks::apply_actor(const ActorEntry& entry) {
  auto address =
      std::make_shared<detail::Address>(detail::AddressInfo{entry.name, entry.group, entry.type, entry.rank,
                                                            entry.group_size, entry.is_blocking, entry.max_mailbox},
                                        *this);
  address->set_away({});
  remote_.emplace(entry.name, address);
  auto& process = processes_[entry.process];
  process = process ? std::move(process) : std::make_unique<Process>();
  process->entry.name = entry.process;
  process->addresses.push_back(address);
  const bool is_running =
      process->entry.state == ProcessState::running || process->entry.state == ProcessState::suspect;
  if (is_running && process->is_linked && process->linked_incarnation == process->entry.incarnation) {
    (void)address->set_back(process->linked_incarnation);
    address->set_running();
  }
}

void ActorLinks::apply_process(const ProcessEntry& entry, Aftermath& aftermath) {
  Process& process = *processes_.find(entry.name)->second;
  if (entry.incarnation < process.entry.incarnation) {
    return;
  }
  const bool is_another = entry.incarnation > process.entry.incarnation && process.entry.incarnation > 0;
  process.entry = entry;
  switch (entry.state) {
    case ProcessState::ended:
    case ProcessState::failed:
      end_process(process, aftermath);
      return;
    case ProcessState::waiting:
    case ProcessState::starting:
      if (is_another || entry.state == ProcessState::waiting) {
        lose_process(process, entry.reason.empty() ? "started again" : entry.reason, aftermath);
      }
      return;
    case ProcessState::running:
    case ProcessState::suspect:
    case ProcessState::stopping:
      if (is_another && process.linked_incarnation != entry.incarnation) {
        lose_process(process, "started again", aftermath);
      }
      bring_back(process, aftermath);
      if (is_awaited(process)) {
        dial_if_needed(process);
      }
      return;
  }
}

void ActorLinks::fail_calls(const Process& process, const std::string& reason, Aftermath& aftermath) {
  for (auto call = open_calls_.begin(); call != open_calls_.end();) {
    if (call->second.process != process.entry.name) {
      ++call;
      continue;
    }
    call->second.target->leave_mailbox();
    const std::string text = call->second.target->info().name + " is down: " + reason;
    aftermath.failed.push_back({std::move(call->second.slot), {ErrorCode::target_down, text}});
    call = open_calls_.erase(call);
  }
}

void ActorLinks::lose_process(Process& process, const std::string& reason, Aftermath& aftermath) {
  const bool was_up = process.is_linked;
  if (was_up && process.linked_incarnation < process.entry.incarnation && transport_ != nullptr) {
    transport_->close(process.linked_instance, "an earlier start of " + process.entry.name);
  }
  process.is_linked = false;
  process.was_lost = process.was_lost || was_up;
  for (const auto& address : process.addresses) {
    if (was_up && address->is_expected()) {
      Down down{address->info().name, reason, true};
      down.may_return = true;
      aftermath.add(address->set_away(reason), down);
    }
  }
  fail_calls(process, reason, aftermath);
}

void ActorLinks::end_process(Process& process, Aftermath& aftermath) {
  process.is_linked = false;
  process.was_lost = false;
  const bool is_failure = process.entry.state == ProcessState::failed;
  const std::string reason = process.entry.reason.empty() ? "its process has ended" : process.entry.reason;
  for (const auto& address : process.addresses) {
    if (address->is_expected()) {
      auto held = address->set_back(address->incarnation());
      aftermath.dropped.insert(aftermath.dropped.end(), std::make_move_iterator(held.begin()),
                               std::make_move_iterator(held.end()));
      aftermath.add(address->set_ended(is_failure, reason), {address->info().name, reason, is_failure});
    }
  }
  fail_calls(process, reason, aftermath);
}

void ActorLinks::bring_back(Process& process, Aftermath& aftermath) {
  const bool is_there = process.is_linked && process.linked_incarnation == process.entry.incarnation &&
                        process.entry.state != ProcessState::starting && process.entry.state != ProcessState::waiting;
  if (!is_there) {
    return;
  }
  process.was_lost = false;
  for (const auto& address : process.addresses) {
    if (!address->is_away()) {
      continue;
    }
    auto held = address->set_back(process.linked_incarnation);
    address->set_running();
    for (detail::HeldEnvelope& waiting : held) {
      if (waiting.envelope.reply) {
        waiting.envelope.reply->redirect(address->incarnation());
      }
      if (!carry_locked(waiting.from, address, waiting.envelope, aftermath)) {
        aftermath.dropped.push_back(std::move(waiting));
      }
    }
  }
}

/// Somebody waits for it, or had a link to it.
bool ActorLinks::is_awaited(const Process& process) {
  return process.was_lost || std::any_of(process.addresses.begin(), process.addresses.end(),
                                         [](const auto& address) { return address->is_awaited(); });
}

void ActorLinks::dial_if_needed(Process& process) {
  const bool is_reachable = process.entry.state == ProcessState::running ||
                            process.entry.state == ProcessState::suspect ||
                            process.entry.state == ProcessState::stopping;
  const bool is_dialling = process.dialling && *process.dialling == process.entry.instance;
  if (process.is_linked || is_dialling || !is_reachable || process.entry.endpoints.empty() || transport_ == nullptr ||
      now() < process.next_dial) {
    return;
  }
  process.dialling = process.entry.instance;
  const ProcessEntry* const self = directory_.process(self_);
  const bool is_same_node = self == nullptr || self->node == process.entry.node;
  transport_->dial(
      {endpoint_for(process.entry.endpoints, is_same_node), process.entry.instance, std::chrono::milliseconds(5000)});
}

void ActorLinks::dial_failed(const DialRequest& request, const Error& error) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, process] : processes_) {
    if (process->dialling && request.expected == process->dialling) {
      process->dialling.reset();
      process->next_dial = now() + kDialAgain;
      log_debug("cluster", "dial_failed", {{"process", name}, {"error", error.message}});
    }
  }
}

void ActorLinks::peer_up(const Peer& peer) {
  Aftermath aftermath;
  {
    const std::lock_guard lock(mutex_);
    auto& place = processes_[peer.identity.role];
    place = place ? std::move(place) : std::make_unique<Process>();
    place->entry.name = peer.identity.role;
    place->dialling.reset();
    place->is_linked = true;
    place->linked_incarnation = peer.identity.incarnation;
    place->linked_instance = peer.identity.instance;
    bring_back(*place, aftermath);
  }
  aftermath.run();
}

void ActorLinks::peer_down(const Peer& peer, const Error& reason) {
  Aftermath aftermath;
  {
    const std::lock_guard lock(mutex_);
    const auto found = processes_.find(peer.identity.role);
    if (found != processes_.end() && found->second->linked_instance == peer.identity.instance) {
      lose_process(*found->second, "link to " + peer.identity.role + " lost: " + reason.message, aftermath);
    }
  }
  aftermath.run();
}

Expected<ActorGroup> ActorLinks::find(std::string_view group) const {
  const std::lock_guard lock(mutex_);
  const auto entries = directory_.group(group);
  std::vector<ActorRef> members;
  for (const ActorEntry& entry : entries) {
    const auto& table = entry.process == self_ ? local_ : remote_;
    if (const auto found = table.find(entry.name); found != table.end()) {
      members.emplace_back(found->second);
    }
  }
  if (entries.empty() || members.size() != static_cast<std::size_t>(entries.front().group_size)) {
    return unexpected(ErrorCode::not_found, "no group is named \"" + std::string(group) + "\"" +
                                                detail::nearest_name_hint(group, directory_.group_names()));
  }
  return ActorGroup(std::string(group), std::move(members));
}

Directory ActorLinks::directory() const {
  const std::lock_guard lock(mutex_);
  return directory_;
}

}  // namespace memopd
