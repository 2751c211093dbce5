#include <unistd.h>

#include <map>

#include "runtime/actor/actor.hpp"
#include "tests/unit/runtime/cluster/cluster_test_actors.hpp"

namespace memopd::testing {
namespace {

struct Due {
  std::int64_t number = 0;
};
MEMOPD_MESSAGE(Due, 1, number)

class Resident final : public Actor {
  void setup() override {
    on(&Resident::add);
    on(&Resident::where);
    on(&Resident::slow);
    on(&Resident::slow_again);
    on(&Resident::due);
    on(&Resident::throw_it);
    on(&Resident::floats);
    on(&Resident::bytes);
    on(&Resident::relay);
    on(&Resident::put_pack);
    on(&Resident::read_pack);
  }
  Expected<Total> add(const Add& request) { return Total{total_ += request.amount, incarnation()}; }
  Expected<Place> where(const Where&) { return Place{getpid(), incarnation()}; }
  Later<Place> slow(const Slow& request) { return answer_after(request.delay_ms); }
  Later<Place> slow_again(const SlowAgain& request) { return answer_after(request.delay_ms); }
  Later<Place> answer_after(std::int64_t delay_ms) {
    open_.emplace(++next_, make_promise<Place>());
    after(std::chrono::milliseconds(delay_ms), Due{next_});
    return open_.at(next_).later();
  }
  void due(const Due& due) {
    auto promise = open_.extract(due.number);
    promise.mapped().deliver(Place{getpid(), incarnation()});
  }
  Expected<void> throw_it(const Throw& request) { throw std::runtime_error(request.what); }
  Expected<Floats> floats(const Floats& request) { return request; }
  Expected<Total> bytes(const Bytes& request) {
    return Total{static_cast<std::int64_t>(request.bytes.size()), incarnation()};
  }
  Later<Total> relay(const Relay& request) {
    auto target = cluster().find(request.target);
    if (!target) {
      return Later<Total>::ready(unexpected(target.error()));
    }
    return ask<Total>((*target)[0], Add{request.amount}, std::chrono::seconds(30));
  }
  Expected<PackRef> put_pack(const PutPack& request) {
    PackedBatch pack;
    for (std::int32_t i = 0; i < request.length; ++i) {
      pack.input_ids.push_back(i);
    }
    return PackRef{objects().put(std::make_shared<const PackedBatch>(std::move(pack)), Scope{ScopeKind::step, 1})};
  }
  Expected<Total> read_pack(const ReadPack& request) {
    const auto pack = objects().get<PackedBatch>(request.ref);
    MEMOPD_RETURN_IF_ERROR(pack);
    return Total{static_cast<std::int64_t>((*pack)->input_ids.size()), 0};
  }

  std::int64_t total_ = 0;
  std::int64_t next_ = 0;
  std::map<std::int64_t, Promise<Place>> open_;
};
MEMOPD_REGISTER_ACTOR("resident", Resident)

}  // namespace
}  // namespace memopd::testing
