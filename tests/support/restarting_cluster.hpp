// A deterministic cluster whose actors come back after they were lost, all but the coordinator, as the run's own Supervisor
// decides: each is a process of its own to it, in virtual time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/actor/deterministic_cluster.hpp"
#include "runtime/cluster/supervisor.hpp"

namespace memopd::testing {

class RestartingCluster {
 public:
  /// @param restart_after_ms  the back-off of each actor's restarts is 1 to so many virtual ms, drawn from `seed`
  RestartingCluster(std::uint64_t seed, std::int32_t restart_after_ms);
  RestartingCluster(const RestartingCluster&) = delete;
  RestartingCluster& operator=(const RestartingCluster&) = delete;

  [[nodiscard]] DeterministicCluster& get() { return *cluster_; }
  [[nodiscard]] ActorRef find(const std::string& name) const;  ///< "env/1"; must be there
  /// As kill -9 in `delay`; nothing when it is away then. May be called inside a fault hook.
  void kill_in(std::chrono::milliseconds delay, const std::string& name);
  [[nodiscard]] std::int32_t num_restarts() const { return num_restarts_; }
  [[nodiscard]] const Supervisor& supervisor() const { return supervisor_; }

 private:
  void adopt(const std::string& name);
  [[nodiscard]] bool is_returning(const Down& down);
  void turn();

  std::uint64_t seed_;
  std::int32_t restart_after_ms_;
  std::int32_t num_restarts_ = 0;
  Supervisor supervisor_;
  std::unique_ptr<DeterministicCluster> cluster_;
};

}  // namespace memopd::testing
