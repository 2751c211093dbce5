// One trajectory in the making: what to ask next, and the records that come of it. No actor, no thread.
//
// AP-1 identity   prompts are built from recorded ids; what the engine returned is recorded untouched.
// The owner alternates: generate -> responded() -> environment or tool -> turned() -> .. until finish.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/messages.hpp"
#include "envs/environment.hpp"
#include "policies/text/protocol.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// What the owner has to do next.
enum class NextCall : std::uint8_t {
  generate,     ///< ask a student for request()
  environment,  ///< Environment::step(action())
  tool,         ///< retrieve tool_call(), then Environment::tool_result
  finish,       ///< the trajectory is complete
};

/// Limits and scales that hold for every trajectory of one environment.
struct BuilderLimits {
  std::int32_t max_turns = 6;           ///< the environment's; Task.max_turns overrides
  std::int32_t protocol_max_turns = 0;  ///< lowers it; 0 = does not
  std::int32_t max_prompt_tokens = 4096;
  std::int32_t retry_invalid = 0;
  bool sum_reward = false;  ///< [reward] scale = "sum"
};

class TrajectoryBuilder {
 public:
  TrajectoryBuilder(RunTask task, std::shared_ptr<const Protocol> protocol, std::string env,
                    const BuilderLimits& limits);

  /// The environment's answer to reset.
  NextCall begin(const Turn& turn);
  [[nodiscard]] bool has_begun() const { return !first_.token_ids.empty(); }
  /// The student's answer to request(); records the invocation.
  NextCall responded(const Generated& generated);
  /// The environment's answer to step or tool_result.
  NextCall turned(const Turn& turn);
  /// Ends the trajectory with `status` (one that is not completed); keeps its tokens.
  NextCall fail(TrajectoryStatus status, std::string note);

  [[nodiscard]] Generate request() const;
  [[nodiscard]] const Action& action() const { return parsed_.action; }
  [[nodiscard]] const ToolCall& tool_call() const { return tool_call_; }
  [[nodiscard]] const RunTask& task() const { return task_; }

  /// Invocations completed since the last call, each exactly once, in order.
  [[nodiscard]] std::vector<Invocation> take_invocations();
  /// The record without invocations; complete after finish.
  [[nodiscard]] EmitTrajectory record() const;
  [[nodiscard]] TrajectoryDone done() const;

 private:
  NextCall finish(TrajectoryStatus status);
  NextCall act();
  NextCall go_on(const std::string& observation);
  void complete_invocation(double reward);
  [[nodiscard]] std::int32_t turns_left() const;

  RunTask task_;
  std::shared_ptr<const Protocol> protocol_;
  BuilderLimits limits_;
  std::int32_t max_turns_;
  Prompt first_;
  Prompt prompt_;
  ParsedResponse parsed_;
  ToolCall tool_call_;
  std::optional<Invocation> current_;
  Invocation last_;
  std::vector<Invocation> completed_;
  std::int32_t num_invocations_ = 0;
  std::int32_t num_invalid_ = 0;
  Trajectory trajectory_;
  std::string note_;
};

}  // namespace memopd
