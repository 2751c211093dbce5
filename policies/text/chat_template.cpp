#include "policies/text/chat_template.hpp"

#include <string_view>
#include <utility>

#include "runtime/text/unicode.hpp"

namespace memopd {
namespace {

void push(std::vector<ChatPiece>& pieces, ChatPiece piece) {
  if (piece.text.empty()) {
    return;
  }
  if (piece.is_markup && !pieces.empty() && pieces.back().is_markup) {
    pieces.back().text += piece.text;
  } else {
    pieces.push_back(std::move(piece));
  }
}

void push_markup(std::vector<ChatPiece>& pieces, std::string text) {
  push(pieces, {std::move(text), SpanKind::instruction, /*is_markup=*/true});
}

/// What the value of `name` means; without a check of the tokens.
Expected<ChatFormat> find_format(const std::string& name, const Tokenizer& tokenizer) {
  if (name == "none") {
    return plain_format();
  }
  if (name == "chatml") {
    return chatml_format();
  }
  if (name == "llama3") {
    return llama3_format(tokenizer.bos_token().empty() ? "<|begin_of_text|>" : tokenizer.bos_token());
  }
  if (name != "auto") {
    return unexpected(ErrorCode::config_error, "known are \"auto\", \"chatml\", \"llama3\", \"none\"");
  }
  if (tokenizer.chat_template().empty()) {
    return unexpected(ErrorCode::config_error,
                      "the tokenizer's files have no chat_template; set \"chatml\", \"llama3\" or \"none\"");
  }
  auto format = recognize_chat_template(tokenizer.chat_template(), tokenizer.bos_token());
  if (!format) {
    return unexpected(format.error().code, format.error().message + "; set \"chatml\", \"llama3\" or \"none\"");
  }
  return format;
}

}  // namespace

std::vector<ChatPiece> ChatTemplate::render(std::span<const ChatMessage> messages, bool opens_assistant) const {
  std::vector<ChatPiece> pieces;
  const auto open_turn = [&](const std::string& role) {
    if (format_.has_turns) {
      push_markup(pieces, format_.header_begin + role + format_.header_end);
    }
  };
  push_markup(pieces, format_.opening);
  if (format_.default_system && (messages.empty() || messages.front().role != "system")) {
    open_turn("system");
    push_markup(pieces, format_.system_preamble + *format_.default_system + format_.turn_end);
  }
  for (const ChatMessage& message : messages) {
    open_turn(message.role);
    if (&message == &messages.front() && message.role == "system") {
      push_markup(pieces, format_.system_preamble);
    }
    const std::string_view content =
        format_.trims_content ? strip_unicode(message.content) : std::string_view(message.content);
    push(pieces, {std::string(content), message.kind, /*is_markup=*/false});
    push_markup(pieces, format_.turn_end);
  }
  if (opens_assistant) {
    open_turn("assistant");
  }
  return pieces;
}

std::vector<ChatPiece> ChatTemplate::wrap(const std::string& instructions, const std::string& question) const {
  std::vector<ChatMessage> messages;
  if (!instructions.empty()) {
    messages.push_back({"system", instructions, SpanKind::instruction});
  }
  messages.push_back({"user", question, SpanKind::question});
  return render(messages, /*opens_assistant=*/true);
}

Expected<std::unique_ptr<const ChatTemplate>> make_chat_template(const std::string& name, const Tokenizer& tokenizer) {
  auto format = find_format(name, tokenizer);
  if (!format) {
    return unexpected(format.error().code, "protocol.chat_template \"" + name + "\": " + format.error().message);
  }
  for (const std::string& token : format->tokens) {
    if (!tokenizer.token_id(token)) {
      return unexpected(ErrorCode::config_error, "protocol.chat_template \"" + name +
                                                     "\": the tokenizer has no token \"" + token +
                                                     "\"; use another template or another tokenizer");
    }
  }
  return std::unique_ptr<const ChatTemplate>(std::make_unique<ChatTemplate>(std::move(*format)));
}

}  // namespace memopd
