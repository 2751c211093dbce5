#include "tests/support/tiny_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <system_error>

#include "policies/text/bpe_trainer.hpp"
#include "policies/training/sft.hpp"
#include "runtime/base/log.hpp"
#include "runtime/telemetry/run_directory.hpp"

namespace memopd::testing {
namespace {

namespace fs = std::filesystem;

RunEnded run_session(const Config& config, const RunDirectory& directory, const RoleSelection& selection,
                     const std::function<void(LocalSession&)>& meanwhile) {
  auto sink = directory.open_log_sink();
  REQUIRE(sink);
  set_log_sink(*std::move(sink));
  auto session = LocalSession::start(config, selection);
  REQUIRE(session);
  auto future = (*session)->cluster().ask<RunEnded>((*session)->coordinator(), StartRun{}, std::chrono::minutes(5));
  while (meanwhile && !future.wait_for(std::chrono::milliseconds(5))) {
    meanwhile(**session);
  }
  auto ended = wait_or_first_failure(future, **session);
  (*session)->cluster().shutdown();
  set_log_sink({});
  INFO((ended ? ended->first_failure : ended.error().message));
  REQUIRE(ended);
  return *ended;
}

}  // namespace

Scratch::Scratch() {
  static int counter = 0;
  path_ = fs::temp_directory_path() / ("memopd_run_" + std::to_string(getpid()) + "_" + std::to_string(counter++));
  fs::create_directories(path_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

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

Config tiny_world(const fs::path& folder) {
  make_model(folder / "student", 1);
  make_model(folder / "teacher", 2);
  return tiny_config(folder);
}

RunEnded run_to_end(const Config& config, const std::function<void(LocalSession&)>& meanwhile) {
  auto directory = RunDirectory::create(config.run.directory, config.run.name);
  REQUIRE(directory);
  auto manifest = make_manifest(config.run.name, {"test"}, 0, {});
  REQUIRE(manifest);
  REQUIRE(directory->write_manifest(*manifest));
  return run_session(config, *directory, launch_roles(config, directory->path().string()), meanwhile);
}

RunEnded resume_to_end(const Config& config, const std::function<void(LocalSession&)>& meanwhile) {
  auto directory = RunDirectory::open(fs::path(config.run.directory) / config.run.name);
  REQUIRE(directory);
  return run_session(config, *directory, resume_roles(config, *directory), meanwhile);
}

std::vector<nlohmann::json> metric_records(const fs::path& run) {
  std::vector<nlohmann::json> records;
  std::ifstream file(run / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    records.push_back(nlohmann::json::parse(line));
  }
  return records;
}

std::vector<nlohmann::json> training_records(const fs::path& run) {
  auto records = metric_records(run);
  std::erase_if(records, [](const nlohmann::json& record) { return !record.contains("train/loss"); });
  return records;
}

std::vector<std::string> reproducible_metrics(const fs::path& run) {
  std::vector<std::string> lines;
  for (const nlohmann::json& record : metric_records(run)) {
    for (const auto& [name, value] : record.items()) {
      if (name != "step" && name != "time" && !name.starts_with("time/") && !name.starts_with("load/")) {
        lines.push_back(record.at("step").dump() + " " + name + " " + value.dump());
      }
    }
  }
  return lines;
}

std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string left = i < a.size() ? a[i] : "(end)";
    const std::string right = i < b.size() ? b[i] : "(end)";
    if (left != right) {
      return left + " | " + right;
    }
  }
  return {};
}

std::vector<nlohmann::json> events(const fs::path& run, const std::string& name) {
  std::vector<nlohmann::json> found;
  std::ifstream file(run / "events.jsonl");
  for (std::string line; std::getline(file, line);) {
    auto event = nlohmann::json::parse(line);
    if (event.value("name", std::string()) == name) {
      found.push_back(std::move(event));
    }
  }
  return found;
}

}  // namespace memopd::testing
