// Sections of a Hugging Face tokenizer.json; internal to policies/text.
//
// Whatever would change ids and is not understood is an error that names its JSON path; nothing is skipped silently.
// A post-processor is kept for other programs and not applied: it acts only where special tokens are added around a
// text, which is the chat template's business here.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "policies/text/tokenizer_parts.hpp"
#include "runtime/base/expected.hpp"

namespace memopd::detail {

/// @error parse_error  not an object, with what the parser says
Expected<nlohmann::json> parse_json_object(std::string_view text, const std::string& file);

/// @error unsupported  a key of `object` outside `allowed`; named with `path`
Expected<void> check_keys(const nlohmann::json& object, const std::string& path,
                          const std::vector<std::string>& allowed);

/// @error unsupported, parse_error
Expected<NormalForm> read_normalizer(const nlohmann::json& value);
Expected<std::vector<Regex>> read_pre_tokenizer(const nlohmann::json& value);
Expected<void> check_decoder(const nlohmann::json& value);
Expected<void> check_post_processor(const nlohmann::json& value, const std::string& path);
Expected<BpeModel> read_model(const nlohmann::json& value);
Expected<std::vector<AddedToken>> read_added_tokens(const nlohmann::json& value, const nlohmann::json& vocab);

/// The pre_tokenizer section for one Split pattern, as Qwen2 has it.
[[nodiscard]] std::string split_section(std::string_view pattern);
/// Of byte-level vocabularies, as the `tokenizers` package writes them; their settings do not matter there.
[[nodiscard]] std::string post_processor_section();
[[nodiscard]] std::string decoder_section();
[[nodiscard]] std::string normalizer_section(NormalForm form);

}  // namespace memopd::detail
