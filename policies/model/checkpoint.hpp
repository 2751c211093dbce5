// Hugging Face folders in and out: config.json + model.safetensors (or its shards with model.safetensors.index.json).
//
// Weights in F32, F64, BF16 or F16 load into float32 or float64; they are saved in the model's own dtype. Files appear by
// rename: a reader never sees half of one. A tied head is one tensor on disk and one storage in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

#include "policies/model/transformer.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

/// @error those of load_model_config and read_safetensors
/// @error shape_mismatch  every missing, unexpected or wrongly shaped tensor in one message: name, found, expected
Expected<Transformer> load_transformer(const std::filesystem::path& folder, at::ScalarType dtype = at::kFloat);

/// Makes `folder` if need be and replaces config.json and model.safetensors in it.
/// @error io_error
Expected<void> save_transformer(const std::filesystem::path& folder, const Transformer& model);

/// The head alone, [V, D]: what a learner needs of a teacher.
/// @error as load_transformer, for that tensor
Expected<at::Tensor> load_head(const std::filesystem::path& folder, at::ScalarType dtype = at::kFloat);

/// head_fingerprint (weights.hpp) of a head held as a tensor [V, D]; 1 <= scored_vocab <= V.
std::uint64_t head_fingerprint(const at::Tensor& head_weight, std::int32_t scored_vocab);

}  // namespace memopd
