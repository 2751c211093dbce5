#include "policies/model/scorer.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "policies/model/checkpoint.hpp"
#include "policies/model/host_tensors.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/state_digest.hpp"
#include "policies/model/transformer.hpp"

namespace memopd {

class Scorer::Impl {
 public:
  Impl(Transformer model, std::int32_t scored_vocab)
      : model_(std::move(model)), fingerprint_(memopd::head_fingerprint(model_.head_weight(), scored_vocab)) {}

  [[nodiscard]] Expected<TeacherScores> score(const PackedBatch& pack) const {
    MEMOPD_RETURN_IF_ERROR(check_ids(pack));
    const c10::InferenceMode inference;
    const auto tensors = to_tensors(pack);
    if (!tensors) return unexpected(tensors.error());
    const at::Tensor rows_RD = model_.hidden(*tensors).index_select(0, tensors->response_index);
    const at::Tensor is_in_reach =
        tensors->position_ids.index_select(0, tensors->response_index).lt(model_.config().max_position_embeddings);
    const at::Tensor is_valid_R = at::isfinite(rows_RD).all(1).logical_and(is_in_reach);
    const at::Tensor kept_RD = at::where(is_valid_R.unsqueeze(1), rows_RD, 0.0).to(model_.dtype());
    TeacherScores scores{.hidden = to_host_tensor("hidden", kept_RD),
                         .row_valid = {},
                         .head_fingerprint = fingerprint_,
                         .digests = pack_digests(*tensors, pack.invocations)};
    const at::Tensor flags = is_valid_R.to(at::kByte).contiguous();
    scores.row_valid.assign(flags.data_ptr<std::uint8_t>(), flags.data_ptr<std::uint8_t>() + flags.numel());
    return scores;
  }

  [[nodiscard]] std::uint64_t head_fingerprint() const { return fingerprint_; }
  [[nodiscard]] const ModelConfig& model_config() const { return model_.config(); }

 private:
  [[nodiscard]] Expected<void> check_ids(const PackedBatch& pack) const {
    const auto outside = [this](std::int32_t id) { return id < 0 || id >= model_.config().vocab_size; };
    const auto place = std::find_if(pack.input_ids.begin(), pack.input_ids.end(), outside);
    if (place == pack.input_ids.end()) return {};
    return unexpected(ErrorCode::invalid_argument, "pack: id " + std::to_string(*place) +
                                                       " outside the vocabulary of " +
                                                       std::to_string(model_.config().vocab_size));
  }

  Transformer model_;
  std::uint64_t fingerprint_;
};

Scorer::Scorer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scorer::~Scorer() = default;

Expected<std::unique_ptr<Scorer>> Scorer::load(const std::filesystem::path& folder, const ScorerOptions& options) {
  if (options.dtype != DType::float32 && options.dtype != DType::float64) {
    return unexpected(ErrorCode::invalid_argument,
                      "scorer: dtype is " + std::string(to_string(options.dtype)) + ", not float32 or float64");
  }
  auto model = load_transformer(folder, to_scalar_type(options.dtype));
  if (!model) return unexpected(model.error());
  model->set_row_exact(options.is_deterministic);
  const std::int32_t vocab_size = model->config().vocab_size;
  const std::int32_t scored_vocab = options.scored_vocab == 0 ? vocab_size : options.scored_vocab;
  if (scored_vocab < 1 || scored_vocab > vocab_size) {
    return unexpected(ErrorCode::invalid_argument, folder.string() + ": scored_vocab is " +
                                                       std::to_string(scored_vocab) + ", allowed 1 to " +
                                                       std::to_string(vocab_size));
  }
  return std::unique_ptr<Scorer>(new Scorer(std::make_unique<Impl>(std::move(*model), scored_vocab)));
}

Expected<TeacherScores> Scorer::score(const PackedBatch& pack) const {
  try {
    return impl_->score(pack);
  } catch (const std::exception& failure) {  // the tensor library's, out of memory for one
    return unexpected(ErrorCode::internal, std::string("scorer: ") + failure.what());
  }
}
std::uint64_t Scorer::head_fingerprint() const { return impl_->head_fingerprint(); }
const ModelConfig& Scorer::model_config() const { return impl_->model_config(); }

}  // namespace memopd
