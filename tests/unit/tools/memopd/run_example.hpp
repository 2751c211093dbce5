// A run folder made by hand: models of a few thousand parameters, a checkpoint, and a ledger of what they would sample.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "policies/model/checkpoint.hpp"
#include "policies/model/state_digest.hpp"
#include "policies/text/bpe_trainer.hpp"
#include "runtime/config/load.hpp"
#include "runtime/ledger/ledger.hpp"
#include "tests/unit/policies/model/tiny_models.hpp"
#include "tools/memopd/ledger_run.hpp"

namespace memopd::testing {

/// printf, since the tensor library's headers bring a formatting library of their own.
template <class... Arguments>
std::string formatted(const char* format, Arguments... arguments) {
  std::array<char, 256> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, arguments...);
  return buffer.data();
}

/// Version 0 is the student folder, version 1 the checkpoint of step 1; nothing else is kept.
class RunExample {
 public:
  RunExample()
      : folder_("run_example"),
        tokenizer_(*train_bpe(std::vector<std::string>{"aa"}, {.vocab_size = 264, .added_tokens = {"<think>"}})),
        teacher_(model(5)) {
    versions_.push_back(model(3));
    versions_.push_back(model(4));
    REQUIRE(save_transformer(student_folder(), versions_[0]));
    REQUIRE(tokenizer_.save(student_folder()));
    REQUIRE(save_transformer(teacher_folder(), teacher_));
    add_checkpoint("step-1", 0, 1, versions_[1]);
    Config config;
    config.env.emplace_back();
    config.env.front().name = "atlas";
    config.student.model = student_folder().string();
    config.teacher.model = teacher_folder().string();
    config.pack.max_tokens = 64;
    config.eval.teacher = true;
    config.eval.splits = {{"near", "val", 2, 3, true}};
    write_file(path() / "config.toml", dump_config(config));
    ledger_ = *LedgerWriter::create(path() / "ledger");
  }

  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "run"; }
  [[nodiscard]] std::filesystem::path student_folder() const { return folder_.path() / "student"; }
  [[nodiscard]] std::filesystem::path teacher_folder() const { return folder_.path() / "teacher"; }
  [[nodiscard]] const Tokenizer& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const Transformer& version(std::size_t number) const { return versions_[number]; }
  [[nodiscard]] const Transformer& teacher() const { return teacher_; }
  [[nodiscard]] LedgerWriter& ledger() { return *ledger_; }
  [[nodiscard]] LedgerRun open() const { return open_ledger_run(path()).value(); }

  void add_checkpoint(const std::string& name, std::int64_t lineage, std::int64_t version, const Transformer& policy) {
    const auto folder = path() / "checkpoints" / name;
    REQUIRE(save_transformer(folder / "policy", policy));
    write_file(folder / "state.json", nlohmann::json{{"lineage", lineage}, {"policy_version", version}}.dump());
  }

  /// A call whose log-probs are `policy`'s, computed alone by the tensor library.
  [[nodiscard]] Invocation call(const Transformer& policy, TrajectoryId id, std::int32_t index, std::int64_t version,
                                double temperature = 0.5) const {
    Invocation made = invocation({}, {});
    made.trajectory_id = std::move(id);
    made.invocation_index = index;
    const std::string question = "Question: who?\n";
    made.prompt_token_ids = tokenizer_.encode(question + (index == 0 ? "" : "<think>a\n\x1b[1mkept"));
    const auto question_end = static_cast<std::int32_t>(tokenizer_.encode(question).size());
    const auto end = static_cast<std::int32_t>(made.prompt_token_ids.size());
    made.spans = {{0, question_end, SpanKind::question}};
    if (index > 0) {
      made.spans.push_back({question_end, end, SpanKind::kept});
    }
    made.response_token_ids = tokenizer_.encode("<think>x" + std::to_string(made.trajectory_id.task_index));
    made.policy_versions = {{version, static_cast<std::int32_t>(made.response_token_ids.size())}};
    made.sampling.temperature = temperature;
    const auto tensors = to_tensors(pack_of({made}, false)).value();
    const at::Tensor rows = policy.hidden(tensors).index_select(0, tensors.response_index);
    const at::Tensor all = at::log_softmax(policy.logits(rows) / (temperature == 0 ? 1 : temperature), 1);
    for (std::size_t t = 0; t < made.response_token_ids.size(); ++t) {
      made.rollout_log_probs.push_back(
          all.select(0, static_cast<std::int64_t>(t)).select(0, made.response_token_ids[t]).item<float>());
    }
    made.digest = aligned_digest(made);
    return made;
  }

  /// As the engine computes it: row by row, each seeing all before it.
  static Digest aligned_digest(const Invocation& call) {
    std::vector<std::int32_t> ids = call.prompt_token_ids;
    ids.insert(ids.end(), call.response_token_ids.begin(), call.response_token_ids.end());
    StateDigest digest;
    for (std::size_t row = 0; row + 1 < ids.size(); ++row) {
      digest.append(ids[row], static_cast<std::int32_t>(row));
    }
    return digest.finish(ids.back());
  }

  /// Two calls and the record of a trajectory that `version` sampled.
  void add_trajectory(const TrajectoryId& id, std::int64_t version) {
    for (std::int32_t index = 0; index < 2; ++index) {
      REQUIRE(ledger_->append(call(versions_.at(static_cast<std::size_t>(version)), id, index, version)));
    }
    add_record(id, 2);
  }

  void add_record(const TrajectoryId& id, std::int32_t num_calls) {
    Trajectory ended;
    ended.id = id;
    ended.task_id = "task-7";
    ended.env = "atlas";
    ended.rewards = {{"final", 0.5}};
    ended.metrics = {{"f1", 0.25}};
    ended.answer = "Lima";
    REQUIRE(ledger_->append(ended, num_calls));
  }

 private:
  [[nodiscard]] Transformer model(std::uint64_t seed) const {
    ModelConfig shape = tiny_config();
    shape.vocab_size = tokenizer_.vocab_size();
    return tiny_model(shape, seed);
  }

  TemporaryFolder folder_;
  Tokenizer tokenizer_;
  std::vector<Transformer> versions_;
  Transformer teacher_;
  std::unique_ptr<LedgerWriter> ledger_;
};

}  // namespace memopd::testing
