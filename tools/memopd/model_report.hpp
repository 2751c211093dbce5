// What a person needs who asks why a model does not load or does not score as elsewhere: its family, its tensors against
// its config.json, its tokenizer against its rows. Reads headers and hashes the weights; computes nothing with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "policies/model/tensor_check.hpp"

namespace memopd {

struct ModelReport {
  std::string name;                                 ///< "policy"; "model" for the folder itself
  std::string shape;                                ///< "qwen2, 3 layers, .."; "" = no config.json that can be read
  std::map<std::string, std::int64_t> num_tensors;  ///< by dtype
  std::string head;                                 ///< "tied", "tied, stored twice" or "own"
  std::string fingerprint;                          ///< stored_weight_fingerprint as 16 hex digits; "" = no weights
  std::int32_t num_rows = 0;                        ///< vocab_size of config.json
  std::int32_t tokenizer_size = -1;                 ///< -1 = no tokenizer here
  std::vector<std::string> special_ids;             ///< "eos 2 <|im_end|>", of config.json and generation_config.json
  std::vector<std::string> problems;                ///< of config.json, weights and tokenizer; empty = it loads
};

/// @param files  the folder's model files; `tensors` is what their headers list
[[nodiscard]] ModelReport report_model(const std::string& name, const std::filesystem::path& folder,
                                       const std::vector<std::filesystem::path>& files,
                                       const std::vector<FoundTensor>& tensors);

/// Lines of two blanks and the model's name.
[[nodiscard]] std::string to_text(const ModelReport& report);
[[nodiscard]] nlohmann::ordered_json to_json(const ModelReport& report);

}  // namespace memopd
