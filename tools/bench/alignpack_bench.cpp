#include "tools/bench/alignpack_bench.hpp"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "policies/model/initialization.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/transformer.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "tools/bench/call_lengths.hpp"
#include "tools/bench/padded_forward.hpp"

namespace memopd {
namespace {

class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
  ~ThreadCount() { at::set_num_threads(before_); }

 private:
  int before_;
};

at::Tensor log_probs_of(const at::Tensor& logits_RV, const at::Tensor& token_ids) {
  return at::log_softmax(logits_RV, -1).gather(1, token_ids.unsqueeze(1)).squeeze(1);
}

/// Sums the gradients of the mean log-prob over micro-batches, as an actor update does.
class Actor {
 public:
  Actor(const Transformer& model, std::int64_t num_response_tokens)
      : model_(model), scale_(1.0 / static_cast<double>(num_response_tokens)) {
    for (const NamedTensor& parameter : model.parameters()) {
      parameters_.push_back(parameter.tensor);
    }
  }

  void add(const at::Tensor& log_probs) {
    auto gradients = torch::autograd::grad({log_probs}, parameters_, {at::full_like(log_probs, scale_)});
    if (sums_.empty()) {
      sums_ = std::move(gradients);
    } else {
      for (std::size_t i = 0; i < sums_.size(); ++i) {
        sums_[i].add_(gradients[i]);
      }
    }
    log_probs_.push_back(log_probs.detach());
  }

  /// @return  [R] log-probs of all response tokens, in input order
  at::Tensor padded(const std::vector<PaddedBatch>& batches, bool all_rows) {
    for (const PaddedBatch& batch : batches) {
      const at::Tensor hidden = padded_hidden(model_, batch);
      add(all_rows
              ? log_probs_of(model_.logits(hidden), batch.next_token_ids).index_select(0, batch.response_index)
              : log_probs_of(model_.logits(hidden.index_select(0, batch.response_index)), batch.response_token_ids));
    }
    return at::cat(log_probs_);
  }

  at::Tensor packed(const std::vector<PackedTensors>& packs) {
    for (const PackedTensors& pack : packs) {
      add(log_probs_of(model_.logits(model_.hidden(pack).index_select(0, pack.response_index)),
                       pack.response_token_ids));
    }
    return at::cat(log_probs_);
  }

 private:
  const Transformer& model_;
  double scale_;
  std::vector<at::Tensor> parameters_, sums_, log_probs_;
};

/// The calls of one row in every layout.
struct Layouts {
  std::vector<PaddedBatch> padded;
  std::vector<PackedTensors> packed, shared;
  std::int64_t tokens_padded = 0, tokens_packed = 0, tokens_shared = 0, num_response_tokens = 0;
};

Expected<std::vector<PackedTensors>> pack_tensors(std::span<const Invocation* const> calls,
                                                  const AlignPackOptions& options, std::int64_t& num_tokens) {
  const auto packs = align_pack(calls, options);
  if (!packs) {
    return unexpected(packs.error());
  }
  std::vector<PackedTensors> tensors;
  for (const PackedBatch& pack : *packs) {
    auto converted = to_tensors(pack);
    if (!converted) {
      return unexpected(converted.error());
    }
    num_tokens += pack.num_tokens();
    tensors.push_back(std::move(*converted));
  }
  return tensors;
}

Expected<Layouts> make_layouts(const std::vector<Trajectory>& trajectories, std::int32_t max_tokens) {
  std::vector<const Invocation*> calls;
  std::size_t length = 0;
  Layouts layouts;
  for (const Trajectory& trajectory : trajectories) {
    for (const Invocation& call : trajectory.invocations) {
      calls.push_back(&call);
      length = std::max(length, call.prompt_token_ids.size() + call.response_token_ids.size());
      layouts.num_response_tokens += static_cast<std::int64_t>(call.response_token_ids.size());
    }
  }
  auto packed = pack_tensors(calls, {.max_tokens = max_tokens, .share_prefixes = false}, layouts.tokens_packed);
  if (!packed) {
    return unexpected(packed.error());
  }
  auto shared = pack_tensors(calls, {.max_tokens = max_tokens}, layouts.tokens_shared);
  if (!shared) {
    return unexpected(shared.error());
  }
  layouts.packed = std::move(*packed);
  layouts.shared = std::move(*shared);
  layouts.padded = pad(calls, static_cast<std::int32_t>(length), max_tokens);
  layouts.tokens_padded = static_cast<std::int64_t>(calls.size() * length);
  return layouts;
}

template <class Function>
double seconds_of(const Function& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Expected<AlignPackBenchRow> bench_row(const Transformer& model, const std::string& name,
                                      const std::vector<CallLengths>& lengths, std::int32_t max_tokens,
                                      const AlignPackBenchOptions& options) {
  const auto trajectories = trajectories_of(lengths, options.model.vocab_size, options.seed);
  const auto layouts = make_layouts(trajectories, max_tokens);
  if (!layouts) {
    return unexpected(layouts.error());
  }
  constexpr double kNever = std::numeric_limits<double>::infinity();
  AlignPackBenchRow row{name,
                        describe(lengths),
                        layouts->tokens_padded,
                        layouts->tokens_packed,
                        layouts->tokens_shared,
                        kNever,
                        kNever,
                        kNever,
                        kNever,
                        0};
  at::Tensor results[4];
  const auto run = [&](int which) {
    Actor actor(model, layouts->num_response_tokens);
    results[which] = which <= 1 ? actor.padded(layouts->padded, which == 0)
                                : actor.packed(which == 2 ? layouts->packed : layouts->shared);
  };
  double* const times[4] = {&row.padded_all_rows_s, &row.padded_s, &row.packed_s, &row.shared_s};
  for (std::int32_t repetition = -1; repetition < options.num_repetitions; ++repetition) {
    for (int which = 0; which < 4; ++which) {
      const double seconds = seconds_of([&] { run(which); });
      if (repetition >= 0) {
        *times[which] = std::min(*times[which], seconds);
      }
    }
  }
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < a; ++b) {
      row.max_abs_diff = std::max(row.max_abs_diff, results[a].sub(results[b]).abs().max().item<double>());
    }
  }
  return row;
}

Expected<void> check_options(const AlignPackBenchOptions& options) {
  const auto at_least_one = [](const char* name, std::int32_t found) -> Expected<void> {
    if (found < 1) {
      return unexpected(ErrorCode::invalid_argument,
                        std::string(name) + " is " + std::to_string(found) + ", allowed >= 1");
    }
    return {};
  };
  MEMOPD_RETURN_IF_ERROR(at_least_one("quickstart_max_tokens", options.quickstart_max_tokens));
  MEMOPD_RETURN_IF_ERROR(at_least_one("memopd_like_max_tokens", options.memopd_like_max_tokens));
  MEMOPD_RETURN_IF_ERROR(at_least_one("num_repetitions", options.num_repetitions));
  return at_least_one("num_threads", options.num_threads);
}

}  // namespace

ModelConfig quickstart_student() {
  ModelConfig config;
  config.vocab_size = 4096;
  config.hidden_size = 96;
  config.intermediate_size = 240;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 4;
  config.head_dim = 24;
  config.max_position_embeddings = 4096;
  return config;
}

Expected<std::vector<AlignPackBenchRow>> bench_alignpack(const AlignPackBenchOptions& options) {
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  const auto recorded = read_call_lengths(options.quickstart_lengths);
  if (!recorded) {
    return unexpected(recorded.error());
  }
  auto model = random_transformer(options.model, {.seed = options.seed});
  if (!model) {
    return unexpected(model.error());
  }
  model->set_requires_grad(true);
  const ThreadCount threads(options.num_threads);
  std::vector<AlignPackBenchRow> rows;
  for (const bool is_recorded : {true, false}) {
    auto row = bench_row(*model, is_recorded ? "quickstart" : "memopd_like",
                         is_recorded ? *recorded : memopd_like_lengths(options.seed),
                         is_recorded ? options.quickstart_max_tokens : options.memopd_like_max_tokens, options);
    if (!row) {
      return unexpected(row.error());
    }
    rows.push_back(std::move(*row));
  }
  return rows;
}

std::string to_json(const std::vector<AlignPackBenchRow>& rows) {
  auto array = nlohmann::ordered_json::array();
  for (const AlignPackBenchRow& row : rows) {
    array.push_back({{"name", row.name},
                     {"tokens_padded", row.tokens_padded},
                     {"tokens_packed", row.tokens_packed},
                     {"tokens_shared", row.tokens_shared},
                     {"padded_all_rows_s", row.padded_all_rows_s},
                     {"padded_s", row.padded_s},
                     {"packed_s", row.packed_s},
                     {"shared_s", row.shared_s},
                     {"speedup_vs_padded_all_rows", row.speedup_vs_padded_all_rows()},
                     {"speedup_vs_padded", row.speedup_vs_padded()},
                     {"speedup_vs_packed", row.speedup_vs_packed()},
                     {"max_abs_diff", row.max_abs_diff}});
  }
  return array.dump(2);
}

std::string to_table(const std::vector<AlignPackBenchRow>& rows) {
  std::ostringstream text;
  for (const AlignPackBenchRow& row : rows) {
    const auto line = [&](const char* layout, std::int64_t tokens, double seconds) {
      text << "  " << std::left << std::setw(17) << layout << std::right << std::setw(8) << tokens << " tokens"
           << std::fixed << std::setw(10) << std::setprecision(3) << seconds << " s" << std::setw(9)
           << std::setprecision(2) << seconds / row.shared_s << " x\n";
    };
    text << row.name << ": " << row.lengths << "\n";
    line("padded, all rows", row.tokens_padded, row.padded_all_rows_s);
    line("padded", row.tokens_padded, row.padded_s);
    line("packed", row.tokens_packed, row.packed_s);
    line("shared", row.tokens_shared, row.shared_s);
    text << "  largest difference of a log-prob " << std::scientific << std::setprecision(1) << row.max_abs_diff
         << "\n";
  }
  return text.str();
}

}  // namespace memopd
