#include "policies/model/tensor_check.hpp"

#include <map>
#include <utility>

namespace memopd {

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16 || dtype == DType::float16;
}

}  // namespace

std::vector<std::string> tensor_problems(const ModelConfig& config, std::span<const FoundTensor> found) {
  std::map<std::string, std::vector<std::int64_t>> open;
  for (TensorSpec& spec : tensor_specs(config)) open.emplace(std::move(spec.name), std::move(spec.shape));
  std::vector<std::string> problems;
  const std::vector<std::int64_t> head_shape = {config.vocab_size, config.hidden_size};
  for (const FoundTensor& tensor : found) {
    if (!is_floating(tensor.dtype)) {
      problems.push_back(tensor.name + " is " + std::string(to_string(tensor.dtype)) + ", not floating-point");
    }
    if (tensor.name == "lm_head.weight" && config.tie_word_embeddings && tensor.shape == head_shape) continue;
    const auto place = open.find(tensor.name);
    if (place == open.end()) {
      problems.push_back("unexpected " + tensor.name + " " + shape_text(tensor.shape));
      continue;
    }
    if (place->second != tensor.shape) {
      problems.push_back(tensor.name + " is " + shape_text(tensor.shape) + ", expected " + shape_text(place->second));
    }
    open.erase(place);
  }
  for (const auto& [name, shape] : open) problems.push_back("missing " + name + " " + shape_text(shape));
  return problems;
}

Expected<void> check_tensor_specs(const ModelConfig& config, std::span<const FoundTensor> found) {
  std::string text;
  for (const std::string& problem : tensor_problems(config, found)) text += (text.empty() ? "" : "; ") + problem;
  if (!text.empty()) return unexpected(ErrorCode::shape_mismatch, "weights: " + text);
  return {};
}

}  // namespace memopd
