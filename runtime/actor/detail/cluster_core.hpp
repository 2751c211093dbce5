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

  void actor_ended(const Down& down) override;
  void carry(const std::string& from, const std::shared_ptr<Address>& to, Envelope envelope) override;
  void carry_answer(const std::string& from, std::shared_ptr<AnswerSink> to, std::uint64_t id, Answer answer) override;

 protected:
  /// Gives the cell a place to run and its address a route; nothing runs before its start envelope.
  virtual void host(std::unique_ptr<ActorCell> cell) = 0;
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
  };
  [[nodiscard]] Expected<void> check_spawn(const SpawnOptions& options, std::string_view group) const;
  [[nodiscard]] const Group* find_locked(std::string_view group) const;
  Expected<std::vector<std::unique_ptr<ActorCell>>> construct_cells(const ActorClass& actor_class,
                                                                    const SpawnOptions& options, std::string_view group,
                                                                    const void* init);
  SpawnedGroup launch(std::string_view group, std::vector<std::unique_ptr<ActorCell>> cells);
  SpawnedGroup abandon_spawn(std::string_view group, const Error& error);

  const std::function<void(const Down&)> on_failure_;
  const std::unique_ptr<ObjectStore> objects_;
  TrafficLog client_traffic_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  std::vector<Group> groups_;
  std::int64_t num_alive_ = 0;
  bool is_closed_ = false;
  std::optional<Down> first_failure_;
};

}  // namespace memopd::detail
