// ActorPool: spreads asks over a group, to the member with the fewest in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/actor/actor.hpp"

namespace memopd {

/// Belongs to one actor (or one thread outside). Ties go to the lowest rank, so the choice is deterministic; members that
/// have ended are passed over while another lives.
class ActorPool {
 public:
  ActorPool() : ActorPool(ActorGroup()) {}
  explicit ActorPool(ActorGroup group);

  [[nodiscard]] std::size_t size() const { return group_.size(); }
  [[nodiscard]] const ActorGroup& group() const { return group_; }

  /// The least loaded member; counts one more in flight there until done(). Empty pool: a reference to nobody.
  [[nodiscard]] ActorRef pick();
  void done(const ActorRef& member);
  [[nodiscard]] std::int32_t in_flight(const ActorRef& member) const;

  /// pick(), ask and done() in one, from inside `asker`: `pool.ask<Reply>(*this, Request{..}, 5s)`.
  template <class R, Message M>
  Later<R> ask(Actor& asker, M message, std::chrono::milliseconds deadline) {
    const ActorRef member = pick();
    return asker.template ask<R>(member, std::move(message), deadline)
        .then([counts = counts_, rank = rank_of(member)](Expected<R> result) {
          release(*counts, rank);
          return result;
        });
  }

 private:
  using Counts = std::vector<std::int32_t>;
  [[nodiscard]] std::size_t rank_of(const ActorRef& member) const;
  static void release(Counts& counts, std::size_t rank);

  ActorGroup group_;
  std::shared_ptr<Counts> counts_;  ///< shared with the continuations in flight
};

}  // namespace memopd
