#include "runtime/transport/detail/fence.hpp"

namespace memopd::detail {
namespace {

using Refusal = std::pair<RefusalReason, Error>;

Refusal lives_already(const ProcessIdentity& claim, const ProcessIdentity& living) {
  return {
      RefusalReason::duplicate,
      {ErrorCode::already_exists, to_string(claim) + " claims the place of " + to_string(living) + ", which lives"}};
}

Refusal was_there(const ProcessIdentity& claim, const ProcessIdentity& before) {
  return {RefusalReason::duplicate,
          {ErrorCode::already_exists, to_string(claim) + " comes after " + to_string(before) +
                                          ": every start of a role needs an incarnation of its own"}};
}

}  // namespace

std::optional<Refusal> Fence::find_conflict(const ProcessIdentity& claim) const {
  if (const auto compatible = check_compatible(self_, claim); !compatible) {
    const Error& error = compatible.error();
    return Refusal{error.code == ErrorCode::refused ? RefusalReason::wrong_run : RefusalReason::incompatible, error};
  }
  if (claim.instance == self_.instance || claim.role == self_.role) {
    return lives_already(claim, self_);
  }
  if (const auto same = living_.find(claim.instance); same != living_.end()) {
    return lives_already(claim, same->second);
  }
  const auto newest = newest_.find(claim.role);
  if (newest == newest_.end()) {
    return std::nullopt;
  }
  if (claim.incarnation < newest->second.incarnation) {
    return Refusal{RefusalReason::stale_incarnation,
                   {ErrorCode::target_down, to_string(claim) + " was replaced by " + to_string(newest->second)}};
  }
  if (claim.incarnation == newest->second.incarnation && claim.instance != newest->second.instance) {
    return living_.contains(newest->second.instance) ? lives_already(claim, newest->second)
                                                     : was_there(claim, newest->second);
  }
  return std::nullopt;
}

Fence::Verdict Fence::admit(const ProcessIdentity& claim) {
  Verdict verdict{find_conflict(claim), std::nullopt};
  if (verdict.refusal) {
    return verdict;
  }
  const auto before = newest_.find(claim.role);
  if (before != newest_.end() && living_.contains(before->second.instance)) {
    verdict.superseded = before->second.instance;
  }
  newest_.insert_or_assign(claim.role, claim);
  living_.insert_or_assign(claim.instance, claim);
  return verdict;
}

void Fence::release(const InstanceId& instance) { living_.erase(instance); }

}  // namespace memopd::detail
