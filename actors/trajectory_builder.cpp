#include "actors/trajectory_builder.hpp"

#include <algorithm>
#include <utility>

#include "runtime/data/trajectory_id.hpp"

namespace memopd {
namespace {

std::int32_t limit_turns(const RunTask& task, const BuilderLimits& limits) {
  std::int32_t turns = task.task.max_turns.value_or(limits.max_turns);
  if (limits.protocol_max_turns > 0) {
    turns = std::min(turns, limits.protocol_max_turns);
  }
  return std::max(turns, 1);
}

}  // namespace

TrajectoryBuilder::TrajectoryBuilder(RunTask task, std::shared_ptr<const Protocol> protocol, std::string env,
                                     const BuilderLimits& limits)
    : task_(std::move(task)), protocol_(std::move(protocol)), limits_(limits), max_turns_(limit_turns(task_, limits)) {
  trajectory_.id = task_.trajectory_id;
  trajectory_.attempt = task_.attempt;
  trajectory_.task_id = task_.task.id;
  trajectory_.env = std::move(env);
  for (const char* name : {"searches", "invalid_actions", "cut_observations", "prompt_tokens", "response_tokens",
                           "peak_context_tokens", "dependency"}) {
    trajectory_.metrics[name] = 0;
  }
}

NextCall TrajectoryBuilder::begin(const Turn& turn) {
  first_ = protocol_->first(turn.observation);
  prompt_ = first_;
  if (static_cast<std::int32_t>(prompt_.token_ids.size()) > limits_.max_prompt_tokens) {
    return fail(TrajectoryStatus::context_limit, "the question alone exceeds max_prompt_tokens");
  }
  return NextCall::generate;
}

Generate TrajectoryBuilder::request() const {
  Generate request;
  request.prompt_token_ids = prompt_.token_ids;
  request.spans = prompt_.spans;
  request.sampling = task_.sampling;
  request.sampling.seed = invocation_seed(task_.seed, num_invocations_);
  request.stop_strings = protocol_->stop_strings();
  return request;
}

NextCall TrajectoryBuilder::responded(const Generated& generated) {
  Invocation invocation;
  invocation.trajectory_id = task_.trajectory_id;
  invocation.attempt = task_.attempt;
  invocation.invocation_index = num_invocations_++;
  invocation.prompt_token_ids = prompt_.token_ids;
  invocation.spans = prompt_.spans;
  invocation.response_token_ids = generated.response_token_ids;
  invocation.rollout_log_probs = generated.rollout_log_probs;
  invocation.log_kept_mass = generated.log_kept_mass;
  invocation.policy_versions = generated.policy_versions;
  invocation.sampling = request().sampling;
  invocation.sampling.seed = invocation_seed(task_.seed, invocation.invocation_index);
  invocation.finish_reason = generated.finish_reason;
  invocation.digest = generated.digest;
  invocation.timings = generated.timings;

  const auto prompt_tokens = static_cast<double>(invocation.prompt_token_ids.size());
  const auto response_tokens = static_cast<double>(invocation.response_token_ids.size());
  auto& metrics = trajectory_.metrics;
  metrics["prompt_tokens"] += prompt_tokens;
  metrics["response_tokens"] += response_tokens;
  metrics["dependency"] += (prompt_tokens + response_tokens / 2) * response_tokens;
  metrics["peak_context_tokens"] = std::max(metrics["peak_context_tokens"], prompt_tokens + response_tokens);

  parsed_ = protocol_->parse(invocation.response_token_ids, invocation.finish_reason);
  last_ = invocation;
  current_ = std::move(invocation);
  if (generated.finish_reason == FinishReason::aborted) {
    return fail(TrajectoryStatus::aborted, "the student gave the request up");
  }
  return act();
}

NextCall TrajectoryBuilder::act() {
  switch (parsed_.action.kind) {
    case ActionKind::answer:
      trajectory_.answer = parsed_.answer;
      return NextCall::environment;
    case ActionKind::search:
      trajectory_.metrics["searches"] += 1;
      if (turns_left() == 0) {
        return fail(TrajectoryStatus::turn_limit, {});
      }
      return NextCall::environment;
    case ActionKind::invalid:
      trajectory_.metrics["invalid_actions"] += 1;
      if (num_invalid_++ < limits_.retry_invalid && turns_left() > 0) {
        complete_invocation(0);
        return go_on(protocol_->correction());
      }
      return fail(TrajectoryStatus::invalid_action, {});
  }
  return fail(TrajectoryStatus::invalid_action, {});
}

NextCall TrajectoryBuilder::turned(const Turn& turn) {
  if (turn.tool_call) {
    tool_call_ = *turn.tool_call;
    return NextCall::tool;
  }
  if (turn.is_done) {
    const double scale =
        limits_.sum_reward ? static_cast<double>(std::max<std::size_t>(1, task_.task.targets.size())) : 1.0;
    trajectory_.rewards["final"] = turn.reward * scale;
    for (const auto& [name, value] : turn.metrics) {
      trajectory_.metrics[name] = value;
    }
    complete_invocation(0);
    return finish(TrajectoryStatus::completed);
  }
  complete_invocation(turn.reward);
  return go_on(turn.observation);
}

NextCall TrajectoryBuilder::go_on(const std::string& observation) {
  prompt_ = protocol_->next(first_, last_, parsed_, observation, turns_left());
  if (prompt_.observation_was_cut) {
    trajectory_.metrics["cut_observations"] += 1;
  }
  if (static_cast<std::int32_t>(prompt_.token_ids.size()) > limits_.max_prompt_tokens) {
    return fail(TrajectoryStatus::context_limit, "the next prompt exceeds max_prompt_tokens");
  }
  return NextCall::generate;
}

NextCall TrajectoryBuilder::fail(TrajectoryStatus status, std::string note) {
  note_ = std::move(note);
  trajectory_.rewards["final"] = 0;
  for (const char* name : {"em", "f1"}) {
    trajectory_.metrics.try_emplace(name, 0.0);
  }
  complete_invocation(0);
  return finish(status);
}

NextCall TrajectoryBuilder::finish(TrajectoryStatus status) {
  trajectory_.status = status;
  trajectory_.metrics["turns"] = num_invocations_;
  trajectory_.metrics["is_valid"] = status == TrajectoryStatus::invalid_action ? 0 : 1;
  trajectory_.metrics["is_finished"] = status == TrajectoryStatus::completed ? 1 : 0;
  return NextCall::finish;
}

void TrajectoryBuilder::complete_invocation(double reward) {
  if (!current_) {
    return;
  }
  current_->reward = reward;
  completed_.push_back(std::move(*current_));
  current_.reset();
}

std::int32_t TrajectoryBuilder::turns_left() const { return max_turns_ - num_invocations_; }

std::vector<Invocation> TrajectoryBuilder::take_invocations() { return std::exchange(completed_, {}); }

EmitTrajectory TrajectoryBuilder::record() const {
  return {trajectory_, num_invocations_, task_.is_training, task_.lineage};
}

TrajectoryDone TrajectoryBuilder::done() const {
  return {trajectory_.id, trajectory_.attempt, trajectory_.status, trajectory_.rewards, trajectory_.metrics, note_};
}

}  // namespace memopd
