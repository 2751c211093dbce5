// Fence: which process may claim which place in the run (R6, R13, CL-2). No sockets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/expected.hpp"
#include "runtime/transport/identity.hpp"
#include "runtime/transport/refusal.hpp"

namespace memopd::detail {

/// Not thread-safe.
class Fence {
 public:
  struct Verdict {
    std::optional<std::pair<RefusalReason, Error>> refusal;  ///< empty: admitted
    std::optional<InstanceId> superseded;                    ///< the earlier incarnation that has to go
  };

  explicit Fence(ProcessIdentity self) : self_(std::move(self)) {}

  /// Compares a claim with this process, with every living one, and with every incarnation of its role so far; it lives
  /// from here on when it is admitted. Both sides are named in every refusal:
  ///   refused, bad_schema  another run; another protocol, build or schema
  ///   already_exists       the instance or the role lives already (same incarnation)
  ///   target_down          an incarnation of the role above this one was seen: the claim is a dead process's
  [[nodiscard]] Verdict admit(const ProcessIdentity& claim);
  /// The link of an instance has ended; it may claim again.
  void release(const InstanceId& instance);

 private:
  [[nodiscard]] std::optional<std::pair<RefusalReason, Error>> find_conflict(const ProcessIdentity& claim) const;

  const ProcessIdentity self_;
  std::map<InstanceId, ProcessIdentity> living_;
  std::map<std::string, ProcessIdentity> newest_;  // by role
};

}  // namespace memopd::detail
