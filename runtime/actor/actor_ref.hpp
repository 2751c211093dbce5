// References to actors, groups of them, and the notice of an actor's end.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

namespace detail {
class Address;
}

/// Names one actor of one cluster. Copyable, comparable, may outlive the actor and the cluster: whatever is sent then is
/// answered with target_down. Stays good when the actor is restarted: what is sent meanwhile waits for it, and what had
/// been sent before is answered with target_down, unless it may be asked again (MEMOPD_IDEMPOTENT). Thread-safe like a shared_ptr. Not a message field: messages hold names.
class ActorRef {
 public:
  ActorRef() = default;
  explicit ActorRef(std::shared_ptr<detail::Address> address) : address_(std::move(address)) {}

  /// "env/3"; "nobody" for a default-constructed reference.
  [[nodiscard]] const std::string& name() const;
  /// False once the actor has ended, while it is restarted, and for a default-constructed reference.
  [[nodiscard]] bool is_alive() const;
  /// False once the actor has ended for good, and for a default-constructed reference.
  [[nodiscard]] bool is_expected() const;
  explicit operator bool() const { return address_ != nullptr; }

  friend bool operator==(const ActorRef&, const ActorRef&) = default;
  friend bool operator<(const ActorRef& a, const ActorRef& b) { return a.name() < b.name(); }

  [[nodiscard]] const std::shared_ptr<detail::Address>& address() const { return address_; }

 private:
  std::shared_ptr<detail::Address> address_;
};

/// The actors `name/0` .. `name/size-1`, in rank order.
class ActorGroup {
 public:
  ActorGroup() = default;
  ActorGroup(std::string name, std::vector<ActorRef> members) : name_(std::move(name)), members_(std::move(members)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t size() const { return members_.size(); }
  /// `rank` < size() (MEMOPD_CHECK).
  [[nodiscard]] const ActorRef& operator[](std::size_t rank) const;
  [[nodiscard]] auto begin() const { return members_.begin(); }
  [[nodiscard]] auto end() const { return members_.end(); }
  [[nodiscard]] const std::vector<ActorRef>& members() const { return members_; }

 private:
  std::string name_;
  std::vector<ActorRef> members_;
};

/// What spawn returns: an Expected<ActorGroup> that can be indexed at once.
class SpawnedGroup : public Expected<ActorGroup> {
 public:
  using Expected<ActorGroup>::Expected;

  /// Of a failed spawn: a reference that answers everything with target_down and the error of the spawn.
  [[nodiscard]] ActorRef operator[](std::size_t rank) const;
};

/// An actor has ended.
struct Down {
  std::string name;         ///< of the actor
  std::string reason;       ///< "stopped: step is done", "internal: what() of the exception"
  bool is_failure = false;  ///< false when it was asked to stop
  bool may_return = false;  ///< it is being restarted; its references stay good
};

}  // namespace memopd
