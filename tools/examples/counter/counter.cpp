// Four counters in one process: page one of runtime/README.md.
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "runtime/actor/actor.hpp"

using namespace memopd;
using namespace std::chrono_literals;

// clang-format off
struct Add { std::int64_t amount = 0; };   MEMOPD_MESSAGE(Add, 1, amount)
struct Total { std::int64_t value = 0; };  MEMOPD_MESSAGE(Total, 1, value)
// clang-format on

class Counter : public memopd::Actor {
  void setup() override { on(&Counter::add); }
  Expected<Total> add(const Add& request) { return Total{total_ += request.amount}; }
  std::int64_t total_ = 0;
};
MEMOPD_REGISTER_ACTOR("counter", Counter)

int main() {
  const auto local = make_local_cluster();
  Cluster& cluster = *local;
  auto counters = cluster.spawn("counter", {.count = 4, .cpus = 1}, "counters");
  Future<Total> total = cluster.ask<Total>(counters[2], Add{5}, 200ms);
  const auto answer = total.get();
  if (!answer) {
    std::fprintf(stderr, "%s\n", answer.error().message.c_str());
    return 1;
  }
  std::printf("%s holds %lld\n", counters[2].name().c_str(), static_cast<long long>(answer->value));
  return 0;
}
