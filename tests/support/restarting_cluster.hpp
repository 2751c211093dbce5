// A deterministic cluster whose actors come back after they were lost, all but the coordinator: what a supervisor does.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/actor/deterministic_cluster.hpp"

namespace memopd::testing {

class RestartingCluster {
 public:
  /// @param restart_after_ms  a lost actor is back after 1 to so many virtual ms, drawn from `seed`
  RestartingCluster(std::uint64_t seed, std::int32_t restart_after_ms);
  RestartingCluster(const RestartingCluster&) = delete;
  RestartingCluster& operator=(const RestartingCluster&) = delete;

  [[nodiscard]] DeterministicCluster& get() { return *cluster_; }
  [[nodiscard]] ActorRef find(const std::string& name) const;  ///< "env/1"; must be there
  /// As kill -9 in `delay`; nothing when it is away then. May be called inside a fault hook.
  void kill_in(std::chrono::milliseconds delay, const std::string& name);
  [[nodiscard]] std::int32_t num_restarts() const { return num_restarts_; }

 private:
  void lost(const Down& down);

  std::uint64_t seed_;
  std::int32_t restart_after_ms_;
  std::int32_t num_restarts_ = 0;
  std::unique_ptr<DeterministicCluster> cluster_;
};

}  // namespace memopd::testing
