#include "runtime/actor/detail/cluster_core.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/actor/detail/actor_cell.hpp"
#include "runtime/actor/detail/future_state.hpp"
#include "runtime/base/log.hpp"

namespace memopd::detail {
namespace {

const std::string kClient = "client";

/// Asks once more whenever the target was restarted before it could answer. Only for what may be handled twice.
class RetryingSink final : public AnswerSink, public std::enable_shared_from_this<RetryingSink> {
 public:
  RetryingSink(ClusterCore& core, std::shared_ptr<AnswerSink> sink, ActorRef target, Payload message)
      : core_(core), sink_(std::move(sink)), target_(std::move(target)), message_(std::move(message)) {}

  void deliver(std::uint64_t id, Answer answer) override {
    if (answer.error && answer.error->code == ErrorCode::target_down && target_.is_expected()) {
      auto slot = std::make_shared<ReplySlot>(shared_from_this(), id, target_.address());
      const auto sent = core_.send_from(sink_->sink_name(), nullptr, target_, message_, slot);
      if (sent) {
        return;
      }
      slot->abandon();
    }
    sink_->deliver(id, std::move(answer));
  }
  [[nodiscard]] const std::string& sink_name() const override { return sink_->sink_name(); }

 private:
  ClusterCore& core_;
  const std::shared_ptr<AnswerSink> sink_;
  const ActorRef target_;
  const Payload message_;
};

}  // namespace

ClusterCore::ClusterCore(std::function<void(const Down&)> on_failure)
    : on_failure_(std::move(on_failure)), objects_(make_local_object_store()) {}

ClusterCore::~ClusterCore() = default;

const ClusterCore::Group* ClusterCore::find_locked(std::string_view group) const {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.name == group; });
  return found == groups_.end() ? nullptr : &*found;
}

Expected<ActorGroup> ClusterCore::find(std::string_view group) const {
  const std::lock_guard lock(mutex_);
  if (const Group* const found = find_locked(group); found != nullptr) {
    return found->members;
  }
  std::vector<std::string> names;
  for (const Group& known : groups_) {
    names.push_back(known.name);
  }
  return unexpected(ErrorCode::not_found,
                    "no group is named \"" + std::string(group) + "\"" + nearest_name_hint(group, names));
}

Expected<void> ClusterCore::check_spawn(std::string_view actor, const SpawnOptions& options, std::string_view group,
                                        const Payload& init) {
  const auto actor_class = find_actor_class(actor);
  if (!actor_class) {
    return unexpected(actor_class.error());
  }
  const MessageType* const wanted = (*actor_class)->init_type;
  if ((wanted == nullptr) != (init.type == nullptr) || (wanted != nullptr && !(*wanted == *init.type))) {
    const auto print = [](const MessageType* type) { return type == nullptr ? "none" : to_string(type->name); };
    return unexpected(ErrorCode::bad_schema, "actor class \"" + std::string(actor) + "\" takes init message " +
                                                 print(wanted) + ", found " + print(init.type));
  }
  if (group.empty() || group.find('/') != std::string_view::npos) {
    return unexpected(ErrorCode::invalid_argument, "group name \"" + std::string(group) + "\" is empty or holds a '/'");
  }
  const std::string name(group);
  if (options.count < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      "group " + name + ": count " + std::to_string(options.count) + ", allowed >= 1");
  }
  if (options.max_mailbox < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      "group " + name + ": max_mailbox " + std::to_string(options.max_mailbox) + ", allowed >= 1");
  }
  if (!(options.cpus >= 0) || !(options.gpus >= 0)) {
    return unexpected(ErrorCode::invalid_argument, "group " + name + ": cpus and gpus must be >= 0");
  }
  return {};
}

Expected<std::vector<std::unique_ptr<ActorCell>>> ClusterCore::construct_cells(const ActorClass& actor_class,
                                                                               const SpawnOptions& options,
                                                                               std::string_view group,
                                                                               const void* init) {
  std::vector<std::unique_ptr<ActorCell>> cells;
  for (std::int32_t rank = 0; rank < options.count; ++rank) {
    AddressInfo info{std::string(group) + "/" + std::to_string(rank),
                     std::string(group),
                     actor_class.name,
                     rank,
                     options.count,
                     options.blocking,
                     options.max_mailbox};
    cells.push_back(std::make_unique<ActorCell>(std::make_shared<Address>(std::move(info), *this), *this));
    if (auto made = cells.back()->construct(actor_class, init); !made) {
      for (const auto& cell : cells) {
        cell->address()->set_ended(true, made.error().message);
      }
      return unexpected(made.error());
    }
  }
  return cells;
}

SpawnedGroup ClusterCore::spawn_any(std::string_view actor, const SpawnOptions& options, std::string_view group,
                                    Payload init) {
  if (auto valid = check_spawn(actor, options, group, init); !valid) {
    return unexpected(valid.error());
  }
  const auto actor_class = find_actor_class(actor);
  // The name is taken before the constructors run, which may look at the cluster.
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) {
      return unexpected(ErrorCode::refused, "the cluster is shutting down");
    }
    if (find_locked(group) != nullptr) {
      return unexpected(ErrorCode::already_exists, "a group is named \"" + std::string(group) + "\" already");
    }
    groups_.push_back({std::string(group), ActorGroup(std::string(group), {}), *actor_class, init});
  }
  auto cells = construct_cells(**actor_class, options, group, init.value.get());
  return cells ? launch(group, *std::move(cells)) : abandon_spawn(group, cells.error());
}

SpawnedGroup ClusterCore::abandon_spawn(std::string_view group, const Error& error) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [&](const Group& g) { return g.name == group; });
  return unexpected(error);
}

SpawnedGroup ClusterCore::launch(std::string_view group, std::vector<std::unique_ptr<ActorCell>> cells) {
  std::vector<ActorRef> members;
  for (const auto& cell : cells) {
    members.push_back(cell->self());
  }
  const ActorGroup result(std::string(group), members);
  {
    const std::lock_guard lock(mutex_);
    for (auto& cell : cells) {
      host(std::move(cell));
    }
    num_alive_ += static_cast<std::int64_t>(members.size());
    std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.name == group; })->members = result;
    if (is_closed_) {
      for (const ActorRef& member : members) {
        member.address()->request_stop("shutdown");
      }
    }
  }
  start(members);
  return result;
}

void ClusterCore::start(const std::vector<ActorRef>& members) {
  for (const ActorRef& member : members) {
    Envelope start;
    start.kind = EnvelopeKind::start;
    enqueue(member.address(), std::move(start), {});
  }
}

Expected<void> ClusterCore::send(const ActorRef& target, Payload message, std::shared_ptr<ReplySlot> reply) {
  if (!target) {
    return unexpected(ErrorCode::target_down, "nobody is not an actor");
  }
  ActorCell* const sender = current_cell();
  return sender != nullptr ? send_from(sender->self().name(), &sender->address()->traffic(), target, std::move(message),
                                       std::move(reply))
                           : send_from(kClient, &client_traffic_, target, std::move(message), std::move(reply));
}

Expected<void> ClusterCore::send_from(const std::string& from, TrafficLog* traffic, const ActorRef& target,
                                      Payload message, std::shared_ptr<ReplySlot> reply) {
  const auto& to = target.address();
  MEMOPD_RETURN_IF_ERROR(to->admit());
  if (traffic != nullptr) {
    traffic->count(to->info().name, message.type->size_bytes(message.value.get()));
  }
  Envelope envelope;
  envelope.kind = EnvelopeKind::message;
  envelope.is_counted = true;
  envelope.payload = std::move(message);
  envelope.reply = std::move(reply);
  return to->executor().carry(from, to, std::move(envelope));
}

std::shared_ptr<ReplySlot> ClusterCore::make_slot(std::shared_ptr<AnswerSink> sink, std::uint64_t id,
                                                  const ActorRef& target, const Payload& message) {
  if (message.type->is_idempotent) {
    sink = std::make_shared<RetryingSink>(*this, std::move(sink), target, message);
  }
  return std::make_shared<ReplySlot>(std::move(sink), id, target.address());
}

Expected<void> ClusterCore::tell_any(const ActorRef& target, Payload message) {
  return send(target, std::move(message), nullptr);
}

std::shared_ptr<FutureState> ClusterCore::ask_any(const ActorRef& target, Payload message,
                                                  std::chrono::milliseconds timeout) {
  auto future = make_future(target.name() + " to " + std::string(message.type->name.name), timeout);
  std::shared_ptr<ReplySlot> slot;
  if (target) {
    slot = make_slot(future, 0, target, message);
  }
  if (auto sent = send(target, std::move(message), slot); !sent) {
    if (slot) {
      slot->abandon();
    }
    future->deliver(0, {{}, sent.error()});
  }
  return future;
}

Expected<void> ClusterCore::carry(const std::string&, const std::shared_ptr<Address>& to, Envelope envelope) {
  enqueue(to, std::move(envelope), {});
  return {};
}

void ClusterCore::carry_answer(const std::string&, std::shared_ptr<AnswerSink> to, std::uint64_t id, Answer answer) {
  to->deliver(id, std::move(answer));
}

void ClusterCore::stop(const ActorRef& actor, std::string_view reason) {
  if (!actor.is_alive()) {
    return;
  }
  actor.address()->request_stop(reason);
  enqueue(actor.address(), Envelope{}, {});
}

void ClusterCore::actor_ended(const Down& down) {
  if (down.is_failure) {
    log_error("actor", "actor_failed", {{"actor", down.name}, {"reason", down.reason}});
    if (!down.may_return) {
      const std::lock_guard lock(mutex_);
      if (!first_failure_) {
        first_failure_ = down;
      }
    }
    if (on_failure_) {
      on_failure_(down);
    }
  }
  const std::lock_guard lock(mutex_);
  --num_alive_;
  ended_.notify_all();
}

std::optional<Down> ClusterCore::first_failure() const {
  const std::lock_guard lock(mutex_);
  return first_failure_;
}

std::vector<std::shared_ptr<Address>> ClusterCore::addresses() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Address>> all;
  for (const Group& group : groups_) {
    for (const ActorRef& member : group.members) {
      all.push_back(member.address());
    }
  }
  return all;
}

Topology ClusterCore::topology() const {
  Topology topology;
  client_traffic_.append_to("client", topology.edges);
  for (const auto& address : addresses()) {
    topology.actors.push_back(address->status(now()));
    address->traffic().append_to(address->info().name, topology.edges);
  }
  std::sort(topology.edges.begin(), topology.edges.end(),
            [](const EdgeStatus& a, const EdgeStatus& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); });
  topology.first_failure = first_failure();
  return topology;
}

void ClusterCore::begin_shutdown() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  for (const auto& address : addresses()) {
    stop(ActorRef(address), "shutdown");
  }
}

std::vector<std::string> ClusterCore::alive() const {
  std::vector<std::string> names;
  for (const auto& address : addresses()) {
    if (address->is_alive()) {
      names.push_back(address->info().name);
    }
  }
  return names;
}

bool ClusterCore::wait_until_empty(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, patience, [this] { return num_alive_ == 0; });
}

}  // namespace memopd::detail
