// What an environment is: it speaks text. It gives tasks, answers actions, and knows nothing of models or tokens.
//
// The agent protocol (policies/text) adds instructions, tags, hints and truncation; the env actor makes tool calls for
// the environment. An implementation may throw or hang: the env actor turns that into `env_failed` or `timeout`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/task.hpp"

namespace memopd {

struct EnvironmentInfo {
  std::string name;
  std::string instructions;        ///< shown to the agent unless [protocol] overrides it; may be empty
  std::int32_t max_turns = 6;      ///< invocations a trajectory may take; Task.max_turns overrides
  std::int32_t max_slots = 1024;   ///< trajectories one process may run at a time
  bool is_deterministic = true;    ///< same task, seed and actions give the same turns
  std::vector<std::string> tools;  ///< names it may put into Turn::tool_call
};

/// One instance = one slot = one trajectory at a time. Calls never overlap; they may come from different threads.
class Environment {
 public:
  virtual ~Environment() = default;
  [[nodiscard]] virtual EnvironmentInfo info() const = 0;
  /// Starts a trajectory; drops whatever ran before. The first observation is the question (usually task.text).
  virtual Expected<Turn> reset(const Task& task, std::uint64_t seed) = 0;
  /// The parsed action of one invocation.
  virtual Expected<Turn> step(const Action& action) = 0;
  /// Answers the pending Turn::tool_call.
  virtual Expected<Turn> tool_result(const ToolResult& result) = 0;
};

/// Which tasks to make or read.
struct TaskRequest {
  std::string split;                ///< "train", "val", "test", ..
  std::uint64_t seed = 0;           ///< same request, same tasks
  std::int32_t first = 0;           ///< index of the first task of the seed's endless stream; >= 0
  std::int32_t count = 1;           ///< >= 0
  std::int32_t num_objectives = 0;  ///< K; 0 = the environment's choice
};

/// Makes or reads tasks. Thread-safe.
class TaskSource {
 public:
  virtual ~TaskSource() = default;
  /// @return exactly request.count tasks; a finite set repeats, reshuffled by pass
  /// @error not_found  unknown split; lists the known ones
  [[nodiscard]] virtual Expected<std::vector<Task>> tasks(const TaskRequest& request) const = 0;
};

/// A scripted policy of an environment: what a competent agent would answer, from the context text alone.
class Expert {
 public:
  virtual ~Expert() = default;
  /// @param question  the text of the task as shown
  /// @param context   what follows the question in this call: kept text and observation block; empty in call 0
  /// @return the response text, tags included
  [[nodiscard]] virtual Expected<std::string> respond(const std::string& question,
                                                      const std::string& context) const = 0;
};

}  // namespace memopd
