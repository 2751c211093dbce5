#include "policies/training/memory_plan.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace memopd {
namespace {

constexpr double kBf16 = 2;
constexpr double kFp32 = 4;

/// Values of one token that one layer computes and its backward pass reads.
double layer_values_per_token(const ModelConfig& model) {
  const double heads = static_cast<double>(model.num_attention_heads) * model.head_dim;
  const double kv_heads = 2.0 * model.num_key_value_heads * model.head_dim;
  return 4.0 * model.hidden_size + 2 * heads + kv_heads + 3.0 * model.intermediate_size;
}

using Add = std::function<void(const std::string& part, double bytes)>;

void add_learner(const Config& config, const ModelConfig& model, const ModelConfig* teacher, double ranks,
                 const Add& add) {
  const auto parameters = static_cast<double>(num_parameters(model));
  const double tokens = config.pack.max_tokens;
  add("weights", parameters * kBf16);
  add("master weights", parameters * kFp32 / ranks);
  add("moments", parameters * 2 * kFp32 / ranks);
  add("gradients", parameters * kFp32);
  const double checkpoints = static_cast<double>(model.num_hidden_layers) * model.hidden_size;
  add("activations", tokens * (checkpoints + layer_values_per_token(model)) * kBf16);
  const double rows = std::min<double>(config.opd.chunk_rows, tokens);
  add("logits of a chunk", rows * model.vocab_size * kFp32 * (teacher != nullptr ? 2 : 1));
  if (teacher != nullptr) {
    add("teacher's head", static_cast<double>(teacher->vocab_size) * teacher->hidden_size * kBf16);
  }
}

void add_critic(const Config& config, const ModelConfig& model, double ranks, const Add& add) {
  if (config.ppo.coef == 0 || config.ppo.estimator != "gae" || config.critic.trunk == "shared") {
    return;
  }
  const auto parameters = static_cast<double>(num_parameters(model));
  add("critic", parameters * (kBf16 + kFp32 + 3 * kFp32 / ranks));
}

void add_engine(const Config& config, const ModelConfig& model, const Add& add) {
  add("weights", static_cast<double>(num_parameters(model)) * kBf16);
  const double slots = static_cast<double>(config.student.max_sequences) * config.student.max_context_tokens;
  add("key/value cache", slots * model.num_hidden_layers * 2 * model.num_key_value_heads * model.head_dim * kBf16);
  add("logits", static_cast<double>(config.student.max_sequences) * model.vocab_size * kFp32);
}

void add_scorer(const Config& config, const ModelConfig& model, const Add& add) {
  add("weights", static_cast<double>(num_parameters(model)) * kBf16);
  add("activations", static_cast<double>(config.pack.teacher_pack_tokens) * layer_values_per_token(model) * kBf16);
}

}  // namespace

double DevicePlan::total_bytes() const {
  return std::accumulate(parts.begin(), parts.end(), kOverheadBytes,
                         [](double sum, const MemoryPart& part) { return sum + part.bytes; });
}

std::int64_t num_parameters(const ModelConfig& model) {
  std::int64_t count = 0;
  for (const TensorSpec& tensor : tensor_specs(model)) {
    count += std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  return count;
}

std::vector<DevicePlan> plan_memory(const Config& config, const ModelConfig& student, const ModelConfig* teacher,
                                    const MemoryPlanOptions& options) {
  std::vector<DevicePlan> devices(static_cast<std::size_t>(options.num_devices));
  for (std::int32_t device = 0; device < options.num_devices; ++device) {
    devices[static_cast<std::size_t>(device)].device = device;
  }
  const auto place = [&](const std::string& role, std::int32_t count, const std::function<void(const Add&)>& fill) {
    for (std::int32_t rank = 0; rank < count; ++rank) {
      auto& parts = devices[static_cast<std::size_t>(rank % options.num_devices)].parts;
      fill([&](const std::string& part, double bytes) {
        parts.push_back({role + "/" + std::to_string(rank), part, bytes});
      });
    }
  };
  const double shards = options.shard_optimizer ? config.learner.num_ranks : 1;
  const bool has_opd = config.opd.coef > 0 && teacher != nullptr;
  place("learner", config.learner.num_ranks, [&](const Add& add) {
    add_learner(config, student, has_opd ? teacher : nullptr, shards, add);
    add_critic(config, student, shards, add);
    if (config.ppo.reference_kl_coef > 0) {
      add("reference", static_cast<double>(num_parameters(student)) * kBf16);
    }
  });
  place("student", config.student.num_actors, [&](const Add& add) { add_engine(config, student, add); });
  if (has_opd) {
    place("teacher", config.teacher.num_actors, [&](const Add& add) { add_scorer(config, *teacher, add); });
  }
  return devices;
}

}  // namespace memopd
