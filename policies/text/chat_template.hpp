// Chat templates: how messages become a prompt, the assistant's header included, as `transformers` renders them.
//
// A prompt is a list of pieces. Markup (role headers, terminators) is ours and is encoded with special tokens on; what
// people wrote is encoded with special tokens off, each piece on its own, so no text can forge a header or change the
// ids around it, and every id belongs to exactly one span.
// CT-1  the pieces, joined, are what apply_chat_template gives for the same messages.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/text/chat_format.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/invocation.hpp"

namespace memopd {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
  SpanKind kind = SpanKind::instruction;  ///< of the content; markup is SpanKind::instruction
};

struct ChatPiece {
  std::string text;  ///< non-empty
  SpanKind kind = SpanKind::instruction;
  bool is_markup = false;  ///< encode with special tokens
};

/// Immutable, thread-safe.
class ChatTemplate {
 public:
  explicit ChatTemplate(ChatFormat format) : format_(std::move(format)) {}

  /// Pieces in order. Neighbours that are both markup are one piece.
  /// @param opens_assistant  ends with the assistant's header (add_generation_prompt)
  [[nodiscard]] std::vector<ChatPiece> render(std::span<const ChatMessage> messages, bool opens_assistant) const;

  /// A system turn with `instructions`, none if they are empty, a user turn with `question`, the assistant's header.
  [[nodiscard]] std::vector<ChatPiece> wrap(const std::string& instructions, const std::string& question) const;

  [[nodiscard]] const ChatFormat& format() const { return format_; }

 private:
  ChatFormat format_;
};

/// "chatml": `<|im_start|>role\n..<|im_end|>\n`, no turn that was not asked for. "llama3": Llama 3's headers.
/// "auto": what the chat_template of the tokenizer's files says. "none": the texts, one after the other.
/// @error config_error  unknown name (lists the known ones), a token of the template that `tokenizer` lacks, and for
///                      "auto" files without a template or with one that is not known
Expected<std::unique_ptr<const ChatTemplate>> make_chat_template(const std::string& name, const Tokenizer& tokenizer);

}  // namespace memopd
