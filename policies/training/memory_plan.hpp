// What a run will hold in accelerator memory, part by part, before anything is started. Torch-free, arithmetic only.
//
// Counted: bf16 weights of every model on the device (2 bytes), and for a learner rank fp32 master weights (4), fp32
// gradients (4), AdamW moments (8), activations of one pack with one checkpoint a layer, one chunk of logits with its
// gradient; for an engine its key/value cache. The critic on the shared trunk is a head of negligible size; a critic with
// its own trunk is another learner model. Not counted: CUDA's context and fragmentation (kOverheadBytes).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/model/model_config.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// Context, allocator slack and communication buffers of one device.
inline constexpr double kOverheadBytes = 2.0 * 1024 * 1024 * 1024;

struct MemoryPart {
  std::string role;  ///< "learner/2"
  std::string part;  ///< "weights", "moments", ..
  double bytes = 0;
};

/// One device and what stands on it.
struct DevicePlan {
  std::int32_t device = 0;
  std::vector<MemoryPart> parts;

  [[nodiscard]] double total_bytes() const;  ///< overhead included
};

struct MemoryPlanOptions {
  std::int32_t num_devices = 1;  ///< >= 1; actor i of a role stands on device i mod num_devices
  bool shard_optimizer = false;  ///< master weights and moments split over the learner ranks
};

/// Elements of all tensors.
[[nodiscard]] std::int64_t num_parameters(const ModelConfig& model);

/// @param teacher  null without one
[[nodiscard]] std::vector<DevicePlan> plan_memory(const Config& config, const ModelConfig& student,
                                                  const ModelConfig* teacher, const MemoryPlanOptions& options);

}  // namespace memopd
