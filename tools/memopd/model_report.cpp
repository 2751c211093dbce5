#include "tools/memopd/model_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "policies/model/model_config.hpp"
#include "policies/model/weights.hpp"
#include "policies/text/tokenizer.hpp"

namespace memopd {
namespace {

std::string describe(const ModelConfig& model) {
  return fmt::format(
      "{}, {} layers, hidden {}, intermediate {}, heads {}/{} of {}, vocabulary {}, {} positions, {} head, rope {:g}{}",
      model.architecture, model.num_hidden_layers, model.hidden_size, model.intermediate_size,
      model.num_attention_heads, model.num_key_value_heads, model.head_dim, model.vocab_size,
      model.max_position_embeddings, model.tie_word_embeddings ? "tied" : "own", model.rope_theta,
      model.rope_scaling ? fmt::format(" scaled by {:g}", model.rope_scaling->factor) : "");
}

void add_tokenizer(const std::filesystem::path& folder, const ModelConfig& model, ModelReport& report) {
  std::error_code error;
  if (!std::filesystem::exists(folder / "tokenizer.json", error)) {
    return;
  }
  const auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer) {
    report.problems.push_back(tokenizer.error().message);
    return;
  }
  report.tokenizer_size = tokenizer->vocab_size();
  if (report.tokenizer_size > model.vocab_size) {
    report.problems.push_back(
        fmt::format("tokenizer has {} ids, the model {} rows", report.tokenizer_size, model.vocab_size));
  }
  for (std::string& line : report.special_ids) {
    const auto id = static_cast<std::int32_t>(std::stol(line.substr(line.find(' ') + 1)));
    line += fmt::format(" {}", tokenizer->token_bytes(id));
  }
  const auto eos = tokenizer->eos_id();
  if (eos && std::find(model.eos_token_ids.begin(), model.eos_token_ids.end(), *eos) == model.eos_token_ids.end()) {
    report.problems.push_back(
        fmt::format("eos of the tokenizer is {} {}, the model does not name it", *eos, tokenizer->token_bytes(*eos)));
  }
}

}  // namespace

ModelReport report_model(const std::string& name, const std::filesystem::path& folder,
                         const std::vector<std::filesystem::path>& files, const std::vector<FoundTensor>& tensors) {
  ModelReport report;
  report.name = name;
  bool has_head = false;
  for (const FoundTensor& tensor : tensors) {
    ++report.num_tensors[std::string(to_string(tensor.dtype))];
    has_head |= tensor.name == "lm_head.weight";
  }
  if (!files.empty()) {
    const auto fingerprint = stored_weight_fingerprint(files);
    if (fingerprint) {
      report.fingerprint = fmt::format("{:016x}", *fingerprint);
    } else {
      report.problems.push_back(fingerprint.error().message);
    }
  }
  const auto model = load_model_config(folder);
  if (!model) {
    report.problems.push_back(model.error().message);
    return report;
  }
  report.shape = describe(*model);
  report.num_rows = model->vocab_size;
  report.head = !model->tie_word_embeddings ? "own" : has_head ? "tied, stored twice" : "tied";
  for (const std::int32_t id : model->eos_token_ids) {
    report.special_ids.push_back(fmt::format("eos {}", id));
  }
  std::vector<std::string> problems = tensor_problems(*model, tensors);
  report.problems.insert(report.problems.end(), problems.begin(), problems.end());
  add_tokenizer(folder, *model, report);
  return report;
}

std::string to_text(const ModelReport& report) {
  std::string text;
  const auto line = [&](const std::string& what) { text += fmt::format("  {}: {}\n", report.name, what); };
  if (!report.shape.empty()) {
    line(report.shape);
  }
  std::string types;
  for (const auto& [dtype, count] : report.num_tensors) {
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, dtype);
  }
  line(fmt::format("tensors {}; head {}; fingerprint {}", types, report.head, report.fingerprint));
  line(report.tokenizer_size < 0 ? fmt::format("no tokenizer here; {}", fmt::join(report.special_ids, ", "))
                                 : fmt::format("tokenizer {} ids for {} rows; {}", report.tokenizer_size,
                                               report.num_rows, fmt::join(report.special_ids, ", ")));
  for (const std::string& problem : report.problems) {
    line("problem: " + problem);
  }
  return text;
}

nlohmann::ordered_json to_json(const ModelReport& report) {
  nlohmann::ordered_json json = {{"name", report.name},
                                 {"shape", report.shape},
                                 {"num_tensors", report.num_tensors},
                                 {"head", report.head},
                                 {"fingerprint", report.fingerprint},
                                 {"num_rows", report.num_rows},
                                 {"tokenizer_size", nullptr},
                                 {"special_ids", report.special_ids},
                                 {"problems", report.problems}};
  if (report.tokenizer_size >= 0) {
    json["tokenizer_size"] = report.tokenizer_size;
  }
  return json;
}

}  // namespace memopd
