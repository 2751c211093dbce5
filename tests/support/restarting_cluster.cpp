#include "tests/support/restarting_cluster.hpp"

#include "runtime/base/random.hpp"

namespace memopd::testing {

RestartingCluster::RestartingCluster(std::uint64_t seed, std::int32_t restart_after_ms)
    : seed_(seed), restart_after_ms_(restart_after_ms) {
  constexpr std::int32_t kMaxRestarts = 200;
  cluster_ =
      make_deterministic_cluster({.on_failure = [this](const Down& down) { lost(down); },
                                  .is_returning =
                                      [this](const Down& down) {
                                        return !down.name.starts_with("coordinator/") && num_restarts_ < kMaxRestarts;
                                      }});
}

ActorRef RestartingCluster::find(const std::string& name) const {
  const auto slash = name.find('/');
  return (*cluster_->find(name.substr(0, slash)))[static_cast<std::size_t>(std::stoi(name.substr(slash + 1)))];
}

void RestartingCluster::lost(const Down& down) {
  if (!down.may_return) {
    return;
  }
  const std::uint64_t draw = chain_seed(seed_, {static_cast<std::uint64_t>(++num_restarts_)});
  cluster_->call_after(std::chrono::milliseconds(1 + draw % static_cast<std::uint64_t>(restart_after_ms_)),
                       [this, actor = find(down.name)] { (void)cluster_->restart(actor); });
}

void RestartingCluster::kill_in(std::chrono::milliseconds delay, const std::string& name) {
  cluster_->call_after(delay, [this, actor = find(name)] {
    if (actor.is_alive()) {
      cluster_->kill(actor, "by the test");
    }
  });
}

}  // namespace memopd::testing
