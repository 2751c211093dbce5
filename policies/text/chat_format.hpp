// What chat templates differ in, and which Jinja texts are known to mean what.
//
// Templates are programs in files that come with a checkpoint. They are not run here: a text that is known, letter for
// letter, has its format in a table; any other is refused, since a prompt that nearly fits costs a model its quality
// without a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct ChatFormat {
  std::string opening;       ///< before all turns: the begin-of-sequence token, or nothing
  std::string header_begin;  ///< a turn is header_begin role header_end content turn_end
  std::string header_end;
  std::string turn_end;
  /// The system turn of a conversation that begins with none; nothing = no such turn.
  std::optional<std::string> default_system;
  std::string system_preamble;      ///< stands before the text of the first system turn
  bool trims_content = false;       ///< white space at the ends of a content is dropped, as Python's str.strip does
  bool has_turns = true;            ///< false: contents one after the other and nothing else
  std::vector<std::string> tokens;  ///< that the tokenizer must have
};

[[nodiscard]] ChatFormat plain_format();
[[nodiscard]] ChatFormat chatml_format();
/// @param bos_token  the text that the template's bos_token stands for
[[nodiscard]] ChatFormat llama3_format(std::string bos_token);

/// Names a chat_template text; the same for texts that differ only in how they write newlines inside their strings.
[[nodiscard]] std::uint64_t chat_template_fingerprint(std::string_view jinja);

/// The format of a template that is known by its fingerprint: Qwen2.5, Llama 3, Llama 3.1; nothing for any other.
[[nodiscard]] std::optional<ChatFormat> format_by_fingerprint(std::uint64_t fingerprint, std::string bos_token);

/// The format of a chat_template text. Known are ChatML with and without a default system turn (SmolLM2, Qwen2),
/// Qwen2.5, Llama 3 and Llama 3.1.
/// @error config_error  not known, with its fingerprint and first characters; or known to depend on the day it is run
Expected<ChatFormat> recognize_chat_template(std::string_view jinja, std::string bos_token);

}  // namespace memopd
