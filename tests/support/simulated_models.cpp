#include "tests/support/simulated_models.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/model/model_config.hpp"
#include "policies/text/bpe_trainer.hpp"
#include "runtime/base/random.hpp"

namespace memopd::testing {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kFirstWeights = 0x5EED;

std::uint64_t fold(std::uint64_t hash, std::uint64_t part) { return chain_seed(hash, {part}); }
std::uint64_t fold(std::uint64_t hash, std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    hash = fold(hash, static_cast<std::uint64_t>(id));
  }
  return hash;
}

WeightSet to_weights(std::int64_t lineage, std::int64_t version, std::uint64_t hash) {
  WeightSet weights{lineage, version, {HostTensor{"hash", DType::float32, {2}, {}}}};
  weights.tensors.front().bytes.resize(sizeof hash);
  std::memcpy(weights.tensors.front().bytes.data(), &hash, sizeof hash);
  return weights;
}

std::uint64_t hash_of(const WeightSet& weights) {
  std::uint64_t hash = 0;
  std::memcpy(&hash, weights.tensors.at(0).bytes.data(), sizeof hash);
  return hash;
}

class SimulatedEngine final : public Engine {
 public:
  SimulatedEngine(std::shared_ptr<const Tokenizer> tokenizer, WeightSwap swap, DeterministicCluster* cluster)
      : tokenizer_(std::move(tokenizer)), swap_(swap), cluster_(cluster) {}

  Expected<void> submit(GenerateRequest request) override {
    std::uint64_t hash = fold(fold(weights_, request.prompt_token_ids), request.sampling.seed);
    active_.push_back({std::move(request), hash, static_cast<std::int32_t>(1 + hash % 3)});
    return {};
  }
  void abort(std::uint64_t id) override {
    std::erase_if(active_, [&](const Active& sequence) {
      if (sequence.request.request_id == id) {
        GenerateResult result;
        result.request_id = id;
        result.finish_reason = FinishReason::aborted;
        finished_.push_back(std::move(result));
      }
      return sequence.request.request_id == id;
    });
  }
  std::vector<GenerateResult> step() override {
    cluster_->advance(std::chrono::milliseconds(2));
    std::erase_if(active_, [&](Active& sequence) {
      const bool is_done = --sequence.num_steps == 0;
      if (is_done) {
        finished_.push_back(respond(sequence));
      }
      return is_done;
    });
    return std::exchange(finished_, {});
  }
  bool is_idle() const override { return active_.empty() && finished_.empty(); }
  Expected<void> load_weights(const WeightSet& weights) override {
    if (lineage_ == weights.lineage && version_ == weights.policy_version && weights_ == hash_of(weights)) {
      return {};
    }
    if (swap_ == WeightSwap::refuse && !active_.empty()) {
      return unexpected(ErrorCode::refused, std::to_string(active_.size()) + " requests are active");
    }
    lineage_ = weights.lineage;
    version_ = weights.policy_version;
    weights_ = hash_of(weights);
    return {};
  }
  std::int64_t policy_version() const override { return version_; }
  std::int64_t lineage() const override { return lineage_; }
  std::uint64_t weight_fingerprint() const override { return weights_; }
  const ModelConfig& model_config() const override {
    static const ModelConfig instance;
    return instance;
  }
  EngineCounters counters() const override { return {}; }

 private:
  struct Active {
    GenerateRequest request;
    std::uint64_t hash = 0;
    std::int32_t num_steps = 0;
  };

  GenerateResult respond(const Active& sequence) const {
    const std::string prompt = tokenizer_->decode(sequence.request.prompt_token_ids);
    const auto memory = prompt.rfind("<think>");
    const int call = memory == std::string::npos ? 0 : std::stoi(prompt.substr(memory + 7)) + 1;
    const std::string kept = "<think>" + std::to_string(call) + " " + std::to_string(sequence.hash % 997) + "</think>";
    const bool searches = call < 3 && (sequence.hash >> 20) % 3 != 0;
    const std::string word = std::string(1, static_cast<char>('a' + (sequence.hash >> 30) % 3));
    GenerateResult result;
    result.request_id = sequence.request.request_id;
    result.response_token_ids =
        tokenizer_->encode(kept + (searches ? "<search>" + word + "</search>" : "<answer>" + word + "</answer>"));
    const auto count = result.response_token_ids.size();
    result.rollout_log_probs.assign(count, -1.0F - static_cast<float>(sequence.hash % 64));
    result.policy_versions = {{version_, static_cast<std::int32_t>(count)}};
    return result;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  WeightSwap swap_;
  DeterministicCluster* cluster_;
  std::vector<Active> active_;
  std::vector<GenerateResult> finished_;
  std::int64_t lineage_ = 0;
  std::int64_t version_ = 0;
  std::uint64_t weights_ = kFirstWeights;
};

class SimulatedLearner final : public Learner {
 public:
  SimulatedLearner(bool needs_scores, std::int32_t max_policy_lag)
      : needs_scores_(needs_scores), max_policy_lag_(max_policy_lag) {}

  Expected<StepReport> step(const StepBatch& batch, const ScoreLookup& lookup) override {
    if (batch.policy_version != version_) {
      return unexpected(ErrorCode::invalid_argument, "a batch of version " + std::to_string(batch.policy_version) +
                                                         ", the learner is at " + std::to_string(version_));
    }
    StepReport report;
    std::uint64_t hash = testing::fold(weights_, static_cast<std::uint64_t>(batch.step));
    for (const Trajectory& trajectory : batch.trajectories) {
      const std::string reason = reason_to_drop(batch, trajectory);
      if (!reason.empty()) {
        report.dropped.push_back({trajectory.id, trajectory.attempt, reason});
        continue;
      }
      MEMOPD_RETURN_IF_ERROR(check_scores(batch, trajectory, lookup));
      hash = fold(hash, trajectory);
      ++report.num_trained;
    }
    lineage_ = batch.lineage;
    weights_ = hash;
    version_ += report.num_trained > 0 ? 1 : 0;
    report.num_optimizer_steps = report.num_trained > 0 ? 1 : 0;
    report.policy_version = version_;
    report.metrics["train/loss"] = static_cast<double>(hash % 100003);
    return report;
  }

  WeightSet weights() const override { return to_weights(lineage_, version_, weights_); }
  std::int64_t policy_version() const override { return version_; }

  Expected<void> save_checkpoint(const fs::path& folder, const std::string& run_state) const override {
    if (fs::exists(folder)) {
      return unexpected(ErrorCode::already_exists, folder.string() + ": a checkpoint is never overwritten");
    }
    const fs::path unfinished = folder.string() + ".unfinished";
    fs::create_directories(unfinished);
    const nlohmann::json state = {{"hash", std::to_string(weights_)},
                                  {"lineage", lineage_},
                                  {"policy_version", version_},
                                  {"run", nlohmann::json::parse(run_state)}};
    std::ofstream(unfinished / "state.json") << state.dump();
    fs::rename(unfinished, folder);
    return {};
  }

  Expected<void> load_checkpoint(const fs::path& folder) override {
    const auto state = nlohmann::json::parse(std::ifstream(folder / "state.json"), nullptr, false);
    if (!state.is_object()) {
      return unexpected(ErrorCode::not_found, folder.string());
    }
    weights_ = std::stoull(state.at("hash").get<std::string>());
    lineage_ = state.at("lineage");
    version_ = state.at("policy_version");
    return {};
  }

 private:
  [[nodiscard]] std::string reason_to_drop(const StepBatch& batch, const Trajectory& trajectory) const {
    if (!is_trained(trajectory.status)) {
      return std::string(to_string(trajectory.status));
    }
    for (const Invocation& invocation : trajectory.invocations) {
      for (const VersionRun& run : invocation.policy_versions) {
        if (batch.policy_version - run.policy_version > max_policy_lag_) {
          return "stale";
        }
      }
    }
    return trajectory.invocations.empty() ? "empty" : "";
  }

  Expected<void> check_scores(const StepBatch& batch, const Trajectory& trajectory, const ScoreLookup& lookup) const {
    for (const Invocation& invocation : trajectory.invocations) {
      const auto score = std::find_if(batch.scores.begin(), batch.scores.end(), [&](const ScoreRef& ref) {
        return ref.trajectory_id == trajectory.id && ref.attempt == trajectory.attempt &&
               ref.invocation_index == invocation.invocation_index;
      });
      if (!needs_scores_ || invocation.response_token_ids.empty()) {
        continue;
      }
      const std::string name =
          to_string(trajectory.id) + ", invocation " + std::to_string(invocation.invocation_index) + ": ";
      if (score == batch.scores.end()) {
        return unexpected(ErrorCode::not_found, name + "no scores");
      }
      const auto scores = lookup(score->object);
      if (!scores) {
        return unexpected(scores.error().code, name + scores.error().message);
      }
      if (score->row_end - score->row_begin != static_cast<std::int32_t>(invocation.response_token_ids.size()) ||
          score->row_end > static_cast<std::int32_t>((*scores)->row_valid.size())) {
        return unexpected(ErrorCode::row_count_mismatch, name + "other rows");
      }
    }
    return {};
  }

  static std::uint64_t fold(std::uint64_t hash, const Trajectory& trajectory) {
    hash = chain_seed(hash, {hash_name(to_string(trajectory.id)), static_cast<std::uint64_t>(trajectory.status),
                             static_cast<std::uint64_t>(trajectory.rewards.at("final") * 1000)});
    for (const Invocation& invocation : trajectory.invocations) {
      hash = testing::fold(testing::fold(hash, invocation.prompt_token_ids), invocation.response_token_ids);
      for (const VersionRun& run : invocation.policy_versions) {
        hash = testing::fold(hash, static_cast<std::uint64_t>(run.policy_version));
      }
    }
    return hash;
  }

  bool needs_scores_;
  std::int32_t max_policy_lag_;
  std::uint64_t weights_ = kFirstWeights;
  std::int64_t lineage_ = 0;
  std::int64_t version_ = 0;
};

}  // namespace

const Tokenizer& simulated_tokenizer() {
  static const Tokenizer instance =
      *train_bpe(std::vector<std::string>{"aa bb cc"},
                 {.vocab_size = 264,
                  .added_tokens = {"<think>", "</think>", "<search>", "</search>", "<answer>", "</answer>",
                                   "<information>", "</information>"}});
  return instance;
}

std::unique_ptr<Engine> make_simulated_engine(std::shared_ptr<const Tokenizer> tokenizer, WeightSwap swap,
                                              DeterministicCluster* cluster) {
  return std::make_unique<SimulatedEngine>(std::move(tokenizer), swap, cluster);
}

std::unique_ptr<Learner> make_simulated_learner(bool needs_scores, std::int32_t max_policy_lag) {
  return std::make_unique<SimulatedLearner>(needs_scores, max_policy_lag);
}

}  // namespace memopd::testing
