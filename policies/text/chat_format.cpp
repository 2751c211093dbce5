#include "policies/text/chat_format.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "runtime/base/random.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd {
namespace {

constexpr std::string_view kChatMlTurns =
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr std::string_view kChatMlLoop = "{% for message in messages %}";
constexpr std::string_view kDefaultBegin =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n";
constexpr std::string_view kDefaultEnd = "<|im_end|>\n' }}{% endif %}";

// hash_name() of the text as canonical() gives it.
constexpr std::uint64_t kQwen25 = 0x11D394755CEF9355ULL;
constexpr std::uint64_t kLlama3 = 0x0E60067A5537498EULL;
constexpr std::uint64_t kLlama31 = 0x4FD30286BC0DA17CULL;
constexpr std::uint64_t kLlama32 = 0x1A6DA26E3AEF1B34ULL;

/// The text with newlines for the escapes of them inside its strings, and without white space at its end: files differ in
/// both, and the rendered text in neither.
std::string canonical(std::string_view jinja) {
  std::string text;
  text.reserve(jinja.size());
  for (std::size_t i = 0; i < jinja.size(); ++i) {
    const bool is_escape = jinja.substr(i, 2) == "\\n";
    text.push_back(is_escape ? '\n' : jinja[i]);
    i += is_escape ? 1 : 0;
  }
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

/// The text of the default system turn of a ChatML template; nothing if `text` is none that has one.
std::optional<std::string> chatml_default(std::string_view text) {
  const std::size_t around = kDefaultBegin.size() + kDefaultEnd.size() + kChatMlTurns.size();
  if (text.size() < around || !text.starts_with(kDefaultBegin) || !text.ends_with(kChatMlTurns)) {
    return std::nullopt;
  }
  text.remove_suffix(kChatMlTurns.size());
  if (!text.ends_with(kDefaultEnd)) {
    return std::nullopt;
  }
  text.remove_suffix(kDefaultEnd.size());
  text.remove_prefix(kDefaultBegin.size());
  // A quote would end the string, a backslash begin an escape, a brace may be code.
  return text.find_first_of("'\"\\{}") == std::string_view::npos ? std::optional(std::string(text)) : std::nullopt;
}

}  // namespace

ChatFormat plain_format() {
  ChatFormat format;
  format.has_turns = false;
  return format;
}

ChatFormat chatml_format() {
  ChatFormat format;
  format.header_begin = "<|im_start|>";
  format.header_end = "\n";
  format.turn_end = "<|im_end|>\n";
  format.tokens = {"<|im_start|>", "<|im_end|>"};
  return format;
}

ChatFormat llama3_format(std::string bos_token) {
  ChatFormat format;
  format.header_begin = "<|start_header_id|>";
  format.header_end = "<|end_header_id|>\n\n";
  format.turn_end = "<|eot_id|>";
  format.trims_content = true;
  format.tokens = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", bos_token};
  format.opening = std::move(bos_token);
  return format;
}

std::uint64_t chat_template_fingerprint(std::string_view jinja) { return hash_name(canonical(jinja)); }

std::optional<ChatFormat> format_by_fingerprint(std::uint64_t fingerprint, std::string bos_token) {
  if (fingerprint == kQwen25) {
    ChatFormat qwen = chatml_format();
    qwen.default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
    return qwen;
  }
  if (fingerprint != kLlama3 && fingerprint != kLlama31) {
    return std::nullopt;
  }
  ChatFormat llama = llama3_format(std::move(bos_token));
  if (fingerprint == kLlama31) {
    llama.default_system = "";
    llama.system_preamble = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
  }
  return llama;
}

Expected<ChatFormat> recognize_chat_template(std::string_view jinja, std::string bos_token) {
  const std::string text = canonical(jinja);
  ChatFormat chatml = chatml_format();
  chatml.default_system = chatml_default(text);
  if (chatml.default_system || text == std::string(kChatMlLoop).append(kChatMlTurns)) {
    return chatml;
  }
  const std::uint64_t fingerprint = chat_template_fingerprint(jinja);
  if (auto format = format_by_fingerprint(fingerprint, std::move(bos_token))) {
    return *std::move(format);
  }
  const std::string_view problem = fingerprint == kLlama32
                                       ? "prints the day on which it is run, so no two days would see the same prompt"
                                       : "is not known";
  return unexpected(
      ErrorCode::config_error,
      fmt::format("the chat template of the tokenizer's files ({} bytes, fingerprint {:016x}, \"{}..\") {}",
                  text.size(), fingerprint, replace_invalid_utf8(text.substr(0, 60)), problem));
}

}  // namespace memopd
