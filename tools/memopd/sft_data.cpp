#include "tools/memopd/sft_data.hpp"

#include <algorithm>
#include <utility>

#include "actors/role_setup.hpp"
#include "envs/registry.hpp"
#include "policies/text/bpe_trainer.hpp"
#include "runtime/base/random.hpp"
#include "runtime/telemetry/run_directory.hpp"

namespace memopd {
namespace {

constexpr std::int32_t kTasksPerChunk = 128;
const std::vector<std::string> kTags = {"<think>",  "</think>",  "<search>",      "</search>",
                                        "<answer>", "</answer>", "<information>", "</information>"};

}  // namespace

Expected<Tokenizer> sft_tokenizer(const Config& config) {
  if (!config.sft.tokenizer.empty()) {
    return Tokenizer::load(config.sft.tokenizer);
  }
  const EnvConfig& env = config.env.front();
  auto documents = environment_corpus(env.name, environment_options(env));
  if (!documents) {
    return unexpected(documents.error());
  }
  // A space before each text, as names and documents stand in context; titles make names frequent enough to be tokens.
  std::vector<std::string> texts;
  for (const Document& document : *documents) {
    texts.push_back(" " + document.text);
    texts.push_back(" " + document.title);
  }
  auto tasks = make_task_source(env.name, environment_options(env));
  if (!tasks) {
    return unexpected(tasks.error());
  }
  auto sample = (*tasks)->tasks({"train", config.run.seed, 0, 200, 2});
  if (!sample) {
    return unexpected(sample.error());
  }
  for (const Task& task : *sample) {
    texts.push_back(task.text);
  }
  return train_bpe(texts, {.vocab_size = config.sft.vocab_size, .added_tokens = kTags});
}

Expected<void> offer_word_pieces(const Tokenizer& tokenizer, Config& config) {
  EnvConfig& env = config.env.front();
  auto definition = find_environment(env.name);
  if (!definition) {
    return unexpected(definition.error());
  }
  const auto is_pieces = [](const OptionSpec& option) { return option.name == "pieces"; };
  const bool has_option = std::any_of(definition->options.begin(), definition->options.end(), is_pieces);
  if (!has_option || env.options.contains("pieces")) {
    return {};
  }
  std::string lines;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view piece = tokenizer.token_bytes(id);
    if (piece.find('\n') == std::string_view::npos) {
      lines.append(piece).append("\n");
    }
  }
  const auto file = std::filesystem::path(config.sft.output) / "word_pieces.txt";
  MEMOPD_RETURN_IF_ERROR(write_file_atomic(file, lines));
  env.options["pieces"] = file.string();
  return {};
}

Expected<std::vector<RunTask>> probe_tasks(const Config& config, const TaskSource& source, std::int32_t index) {
  const std::string split = config.eval.splits.empty() ? "val" : config.eval.splits.front().split;
  const std::int32_t objectives = config.eval.splits.empty() ? 0 : config.eval.splits.front().num_objectives;
  auto tasks = source.tasks({split, hash_name("probe"), 0, config.sft.probe_tasks, objectives});
  if (!tasks) {
    return unexpected(tasks.error());
  }
  std::vector<RunTask> result;
  for (std::int32_t task_index = 0; task_index < static_cast<std::int32_t>(tasks->size()); ++task_index) {
    RunTask task;
    task.trajectory_id = {"probe", index, task_index, 0};
    task.task = std::move((*tasks)[static_cast<std::size_t>(task_index)]);
    task.sampling.temperature = config.eval.temperature;
    task.sampling.max_response_tokens = config.eval.max_response_tokens;
    task.seed = trajectory_seed(hash_name("probe"), {"probe", 0, task_index, 0});
    task.is_training = false;
    result.push_back(std::move(task));
  }
  return result;
}

void DemonstrationBatch::add(std::shared_ptr<const StepBatch> owner, const Trajectory& trajectory) {
  owners_.push_back(std::move(owner));
  trajectories_.push_back(&trajectory);
  for (const Invocation& invocation : trajectory.invocations) {
    invocations_.push_back(&invocation);
  }
}

DemonstrationStream::DemonstrationStream(const Config& config, const TaskSource& source, LocalSession& session)
    : config_(config),
      source_(source),
      session_(session),
      aligned_{&config.sft.objectives, {}},
      flat_{&config.sft.flat_objectives, {}} {}

Expected<DemonstrationBatch> DemonstrationStream::next(std::int32_t num_invocations, bool is_flat) {
  Lane& lane = is_flat ? flat_ : aligned_;
  DemonstrationBatch batch;
  while (static_cast<std::int32_t>(batch.pointers().size()) < num_invocations) {
    while (lane.waiting.empty()) {
      MEMOPD_RETURN_IF_ERROR(refill(lane));
    }
    const Waiting next = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    batch.add(next.owner, next.owner->trajectories[next.index]);
  }
  return batch;
}

/// Waits for the chunk in the making, whosever it is, and has the next one made for `lane`.
Expected<void> DemonstrationStream::refill(Lane& lane) {
  if (!pending_) {
    MEMOPD_RETURN_IF_ERROR(begin_chunk(lane));
  }
  MEMOPD_RETURN_IF_ERROR(finish_chunk());
  return begin_chunk(lane);
}

Expected<void> DemonstrationStream::begin_chunk(Lane& lane) {
  SplitMix random(chain_seed(config_.run.seed, {hash_name("demonstrations"), static_cast<std::uint64_t>(chunk_)}));
  std::vector<RunTask> tasks;
  for (std::int32_t index = 0; index < kTasksPerChunk; ++index) {
    const std::int32_t objectives = (*lane.objectives)[random.below(lane.objectives->size())];
    auto made = source_.tasks({"train", config_.run.seed, chunk_ * kTasksPerChunk + index, 1, objectives});
    if (!made) {
      return unexpected(made.error());
    }
    RunTask task;
    task.trajectory_id = {"train", chunk_, index, 0};
    task.task = std::move(made->front());
    task.student = "expert";
    task.seed = trajectory_seed(config_.run.seed, task.trajectory_id);
    tasks.push_back(std::move(task));
  }
  ++chunk_;
  pending_ = session_.begin(std::move(tasks));
  pending_lane_ = &lane;
  return {};
}

Expected<void> DemonstrationStream::finish_chunk() {
  auto done = session_.finish(*pending_);
  if (!done) {
    return unexpected(done.error());
  }
  std::vector<TrajectoryId> ids;
  std::string note;
  for (const TrajectoryDone& trajectory : done->trajectories) {
    if (trajectory.status == TrajectoryStatus::completed) {
      ids.push_back(trajectory.trajectory_id);
    } else {
      note = std::string(to_string(trajectory.status)) + " " + trajectory.note;
    }
  }
  if (ids.size() * 10 < done->trajectories.size() * 9) {
    return unexpected(ErrorCode::env_failed, "the expert completed " + std::to_string(ids.size()) + " of " +
                                                 std::to_string(done->trajectories.size()) +
                                                 " demonstrations; one ended " + note);
  }
  auto batch = session_.close_step(chunk_ - 1, std::move(ids));
  if (!batch) {
    return unexpected(batch.error());
  }
  for (std::size_t index = 0; index < (*batch)->trajectories.size(); ++index) {
    pending_lane_->waiting.push_back({*batch, index});
  }
  return {};
}

}  // namespace memopd
