// Topology: which actors there are, what each does now, and what flows between them, as data.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/actor_ref.hpp"
#include "runtime/wire/fields.hpp"

namespace memopd {

enum class ActorState : std::uint8_t { starting, running, stopping, restarting, ended, failed };

MEMOPD_ENUM(ActorState, failed)

[[nodiscard]] std::string_view to_string(ActorState state);

struct ActorStatus {
  std::string name;   ///< "env/3"
  std::string group;  ///< "env"
  std::string type;   ///< registered name
  std::int32_t rank = 0;
  bool is_blocking = false;
  ActorState state = ActorState::starting;
  std::string process;             ///< that it lives in; empty in a cluster of one process
  std::string reason;              ///< of the end; empty while it lives
  std::int64_t mailbox_depth = 0;  ///< messages that wait
  std::int64_t max_mailbox = 0;
  std::int64_t num_handled = 0;  ///< messages taken up, ever
  std::string current_call;      ///< message in its handler now; empty when idle
  double current_call_age_ms = 0;
  double busy_ms = 0;                 ///< spent in handlers, ever, the current call included; continuations are not
  std::int64_t num_pending_asks = 0;  ///< of this actor to others
  std::string waits_for;              ///< target of the oldest of them: "teacher/0"
  std::string waits_for_message;      ///< "Score"
  double waits_for_age_ms = 0;
};

MEMOPD_FIELDS(ActorStatus, name, group, type, rank, is_blocking, state, process, reason, mailbox_depth, max_mailbox,
              num_handled, current_call, current_call_age_ms, busy_ms, num_pending_asks, waits_for, waits_for_message,
              waits_for_age_ms)

/// Messages from one actor ("client" = outside the actors) to another, ever; answers and timers not counted.
struct EdgeStatus {
  std::string from;
  std::string to;
  std::int64_t num_messages = 0;
  std::int64_t size_bytes = 0;  ///< in memory, dynamic parts included
};
MEMOPD_FIELDS(EdgeStatus, from, to, num_messages, size_bytes)

struct Topology {
  std::vector<ActorStatus> actors;  ///< by group in spawn order, then rank
  std::vector<EdgeStatus> edges;    ///< by (from, to)
  std::optional<Down> first_failure;
};

/// `nlohmann::json j = topology;` gives {"actors": [..], "edges": [..], "first_failure": {..} | null}.
void to_json(nlohmann::json& json, const Topology& topology);

}  // namespace memopd
