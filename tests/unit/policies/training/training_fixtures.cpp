#include "tests/unit/policies/training/training_fixtures.hpp"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <thread>

#include "policies/model/checkpoint.hpp"
#include "policies/model/initialization.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/scorer.hpp"
#include "policies/model/transformer.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "runtime/base/random.hpp"
#include "runtime/collective/collective.hpp"

namespace memopd::testing {

TemporaryFolder::TemporaryFolder() {
  static std::atomic<int> count{0};
  path_ = std::filesystem::temp_directory_path() /
          ("memopd_training_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
  std::filesystem::create_directories(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void save_tiny_model(const std::filesystem::path& folder, std::uint64_t seed, std::int32_t vocab_size,
                     std::int32_t width) {
  ModelConfig config;
  config.vocab_size = vocab_size;
  config.hidden_size = width;
  config.intermediate_size = 3 * width / 2;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = width / 2;
  config.max_position_embeddings = 256;
  Expected<Transformer> model = random_transformer(
      config, InitOptions{.seed = seed, .embedding_std = 0.5, .final_norm_weight = 0.6}, at::kDouble);
  save_transformer(folder, model.value()).value();
}

Trajectory make_trajectory(std::int32_t task_index, const std::vector<std::int32_t>& response_lengths, double reward,
                           std::uint64_t seed) {
  SplitMix random(chain_seed(seed, {static_cast<std::uint64_t>(task_index)}));
  const auto draw = [&](std::int32_t count) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<std::int32_t>(random.below(kVocab)));
    }
    return ids;
  };
  Trajectory trajectory;
  trajectory.id = {"train", 0, task_index, 0};
  trajectory.rewards["final"] = reward;
  std::vector<std::int32_t> question{1, 2, 3};  // what all tasks share
  const std::vector<std::int32_t> own = draw(3);
  question.insert(question.end(), own.begin(), own.end());
  for (std::size_t j = 0; j < response_lengths.size(); ++j) {
    Invocation invocation;
    invocation.trajectory_id = trajectory.id;
    invocation.invocation_index = static_cast<std::int32_t>(j);
    invocation.prompt_token_ids = question;
    invocation.spans = {{0, 6, SpanKind::question}};
    const auto append = [&](const std::vector<std::int32_t>& ids, SpanKind kind) {
      const auto begin = static_cast<std::int32_t>(invocation.prompt_token_ids.size());
      invocation.prompt_token_ids.insert(invocation.prompt_token_ids.end(), ids.begin(), ids.end());
      invocation.spans.push_back({begin, begin + static_cast<std::int32_t>(ids.size()), kind});
    };
    if (j > 0) {
      append(trajectory.invocations.back().response_token_ids, SpanKind::kept);
      append(draw(2), SpanKind::observation);
    }
    invocation.response_token_ids = draw(response_lengths[j]);
    for (std::int32_t t = 0; t < response_lengths[j]; ++t) {
      invocation.rollout_log_probs.push_back(static_cast<float>(-1.0 - random.uniform()));
    }
    invocation.policy_versions = {{0, response_lengths[j]}};
    trajectory.invocations.push_back(std::move(invocation));
  }
  return trajectory;
}

std::vector<Trajectory> three_trajectories() {
  return {make_trajectory(0, {4, 2, 5}, 1.0), make_trajectory(1, {3}, 0.0), make_trajectory(2, {2, 1, 3, 4}, 0.5)};
}

void set_version(ScoredStep& step, std::int64_t version) {
  step.batch.policy_version = version;
  for (Trajectory& trajectory : step.batch.trajectories) {
    for (Invocation& invocation : trajectory.invocations) {
      invocation.policy_versions = {{version, static_cast<std::int32_t>(invocation.response_token_ids.size())}};
    }
  }
}

std::vector<double> log_probs_alone(const std::filesystem::path& model, const Invocation& invocation,
                                    double temperature) {
  const Transformer decoder = load_transformer(model, at::kDouble).value();
  const Invocation* const pointer = &invocation;
  const auto packs = align_pack(std::span<const Invocation* const>(&pointer, 1), {.share_prefixes = false});
  const PackedTensors pack = to_tensors(packs->front()).value();
  const at::Tensor rows = decoder.hidden(pack).index_select(0, pack.response_index);
  const at::Tensor log_probs =
      (decoder.logits(rows) / temperature).log_softmax(-1).gather(1, pack.response_token_ids.unsqueeze(1)).flatten();
  return {log_probs.data_ptr<double>(), log_probs.data_ptr<double>() + log_probs.numel()};
}

std::pair<Invocation, std::vector<std::size_t>> history_of(const Trajectory& trajectory) {
  Invocation history;
  std::vector<std::size_t> places;
  history.prompt_token_ids = trajectory.invocations.front().prompt_token_ids;
  for (const Invocation& call : trajectory.invocations) {
    if (call.invocation_index > 0) {
      // make_trajectory: the last two prompt ids are the observation.
      history.response_token_ids.insert(history.response_token_ids.end(), call.prompt_token_ids.end() - 2,
                                        call.prompt_token_ids.end());
    }
    for (const std::int32_t id : call.response_token_ids) {
      places.push_back(history.response_token_ids.size());
      history.response_token_ids.push_back(id);
    }
  }
  return {history, places};
}

ScoreLookup ScoredStep::lookup() const {
  return [this](const ObjectRef& object) -> Expected<std::shared_ptr<const TeacherScores>> {
    const auto found = objects.find(object);
    if (found == objects.end()) {
      return unexpected(ErrorCode::not_found, "no such scores");
    }
    return found->second;
  };
}

TeacherScores& ScoredStep::edit(std::size_t trajectory, std::size_t invocation) {
  for (ScoreRef& score : batch.scores) {
    if (score.trajectory_id == batch.trajectories[trajectory].id &&
        score.invocation_index == static_cast<std::int32_t>(invocation)) {
      const TeacherScores& whole = *objects.at(score.object);
      const auto width = static_cast<std::size_t>(whole.hidden.shape[1]) * sizeof(double);
      auto copy = std::make_shared<TeacherScores>();
      copy->head_fingerprint = whole.head_fingerprint;
      copy->hidden.dtype = whole.hidden.dtype;
      copy->hidden.shape = {score.row_end - score.row_begin, whole.hidden.shape[1]};
      copy->hidden.bytes.assign(
          whole.hidden.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(score.row_begin) * width),
          whole.hidden.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(score.row_end) * width));
      copy->row_valid.assign(whole.row_valid.begin() + score.row_begin, whole.row_valid.begin() + score.row_end);
      score.object = {99, edited_.size() + 1};
      score.row_end -= score.row_begin;
      score.row_begin = 0;
      objects[score.object] = copy;
      edited_.push_back(copy);
      return *copy;
    }
  }
  throw std::out_of_range("no scores of this invocation");
}

ScoredStep score_step(std::vector<Trajectory> trajectories, const std::filesystem::path& teacher_folder,
                      std::int32_t scored_vocab) {
  ScoredStep step;
  step.batch.trajectories = std::move(trajectories);
  if (teacher_folder.empty()) {
    return step;
  }
  const auto scorer = Scorer::load(teacher_folder, {.dtype = DType::float64, .scored_vocab = scored_vocab});
  std::uint64_t number = 0;
  for (const Trajectory& trajectory : step.batch.trajectories) {
    const auto packs = align_pack({&trajectory, 1}, {.max_tokens = 4096, .share_prefixes = false});
    if (packs->empty()) {
      continue;
    }
    const PackedBatch& pack = packs->front();
    const ObjectRef object{1, ++number};
    step.objects[object] = std::make_shared<const TeacherScores>((*scorer)->score(pack).value());
    for (const PackedInvocation& invocation : pack.invocations) {
      step.batch.scores.push_back({trajectory.id,
                                   trajectory.attempt,
                                   invocation.invocation_index,
                                   object,
                                   invocation.response_begin,
                                   invocation.response_end,
                                   (*scorer)->head_fingerprint(),
                                   {}});
    }
  }
  return step;
}

LearnerSetup tiny_setup(const std::filesystem::path& student_folder, const std::filesystem::path& teacher_folder) {
  LearnerSetup setup;
  setup.student_folder = student_folder;
  setup.teacher_folder = teacher_folder;
  setup.opd.coef = teacher_folder.empty() ? 0.0 : 1.0;
  setup.optimizer.lr = 1e-3;
  setup.optimizer.weight_decay = 0;
  setup.learner.mini_batch_trajectories = 8;
  setup.num_optimizer_steps = 100;
  setup.seed = 5;
  setup.scored_vocab = kVocab;
  setup.dtype = DType::float64;
  return setup;
}

std::unique_ptr<Learner> make_learner(const LearnerSetup& setup) {
  return Learner::create(setup, make_local_collective(1).front()).value();
}

std::vector<RankResult> step_on_ranks(LearnerSetup setup, int world_size, const ScoredStep& step) {
  return step_on_ranks(std::move(setup), world_size, [&](Learner&) { return step; });
}

std::vector<RankResult> step_on_ranks(LearnerSetup setup, int world_size,
                                      const std::function<ScoredStep(Learner&)>& prepare) {
  setup.learner.num_ranks = world_size;
  const auto collectives = make_local_collective(world_size);
  std::vector<RankResult> results(static_cast<std::size_t>(world_size));
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      const std::unique_ptr<Learner> learner = Learner::create(setup, collectives[rank]).value();
      const ScoredStep step = prepare(*learner);
      results[rank].report = learner->step(step.batch, step.lookup());
      results[rank].weights = learner->weights();
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  return results;
}

double max_difference(const WeightSet& a, const WeightSet& b) {
  double largest = a.tensors.size() == b.tensors.size() ? 0.0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.tensors.size(), b.tensors.size()); ++i) {
    for (std::size_t offset = 0; offset < a.tensors[i].bytes.size(); offset += sizeof(double)) {
      double x = 0;
      double y = 0;
      std::memcpy(&x, a.tensors[i].bytes.data() + offset, sizeof(double));
      std::memcpy(&y, b.tensors[i].bytes.data() + offset, sizeof(double));
      largest = std::max(largest, std::isfinite(x - y) ? std::abs(x - y) : 1e9);
    }
  }
  return largest;
}

bool same_bits(const WeightSet& a, const WeightSet& b) {
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const HostTensor& x, const HostTensor& y) { return x.name == y.name && x.bytes == y.bytes; });
}

World::World() {
  save_tiny_model(student, 1);
  save_tiny_model(teacher, 2);
  step = score_step(three_trajectories(), teacher);
}

StepReport run_step(Learner& learner, const ScoredStep& step) {
  const auto report = learner.step(step.batch, step.lookup());
  INFO((report ? std::string() : report.error().message));
  REQUIRE(report);
  return *report;
}

}  // namespace memopd::testing
