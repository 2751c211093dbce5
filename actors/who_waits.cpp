#include "actors/who_waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace memopd {
namespace {

std::string describe_end(const ActorStatus& actor) {
  if (actor.state == ActorState::failed || actor.state == ActorState::ended) {
    return fmt::format("{} {}: {}", actor.name, to_string(actor.state), actor.reason);
  }
  const std::string waiting = fmt::format("{} messages wait", actor.mailbox_depth);
  if (actor.current_call.empty()) {
    return fmt::format("{} is idle, {}", actor.name, waiting);
  }
  return fmt::format("{} is in {} for {:.1f} s, {}", actor.name, actor.current_call, actor.current_call_age_ms / 1000,
                     waiting);
}

}  // namespace

std::string describe_wait(const Topology& topology, std::string_view start) {
  std::string text;
  std::set<std::string, std::less<>> named;
  std::string next(start);
  while (named.insert(next).second) {
    const auto actor = std::find_if(topology.actors.begin(), topology.actors.end(),
                                    [&](const ActorStatus& status) { return status.name == next; });
    if (actor == topology.actors.end()) {
      break;
    }
    text += text.empty() ? "" : "; ";
    const bool is_alive = actor->state == ActorState::running || actor->state == ActorState::starting;
    if (!is_alive || actor->waits_for.empty()) {
      return text + describe_end(*actor);
    }
    text += fmt::format("{} waits for {} ({}, {:.1f} s)", actor->name, actor->waits_for, actor->waits_for_message,
                        actor->waits_for_age_ms / 1000);
    next = actor->waits_for;
  }
  return text;
}

}  // namespace memopd
