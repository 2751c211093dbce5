// A task as an environment receives it, and what passes between environment and agent in one turn.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace memopd {

/// One problem given to an environment. For question answering: K objectives answered together.
struct Task {
  std::string id;
  std::string data_source;
  std::string split;
  std::string text;                               ///< what the agent is asked, as the protocol shows it
  std::vector<std::vector<std::string>> targets;  ///< [K] aliases of each objective's answer
  std::string extra;                              ///< JSON object of the environment's own; may be empty
  std::optional<std::int32_t> max_turns;          ///< overrides the environment's; >= 1
};

enum class ActionKind : std::uint8_t { search, answer, invalid };

/// What one response asks for, as the protocol parsed it.
struct Action {
  ActionKind kind = ActionKind::invalid;
  std::string text;      ///< the query or the answers; empty when invalid
  std::string response;  ///< the whole response text, for environments that read more
};

/// A call that the environment wants made for it, here: of the retriever.
struct ToolCall {
  std::string tool;  ///< "retrieve"
  std::string query;
};

/// One retrieved document.
struct Document {
  std::string id;
  std::string title;
  std::string text;
  double score = 0;
};

/// Answer to the pending ToolCall.
struct ToolResult {
  std::vector<Document> documents;  ///< best first
};

/// The environment's answer to reset, step or tool_result.
struct Turn {
  std::string observation;  ///< bare text; the protocol adds tags, hint and truncation
  double reward = 0;        ///< per-turn; goes to the last response token of that invocation
  bool is_done = false;
  std::optional<ToolCall> tool_call;      ///< when set, observation is empty and tool_result follows
  std::map<std::string, double> metrics;  ///< of the trajectory, read when is_done: em, f1, ..
};

}  // namespace memopd
