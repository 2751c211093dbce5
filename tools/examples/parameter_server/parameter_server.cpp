// A parameter server: workers in processes of their own pull weights and push gradients; one of them is killed on the way.
// The server takes one gradient of each worker a step, so that whoever is asked again changes nothing twice.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string_view>
#include <vector>

#include "runtime/actor/actor.hpp"
#include "runtime/cluster/head.hpp"

using namespace memopd;
using namespace std::chrono_literals;

constexpr int kNumWorkers = 3;
constexpr std::int64_t kNumSteps = 20;

// clang-format off
struct Pull {};                                          MEMOPD_MESSAGE(Pull, 1)
struct Weights { std::vector<double> values; };          MEMOPD_MESSAGE(Weights, 1, values)
struct Push { std::int64_t step, worker; std::vector<double> gradient; };
MEMOPD_MESSAGE(Push, 1, step, worker, gradient)
struct Work { std::int64_t step = 0; };                  MEMOPD_MESSAGE(Work, 1, step)
struct Place { std::int64_t pid = 0, incarnation = 0; }; MEMOPD_MESSAGE(Place, 1, pid, incarnation)
MEMOPD_IDEMPOTENT(Work)  // when its worker dies, the runtime asks the next start again
// clang-format on

class Server : public Actor {
  void setup() override {
    on(&Server::pull);
    on(&Server::push);
  }
  Expected<Weights> pull(const Pull&) { return Weights{weights_}; }
  Expected<void> push(const Push& push) {
    if (push.step == step_) {
      gradients_[push.worker] = push.gradient;
    }
    if (gradients_.size() == kNumWorkers) {
      for (const auto& [worker, gradient] : gradients_) {
        for (std::size_t i = 0; i < weights_.size(); ++i) {
          weights_[i] -= 0.5 / kNumWorkers * gradient[i];
        }
      }
      gradients_.clear();
      ++step_;
    }
    return {};
  }
  std::int64_t step_ = 0;
  std::vector<double> weights_ = {0, 0};
  std::map<std::int64_t, std::vector<double>> gradients_;  ///< of this step, by worker
};
MEMOPD_REGISTER_ACTOR("server", Server)

class Worker : public Actor {
  void setup() override { on(&Worker::work); }
  void started() override { server_ = (*cluster().find("server"))[0]; }
  Later<Place> work(const Work& work) {
    return ask<Weights>(server_, Pull{}, 10s)
        .then([this, step = work.step](Expected<Weights> weights) -> Later<void> {
          return weights ? ask<void>(server_, Push{step, rank(), gradient(*weights)}, 10s)
                         : unexpected(weights.error());
        })
        .then([this](Expected<void> pushed) -> Expected<Place> {
          MEMOPD_RETURN_IF_ERROR(pushed);
          return Place{getpid(), incarnation()};
        });
  }
  /// Of half the squared distance to this worker's data: 1 and 10, 2 and 20, 3 and 30.
  std::vector<double> gradient(const Weights& at) const {
    return {at.values[0] - (rank() + 1), at.values[1] - 10 * (rank() + 1)};
  }
  ActorRef server_;
};
MEMOPD_REGISTER_ACTOR("worker", Worker)

Expected<void> train(Cluster& cluster) {
  auto server = cluster.spawn("server", {.process = "server", .max_restarts = 0}, "server");
  auto workers = cluster.spawn("worker", {.count = kNumWorkers, .cpus = 0.1, .process = "own"}, "worker");
  Place victim;
  for (std::int64_t step = 0; step < kNumSteps; ++step) {
    std::vector<Future<Place>> places;
    for (std::size_t rank = 0; rank < kNumWorkers; ++rank) {
      places.push_back(cluster.ask<Place>(workers[rank], Work{step}, 60s));
    }
    if (step == 10 && victim.pid != getpid()) {
      kill(static_cast<pid_t>(victim.pid), SIGKILL);
    }
    for (Future<Place>& place : places) {
      const auto there = place.get();
      MEMOPD_RETURN_IF_ERROR(there);
      victim = *there;  // after the loop: the last worker
    }
  }
  const auto weights = cluster.ask<Weights>(server[0], Pull{}, 10s).get();
  MEMOPD_RETURN_IF_ERROR(weights);
  std::printf("weights %.3f %.3f, the last worker in its start %d\n", weights->values[0], weights->values[1],
              static_cast<int>(victim.incarnation));
  return {};
}

Expected<void> run_in_processes() {
  const auto cluster = make_process_cluster({});
  return cluster ? train(**cluster) : unexpected(cluster.error());
}

int main(int argc, char** argv) {
  run_as_child(argc, argv);  // this program is its own agent and workers
  const bool is_local = argc > 1 && std::string_view(argv[1]) == "--local";
  const auto done = is_local ? train(*make_local_cluster()) : run_in_processes();
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
  }
  return done ? 0 : 1;
}
