#include "policies/training/log_prob_scorer.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "policies/model/checkpoint.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/transformer.hpp"
#include "policies/training/head_losses.hpp"

namespace memopd {
namespace {

Expected<void> check_ids(const std::vector<std::int32_t>& ids, std::int32_t limit, const char* what) {
  const auto outside = [limit](std::int32_t id) { return id < 0 || id >= limit; };
  const auto place = std::find_if(ids.begin(), ids.end(), outside);
  if (place == ids.end()) {
    return {};
  }
  return unexpected(ErrorCode::invalid_argument, std::string(what) + ": found id " + std::to_string(*place) +
                                                     ", allowed below " + std::to_string(limit));
}

/// The rows of a pack as head_losses reads them; owns what HeadRows refers to.
struct ResponseRows {
  at::Tensor rows_RD;
  std::vector<std::int64_t> token_ids;
  std::vector<std::uint8_t> is_included;
  std::vector<double> weights;

  [[nodiscard]] HeadRows head_rows(const at::Tensor& head_VD) const {
    return {.rows_RD = rows_RD,
            .head_VD = head_VD,
            .token_ids = token_ids,
            .is_included = is_included,
            .policy_weights = weights};
  }
};

}  // namespace

class LogProbScorer::Impl {
 public:
  Impl(Transformer model, std::int32_t scored_vocab) : model_(std::move(model)), scored_vocab_(scored_vocab) {}

  [[nodiscard]] Expected<std::vector<double>> log_probs(const PackedBatch& pack, double temperature) const {
    const c10::InferenceMode inference;
    const auto rows = response_rows(pack);
    if (!rows) {
      return unexpected(rows.error());
    }
    HeadLossOptions options;
    options.scored_vocab = scored_vocab_;
    options.sampling_temperature = temperature == 0 ? 1 : temperature;
    return head_log_probs(options, rows->head_rows(model_.head_weight())).log_probs;
  }

  [[nodiscard]] Expected<std::vector<double>> divergences(const PackedBatch& pack, const Impl& teacher,
                                                          const DivergenceOptions& chosen) const {
    if (teacher.scored_vocab_ != scored_vocab_) {
      return unexpected(ErrorCode::invalid_argument, "scored_vocab: found " + std::to_string(teacher.scored_vocab_) +
                                                         " for the teacher, allowed " + std::to_string(scored_vocab_));
    }
    const c10::InferenceMode inference;
    const auto rows = response_rows(pack);
    const auto teacher_rows = teacher.response_rows(pack);
    if (!rows || !teacher_rows) {
      return unexpected(rows ? teacher_rows.error() : rows.error());
    }
    HeadRows head_rows = rows->head_rows(model_.head_weight());
    head_rows.teacher_rows_RE = teacher_rows->rows_RD;
    head_rows.teacher_head_VE = teacher.model_.head_weight();
    HeadLossOptions options;
    options.scored_vocab = scored_vocab_;
    options.opd_coef = 1;
    options.divergence = chosen.divergence;
    options.beta = chosen.beta;
    options.opd_temperature = chosen.temperature;
    return head_losses(options, head_rows).values.divergences;
  }

 private:
  [[nodiscard]] Expected<ResponseRows> response_rows(const PackedBatch& pack) const {
    MEMOPD_RETURN_IF_ERROR(check_ids(pack.input_ids, model_.config().vocab_size, "pack"));
    MEMOPD_RETURN_IF_ERROR(check_ids(pack.response_token_ids, scored_vocab_, "response"));
    const auto tensors = to_tensors(pack);
    if (!tensors) {
      return unexpected(tensors.error());
    }
    ResponseRows rows;
    rows.rows_RD = model_.hidden(*tensors).index_select(0, tensors->response_index);
    rows.token_ids.assign(pack.response_token_ids.begin(), pack.response_token_ids.end());
    rows.is_included.assign(rows.token_ids.size(), 1);
    rows.weights.assign(rows.token_ids.size(), 0);
    return rows;
  }

  Transformer model_;
  std::int32_t scored_vocab_;
};

LogProbScorer::LogProbScorer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogProbScorer::~LogProbScorer() = default;

Expected<std::unique_ptr<LogProbScorer>> LogProbScorer::load(const std::filesystem::path& folder,
                                                             std::int32_t scored_vocab) {
  auto model = load_transformer(folder);
  if (!model) {
    return unexpected(model.error());
  }
  const std::int32_t vocab_size = model->config().vocab_size;
  const std::int32_t support = scored_vocab == 0 ? vocab_size : scored_vocab;
  if (support < 1 || support > vocab_size) {
    return unexpected(ErrorCode::invalid_argument, folder.string() + ": scored_vocab: found " +
                                                       std::to_string(support) + ", allowed 1 to " +
                                                       std::to_string(vocab_size));
  }
  return std::unique_ptr<LogProbScorer>(new LogProbScorer(std::make_unique<Impl>(std::move(*model), support)));
}

Expected<std::vector<double>> LogProbScorer::log_probs(const PackedBatch& pack, double temperature) const {
  if (!(temperature >= 0)) {
    return unexpected(ErrorCode::invalid_argument,
                      "temperature: found " + std::to_string(temperature) + ", allowed >= 0");
  }
  try {
    return impl_->log_probs(pack, temperature);
  } catch (const std::exception& failure) {  // the tensor library's, out of memory for one
    return unexpected(ErrorCode::internal, std::string("log-prob scorer: ") + failure.what());
  }
}

Expected<std::vector<double>> LogProbScorer::divergences(const PackedBatch& pack, const LogProbScorer& teacher,
                                                         const DivergenceOptions& options) const {
  try {
    return impl_->divergences(pack, *teacher.impl_, options);
  } catch (const std::exception& failure) {
    return unexpected(ErrorCode::internal, std::string("log-prob scorer: ") + failure.what());
  }
}

}  // namespace memopd
