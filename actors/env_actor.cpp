#include "actors/env_actor.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "actors/role_setup.hpp"
#include "envs/registry.hpp"
#include "runtime/base/log.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("env", EnvActor, RoleInit)

// Shared with the executor's threads, which may outlive the actor: a call that comes back late finds it closed.
struct EnvActor::Link {
  std::mutex mutex;
  Cluster* cluster = nullptr;  // null once the actor has stopped
  ActorRef self;

  void close() {
    const std::lock_guard lock(mutex);
    cluster = nullptr;
  }
  void deliver(EnvironmentAnswered answer) {
    const std::lock_guard lock(mutex);
    if (cluster != nullptr) {
      (void)cluster->tell(self, std::move(answer));
    }
  }
};

struct EnvActor::Slot {
  explicit Slot(TrajectoryBuilder trajectory_builder) : builder(std::move(trajectory_builder)) {}

  TrajectoryBuilder builder;
  std::vector<Promise<TrajectoryDone>> askers;  // a repeat is one more
  std::shared_ptr<Environment> environment;
  EnvironmentCall pending_call;  // repeated when it fails and may be
  std::int64_t call = 0;
  bool is_waiting_for_environment = false;
  bool is_repeatable = false;
  std::int32_t num_failures = 0;
  std::vector<Document> documents;  // of the tool result the environment is answering
  std::int32_t num_unacknowledged = 0;
  bool is_finished = false;
  std::string record_error;
};

EnvActor::EnvActor(RoleInit init) : init_(std::move(init)) {}
EnvActor::~EnvActor() {
  if (link_) {
    link_->close();  // also of one that failed: a call that comes back must not meet the next actor of its name
  }
}

void EnvActor::setup() {
  on(&EnvActor::run_task);
  on(&EnvActor::environment_answered);
  on(&EnvActor::environment_deadline);
  if (auto loaded = load(); !loaded) {
    fail(loaded.error());
  }
}

void EnvActor::stopping() {
  if (link_) {
    link_->close();
  }
  executor_.reset();
}

Expected<void> EnvActor::load() {
  auto config = load_role_config(init_);
  if (!config) {
    return unexpected(config.error());
  }
  config_ = config->env.front();
  ask_timeout_ = std::chrono::seconds(config->run.step_timeout_s);
  auto environment = take_environment();
  if (!environment) {
    return unexpected(environment.error());
  }
  info_ = (*environment)->info();
  idle_environments_.push_back(*std::move(environment));
  auto tokenizer = load_role_tokenizer(init_);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  auto protocol = make_protocol(config->protocol, *tokenizer, info_.instructions);
  if (!protocol) {
    return unexpected(protocol.error());
  }
  protocol_ = *protocol;
  limits_ = {info_.max_turns, config->protocol.max_turns,
             std::min(config->protocol.max_prompt_tokens, config->student.max_context_tokens - 1),
             config->protocol.retry_invalid, config->reward.scale == "sum"};
  link_ = std::make_shared<Link>();
  link_->cluster = &cluster();
  link_->self = self();
  executor_ = make_executor();
  return {};
}

Expected<std::shared_ptr<Environment>> EnvActor::take_environment() {
  if (!idle_environments_.empty()) {
    auto environment = std::move(idle_environments_.back());
    idle_environments_.pop_back();
    return environment;
  }
  auto made = make_environment(config_.name, environment_options(config_));
  if (!made) {
    return unexpected(made.error());
  }
  return std::shared_ptr<Environment>(*std::move(made));
}

Later<TrajectoryDone> EnvActor::run_task(const RunTask& task) {
  const TaskKey key{task.lineage, task.trajectory_id, task.attempt};
  if (const auto finished = finished_.find(key); finished != finished_.end()) {
    return Later<TrajectoryDone>::ready(finished->second);
  }
  if (const auto running = running_.find(key); running != running_.end()) {
    auto& askers = slots_.at(running->second).askers;
    askers.push_back(make_promise<TrajectoryDone>());
    return askers.back().later();
  }
  auto environment = take_environment();
  if (!environment) {
    return Later<TrajectoryDone>::ready(unexpected(environment.error()));
  }
  const std::int64_t slot_id = next_slot_++;
  running_.emplace(key, slot_id);
  auto [place, inserted] = slots_.try_emplace(slot_id, TrajectoryBuilder(task, protocol_, config_.name, limits_));
  place->second.askers.push_back(make_promise<TrajectoryDone>());
  auto later = place->second.askers.back().later();
  place->second.environment = *std::move(environment);
  call_environment(
      slot_id, [problem = task.task, seed = task.seed](Environment& target) { return target.reset(problem, seed); },
      true);
  return later;
}

void EnvActor::call_environment(std::int64_t slot_id, EnvironmentCall call, bool is_repeatable) {
  Slot& slot = slots_.at(slot_id);
  slot.pending_call = call;
  slot.is_repeatable = is_repeatable;
  slot.is_waiting_for_environment = true;
  const std::int64_t call_number = ++slot.call;
  after(std::chrono::milliseconds(config_.turn_timeout_ms), EnvironmentDeadline{slot_id, call_number});
  executor_->run([link = link_, environment = slot.environment, call = std::move(call), slot_id, call_number] {
    EnvironmentAnswered answer{slot_id, call_number, {}, {}};
    try {
      auto turn = call(*environment);
      if (turn) {
        answer.turn = *std::move(turn);
      } else {
        answer.error = turn.error().message;
      }
    } catch (const std::exception& thrown) {
      answer.error = std::string("threw: ") + thrown.what();
    } catch (...) {
      answer.error = "threw something that is not a std::exception";
    }
    link->deliver(std::move(answer));
  });
}

void EnvActor::environment_answered(const EnvironmentAnswered& answer) {
  const auto found = slots_.find(answer.slot);
  if (found == slots_.end() || !found->second.is_waiting_for_environment || found->second.call != answer.call) {
    return;  // late: its deadline has passed
  }
  Slot& slot = found->second;
  slot.is_waiting_for_environment = false;
  if (answer.error.empty()) {
    slot.num_failures = 0;
    turned(answer.slot, answer.turn);
    return;
  }
  if (slot.is_repeatable && slot.num_failures++ < config_.num_retries) {
    call_environment(answer.slot, slot.pending_call, true);
    return;
  }
  log_warning("env", "environment_failed",
              {{"trajectory", to_string(slot.builder.task().trajectory_id)}, {"error", answer.error}});
  proceed(answer.slot,
          slot.builder.fail(TrajectoryStatus::env_failed, "environment " + config_.name + " " + answer.error));
}

void EnvActor::environment_deadline(const EnvironmentDeadline& deadline) {
  const auto found = slots_.find(deadline.slot);
  if (found == slots_.end() || !found->second.is_waiting_for_environment || found->second.call != deadline.call) {
    return;
  }
  Slot& slot = found->second;
  slot.is_waiting_for_environment = false;
  slot.environment.reset();  // the hanging call keeps its own reference
  const std::string note =
      "environment " + config_.name + ": no answer within turn_timeout_ms " + std::to_string(config_.turn_timeout_ms);
  log_warning("env", "environment_timeout",
              {{"trajectory", to_string(slot.builder.task().trajectory_id)}, {"error", note}});
  proceed(deadline.slot, slot.builder.fail(TrajectoryStatus::timeout, note));
}

void EnvActor::turned(std::int64_t slot_id, const Turn& turn) {
  Slot& slot = slots_.at(slot_id);
  const std::vector<Document> documents = std::exchange(slot.documents, {});
  if (!slot.builder.has_begun()) {
    proceed(slot_id, slot.builder.begin(turn));
    return;
  }
  Turn shown = turn;
  if (shown.observation.empty() && !shown.tool_call && !shown.is_done) {
    shown.observation = protocol_->observation_text(documents);  // the environment leaves their form to the protocol
  }
  proceed(slot_id, slot.builder.turned(shown));
}

void EnvActor::proceed(std::int64_t slot_id, NextCall next) {
  Slot& slot = slots_.at(slot_id);
  emit_invocations(slot, slot_id);
  switch (next) {
    case NextCall::generate:
      generate(slot_id);
      return;
    case NextCall::environment:
      call_environment(
          slot_id, [action = slot.builder.action()](Environment& target) { return target.step(action); }, false);
      return;
    case NextCall::tool:
      retrieve(slot_id);
      return;
    case NextCall::finish: {
      slot.is_finished = true;
      ++slot.num_unacknowledged;
      ask<Acknowledged>(align_pack_for(cluster(), slot.builder.task().trajectory_id), slot.builder.record(),
                        ask_timeout_)
          .then([this, slot_id](const Expected<Acknowledged>& answer) { acknowledged(slot_id, answer); });
      return;
    }
  }
}

void EnvActor::generate(std::int64_t slot_id) {
  TrajectoryBuilder& builder = slots_.at(slot_id).builder;
  const std::string& group = builder.task().student;
  if (!students_.contains(group)) {
    auto actors = cluster().find(group);
    if (!actors) {
      proceed(slot_id, builder.fail(TrajectoryStatus::aborted, actors.error().message));
      return;
    }
    students_.emplace(group, ActorPool(*actors));
  }
  students_.at(group)
      .ask<Generated>(*this, builder.request(), ask_timeout_)
      .then([this, slot_id](const Expected<Generated>& generated) {
        TrajectoryBuilder& waiting = slots_.at(slot_id).builder;
        if (!generated && generated.error().code == ErrorCode::target_down && is_any_expected(waiting.task().student)) {
          generate(slot_id);  // another student gives the same answer (RL-7)
          return;
        }
        proceed(slot_id, generated
                             ? waiting.responded(*generated)
                             : waiting.fail(generated.error().code == ErrorCode::timeout ? TrajectoryStatus::timeout
                                                                                         : TrajectoryStatus::aborted,
                                            "student: " + generated.error().message));
      });
}

bool EnvActor::is_any_expected(const std::string& group) const {
  const auto& students = students_.at(group).group().members();
  return std::any_of(students.begin(), students.end(), [](const ActorRef& student) { return student.is_expected(); });
}

void EnvActor::retrieve(std::int64_t slot_id) {
  Slot& slot = slots_.at(slot_id);
  auto retriever = cluster().find("retriever");
  if (!retriever) {
    proceed(slot_id, slot.builder.fail(TrajectoryStatus::env_failed, retriever.error().message));
    return;
  }
  Retrieve request{{slot.builder.tool_call().query}, 0};
  ask<Retrieved>((*retriever)[0], std::move(request), std::chrono::milliseconds(config_.turn_timeout_ms))
      .then([this, slot_id](const Expected<Retrieved>& retrieved) {
        Slot& waiting = slots_.at(slot_id);
        if (!retrieved || retrieved->documents.size() != 1) {
          const std::string why = retrieved ? "one query, several answers" : retrieved.error().message;
          proceed(slot_id, waiting.builder.fail(TrajectoryStatus::env_failed, "retriever: " + why));
          return;
        }
        waiting.documents = retrieved->documents.front();
        call_environment(
            slot_id,
            [result = ToolResult{retrieved->documents.front()}](Environment& target) {
              return target.tool_result(result);
            },
            false);
      });
}

void EnvActor::emit_invocations(Slot& slot, std::int64_t slot_id) {
  for (Invocation& invocation : slot.builder.take_invocations()) {
    ++slot.num_unacknowledged;
    const TrajectoryId id = invocation.trajectory_id;
    ask<Acknowledged>(
        align_pack_for(cluster(), id),
        EmitInvocation{std::move(invocation), slot.builder.task().is_training, slot.builder.task().lineage},
        ask_timeout_)
        .then([this, slot_id](const Expected<Acknowledged>& answer) { acknowledged(slot_id, answer); });
  }
}

void EnvActor::acknowledged(std::int64_t slot_id, const Expected<Acknowledged>& answer) {
  Slot& slot = slots_.at(slot_id);
  --slot.num_unacknowledged;
  if (!answer && slot.record_error.empty()) {
    slot.record_error = answer.error().message;
  }
  if (!slot.is_finished || slot.num_unacknowledged > 0) {
    return;
  }
  finish(slot_id);
}

void EnvActor::finish(std::int64_t slot_id) {
  constexpr std::size_t kRemembered = 1024;
  auto node = slots_.extract(slot_id);
  Slot& slot = node.mapped();
  Expected<TrajectoryDone> done = slot.builder.done();
  if (!slot.record_error.empty()) {
    done = unexpected(ErrorCode::io_error, "align_pack: " + slot.record_error);
  }
  for (Promise<TrajectoryDone>& asker : slot.askers) {
    asker.deliver(done);
  }
  if (slot.environment) {
    idle_environments_.push_back(std::move(slot.environment));
  }
  const RunTask& task = slot.builder.task();
  const TaskKey key{task.lineage, task.trajectory_id, task.attempt};
  running_.erase(key);
  finished_.insert_or_assign(key, std::move(done));
  finished_order_.push_back(key);
  if (finished_order_.size() > kRemembered) {
    finished_.erase(finished_order_.front());
    finished_order_.pop_front();
  }
}

}  // namespace memopd
