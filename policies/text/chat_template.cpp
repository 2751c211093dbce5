#include "policies/text/chat_template.hpp"

#include <utility>

namespace memopd {
namespace {

void push(std::vector<ChatPiece>& pieces, ChatPiece piece) {
  if (!piece.text.empty()) {
    pieces.push_back(std::move(piece));
  }
}

class PlainTemplate : public ChatTemplate {
 public:
  [[nodiscard]] std::vector<ChatPiece> wrap(const std::string& instructions,
                                            const std::string& question) const override {
    std::vector<ChatPiece> pieces;
    push(pieces, {instructions, SpanKind::instruction, false});
    push(pieces, {question, SpanKind::question, false});
    return pieces;
  }
};

class ChatMlTemplate : public ChatTemplate {
 public:
  [[nodiscard]] std::vector<ChatPiece> wrap(const std::string& instructions,
                                            const std::string& question) const override {
    std::vector<ChatPiece> pieces;
    if (!instructions.empty()) {
      push(pieces, {"<|im_start|>system\n", SpanKind::instruction, true});
      push(pieces, {instructions, SpanKind::instruction, false});
      push(pieces, {"<|im_end|>\n", SpanKind::instruction, true});
    }
    push(pieces, {"<|im_start|>user\n", SpanKind::instruction, true});
    push(pieces, {question, SpanKind::question, false});
    push(pieces, {"<|im_end|>\n<|im_start|>assistant\n", SpanKind::instruction, true});
    return pieces;
  }
};

}  // namespace

Expected<std::unique_ptr<const ChatTemplate>> make_chat_template(const std::string& name, const Tokenizer& tokenizer) {
  if (name == "none") {
    return std::unique_ptr<const ChatTemplate>(std::make_unique<PlainTemplate>());
  }
  if (name != "chatml") {
    return unexpected(ErrorCode::config_error,
                      "protocol.chat_template \"" + name + "\": known are \"chatml\", \"none\"");
  }
  for (const char* token : {"<|im_start|>", "<|im_end|>"}) {
    if (!tokenizer.token_id(token)) {
      return unexpected(ErrorCode::config_error,
                        std::string("protocol.chat_template \"chatml\": the tokenizer has no token ") + token +
                            "; use \"none\" or another tokenizer");
    }
  }
  return std::unique_ptr<const ChatTemplate>(std::make_unique<ChatMlTemplate>());
}

}  // namespace memopd
