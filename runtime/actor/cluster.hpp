// Cluster: spawns actors, finds them, carries messages to them from outside. The in-process form is make_local_cluster;
// DeterministicCluster runs the same actors on one thread in virtual time.
//
// Thread-safe (the deterministic form is not). Also reachable inside an actor as cluster().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/actor/actor_ref.hpp"
#include "runtime/actor/future.hpp"
#include "runtime/actor/topology.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/objects/object_store.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

struct SpawnOptions {
  std::int32_t count = 1;  ///< members of the group; >= 1
  double cpus = 0;         ///< per process, >= 0; for placement over nodes, in one process without effect
  double gpus = 0;         ///< per process, >= 0; likewise
  bool blocking = false;   ///< own thread: for handlers that wait or compute long; deterministic form: ignored
  std::int32_t max_mailbox = 10'000;  ///< messages that may wait; one more is `overloaded`; >= 1
  /// Where it lives, when there are processes: "" = in the launcher, "own" = each member in a process of its own, else
  /// the name of a process, which all groups that name it share.
  std::string process = "";
  double memory_gib = 0;               ///< of such a process, >= 0; for placement
  std::string labels = "";             ///< comma-separated words that its node has
  bool spread = false;                 ///< over many nodes instead of filling one first
  std::int32_t max_restarts = 5;       ///< of such a process within restart_window_s; one more ends the run; 0 = none
  std::int32_t restart_window_s = 60;  ///< >= 1
  std::int32_t restart_backoff_ms = 100;  ///< before the first restart, doubled by each, at most 10 s
};

/// How shutdown ended.
struct ShutdownReport {
  std::vector<std::string> survivors;  ///< actors that did not stop in time; their threads go on: leave by _exit
};

class Cluster {
 public:
  static constexpr std::chrono::milliseconds kShutdownPatience = std::chrono::seconds(5);

  virtual ~Cluster() = default;

  /// Starts `options.count` actors of the registered class `actor` under `group`: all or none. Their constructors run
  /// here, on the caller's thread; setup() and started() on their own context.
  /// @error not_found         no class of this name; shows the nearest
  /// @error already_exists    the group name is taken (names stay taken when the actors end)
  /// @error invalid_argument  an option out of range, or a group name that is empty or holds '/'
  /// @error bad_schema        another init message than registered
  /// @error internal          a constructor threw; what()
  SpawnedGroup spawn(std::string_view actor, const SpawnOptions& options, std::string_view group) {
    return spawn_any(actor, options, group, {});
  }
  template <Message Init>
  SpawnedGroup spawn(std::string_view actor, const SpawnOptions& options, std::string_view group, Init init) {
    return spawn_any(actor, options, group, make_payload(std::move(init)));
  }

  /// @error not_found  no such group; shows the nearest
  [[nodiscard]] virtual Expected<ActorGroup> find(std::string_view group) const = 0;

  /// Sends `message` and returns the future answer. Never blocks. `timeout` >= 0; 0 = the answer must be there already.
  template <class R, Message M>
  [[nodiscard]] Future<R> ask(const ActorRef& target, M message, std::chrono::milliseconds timeout) {
    return Future<R>(ask_any(target, make_payload(std::move(message)), timeout));
  }
  /// @error overloaded, target_down  it was not sent
  template <Message M>
  Expected<void> tell(const ActorRef& target, M message) {
    return tell_any(target, make_payload(std::move(message)));
  }

  [[nodiscard]] virtual ObjectStore& objects() = 0;
  [[nodiscard]] virtual Topology topology() const = 0;
  /// Asks an actor to end after its current handler. What waits in its mailbox is answered with target_down.
  virtual void stop(const ActorRef& actor, std::string_view reason) = 0;
  /// Stops all actors, waits at most `patience` and names the survivors; nothing can be spawned any more. May be called
  /// again to wait longer. Never inside an actor (MEMOPD_CHECK). The destructor does it too; it leaves survivors behind.
  virtual ShutdownReport shutdown(std::chrono::milliseconds patience = kShutdownPatience) = 0;
  /// The first actor that failed (threw or called fail()), if any.
  [[nodiscard]] virtual std::optional<Down> first_failure() const = 0;

  virtual SpawnedGroup spawn_any(std::string_view actor, const SpawnOptions& options, std::string_view group,
                                 Payload init) = 0;
  virtual std::shared_ptr<detail::FutureState> ask_any(const ActorRef& target, Payload message,
                                                       std::chrono::milliseconds timeout) = 0;
  virtual Expected<void> tell_any(const ActorRef& target, Payload message) = 0;
};

struct LocalClusterOptions {
  std::int32_t threads = 2;        ///< of the cooperative scheduler; >= 1
  std::string policy = "sharing";  ///< "sharing" (one queue, low latency on few threads) or "stealing"
  std::function<void(const Down&)> on_failure =
      nullptr;  ///< called on the failing actor's thread for every failure; short
};

/// The in-process form on CAF's scheduler.
/// @error invalid_argument  threads < 1 or an unknown policy
[[nodiscard]] Expected<std::unique_ptr<Cluster>> make_local_cluster_checked(const LocalClusterOptions& options);
/// The same for options known to be valid (MEMOPD_CHECK).
[[nodiscard]] std::unique_ptr<Cluster> make_local_cluster(const LocalClusterOptions& options = {});

}  // namespace memopd
