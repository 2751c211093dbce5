// The in-process cluster on CAF core: one CAF actor per cell, one message type, no network module.
#include <algorithm>
#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/send.hpp>

#include "runtime/actor/cluster.hpp"
#include "runtime/actor/detail/actor_cell.hpp"
#include "runtime/actor/detail/cluster_core.hpp"
#include "runtime/actor/detail/future_state.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/thread_order.hpp"

namespace memopd::detail {

/// The one type that CAF sees. Messages never leave the process, so it needs no serialisation.
struct Posted {
  std::shared_ptr<Envelope> envelope;
};

}  // namespace memopd::detail

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(memopd::detail::Posted)

namespace memopd::detail {
namespace {

struct CafRoute final : Route {
  explicit CafRoute(caf::actor target) : handle(std::move(target)) {}
  caf::actor handle;
};

class CafActor final : public caf::event_based_actor {
 public:
  CafActor(caf::actor_config& config, std::shared_ptr<std::unique_ptr<ActorCell>> cell)
      : caf::event_based_actor(config), cell_(std::move(*cell)) {
    set_default_handler(caf::drop);
    hand_over(this);
  }
  ~CafActor() override { take_over(this); }

  // Where CAF hands a message, and the actor itself, from thread to thread.
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* unit) override {
    hand_over(this);
    caf::event_based_actor::enqueue(std::move(element), unit);
  }
  resume_result resume(caf::execution_unit* unit, std::size_t max_throughput) override {
    take_over(this);
    return caf::event_based_actor::resume(unit, max_throughput);
  }

  caf::behavior make_behavior() override {
    caf::behavior behavior{[this](const Posted& posted) {
      take_over(this);  // what came while it ran
      if (!cell_->handle(std::move(*posted.envelope))) {
        cell_.reset();
        quit();
      }
      hand_over(this);  // before CAF lets another thread run this actor
    }};
    hand_over(this);
    return behavior;
  }

 private:
  std::unique_ptr<ActorCell> cell_;
};

struct Config : caf::actor_system_config {
  explicit Config(const LocalClusterOptions& options) {
    set("scheduler.policy", options.policy == "stealing" ? caf::atom("stealing") : caf::atom("sharing"));
    set("scheduler.max-threads", options.threads);
  }
};

class LocalCluster final : public ClusterCore {
 public:
  explicit LocalCluster(const LocalClusterOptions& options)
      : ClusterCore(options.on_failure), config_(options), system_(config_) {}

  [[nodiscard]] std::chrono::nanoseconds now() const override { return std::chrono::steady_clock::now() - start_; }

  void enqueue(const std::shared_ptr<Address>& to, Envelope envelope, std::chrono::nanoseconds delay) override {
    const auto route = std::static_pointer_cast<CafRoute>(to->route());
    if (!route) {
      return;  // the cluster is over
    }
    auto posted = std::make_shared<Envelope>(std::move(envelope));
    if (delay.count() <= 0) {
      caf::anon_send(route->handle, Posted{std::move(posted)});
      return;
    }
    system_.clock().schedule_message(
        system_.clock().now() + delay, caf::actor_cast<caf::strong_actor_ptr>(route->handle),
        caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, caf::make_message(Posted{std::move(posted)})));
  }

  ShutdownReport shutdown(std::chrono::milliseconds patience) override {
    MEMOPD_CHECK(current_cell() == nullptr, "shutdown inside an actor");
    const std::lock_guard lock(shutdown_mutex_);
    begin_shutdown();
    wait_until_empty(patience);
    ShutdownReport report{alive()};
    for (const std::string& name : report.survivors) {
      log_warning("actor", "survived_shutdown", {{"actor", name}});
    }
    for (const auto& address : addresses()) {
      if (!address->is_alive()) {
        address->set_route(nullptr);
      }
    }
    has_shut_down_ = true;
    return report;
  }

  /// Once shut down, whoever still lives has had its time.
  [[nodiscard]] bool close() {
    return shutdown(has_shut_down_ ? std::chrono::milliseconds(0) : kShutdownPatience).survivors.empty() &&
           wait_until_empty(std::chrono::milliseconds(0));
  }

 private:
  void host(std::unique_ptr<ActorCell> cell) override {
    const auto address = cell->address();
    const auto boxed = std::make_shared<std::unique_ptr<ActorCell>>(std::move(cell));
    caf::actor handle =
        address->info().is_blocking ? system_.spawn<CafActor, caf::detached>(boxed) : system_.spawn<CafActor>(boxed);
    address->set_route(std::make_shared<CafRoute>(std::move(handle)));
  }

  std::shared_ptr<FutureState> make_future(std::string what, std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now().time_since_epoch() +
                          std::min<std::chrono::nanoseconds>(timeout, std::chrono::hours(24 * 3650));
    return std::make_shared<FutureState>(std::move(what), deadline, timeout, nullptr);
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex shutdown_mutex_;
  std::atomic<bool> has_shut_down_{false};
  Config config_;
  caf::actor_system system_;  // last: its destructor waits for the actors, which use what stands above
};

/// Owns a LocalCluster; leaves it behind if actors survive, because CAF's destructor would wait for them for ever.
class LocalClusterOwner final : public Cluster {
 public:
  explicit LocalClusterOwner(const LocalClusterOptions& options) : cluster_(std::make_unique<LocalCluster>(options)) {}
  ~LocalClusterOwner() override {
    if (!cluster_->close()) {
      (void)cluster_.release();
    }
  }

  [[nodiscard]] ClusterCore& core() { return *cluster_; }
  [[nodiscard]] Expected<ActorGroup> find(std::string_view group) const override { return cluster_->find(group); }
  [[nodiscard]] ObjectStore& objects() override { return cluster_->objects(); }
  [[nodiscard]] Topology topology() const override { return cluster_->topology(); }
  void stop(const ActorRef& actor, std::string_view reason) override { cluster_->stop(actor, reason); }
  ShutdownReport shutdown(std::chrono::milliseconds patience) override { return cluster_->shutdown(patience); }
  [[nodiscard]] std::optional<Down> first_failure() const override { return cluster_->first_failure(); }
  SpawnedGroup spawn_any(std::string_view actor, const SpawnOptions& options, std::string_view group,
                         Payload init) override {
    return cluster_->spawn_any(actor, options, group, std::move(init));
  }
  std::shared_ptr<FutureState> ask_any(const ActorRef& target, Payload message,
                                       std::chrono::milliseconds timeout) override {
    return cluster_->ask_any(target, std::move(message), timeout);
  }
  Expected<void> tell_any(const ActorRef& target, Payload message) override {
    return cluster_->tell_any(target, std::move(message));
  }

 private:
  std::unique_ptr<LocalCluster> cluster_;
};

}  // namespace

ClusterCore& core_of(Cluster& cluster) {
  auto* const owner = dynamic_cast<LocalClusterOwner*>(&cluster);
  MEMOPD_CHECK(owner != nullptr, "core_of a cluster that is not local");
  return owner->core();
}

}  // namespace memopd::detail

namespace memopd {

Expected<std::unique_ptr<Cluster>> make_local_cluster_checked(const LocalClusterOptions& options) {
  if (options.threads < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      "threads of the cluster: " + std::to_string(options.threads) + ", allowed >= 1");
  }
  if (options.policy != "sharing" && options.policy != "stealing") {
    return unexpected(ErrorCode::invalid_argument,
                      "scheduling policy \"" + options.policy + "\", allowed: sharing, stealing");
  }
  return std::unique_ptr<Cluster>(std::make_unique<detail::LocalClusterOwner>(options));
}

std::unique_ptr<Cluster> make_local_cluster(const LocalClusterOptions& options) {
  return make_local_cluster_checked(options).value();
}

}  // namespace memopd
