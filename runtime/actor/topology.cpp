#include "runtime/actor/topology.hpp"

#include <nlohmann/json.hpp>

namespace memopd {

std::string_view to_string(ActorState state) {
  switch (state) {
    case ActorState::starting:
      return "starting";
    case ActorState::running:
      return "running";
    case ActorState::stopping:
      return "stopping";
    case ActorState::restarting:
      return "restarting";
    case ActorState::ended:
      return "ended";
    case ActorState::failed:
      return "failed";
  }
  return "unknown";
}

void to_json(nlohmann::json& json, const Topology& topology) {
  json = {{"actors", nlohmann::json::array()}, {"edges", nlohmann::json::array()}, {"first_failure", nullptr}};
  for (const ActorStatus& actor : topology.actors) {
    json["actors"].push_back({{"name", actor.name},
                              {"group", actor.group},
                              {"type", actor.type},
                              {"rank", actor.rank},
                              {"is_blocking", actor.is_blocking},
                              {"state", std::string(to_string(actor.state))},
                              {"process", actor.process},
                              {"reason", actor.reason},
                              {"mailbox_depth", actor.mailbox_depth},
                              {"max_mailbox", actor.max_mailbox},
                              {"num_handled", actor.num_handled},
                              {"current_call", actor.current_call},
                              {"current_call_age_ms", actor.current_call_age_ms},
                              {"busy_ms", actor.busy_ms},
                              {"num_pending_asks", actor.num_pending_asks},
                              {"waits_for", actor.waits_for},
                              {"waits_for_message", actor.waits_for_message},
                              {"waits_for_age_ms", actor.waits_for_age_ms}});
  }
  for (const EdgeStatus& edge : topology.edges) {
    json["edges"].push_back(
        {{"from", edge.from}, {"to", edge.to}, {"num_messages", edge.num_messages}, {"size_bytes", edge.size_bytes}});
  }
  if (topology.first_failure) {
    json["first_failure"] = {{"name", topology.first_failure->name}, {"reason", topology.first_failure->reason}};
  }
}

}  // namespace memopd
