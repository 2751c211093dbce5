#include "policies/engine/engine.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <set>
#include <span>
#include <utility>

#include "policies/engine/inference_decoder.hpp"
#include "policies/engine/request_checks.hpp"
#include "policies/engine/sampler.hpp"
#include "policies/model/checkpoint.hpp"
#include "policies/model/weights.hpp"
#include "policies/text/stop_matcher.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/random.hpp"

namespace memopd {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

struct Waiting {
  GenerateRequest request;
  Clock::time_point submitted;
};

/// A request in a slot.
struct Sequence {
  Sequence(GenerateRequest generate_request, std::int32_t cache_slot)
      : request(std::move(generate_request)), slot(cache_slot), matcher(request.stop_strings) {
    result.request_id = request.request_id;
  }

  GenerateRequest request;
  std::int32_t slot;
  std::int32_t num_cached = 0;  ///< tokens whose keys and values stand in the slot
  StopMatcher matcher;
  GenerateResult result;
  Clock::time_point decoding_since = Clock::now();
  bool is_finished = false;
};

Expected<EngineOptions> check_options(const EngineOptions& options, const ModelConfig& config) {
  const auto invalid = [](const std::string& what) {
    return unexpected(ErrorCode::invalid_argument, "engine: " + what);
  };
  EngineOptions checked = options;
  if (checked.scored_vocab == 0) checked.scored_vocab = config.vocab_size;
  if (checked.max_sequences < 1)
    return invalid("max_sequences is " + std::to_string(checked.max_sequences) + ", below 1");
  if (checked.max_batch_tokens < 1)
    return invalid("max_batch_tokens is " + std::to_string(checked.max_batch_tokens) + ", below 1");
  if (checked.max_context_tokens < 2 || checked.max_context_tokens > config.max_position_embeddings) {
    return invalid("max_context_tokens is " + std::to_string(checked.max_context_tokens) +
                   ", allowed 2 to the model's " + std::to_string(config.max_position_embeddings));
  }
  if (checked.scored_vocab < 1 || checked.scored_vocab > config.vocab_size) {
    return invalid("scored_vocab is " + std::to_string(checked.scored_vocab) + ", allowed 1 to the model's " +
                   std::to_string(config.vocab_size));
  }
  return checked;
}

}  // namespace

class Engine::Impl {
 public:
  Impl(Transformer model, std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options)
      : tokenizer_(std::move(tokenizer)),
        options_(options),
        decoder_(std::move(model),
                 {options.max_sequences, std::max(options.max_batch_tokens, options.max_context_tokens),
                  options.max_context_tokens, options.scored_vocab}) {
    eos_ids_.insert(config().eos_token_ids.begin(), config().eos_token_ids.end());
    if (tokenizer_ && tokenizer_->eos_id()) eos_ids_.insert(*tokenizer_->eos_id());
  }

  Expected<void> submit(GenerateRequest request) {
    MEMOPD_RETURN_IF_ERROR(
        check_request(request, {config().vocab_size, options_.max_context_tokens, tokenizer_ != nullptr}));
    if (!open_ids_.insert(request.request_id).second) {
      return unexpected(ErrorCode::already_exists,
                        "request " + std::to_string(request.request_id) + " is not finished yet");
    }
    waiting_.push_back({std::move(request), Clock::now()});
    return {};
  }

  void abort(std::uint64_t id) {
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

  std::vector<GenerateResult> step() {
    try {
      admit();
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

  [[nodiscard]] bool is_idle() const { return waiting_.empty() && active_.empty() && finished_.empty(); }

  Expected<void> load_weights(const WeightSet& weights) {
    if (!active_.empty()) {
      return unexpected(ErrorCode::refused, "weights of version " + std::to_string(weights.policy_version) + ": " +
                                                std::to_string(active_.size()) + " requests are active");
    }
    MEMOPD_RETURN_IF_ERROR(load_weight_set(decoder_.model(), weights));
    lineage_ = weights.lineage;
    policy_version_ = weights.policy_version;
    ++counters_.weight_loads;
    return {};
  }

  [[nodiscard]] std::int64_t policy_version() const { return policy_version_; }
  [[nodiscard]] std::int64_t lineage() const { return lineage_; }
  [[nodiscard]] std::uint64_t weight_fingerprint() const {
    return memopd::weight_fingerprint(to_weight_set(decoder_.model(), lineage_, policy_version_));
  }
  [[nodiscard]] const ModelConfig& config() const { return decoder_.model().config(); }
  [[nodiscard]] EngineCounters counters() const {
    EngineCounters counters = counters_;
    counters.num_active = static_cast<std::int32_t>(active_.size());
    counters.num_waiting = static_cast<std::int32_t>(waiting_.size());
    return counters;
  }

 private:
  /// Moves waiting requests into slots, in order, reads their prompts and samples their first token.
  void admit() {
    const std::size_t first_new = active_.size();
    const Clock::time_point begin = Clock::now();
    std::int64_t num_tokens = 0;
    while (!waiting_.empty() && decoder_.cache().has_free_slot()) {
      Waiting& next = waiting_.front();
      const auto length = static_cast<std::int64_t>(next.request.prompt_token_ids.size());
      if (num_tokens > 0 && num_tokens + length > options_.max_batch_tokens) break;
      num_tokens += length;
      active_.emplace_back(std::move(next.request), decoder_.cache().acquire_slot());
      active_.back().num_cached = static_cast<std::int32_t>(length);
      active_.back().result.timings.queue_ms = milliseconds(begin - next.submitted);
      waiting_.pop_front();
    }
    if (num_tokens == 0) return;
    const std::span<Sequence> fresh(active_.begin() + static_cast<std::ptrdiff_t>(first_new), active_.end());
    std::vector<PrefillRow> prompts;
    for (const Sequence& sequence : fresh) prompts.push_back({sequence.slot, sequence.request.prompt_token_ids});
    const std::span<const float> logits = decoder_.prefill(prompts);
    counters_.prefill_tokens += num_tokens;
    const Clock::time_point end = Clock::now();
    for (Sequence& sequence : fresh) {
      sequence.result.timings.prefill_ms = milliseconds(end - begin);
      sequence.decoding_since = end;
    }
    sample(fresh, logits);
    collect_finished();
  }

  /// One more token for every active sequence.
  void decode() {
    if (active_.empty()) return;
    decode_rows_.clear();
    for (Sequence& sequence : active_) {
      decode_rows_.push_back({sequence.slot, sequence.result.response_token_ids.back(), sequence.num_cached});
      ++sequence.num_cached;
    }
    sample(active_, decoder_.decode(decode_rows_));
    collect_finished();
  }

  void sample(std::span<Sequence> sequences, std::span<const float> logits) {
    const auto width = static_cast<std::size_t>(options_.scored_vocab);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      Sequence& sequence = sequences[i];
      const auto index = static_cast<std::uint64_t>(sequence.result.response_token_ids.size());
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
    GenerateResult& result = sequence.result;
    result.response_token_ids.push_back(token.id);
    result.rollout_log_probs.push_back(token.log_prob);
    if (sampling.temperature > 0 && cuts(sampling)) result.log_kept_mass.push_back(token.log_kept_mass);
    if (result.policy_versions.empty() || result.policy_versions.back().policy_version != policy_version_) {
      result.policy_versions.push_back({policy_version_, 0});
    }
    ++result.policy_versions.back().count;
    ++counters_.generated_tokens;

    const auto num_response = static_cast<std::int32_t>(result.response_token_ids.size());
    const auto num_prompt = static_cast<std::int32_t>(sequence.request.prompt_token_ids.size());
    if (eos_ids_.contains(token.id)) {
      finish(sequence, FinishReason::eos);
    } else if (tokenizer_ && sequence.matcher.push(tokenizer_->token_bytes(token.id))) {
      finish(sequence, FinishReason::stop);
    } else if (num_response >= sampling.max_response_tokens ||
               num_prompt + num_response >= options_.max_context_tokens) {
      finish(sequence, FinishReason::length);
    }
  }

  void finish(Sequence& sequence, FinishReason reason) {
    sequence.is_finished = true;
    sequence.result.finish_reason = reason;
    sequence.result.timings.decode_ms = milliseconds(Clock::now() - sequence.decoding_since);
  }

  void collect_finished() {
    for (Sequence& sequence : active_) {
      if (!sequence.is_finished) continue;
      decoder_.cache().release_slot(sequence.slot);
      finished_.push_back(std::move(sequence.result));
    }
    std::erase_if(active_, [](const Sequence& sequence) { return sequence.is_finished; });
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  EngineOptions options_;
  InferenceDecoder decoder_;
  std::set<std::int32_t> eos_ids_;
  std::deque<Waiting> waiting_;
  std::vector<Sequence> active_;          // in order of admission
  std::vector<GenerateResult> finished_;  // not handed out yet
  std::set<std::uint64_t> open_ids_;      // submitted, not handed out
  std::vector<DecodeRow> decode_rows_;
  SamplerScratch scratch_;
  EngineCounters counters_;
  std::int64_t lineage_ = 0;
  std::int64_t policy_version_ = 0;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Expected<std::unique_ptr<Engine>> Engine::create(const std::filesystem::path& model_folder,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 const EngineOptions& options) {
  auto model = load_transformer(model_folder);
  if (!model) return unexpected(model.error());
  const auto checked = check_options(options, model->config());
  if (!checked) return unexpected(checked.error());
  try {
    auto impl = std::make_unique<Impl>(std::move(*model), std::move(tokenizer), *checked);
    return std::unique_ptr<Engine>(new Engine(std::move(impl)));
  } catch (const std::exception& failure) {  // no memory for the slots
    return unexpected(ErrorCode::internal, "engine: " + std::string(failure.what()));
  }
}

Expected<void> Engine::submit(GenerateRequest request) { return impl_->submit(std::move(request)); }
void Engine::abort(std::uint64_t request_id) { impl_->abort(request_id); }
std::vector<GenerateResult> Engine::step() { return impl_->step(); }
bool Engine::is_idle() const { return impl_->is_idle(); }
Expected<void> Engine::load_weights(const WeightSet& weights) { return impl_->load_weights(weights); }
std::int64_t Engine::policy_version() const { return impl_->policy_version(); }
std::int64_t Engine::lineage() const { return impl_->lineage(); }
std::uint64_t Engine::weight_fingerprint() const { return impl_->weight_fingerprint(); }
const ModelConfig& Engine::model_config() const { return impl_->config(); }
EngineCounters Engine::counters() const { return impl_->counters(); }

}  // namespace memopd
