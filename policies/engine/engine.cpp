#include "policies/engine/engine.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "policies/engine/inference_decoder.hpp"
#include "policies/engine/prefix_cache.hpp"
#include "policies/engine/request_checks.hpp"
#include "policies/engine/sampler.hpp"
#include "policies/engine/sequence.hpp"
#include "policies/model/checkpoint.hpp"
#include "policies/model/weights.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/random.hpp"

namespace memopd {

namespace {

using Clock = Sequence::Clock;

double milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

struct Waiting {
  GenerateRequest request;
  Clock::time_point submitted;
};

/// A shared part of fewer tokens is not worth the wait for another forward pass.
constexpr std::int32_t kMinSharedTokens = 16;

class EngineImpl final : public Engine {
 public:
  EngineImpl(Transformer model, std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options)
      : tokenizer_(std::move(tokenizer)),
        options_(options),
        decoder_(model, {options.max_sequences, num_slots(options),
                         std::max(options.max_batch_tokens, options.max_context_tokens), options.max_context_tokens,
                         options.scored_vocab}),
        prefixes_(decoder_.cache(), num_slots(options)) {
    generations_.push_back(std::make_unique<WeightGeneration>(WeightGeneration{.model = std::move(model)}));
    active_.reserve(static_cast<std::size_t>(options.max_sequences));  // batches point into it
    eos_ids_.insert(config().eos_token_ids.begin(), config().eos_token_ids.end());
    if (tokenizer_ && tokenizer_->eos_id()) eos_ids_.insert(*tokenizer_->eos_id());
  }

  Expected<void> submit(GenerateRequest request) override {
    MEMOPD_RETURN_IF_ERROR(
        check_request(request, {config().vocab_size, options_.max_context_tokens, tokenizer_ != nullptr}));
    if (!open_ids_.insert(request.request_id).second) {
      return unexpected(ErrorCode::already_exists,
                        "request " + std::to_string(request.request_id) + " is not finished yet");
    }
    waiting_.push_back({std::move(request), Clock::now()});
    return {};
  }

  void abort(std::uint64_t id) override {
    const auto waiting =
        std::find_if(waiting_.begin(), waiting_.end(), [id](const Waiting& w) { return w.request.request_id == id; });
    if (waiting != waiting_.end()) {
      GenerateResult result;
      result.request_id = id;
      result.finish_reason = FinishReason::aborted;
      result.timings.queue_ms = milliseconds(Clock::now() - waiting->submitted);
      finished_.push_back(std::move(result));
      waiting_.erase(waiting);
      ++counters_.aborted_requests;
      return;
    }
    for (Sequence& sequence : active_) {
      if (sequence.request.request_id != id) continue;
      ++counters_.aborted_requests;
      finish(sequence, FinishReason::aborted);
    }
    collect_finished();
  }

  std::vector<GenerateResult> step() override {
    try {
      admit();
      prefill();
      decode();
    } catch (const std::exception& failure) {  // the tensor library's, out of memory for one
      log_error("engine", "step_failed", {{"what", failure.what()}, {"num_active", active_.size()}});
      for (Sequence& sequence : active_) finish(sequence, FinishReason::aborted);
      collect_finished();
    }
    for (const GenerateResult& result : finished_) open_ids_.erase(result.request_id);
    counters_.finished_requests += static_cast<std::int64_t>(finished_.size());
    return std::exchange(finished_, {});
  }

  [[nodiscard]] bool is_idle() const override { return waiting_.empty() && active_.empty() && finished_.empty(); }

  Expected<void> load_weights(const WeightSet& weights) override {
    try {
      return swap_weights(weights);
    } catch (const std::exception& failure) {  // no memory for one more generation
      return unexpected(ErrorCode::internal, "engine: " + std::string(failure.what()));
    }
  }

  [[nodiscard]] std::int64_t policy_version() const override { return newest().policy_version; }
  [[nodiscard]] std::int64_t lineage() const override { return newest().lineage; }
  [[nodiscard]] std::uint64_t weight_fingerprint() const override {
    return memopd::weight_fingerprint(to_weight_set(newest().model, lineage(), policy_version()));
  }
  [[nodiscard]] const ModelConfig& model_config() const override { return config(); }
  [[nodiscard]] EngineCounters counters() const override {
    EngineCounters counters = counters_;
    counters.num_active = static_cast<std::int32_t>(active_.size());
    counters.num_weight_generations = static_cast<std::int32_t>(generations_.size());
    counters.num_waiting = static_cast<std::int32_t>(waiting_.size());
    return counters;
  }

 private:
  Expected<void> swap_weights(const WeightSet& weights) {
    if (counters_.weight_loads > 0 && lineage() == weights.lineage && policy_version() == weights.policy_version) {
      return {};
    }
    if (options_.weight_swap == WeightSwap::refuse && !active_.empty()) {
      return unexpected(ErrorCode::refused, "weights of version " + std::to_string(weights.policy_version) + ": " +
                                                std::to_string(active_.size()) + " requests are active");
    }
    std::unique_ptr<WeightGeneration> added;
    WeightGeneration* place = place_of_new_weights();
    if (place == nullptr) {
      added = std::make_unique<WeightGeneration>(WeightGeneration{.model = Transformer(config(), at::kFloat)});
      added->model.set_row_exact(options_.is_deterministic);
      place = added.get();
    }
    MEMOPD_RETURN_IF_ERROR(load_weight_set(place->model, weights));
    place->lineage = weights.lineage;
    place->policy_version = weights.policy_version;
    place->load = counters_.weight_loads + 1;
    if (added) generations_.push_back(std::move(added));
    const auto moved = std::find_if(generations_.begin(), generations_.end(),
                                    [place](const auto& generation) { return generation.get() == place; });
    std::rotate(moved, moved + 1, generations_.end());
    rebuild_caches_of(place);
    drop_unused_generations();
    ++counters_.weight_loads;
    return {};
  }

  [[nodiscard]] const ModelConfig& config() const { return newest().model.config(); }

  using Batch = std::vector<Sequence*>;

  [[nodiscard]] const WeightGeneration& newest() const { return *generations_.back(); }
  [[nodiscard]] bool is_in_use(const WeightGeneration* weights) const {
    return std::any_of(active_.begin(), active_.end(),
                       [weights](const Sequence& s) { return s.weights == weights && !s.is_pending(); });
  }

  /// The newest generation when no cache was computed by it; null = room for one more; else the oldest, whose caches
  /// are lost.
  WeightGeneration* place_of_new_weights() {
    const std::int32_t limit = options_.weight_swap == WeightSwap::finish ? options_.max_weight_generations : 1;
    if (!is_in_use(&newest())) return generations_.back().get();
    if (static_cast<std::int32_t>(generations_.size()) < limit) return nullptr;
    return generations_.front().get();
  }

  /// Sequences of `weights`, and those that have no cache yet, go on with `weights` from their tokens.
  void rebuild_caches_of(const WeightGeneration* weights) {
    std::int64_t num_rebuilt = 0;
    for (Sequence& sequence : active_) {
      if (sequence.weights != weights && !sequence.is_pending()) continue;
      num_rebuilt += sequence.is_pending() ? 0 : 1;
      sequence.weights = weights;
      sequence.has_lost_part |= sequence.is_pending() && sequence.num_cached > 0;
      sequence.is_read = false;
      sequence.num_cached = 0;
    }
    counters_.rebuilt_sequences += num_rebuilt;
    if (num_rebuilt > 0 && options_.weight_swap == WeightSwap::finish && !has_logged_rebuild_) {
      has_logged_rebuild_ = true;
      log_warning("engine", "finish_on_newer_weights",
                  {{"num_sequences", num_rebuilt}, {"max_weight_generations", options_.max_weight_generations}});
    }
  }

  void drop_unused_generations() {
    const WeightGeneration* kept = &newest();
    std::erase_if(generations_, [this, kept](const auto& generation) {
      return generation.get() != kept && std::none_of(active_.begin(), active_.end(), [&](const Sequence& sequence) {
               return sequence.weights == generation.get();
             });
    });
  }

  /// Moves waiting requests into slots, in order.
  void admit() {
    const Clock::time_point now = Clock::now();
    while (!waiting_.empty() && static_cast<std::int32_t>(active_.size()) < options_.max_sequences) {
      Waiting& next = waiting_.front();
      // What it shares is used again soon: another slot is to be overwritten first.
      if (const PrefixHit hit = find_prefix(next.request.prompt_token_ids, newest()); hit.num_tokens > 0) {
        decoder_.cache().use_slot(hit.slot);
      }
      active_.emplace_back(std::move(next.request), decoder_.cache().acquire_slot(), &newest());
      active_.back().result.timings.queue_ms = milliseconds(now - next.submitted);
      waiting_.pop_front();
    }
  }

  /// The last token is always computed: what follows it is wanted.
  [[nodiscard]] PrefixHit find_prefix(std::span<const std::int32_t> token_ids, const WeightGeneration& weights) const {
    if (options_.prefix_cache_tokens == 0) return {};
    return prefixes_.find(token_ids.first(token_ids.size() - 1), weights.load);
  }

  /// Reads pending sequences into their slots, in order, within the budget of a step, and samples the token that follows.
  /// Who shares more with a neighbour than with the cache comes after it.
  void prefill() {
    for (std::int32_t budget = options_.max_batch_tokens; budget > 0;) {
      const Batch batch = plan_prefill(budget);
      if (batch.empty()) break;
      read_prompts(batch);
    }
    collect_finished();
  }

  [[nodiscard]] bool waits_for(const Batch& batch, const Sequence& sequence, std::int32_t num_found) const {
    return options_.prefix_cache_tokens > 0 && std::any_of(batch.begin(), batch.end(), [&](const Sequence* earlier) {
             const std::span<const std::int32_t> ids = earlier->token_ids;
             const std::int32_t num_read = earlier->num_cached + earlier->num_reading;
             return num_common_tokens(ids.first(static_cast<std::size_t>(num_read)), sequence.token_ids) >=
                    num_found + kMinSharedTokens;
           });
  }

  /// Those whose tokens are read by the next forward pass, how many each, taken from the budget.
  Batch plan_prefill(std::int32_t& budget) {
    Batch batch;
    for (Sequence& sequence : active_) {
      if (!sequence.is_pending() || sequence.is_finished) continue;
      if (budget == 0) break;
      if (sequence.num_cached == 0) {
        const PrefixHit hit = find_prefix(sequence.token_ids, *sequence.weights);
        if (waits_for(batch, sequence, hit.num_tokens)) continue;
        take_prefix(sequence, hit);
      }
      const std::int32_t num_left = sequence.num_tokens() - sequence.num_cached;
      // Whoever lost a part to a swap is read whole once it is first: swaps in every step cannot hold it up for ever.
      sequence.num_reading = sequence.has_lost_part && batch.empty() ? num_left : std::min(budget, num_left);
      budget = std::max(0, budget - sequence.num_reading);
      batch.push_back(&sequence);
    }
    return batch;
  }

  void take_prefix(Sequence& sequence, const PrefixHit& hit) {
    prefixes_.hold(sequence.slot, sequence.weights->load, hit.slot == sequence.slot ? hit.num_tokens : 0);
    if (hit.num_tokens == 0) return;
    if (hit.slot != sequence.slot) decoder_.cache().copy_prefix(hit.slot, sequence.slot, hit.num_tokens);
    decoder_.cache().use_slot(hit.slot);
    counters_.prefix_hit_tokens += hit.num_tokens;
    set_cached(sequence, hit.num_tokens);
  }

  void set_cached(Sequence& sequence, std::int32_t num_tokens) {
    sequence.num_cached = num_tokens;
    prefixes_.hold(sequence.slot, sequence.weights->load, num_tokens);
  }

  void read_prompts(const Batch& batch) {
    std::vector<PrefillRow> rows;
    for (const Sequence* sequence : batch) {
      rows.push_back({sequence->slot, sequence->reading(), sequence->num_cached,
                      sequence->num_cached + sequence->num_reading == sequence->num_tokens()});
    }
    const Clock::time_point begin = Clock::now();
    const std::span<const float> logits = decoder_.prefill(newest().model, rows);
    const Clock::time_point end = Clock::now();
    Batch read;
    for (Sequence* sequence : batch) {
      counters_.prefill_tokens += sequence->num_reading;
      set_cached(*sequence, sequence->num_cached + std::exchange(sequence->num_reading, 0));
      sequence->result.timings.prefill_ms += milliseconds(end - begin);
      if (sequence->num_cached < sequence->num_tokens()) continue;
      sequence->is_read = true;
      if (sequence->num_response() == 0) sequence->decoding_since = end;
      read.push_back(sequence);
    }
    sample(read, logits);
  }

  /// One more token for every active sequence that has a cache; one batch for each generation of weights.
  void decode() {
    for (const auto& generation : generations_) {
      Batch batch;
      decode_rows_.clear();
      for (Sequence& sequence : active_) {
        if (sequence.weights != generation.get() || sequence.is_pending()) continue;
        batch.push_back(&sequence);
        decode_rows_.push_back({sequence.slot, sequence.token_ids.back(), sequence.num_cached});
      }
      if (batch.empty()) continue;
      const std::span<const float> logits = decoder_.decode(generation->model, decode_rows_);
      for (Sequence* sequence : batch) set_cached(*sequence, sequence->num_cached + 1);
      sample(batch, logits);
    }
    collect_finished();
  }

  void sample(const Batch& batch, std::span<const float> logits) {
    const auto width = static_cast<std::size_t>(options_.scored_vocab);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Sequence& sequence = *batch[i];
      const auto index = static_cast<std::uint64_t>(sequence.num_response());
      const double u = philox_uniform(sequence.request.sampling.seed, index);
      const auto token = sample_token(logits.subspan(i * width, width), sequence.request.sampling, u, scratch_);
      if (token) {
        append(sequence, *token);
      } else {
        if (counters_.non_finite_requests++ == 0) {
          log_warning("engine", "non_finite_logits",
                      {{"request_id", sequence.request.request_id}, {"token_index", index}});
        }
        finish(sequence, FinishReason::aborted);
      }
    }
  }

  void append(Sequence& sequence, const SampledToken& token) {
    const Sampling& sampling = sequence.request.sampling;
    sequence.append(token);
    ++counters_.generated_tokens;
    if (eos_ids_.contains(token.id)) {
      finish(sequence, FinishReason::eos);
    } else if (tokenizer_ && sequence.matcher.push(tokenizer_->token_bytes(token.id))) {
      finish(sequence, FinishReason::stop);
    } else if (sequence.num_response() >= sampling.max_response_tokens ||
               sequence.num_tokens() >= options_.max_context_tokens) {
      finish(sequence, FinishReason::length);
    }
  }

  void finish(Sequence& sequence, FinishReason reason) {
    sequence.is_finished = true;
    sequence.result.finish_reason = reason;
    if (reason != FinishReason::aborted) sequence.result.digest = sequence.digest(decoder_.cache());
    sequence.result.timings.decode_ms = milliseconds(Clock::now() - sequence.decoding_since);
  }

  void collect_finished() {
    for (Sequence& sequence : active_) {
      if (!sequence.is_finished) continue;
      decoder_.cache().release_slot(sequence.slot);
      finished_.push_back(std::move(sequence.result));
    }
    std::erase_if(active_, [](const Sequence& sequence) { return sequence.is_finished; });
    drop_unused_generations();
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  EngineOptions options_;
  InferenceDecoder decoder_;
  PrefixCache prefixes_;
  std::vector<std::unique_ptr<WeightGeneration>> generations_;  // newest last
  bool has_logged_rebuild_ = false;
  std::set<std::int32_t> eos_ids_;
  std::deque<Waiting> waiting_;
  std::vector<Sequence> active_;          // in order of admission
  std::vector<GenerateResult> finished_;  // not handed out yet
  std::set<std::uint64_t> open_ids_;      // submitted, not handed out
  std::vector<DecodeRow> decode_rows_;
  SamplerScratch scratch_;
  EngineCounters counters_;
};

}  // namespace

Expected<std::unique_ptr<Engine>> Engine::create(const std::filesystem::path& model_folder,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 const EngineOptions& options) {
  auto model = load_transformer(model_folder);
  if (!model) return unexpected(model.error());
  const auto checked = check_options(options, model->config());
  if (!checked) return unexpected(checked.error());
  model->set_row_exact(checked->is_deterministic);
  try {
    return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(std::move(*model), std::move(tokenizer), *checked));
  } catch (const std::exception& failure) {  // no memory for the slots
    return unexpected(ErrorCode::internal, "engine: " + std::string(failure.what()));
  }
}

}  // namespace memopd
