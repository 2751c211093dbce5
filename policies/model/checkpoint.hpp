// Hugging Face folders in and out: config.json + model.safetensors (or its shards with model.safetensors.index.json).
//
// Weights in F32, F64, BF16 or F16 load into float32 or float64 from mapped files: what is in memory is the model, never the
// file beside it. They are saved in the model's own dtype. Files appear by rename: a reader never sees half of one. A tied
// head is one tensor on disk and one storage in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

#include "policies/model/transformer.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

/// @error those of load_model_config and read_safetensors
/// @error parse_error     an index that its shards contradict: every tensor and file in one message
/// @error shape_mismatch  every missing, unexpected or wrongly shaped tensor in one message: name, found, expected
Expected<Transformer> load_transformer(const std::filesystem::path& folder, at::ScalarType dtype = at::kFloat);

/// Hugging Face's own limit of one file.
inline constexpr std::uint64_t kMaxShardBytes = 5'000'000'000;

/// Makes `folder` if need be and replaces config.json and the weights in it: model.safetensors, or shards with an index
/// where the tensors take more than `max_shard_bytes` (a larger tensor is a shard of its own). One tensor is copied at a
/// time. generation_config.json is written where there is none.
/// @error io_error
Expected<void> save_transformer(const std::filesystem::path& folder, const Transformer& model,
                                std::uint64_t max_shard_bytes = kMaxShardBytes);

/// Copies what else makes a Hugging Face folder usable, where `from` has it and `to`, made if need be, lacks it:
/// generation_config.json, the tokenizer's files, the chat template.
/// @error io_error
Expected<void> copy_companion_files(const std::filesystem::path& from, const std::filesystem::path& to);

/// The head alone, [V, D]: what a learner needs of a teacher.
/// @error as load_transformer, for that tensor
Expected<at::Tensor> load_head(const std::filesystem::path& folder, at::ScalarType dtype = at::kFloat);

/// head_fingerprint (weights.hpp) of a head held as a tensor [V, D]; 1 <= scored_vocab <= V.
std::uint64_t head_fingerprint(const at::Tensor& head_weight, std::int32_t scored_vocab);

}  // namespace memopd
