#include "tests/support/simulated_run.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "actors/env_actor.hpp"
#include "actors/learner_actor.hpp"
#include "actors/student_actor.hpp"
#include "envs/registry.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/random.hpp"
#include "runtime/config/load.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tests/support/restarting_cluster.hpp"
#include "tests/support/simulated_models.hpp"

namespace memopd::testing {
namespace {

namespace fs = std::filesystem;
constexpr const char* kName = "simulated";

DeterministicCluster*& current_cluster() {
  static DeterministicCluster* instance = nullptr;
  return instance;
}

class SimulatedEnvironment final : public Environment {
 public:
  EnvironmentInfo info() const override { return {kName, "", 6, 64, true, {"retrieve"}}; }
  Expected<Turn> reset(const Task& task, std::uint64_t seed) override {
    hash_ = chain_seed(seed, {hash_name(task.text)});
    Turn turn;
    turn.observation = task.text;
    return turn;
  }
  Expected<Turn> step(const Action& action) override {
    Turn turn;
    if (action.kind == ActionKind::answer) {
      turn.is_done = true;
      turn.reward = static_cast<double>(chain_seed(hash_, {hash_name(action.text)}) % 8) / 8;
      turn.metrics = {{"em", turn.reward > 0.5 ? 1.0 : 0.0}, {"f1", turn.reward}};
    } else {
      turn.tool_call = ToolCall{"retrieve", action.text};
    }
    return turn;
  }
  Expected<Turn> tool_result(const ToolResult& result) override {
    Turn turn;
    turn.observation = result.documents.empty() ? "nothing" : result.documents.front().text;
    return turn;
  }

 private:
  std::uint64_t hash_ = 0;
};

class SimulatedTasks final : public TaskSource {
 public:
  Expected<std::vector<Task>> tasks(const TaskRequest& request) const override {
    std::vector<Task> result;
    for (std::int32_t index = 0; index < request.count; ++index) {
      Task task;
      task.id = request.split + std::to_string(request.first + index);
      task.text = "a" + std::to_string((request.first + index) % 10) + "?";
      task.targets = {{"a"}};
      result.push_back(std::move(task));
    }
    return result;
  }
};

class SimulatedEnvActor final : public EnvActor {
 public:
  using EnvActor::EnvActor;

 protected:
  std::unique_ptr<CallExecutor> make_executor() const override { return make_inline_executor(); }
};

class SimulatedStudent final : public StudentActor {
 public:
  using StudentActor::StudentActor;

 protected:
  Expected<std::unique_ptr<Engine>> make_engine(const std::shared_ptr<const Tokenizer>& tokenizer,
                                                const EngineOptions& options) const override {
    return make_simulated_engine(tokenizer, options.weight_swap, current_cluster());
  }
};

class SimulatedLearnerActor final : public LearnerActor {
 public:
  using LearnerActor::LearnerActor;

 protected:
  Expected<std::unique_ptr<Learner>> make_learner(const LearnerSetup& setup,
                                                  std::shared_ptr<Collective>) const override {
    return make_simulated_learner(true, setup.max_policy_lag);
  }
};

class SimulatedTeacher final : public Actor {
  void setup() override { on(&SimulatedTeacher::score); }
  Expected<PackScored> score(const ScorePack& request) {
    auto pack = objects().get<PackedBatch>(request.pack);
    if (!pack) {
      return unexpected(pack.error());
    }
    auto scores = std::make_shared<TeacherScores>();
    scores->row_valid.assign(static_cast<std::size_t>((*pack)->num_response_tokens()), 1);
    return PackScored{
        objects().put(std::shared_ptr<const TeacherScores>(std::move(scores)), Scope{ScopeKind::step, request.step}), 7,
        1.0};
  }
};

MEMOPD_REGISTER_ACTOR("simulated_env", SimulatedEnvActor, RoleInit)
MEMOPD_REGISTER_ACTOR("simulated_student", SimulatedStudent, RoleInit)
MEMOPD_REGISTER_ACTOR("simulated_learner", SimulatedLearnerActor, RoleInit)
MEMOPD_REGISTER_ACTOR("simulated_teacher", SimulatedTeacher)

void register_simulated_environment() {
  (void)register_environment(
      {kName,
       "test environment",
       {},
       [](const EnvOptions&) -> Expected<std::unique_ptr<Environment>> {
         return std::unique_ptr<Environment>(std::make_unique<SimulatedEnvironment>());
       },
       [](const EnvOptions&) -> Expected<std::unique_ptr<TaskSource>> {
         return std::unique_ptr<TaskSource>(std::make_unique<SimulatedTasks>());
       },
       {},
       [](const EnvOptions&) -> Expected<std::vector<Document>> {
         return std::vector<Document>{{"0", "t", "a a", 0}, {"1", "t", "b b", 0}, {"2", "t", "c", 0}};
       }});
}

Config config_of(const SimulationOptions& options) {
  Config config;
  EnvConfig env;
  env.name = kName;
  env.num_actors = 2;
  env.num_slots = 2;
  config.env.push_back(env);
  config.protocol.chat_template = "none";
  config.protocol.instructions = "";
  config.protocol.question = "{question}\n";
  config.protocol.observation = "<information>{documents}</information>";
  config.protocol.hint = "";
  config.protocol.hint_last = "";
  config.retriever.topk = 1;
  config.run.num_steps = 4;
  config.run.max_policy_lag = options.max_policy_lag;
  config.run.mode = options.max_policy_lag > 0 ? "async" : "sync";
  config.run.step_timeout_s = 60;
  config.learner.tasks_per_step = 2;
  config.sampling.num_samples = 2;
  config.eval.splits = {{"near", "val", 1, 2, true}};
  config.eval.every = 2;
  config.checkpoint.every = options.checkpoint_every;
  config.checkpoint.keep = 2;
  config.ledger.enabled = options.with_ledger;
  return config;
}

/// On memory if there is a file system there: a schedule writes a few hundred small files.
fs::path make_folder() {
  static int counter = 0;
  const fs::path memory = "/dev/shm";
  const fs::path folder = (fs::is_directory(memory) ? memory : fs::temp_directory_path()) /
                          ("memopd_simulation_" + std::to_string(getpid()) + "_" + std::to_string(counter++));
  fs::create_directories(folder);
  return folder;
}

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : options_(options),
        random_(chain_seed(options.seed, {hash_name("kills")})),
        folder_(make_folder()),
        actors_(options.seed, options.restart_after_ms) {
    register_simulation(*cluster_);
    (void)simulated_tokenizer().save(folder_);
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation() {
    cluster_->shutdown();
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  SimulationResult run() {
    spawn();
    plan_kills();
    cluster_->set_faults([this](const Delivery& delivery) { return fault_of(delivery); });
    auto ended = cluster_->ask<RunEnded>((*cluster_->find("coordinator"))[0], StartRun{}, std::chrono::hours(10)).get();
    cluster_->set_faults({});
    result_.num_restarts = actors_.num_restarts();
    result_.ended = ended ? *ended : RunEnded{"unanswered", ended.error().message};
    if (const auto failure = cluster_->first_failure()) {
      result_.first_failure = failure->name + ": " + failure->reason;
    }
    read_results();
    return std::move(result_);
  }

 private:
  void spawn() {
    const Config config = config_of(options_);
    auto directory = RunDirectory::create(folder_, "run");
    (void)directory->write_manifest(Manifest{});
    RoleInit init;
    init.config_text = dump_config(config);
    init.run_directory = directory->path().string();
    init.tokenizer = folder_.string();
    init.collective =
        cluster_->objects().put(std::make_shared<const CollectiveGroup>(make_local_collective(1)), Scope{});
    const auto start = [&](const char* actor, const char* group, std::int32_t count) {
      (void)cluster_->spawn(actor, {.count = count}, group, init);
    };
    start("retriever", "retriever", 1);
    start("simulated_student", "student", 2);
    (void)cluster_->spawn("simulated_teacher", {.count = 2}, "teacher");
    start("align_pack", "align_pack", 1);
    start("simulated_env", "env", config.env.front().num_actors);
    start("simulated_learner", "learner", 1);
    start("coordinator", "coordinator", 1);
    cluster_->run();
  }

  /// Kills fall on deliveries, so that what happens in one instant is hit as often as long waits.
  void plan_kills() {
    constexpr std::uint64_t kDeliveriesOfARun = 500;
    for (std::int32_t kill = 0; kill < options_.num_kills; ++kill) {
      kills_.insert(random_.below(kDeliveriesOfARun));
    }
  }

  [[nodiscard]] bool is_victim(std::string_view name) const {
    for (const std::string& group : options_.victims) {
      if (name.starts_with(group + "/")) {
        return true;
      }
    }
    return false;
  }

  void kill_soon(const std::string& name) { actors_.kill_in(std::chrono::milliseconds(random_.below(3)), name); }

  Fault fault_of(const Delivery& delivery) {
    ++result_.num_deliveries;
    Fault fault;
    if (delivery.from == "client" || delivery.to == "client") {
      return fault;
    }
    const auto draw = [&](std::uint64_t index) { return philox_uniform(options_.seed, delivery.index, index); };
    const bool is_of_env = delivery.from.starts_with("env/") || delivery.to.starts_with("env/");
    fault.lose = is_of_env && draw(0) < options_.lose;
    fault.copies = draw(1) < options_.duplicate ? 2 : 1;
    fault.delay = std::chrono::milliseconds(
        static_cast<std::int64_t>(draw(2) * static_cast<double>(options_.max_delay.count() + 1)));
    if (options_.has_slow_peer && delivery.to == slow_peer()) {
      fault.delay += std::chrono::milliseconds(500);
    }
    if (kills_.erase(delivery.index) > 0) {
      if (is_victim(delivery.to) && !delivery.is_answer && random_.below(2) == 0) {
        fault.kill_receiver = true;
      } else if (is_victim(delivery.from) && random_.below(2) == 0) {
        kill_soon(std::string(delivery.from));
      } else {
        const std::string& group = options_.victims[random_.below(options_.victims.size())];
        const auto members = cluster_->find(group);
        kill_soon(group + "/" + std::to_string(random_.below(members->size())));
      }
    }
    return fault;
  }

  [[nodiscard]] const char* slow_peer() const {
    constexpr const char* kPeers[] = {"env/1", "student/0", "teacher/1", "align_pack/0", "retriever/0", "learner/0"};
    return kPeers[options_.seed % std::size(kPeers)];
  }

  void read_results() {
    const fs::path run = folder_ / "run";
    if (auto summary = load_summary(run / "summary.json")) {
      result_.summary = *std::move(summary);
    }
    if (options_.with_ledger) {
      if (auto ledger = read_ledger(run / "ledger")) {
        result_.audit = audit_ledger(*ledger, {.max_policy_lag = options_.max_policy_lag});
        result_.num_recoveries = static_cast<std::int32_t>(result_.audit.num_rollbacks);
      } else {
        result_.audit.violations.push_back(ledger.error().message);
      }
    }
    std::ifstream state(run / ("checkpoints/step-" + std::to_string(result_.summary.steps)) / "state.json");
    if (const auto json = nlohmann::json::parse(state, nullptr, false); json.is_object()) {
      result_.final_weights = json.at("hash");
    }
    read_metrics(run);
    read_texts(run);
  }

  void read_metrics(const fs::path& run) {
    std::ifstream file(run / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line);
      for (const auto& [name, value] : record.items()) {
        if (name != "step" && name != "time" && !name.starts_with("time/") && !name.starts_with("load/")) {
          result_.metrics.push_back(record.at("step").dump() + " " + name + " " + value.dump());
        }
      }
    }
  }

  void read_texts(const fs::path& run) {
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(run / "trajectories")) {
      files.insert(entry.path());
    }
    for (const fs::path& path : files) {
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) {
        const auto text = nlohmann::json::parse(line, nullptr, false);
        result_.texts.push_back(text.is_object() ? text.at("trajectory_id").get<std::string>() + " attempt " +
                                                       text.at("attempt").dump() + " calls " +
                                                       std::to_string(text.at("calls").size())
                                                 : "torn");
      }
    }
  }

  const SimulationOptions options_;
  SplitMix random_;
  fs::path folder_;
  SimulationResult result_;
  RestartingCluster actors_;
  DeterministicCluster* const cluster_ = &actors_.get();
  std::set<std::uint64_t> kills_;  // indices of deliveries
};

}  // namespace

void register_simulation(DeterministicCluster& cluster) {
  register_simulated_environment();
  current_cluster() = &cluster;
}

SimulationResult simulate(const SimulationOptions& options) { return Simulation(options).run(); }

}  // namespace memopd::testing
