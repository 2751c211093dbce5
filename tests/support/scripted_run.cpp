#include "tests/support/scripted_run.hpp"

#include <unistd.h>

#include <atomic>
#include <stdexcept>

#include "actors/env_actor.hpp"
#include "envs/registry.hpp"
#include "policies/text/bpe_trainer.hpp"
#include "runtime/config/load.hpp"

namespace memopd::testing {
namespace {

ScriptedOptions& options() {
  static ScriptedOptions instance;
  return instance;
}

std::int64_t milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

const Tokenizer& tokenizer() {
  static const Tokenizer instance =
      *train_bpe(std::vector<std::string>{"aa bb cc"},
                 {.vocab_size = 264,
                  .added_tokens = {"<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>",
                                   "<information>", "</information>"}});
  return instance;
}

class ScriptedEnvironment final : public Environment {
 public:
  EnvironmentInfo info() const override { return {"scripted", "", 6, 64, true, {"retrieve"}}; }
  Expected<Turn> reset(const Task& task, std::uint64_t) override {
    behaviour_ = task.extra;
    if (behaviour_ == "fails_once" && num_resets_++ == 0) {
      return unexpected(ErrorCode::env_failed, "first reset fails");
    }
    Turn turn;
    turn.observation = task.text;
    return turn;
  }
  Expected<Turn> step(const Action& action) override {
    if (behaviour_ == "throws") {
      throw std::runtime_error("disk on fire");
    }
    Turn turn;
    if (action.kind == ActionKind::answer) {
      turn.is_done = true;
      turn.reward = 1;
      turn.metrics = {{"em", 1.0}, {"f1", 1.0}};
    } else {
      turn.tool_call = ToolCall{"retrieve", action.text};
    }
    return turn;
  }
  Expected<Turn> tool_result(const ToolResult& result) override {
    Turn turn;
    if (behaviour_ != "unformatted") {
      turn.observation = result.documents.empty() ? "nothing" : result.documents.front().text;
    }
    turn.reward = behaviour_ == "paid" ? 0.25 : 0;
    return turn;
  }

 private:
  std::string behaviour_;
  int num_resets_ = 0;
};

/// Calls into a "silent" environment are dropped, as one that hangs for ever.
class DroppingExecutor final : public CallExecutor {
 public:
  void run(std::function<void()> call) override {
    if (!is_silent()) {
      call();
    }
  }
  static bool& is_silent() {
    static bool instance = false;
    return instance;
  }
};

class ScriptedEnvActor final : public EnvActor {
 public:
  using EnvActor::EnvActor;

 protected:
  std::unique_ptr<CallExecutor> make_executor() const override { return std::make_unique<DroppingExecutor>(); }
};

struct AnswerDue {
  std::int64_t number = 0;
};
MEMOPD_MESSAGE(AnswerDue, 1, number)

class ScriptedStudent final : public Actor {
 protected:
  void setup() override {
    on(&ScriptedStudent::generate);
    on(&ScriptedStudent::answer_due);
  }

 private:
  Later<Generated> generate(const Generate& request) {
    const std::string prompt = tokenizer().decode(request.prompt_token_ids);
    const auto memory = prompt.rfind("<think>");
    const int call = memory == std::string::npos ? 0 : std::stoi(prompt.substr(memory + 7)) + 1;
    const std::string think = "<think>" + std::to_string(call) + "</think>";
    const std::string text =
        call < options().num_searches ? think + "<search>bb</search>" : think + "<answer>aa</answer>";
    Generated generated;
    generated.response_token_ids = tokenizer().encode(text);
    const auto count = generated.response_token_ids.size();
    generated.rollout_log_probs.assign(count, -1.0F);
    generated.policy_versions = {{0, static_cast<std::int32_t>(count)}};
    ScriptedRun::seen().push_back({"generate call " + std::to_string(call), milliseconds(now())});
    promises_.push_back(make_promise<Generated>());
    answers_.push_back(std::move(generated));
    after(options().student_delay, AnswerDue{static_cast<std::int64_t>(answers_.size()) - 1});
    return promises_.back().later();
  }
  void answer_due(const AnswerDue& due) {
    const auto index = static_cast<std::size_t>(due.number);
    promises_[index].deliver(answers_[index]);
  }

  std::vector<Promise<Generated>> promises_;
  std::vector<Generated> answers_;
};

class ScriptedTeacher final : public Actor {
 protected:
  void setup() override {
    on(&ScriptedTeacher::score);
    on(&ScriptedTeacher::answer_due);
  }

 private:
  Later<PackScored> score(const ScorePack& request) {
    if (num_requests_++ < options().num_teacher_failures) {
      return unexpected(ErrorCode::internal, "teacher out of memory");
    }
    auto pack = objects().get<PackedBatch>(request.pack);
    auto scores = std::make_shared<TeacherScores>();
    const auto rows = static_cast<std::size_t>((*pack)->num_response_tokens() + options().teacher_extra_rows);
    scores->row_valid.assign(rows, 1);
    scores->hidden.shape = {static_cast<std::int64_t>(rows), 1};
    scores->hidden.bytes.resize(rows * 4);
    for (const PackedInvocation& packed : (*pack)->invocations) {
      ScriptedRun::seen().push_back({"score call " + std::to_string(packed.invocation_index), milliseconds(now())});
    }
    PackScored scored{objects().put(std::shared_ptr<const TeacherScores>(scores), Scope{ScopeKind::step, request.step}),
                      7, static_cast<double>(options().teacher_delay.count())};
    promises_.push_back(make_promise<PackScored>());
    answers_.push_back(scored);
    after(options().teacher_delay, AnswerDue{static_cast<std::int64_t>(answers_.size()) - 1});
    return promises_.back().later();
  }
  void answer_due(const AnswerDue& due) {
    const auto index = static_cast<std::size_t>(due.number);
    ScriptedRun::seen().push_back({"scored", milliseconds(now())});
    promises_[index].deliver(answers_[index]);
  }

  std::vector<Promise<PackScored>> promises_;
  std::vector<PackScored> answers_;
  int num_requests_ = 0;
};

class ScriptedRetriever final : public Actor {
 protected:
  void setup() override { on(&ScriptedRetriever::retrieve); }

 private:
  Expected<Retrieved> retrieve(const Retrieve& request) {
    return Retrieved{std::vector<std::vector<Document>>(request.queries.size(), {Document{"0", "t", "fact", 1.0}})};
  }
};

MEMOPD_REGISTER_ACTOR("scripted_env", ScriptedEnvActor, RoleInit)
MEMOPD_REGISTER_ACTOR("scripted_student", ScriptedStudent)
MEMOPD_REGISTER_ACTOR("scripted_teacher", ScriptedTeacher)
MEMOPD_REGISTER_ACTOR("scripted_retriever", ScriptedRetriever)

std::filesystem::path make_folder() {
  static std::atomic<int> counter{0};
  const auto folder = std::filesystem::temp_directory_path() /
                      ("memopd_scripted_" + std::to_string(getpid()) + "_" + std::to_string(counter++));
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

Config ScriptedRun::default_config() {
  Config config;
  EnvConfig env;
  env.name = "scripted";
  env.turn_timeout_ms = 5000;
  config.env.push_back(env);
  config.protocol.chat_template = "none";
  config.protocol.instructions = "";
  config.protocol.question = "{question}\n";
  config.protocol.observation = "<information>{documents}</information>";
  config.protocol.hint = "";
  config.protocol.hint_last = "";
  config.protocol.max_prompt_tokens = 512;
  return config;
}

RunTask ScriptedRun::task(std::int32_t index, const std::string& behaviour) {
  RunTask task;
  task.trajectory_id = {"train", 0, index, 0};
  task.task.id = "t" + std::to_string(index);
  task.task.text = "aa?";
  task.task.targets = {{"aa"}};
  task.task.extra = behaviour;
  task.seed = 5;
  DroppingExecutor::is_silent() = behaviour == "silent";
  return task;
}

std::vector<SeenEvent>& ScriptedRun::seen() {
  static std::vector<SeenEvent> instance;
  return instance;
}

ScriptedRun::ScriptedRun(const ScriptedOptions& scripted, const Config& config) : folder_(make_folder()) {
  options() = scripted;
  seen().clear();
  DroppingExecutor::is_silent() = false;
  (void)register_environment({"scripted",
                              "test environment",
                              {},
                              [](const EnvOptions&) {
                                return Expected<std::unique_ptr<Environment>>(std::make_unique<ScriptedEnvironment>());
                              },
                              {},
                              {},
                              {}});
  (void)tokenizer().save(folder_);
  cluster_ = make_deterministic_cluster();
  RoleInit init;
  init.config_text = dump_config(config);
  init.tokenizer = folder_.string();
  (void)cluster_->spawn("scripted_student", {}, "student");
  (void)cluster_->spawn("scripted_retriever", {}, "retriever");
  if (scripted.with_teacher) {
    (void)cluster_->spawn("scripted_teacher", {}, "teacher");
  }
  align_pack_ = cluster_->spawn("align_pack", {}, "align_pack", init)[0];
  env_ = cluster_->spawn("scripted_env", {}, "env", init)[0];
  cluster_->run();
}

ScriptedRun::~ScriptedRun() {
  cluster_->shutdown();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Future<TrajectoryDone> ScriptedRun::begin(RunTask task) {
  return cluster_->ask<TrajectoryDone>(env_, std::move(task), std::chrono::hours(1));
}

Expected<TrajectoryDone> ScriptedRun::run(RunTask task) { return begin(std::move(task)).get(); }

Expected<StepClosed> ScriptedRun::close(std::vector<TrajectoryId> ids) {
  return cluster_->ask<StepClosed>(align_pack_, CloseStep{0, 0, 0, std::move(ids)}, std::chrono::hours(1)).get();
}

std::shared_ptr<const StepBatch> ScriptedRun::batch(const StepClosed& closed) {
  return *cluster_->objects().get<StepBatch>(closed.batch);
}

}  // namespace memopd::testing
