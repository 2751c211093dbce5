// Producer -> slow stage -> sink, each in a process of its own, with back-pressure: the stage's mailbox is bounded, and the
// producer answers `overloaded` by waiting. An item counts as done when the sink has it: nothing is lost or repeated.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string_view>
#include <thread>

#include "runtime/actor/actor.hpp"
#include "runtime/cluster/head.hpp"

using namespace memopd;
using namespace std::chrono_literals;

// clang-format off
struct Item { std::int64_t number = 0; };               MEMOPD_MESSAGE(Item, 1, number)
struct Squared { std::int64_t number = 0, square = 0; }; MEMOPD_MESSAGE(Squared, 1, number, square)
struct Produce { std::int64_t count = 0; };             MEMOPD_MESSAGE(Produce, 1, count)
struct Produced { std::int64_t num_waits = 0; };        MEMOPD_MESSAGE(Produced, 1, num_waits)
struct Count {};                                        MEMOPD_MESSAGE(Count, 1)
struct Counted { std::int64_t num_items = 0, num_repeated = 0, sum = 0; };
MEMOPD_MESSAGE(Counted, 1, num_items, num_repeated, sum)
// clang-format on

class Producer : public Actor {
  void setup() override {
    on(&Producer::produce);
    on(&Producer::send);
  }
  void started() override { stage_ = (*cluster().find("stage"))[0]; }
  Later<Produced> produce(const Produce& request) {
    num_open_ = request.count;
    for (std::int64_t number = 0; number < request.count; ++number) {
      send(Item{number});
    }
    finished_ = make_promise<Produced>();
    return finished_.later();
  }
  void send(const Item& item) {
    ask<void>(stage_, item, 60s).then([this, item](Expected<void> done) {
      if (!done && done.error().code == ErrorCode::overloaded) {
        ++num_waits_;
        after(5ms, item);  // its mailbox is full: the item is still ours
      } else if (!done) {
        finished_.deliver(unexpected(done.error()));
      } else if (--num_open_ == 0) {
        finished_.deliver(Produced{num_waits_});
      }
    });
  }
  ActorRef stage_;
  std::int64_t num_open_ = 0;
  std::int64_t num_waits_ = 0;
  Promise<Produced> finished_;
};
MEMOPD_REGISTER_ACTOR("producer", Producer)

class Stage : public Actor {
  void setup() override { on(&Stage::square); }
  void started() override { sink_ = (*cluster().find("sink"))[0]; }
  Later<void> square(const Item& item) {
    std::this_thread::sleep_for(2ms);  // the work; allowed in a blocking actor
    return ask<void>(sink_, Squared{item.number, item.number * item.number}, 60s);
  }
  ActorRef sink_;
};
MEMOPD_REGISTER_ACTOR("stage", Stage)

class Sink : public Actor {
  void setup() override {
    on(&Sink::take);
    on(&Sink::count);
  }
  Expected<void> take(const Squared& item) {
    seen_.insert(item.number).second ? ++counted_.num_items : ++counted_.num_repeated;
    counted_.sum += item.square;
    return {};
  }
  Expected<Counted> count(const Count&) { return counted_; }
  std::set<std::int64_t> seen_;
  Counted counted_;
};
MEMOPD_REGISTER_ACTOR("sink", Sink)

Expected<void> run(Cluster& cluster) {
  auto sink = cluster.spawn("sink", {.process = "own"}, "sink");
  auto stage = cluster.spawn("stage", {.blocking = true, .max_mailbox = 4, .process = "own"}, "stage");
  auto producer = cluster.spawn("producer", {.process = "own"}, "producer");
  const auto produced = cluster.ask<Produced>(producer[0], Produce{100}, 60s).get();
  MEMOPD_RETURN_IF_ERROR(produced);
  const auto counted = cluster.ask<Counted>(sink[0], Count{}, 10s).get();
  MEMOPD_RETURN_IF_ERROR(counted);
  std::printf("sink: %d items, %d repeated, sum %d; producer had to wait: %s\n", static_cast<int>(counted->num_items),
              static_cast<int>(counted->num_repeated), static_cast<int>(counted->sum),
              produced->num_waits > 0 ? "yes" : "no");
  return {};
}

Expected<void> run_in_processes() {
  const auto cluster = make_process_cluster({});
  return cluster ? run(**cluster) : unexpected(cluster.error());
}

int main(int argc, char** argv) {
  run_as_child(argc, argv);  // this program is its own agent and workers
  const bool is_local = argc > 1 && std::string_view(argv[1]) == "--local";
  const auto done = is_local ? run(*make_local_cluster()) : run_in_processes();
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
  }
  return done ? 0 : 1;
}
