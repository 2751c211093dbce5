#include "tools/memopd_cluster/pair_probe.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "runtime/actor/actor.hpp"

namespace memopd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kDeadline = 20s;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class PairProbe final : public Actor {
  void setup() override {
    on(&PairProbe::measure);
    on(&PairProbe::ping);
    on(&PairProbe::offer);
  }
  Expected<void> ping(const ProbePing&) { return {}; }
  Expected<BytesOffered> offer(const OfferBytes&) {
    const std::vector<std::byte> bytes(kProbeBytes, std::byte{42});
    return BytesOffered{objects().put_blob(bytes, Scope{ScopeKind::manual, 0})};
  }
  Later<PairMeasured> measure(const MeasurePair& request) {
    const auto target = cluster().find(request.group);
    if (!target) {
      return Later<PairMeasured>::ready(unexpected(target.error()));
    }
    measured_ = make_promise<PairMeasured>();
    round_trips_.clear();
    ping_next((*target)[0]);
    return measured_.later();
  }

  void ping_next(const ActorRef& target) {
    const auto begin = Clock::now();
    ask<void>(target, ProbePing{}, kDeadline).then([this, target, begin](const Expected<void>& answered) {
      if (!answered) {
        measured_.deliver(unexpected(answered.error()));
        return;
      }
      round_trips_.push_back(seconds_since(begin) * 1e6);
      if (round_trips_.size() <= kNumPings) {  // the first one dials
        ping_next(target);
      } else {
        fetch(target);
      }
    });
  }

  void fetch(const ActorRef& target) {
    ask<BytesOffered>(target, OfferBytes{}, kDeadline).then([this](const Expected<BytesOffered>& offered) {
      if (!offered) {
        measured_.deliver(unexpected(offered.error()));
        return;
      }
      const auto begin = Clock::now();
      const auto blob = objects().get_blob(offered->ref);  // blocks: this actor has a thread of its own
      if (!blob) {
        measured_.deliver(unexpected(blob.error()));
        return;
      }
      const double seconds = seconds_since(begin);
      (void)objects().release(offered->ref);
      std::nth_element(round_trips_.begin() + 1, round_trips_.begin() + 1 + kNumPings / 2, round_trips_.end());
      measured_.deliver(
          PairMeasured{round_trips_[1 + kNumPings / 2], static_cast<double>(kProbeBytes) / seconds / 1e6});
    });
  }

  Promise<PairMeasured> measured_;
  std::vector<double> round_trips_;  ///< us; the first one includes the dial
};
MEMOPD_REGISTER_ACTOR(kPairProbe, PairProbe)

}  // namespace
}  // namespace memopd
