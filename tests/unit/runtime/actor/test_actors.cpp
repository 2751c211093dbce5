#include "tests/unit/runtime/actor/test_actors.hpp"

#include <mutex>
#include <optional>
#include <stdexcept>

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

class TestCounter final : public Actor {
  void setup() override {
    on(&TestCounter::add);
    on(&TestCounter::recorded);
    on(&TestCounter::hold);
    on(&TestCounter::open);
    on(&TestCounter::drop);
    on(&TestCounter::fail_now);
  }
  Expected<Total> add(const Add& request) {
    if (request.amount < 0) {
      throw std::runtime_error("negative amount");
    }
    recorded_.push_back(request.amount);
    return Total{total_ += request.amount};
  }
  Expected<Numbers> recorded(const Recorded&) const { return Numbers{recorded_}; }
  Later<Total> hold(const Hold&) {
    held_.push_back(make_promise<Total>());
    return held_.back().later();
  }
  Expected<void> open(const Open& request) {
    for (auto& promise : held_) {
      promise.deliver(Total{request.value});
    }
    held_.clear();
    return {};
  }
  void drop(const Drop&) { held_.clear(); }
  void fail_now(const Fail& request) { fail({ErrorCode::io_error, request.cause}); }

  std::int64_t total_ = 0;
  std::vector<std::int64_t> recorded_;
  std::vector<Promise<Total>> held_;
};

class TestRelay final : public Actor {
 public:
  explicit TestRelay(const RelayInit& init) : target_name_(init.target) {}

 private:
  void setup() override {
    on(&TestRelay::add_twice);
    on(&TestRelay::burst);
    on(&TestRelay::throw_later);
  }
  void started() override { target_ = (*cluster().find(target_name_))[0]; }
  Later<Total> add_twice(const AddTwice& request) {
    const std::chrono::milliseconds deadline(request.deadline_ms);
    // `request` is used by the continuation: it lives until the answer is there.
    return ask<Total>(target_, Add{request.amount}, deadline)
        .then([this, &request, deadline](const Expected<Total>& first) -> Later<Total> {
          if (!first) {
            return unexpected(first.error());
          }
          return ask<Total>(target_, Add{request.amount}, deadline);
        });
  }
  Expected<void> burst(const Burst& request) {
    for (std::int64_t i = 1; i <= request.count; ++i) {
      MEMOPD_RETURN_IF_ERROR(tell(target_, Add{i}));
    }
    return {};
  }
  Later<Total> throw_later(const ThrowLater&) {
    return ask<Total>(target_, Add{1}, 1h).then([](const Expected<Total>&) -> Expected<Total> {
      throw std::runtime_error("thrown in a continuation");
    });
  }

  std::string target_name_;
  ActorRef target_;
};

class TestWatcher final : public Actor {
 public:
  explicit TestWatcher(const RelayInit& init) : target_(init.target) {}

 private:
  void setup() override {
    on(&TestWatcher::next_down);
    on(&TestWatcher::is_watching);
  }
  Expected<void> is_watching(const Recorded&) const { return {}; }
  void started() override {
    watch((*cluster().find(target_))[0], [this](const Down& down) {
      down_ = down;
      answer();
    });
  }
  Later<Text> next_down(const NextDown&) {
    waiting_ = make_promise<Text>();
    auto later = waiting_.later();
    answer();
    return later;
  }
  void answer() {
    if (down_ && waiting_) {
      waiting_.deliver(Text{down_->name + (down_->is_failure ? " failed: " : " ended: ") + down_->reason});
    }
  }

  std::string target_;
  std::optional<Down> down_;
  Promise<Text> waiting_;
};

MEMOPD_REGISTER_ACTOR("test_counter", TestCounter)
MEMOPD_REGISTER_ACTOR("test_relay", TestRelay, RelayInit)
MEMOPD_REGISTER_ACTOR("test_watcher", TestWatcher, RelayInit)

}  // namespace

std::vector<std::string> cluster_kinds() { return {"local", "deterministic"}; }

std::unique_ptr<Cluster> make_cluster(const std::string& kind, std::function<void(const Down&)> on_failure) {
  if (kind == "local") {
    return make_local_cluster({.threads = 2, .on_failure = std::move(on_failure)});
  }
  return make_deterministic_cluster({.on_failure = std::move(on_failure), .faults = {}});
}

struct LogCapture::State {
  std::mutex mutex;
  std::vector<LogEvent> events;
};

LogCapture::LogCapture() : state_(std::make_shared<State>()) {
  set_log_sink([state = state_](const LogEvent& event) {
    const std::lock_guard lock(state->mutex);
    state->events.push_back(event);
  });
}

LogCapture::~LogCapture() { set_log_sink({}); }

std::vector<std::string> LogCapture::lines(std::string_view name) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> found;
  for (const LogEvent& event : state_->events) {
    if (event.name == name) {
      const std::string line = to_string(event);
      found.push_back(line.substr(line.find(' ') + 1));
    }
  }
  return found;
}

}  // namespace memopd::testing
