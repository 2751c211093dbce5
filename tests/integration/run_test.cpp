// A whole training run in one process, on real questions, with models of a few thousand parameters.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "actors/roles.hpp"
#include "policies/model/scorer.hpp"
#include "policies/text/bpe_trainer.hpp"
#include "policies/training/sft.hpp"
#include "runtime/config/load.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tools/session/local_session.hpp"

using namespace memopd;
namespace fs = std::filesystem;

namespace {

/// A folder that is gone at the end.
class Scratch {
 public:
  Scratch()
      : path_(fs::temp_directory_path() /
              ("memopd_run_" + std::to_string(getpid()) + "_" + std::to_string(counter()++))) {
    fs::create_directories(path_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  static int& counter() {
    static int instance = 0;
    return instance;
  }
  fs::path path_;
};

void make_model(const fs::path& folder, std::uint64_t seed) {
  const std::vector<std::string> tags = {"<think>",  "</think>",  "<search>",      "</search>",
                                         "<answer>", "</answer>", "<information>", "</information>"};
  const auto tokenizer = train_bpe(std::vector<std::string>{"aa"}, {.vocab_size = 264, .added_tokens = tags});
  REQUIRE(tokenizer);
  REQUIRE(tokenizer->save(folder));
  SftSetup setup;
  setup.sft.model.hidden_size = 16;
  setup.sft.model.intermediate_size = 24;
  setup.sft.model.num_hidden_layers = 1;
  setup.sft.model.num_attention_heads = 2;
  setup.sft.model.num_key_value_heads = 2;
  setup.sft.model.num_previous_token_heads = 0;
  setup.vocab_size = tokenizer->vocab_size();
  setup.seed = seed;
  auto trainer = SftTrainer::create(setup);
  REQUIRE(trainer);
  REQUIRE((*trainer)->save(folder));
}

Config tiny_config(const fs::path& folder) {
  Config config;
  config.run.directory = folder.string();
  config.run.name = "run";
  config.run.num_steps = 2;
  config.env.emplace_back();
  config.env.front().name = "atlas";
  config.env.front().num_objectives = 2;
  config.retriever.topk = 1;
  config.protocol.chat_template = "none";
  config.protocol.instructions = "";
  config.protocol.retry_invalid = 2;  // a random policy acts rarely: corrections give it more calls
  config.student.model = (folder / "student").string();
  config.teacher.model = (folder / "teacher").string();
  config.sampling.max_response_tokens = 6;
  config.optimizer.lr = 1e-3;
  config.learner.tasks_per_step = 4;
  config.learner.mini_batch_trajectories = 2;
  config.eval.splits = {{"near", "val", 2, 3, true}};
  config.eval.max_response_tokens = 6;
  return config;
}

RunEnded run_to_end(const Config& config, const fs::path& folder) {
  auto directory = RunDirectory::create(folder, config.run.name);
  REQUIRE(directory);
  auto manifest = make_manifest(config.run.name, {"test"}, 0, {});
  REQUIRE(manifest);
  REQUIRE(directory->write_manifest(*manifest));
  auto session = LocalSession::start(config, launch_roles(config, directory->path().string()));
  REQUIRE(session);
  auto future = (*session)->cluster().ask<RunEnded>((*session)->coordinator(), StartRun{}, std::chrono::minutes(5));
  auto ended = wait_or_first_failure(future, **session);
  INFO((ended ? ended->first_failure : ended.error().message));
  REQUIRE(ended);
  return *ended;
}

std::vector<nlohmann::json> training_records(const fs::path& run) {
  std::vector<nlohmann::json> records;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    auto record = nlohmann::json::parse(line);
    if (record.contains("train/loss")) {
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace

TEST_CASE("a run goes from cold start to verdict and leaves everything it promises", "[integration]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  const Config config = tiny_config(scratch.path());

  const RunEnded ended = run_to_end(config, scratch.path());

  CHECK(ended.verdict == "completed");
  const fs::path run = scratch.path() / "run";
  const auto summary = load_summary(run / "summary.json");
  REQUIRE(summary);
  CHECK(summary->steps == 2);
  CHECK(summary->counts.trained + summary->counts.dropped == 8);
  CHECK(summary->counts.trained > 0);
  CHECK(summary->metrics.count("cold_start") == 1);
  CHECK(summary->metrics.count("final") == 1);
  CHECK(training_records(run).size() == 2);
  CHECK(fs::exists(run / "checkpoints/step-2/policy/model.safetensors"));
  CHECK(fs::exists(run / "checkpoints/step-2/state.json"));
  CHECK_FALSE(fs::is_empty(run / "tensorboard"));
  CHECK_FALSE(fs::is_empty(run / "trajectories"));
}

TEST_CASE("the ledger has every invocation before the step that trains it", "[integration][RL-1][RL-2]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  run_to_end(tiny_config(scratch.path()), scratch.path());

  const auto ledger = read_ledger(scratch.path() / "run/ledger");

  REQUIRE(ledger);
  std::map<TrajectoryId, std::int32_t> calls;
  std::map<TrajectoryId, std::int32_t> announced;
  std::set<TrajectoryId> trained;
  for (const LedgerRecord& record : ledger->records) {
    if (const auto* invocation = std::get_if<InvocationRecord>(&record)) {
      ++calls[invocation->invocation.trajectory_id];
    } else if (const auto* trajectory = std::get_if<TrajectoryRecord>(&record)) {
      announced[trajectory->trajectory.id] = static_cast<std::int32_t>(trajectory->trajectory.metrics.at("turns"));
    } else if (const auto* step = std::get_if<StepRecord>(&record)) {
      for (const TrajectoryId& id : step->trajectories) {
        CHECK(trained.insert(id).second);  // once
        CHECK(calls[id] == announced.at(id));
      }
    }
  }
  CHECK(trained.size() == 8);
}

TEST_CASE("after a step every sampled token carries the new version", "[integration][RL-3][pain:T20]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  run_to_end(tiny_config(scratch.path()), scratch.path());

  const auto ledger = read_ledger(scratch.path() / "run/ledger");

  REQUIRE(ledger);
  std::set<std::int32_t> steps;
  for (const LedgerRecord& record : ledger->records) {
    const auto* invocation = std::get_if<InvocationRecord>(&record);
    if (invocation == nullptr || invocation->invocation.trajectory_id.split != "train") {
      continue;
    }
    const std::int32_t step = invocation->invocation.trajectory_id.step;
    steps.insert(step);
    for (const VersionRun& versions : invocation->invocation.policy_versions) {
      CHECK(versions.policy_version == step);
    }
  }
  CHECK(steps == std::set<std::int32_t>{0, 1});
}

TEST_CASE("with the teacher as student the divergence is zero", "[integration][pain:T32]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  Config config = tiny_config(scratch.path());
  config.teacher.model = config.student.model;
  config.optimizer.lr = 1e-12;
  config.run.num_steps = 1;

  run_to_end(config, scratch.path());

  const auto records = training_records(scratch.path() / "run");
  REQUIRE(records.size() == 1);
  CHECK(std::abs(records.front().at("opd/divergence").get<double>()) <= 1e-6);
}

TEST_CASE("at standing weights the gap between sampler and learner stays numerical", "[integration][pain:T11]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  Config config = tiny_config(scratch.path());
  config.optimizer.lr = 1e-12;
  config.run.num_steps = 20;
  config.eval.splits.clear();

  run_to_end(config, scratch.path());

  const auto records = training_records(scratch.path() / "run");
  REQUIRE(records.size() == 20);
  for (const auto& record : records) {
    CHECK(record.at("train/rollout_gap").get<double>() < 1e-4);
    CHECK(record.at("ppo/max_ratio_error").get<double>() < 1e-4);
  }
}

TEST_CASE("one slot, one sequence at a time and odd batch sizes still finish a step", "[integration][pain:T22]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  make_model(scratch.path() / "teacher", 2);
  Config config = tiny_config(scratch.path());
  config.env.front().num_slots = 1;
  config.student.max_sequences = 1;
  config.learner.tasks_per_step = 5;
  config.learner.mini_batch_trajectories = 3;
  config.learner.num_ranks = 2;
  config.run.num_steps = 1;

  CHECK(run_to_end(config, scratch.path()).verdict == "completed");
}

TEST_CASE("a model folder that lacks a tensor ends the run with the tensor named", "[integration][error]") {
  const Scratch scratch;
  make_model(scratch.path() / "student", 1);
  const Config config = tiny_config(scratch.path());  // no teacher there

  const auto checked = check_inputs(config, launch_roles(config, {}));

  REQUIRE_FALSE(checked);
  CHECK(checked.error().message.find("teacher") != std::string::npos);
}
