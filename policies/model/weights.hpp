// Weights as plain bytes under Hugging Face names: what a learner publishes and students load.
//
// A WeightSet is complete and sorted by name; a tied head is one tensor. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/base/expected.hpp"
#include "runtime/data/tensor.hpp"

namespace memopd {

class Transformer;

/// Copies every tensor of `model`, in its own dtype.
WeightSet to_weight_set(const Transformer& model, std::int64_t lineage, std::int64_t policy_version);

/// Copies `weights` into `model`, converting float32, float64, bfloat16 and float16; changes nothing on error.
/// The leaf tensors stay the same objects. Not while another thread runs the model.
/// @error shape_mismatch  every missing, unexpected or wrongly shaped tensor: name, found, expected
Expected<void> load_weight_set(Transformer& model, const WeightSet& weights);

/// XXH3 over names, dtypes, shapes and bytes; independent of lineage and policy_version. Never 0.
std::uint64_t weight_fingerprint(const WeightSet& weights);

/// The same of what lies in safetensors `files` together, in their own dtypes: that of the WeightSet which was saved.
/// @error those of MappedSafetensors::open
Expected<std::uint64_t> stored_weight_fingerprint(std::span<const std::filesystem::path> files);

/// XXH3 over rows [0, scored_vocab) of the head as float32; equal for a teacher and for the learner that holds its head,
/// whatever the dtype they compute in, as long as the checkpoint is float32 or narrower. Never 0.
std::uint64_t head_fingerprint(const Transformer& model, std::int32_t scored_vocab);

}  // namespace memopd
