// ClusterCore: what every in-process form of a Cluster shares: the table of actors, sending, the first failure.
//
// The table owns every address until the cluster ends, so an actor that only watches stays alive. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/cluster.hpp"
#include "runtime/actor/detail/address.hpp"
#include "runtime/actor/detail/executor.hpp"

namespace memopd::detail {

struct ActorClass;

/// Members of a group that live in this process.
struct HostedMembers {
  std::string actor;  ///< registered class
  std::string group;
  std::vector<std::int32_t> ranks;
  std::int32_t group_size = 1;
  bool is_blocking = false;
  std::int32_t max_mailbox = 10'000;
  std::uint64_t incarnation = 1;
  std::shared_ptr<const EncodedMessage> init;  ///< null: none
};

class ClusterCore : public virtual Cluster, public Executor {
 public:
  explicit ClusterCore(std::function<void(const Down&)> on_failure);
  ~ClusterCore() override;

  [[nodiscard]] Expected<ActorGroup> find(std::string_view group) const override;
  [[nodiscard]] ObjectStore& objects() override { return *objects_; }
  [[nodiscard]] Topology topology() const override;
  void stop(const ActorRef& actor, std::string_view reason) override;
  [[nodiscard]] std::optional<Down> first_failure() const override;
  SpawnedGroup spawn_any(std::string_view actor, const SpawnOptions& options, std::string_view group,
                         Payload init) override;
  std::shared_ptr<FutureState> ask_any(const ActorRef& target, Payload message,
                                       std::chrono::milliseconds timeout) override;
  Expected<void> tell_any(const ActorRef& target, Payload message) override;

  /// From the current actor, or from outside. @error target_down, overloaded
  Expected<void> send(const ActorRef& target, Payload message, std::shared_ptr<ReplySlot> reply);
  /// From `from`, wherever the caller runs. @error target_down, overloaded
  Expected<void> send_from(const std::string& from, TrafficLog* traffic, const ActorRef& target, Payload message,
                           std::shared_ptr<ReplySlot> reply);
  /// Brings the answer to `message` to `sink`; an idempotent one is sent again when its target is restarted meanwhile.
  [[nodiscard]] std::shared_ptr<ReplySlot> make_slot(std::shared_ptr<AnswerSink> sink, std::uint64_t id,
                                                     const ActorRef& target, const Payload& message);
  /// Whether the actor that `down` tells of will be restarted: then its address stays.
  [[nodiscard]] virtual bool is_returning(const Down&) { return false; }

  /// Whether such a group may be spawned, as far as options, names and the type of the init message say.
  [[nodiscard]] static Expected<void> check_spawn(std::string_view actor, const SpawnOptions& options,
                                                  std::string_view group, const Payload& init);
  /// What actors see as cluster() and objects() instead of this one; both outlive it.
  void set_front(Cluster* front) { front_ = front; }
  [[nodiscard]] Cluster& front() { return front_ != nullptr ? *front_ : *this; }
  /// Some members of a group, under the names they have in a larger cluster. @error as spawn_any
  /// @param announce  called for each before it starts
  Expected<std::vector<ActorRef>> host_members(const HostedMembers& members,
                                               const std::function<void(const ActorRef&)>& announce);
  [[nodiscard]] TrafficLog& client_traffic() { return client_traffic_; }

  void actor_ended(const Down& down) override;
  Expected<void> carry(const std::string& from, const std::shared_ptr<Address>& to, Envelope envelope) override;
  void carry_answer(const std::string& from, std::shared_ptr<AnswerSink> to, std::uint64_t id, Answer answer) override;

 protected:
  /// Gives the cell a place to run and its address a route; nothing runs before its start envelope.
  virtual void host(std::unique_ptr<ActorCell> cell) = 0;
  /// Constructs the actor of `address` once more, with what it was first spawned with. @error internal  it threw
  Expected<void> respawn(const std::shared_ptr<Address>& address);
  /// A future that completes at `timeout` of this cluster's clock.
  [[nodiscard]] virtual std::shared_ptr<FutureState> make_future(std::string what,
                                                                 std::chrono::milliseconds timeout) = 0;

  /// Refuses further spawns and asks every living actor to stop.
  void begin_shutdown();
  [[nodiscard]] std::vector<std::string> alive() const;
  /// False if actors still live after `patience`.
  bool wait_until_empty(std::chrono::milliseconds patience);
  [[nodiscard]] std::vector<std::shared_ptr<Address>> addresses() const;

 private:
  struct Group {
    std::string name;
    ActorGroup members;
    const ActorClass* actor_class = nullptr;
    Payload init = {};
  };
  [[nodiscard]] const Group* find_locked(std::string_view group) const;
  Expected<std::vector<std::unique_ptr<ActorCell>>> construct_cells(const ActorClass& actor_class,
                                                                    const SpawnOptions& options, std::string_view group,
                                                                    const void* init);
  SpawnedGroup launch(std::string_view group, std::vector<std::unique_ptr<ActorCell>> cells);
  static Expected<Payload> decode_init(const ActorClass& actor_class, const HostedMembers& members);
  void start(const std::vector<ActorRef>& members);
  SpawnedGroup abandon_spawn(std::string_view group, const Error& error);

  const std::function<void(const Down&)> on_failure_;
  const std::unique_ptr<ObjectStore> objects_;
  TrafficLog client_traffic_;
  Cluster* front_ = nullptr;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  std::vector<Group> groups_;
  std::int64_t num_alive_ = 0;
  bool is_closed_ = false;
  std::optional<Down> first_failure_;
};

/// The core of a cluster that make_local_cluster made (MEMOPD_CHECK).
[[nodiscard]] ClusterCore& core_of(Cluster& cluster);

}  // namespace memopd::detail
