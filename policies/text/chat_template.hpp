// Chat templates: how instructions and question become the first prompt, assistant header included.
//
// A prompt is a list of pieces. Markup (role headers, terminators) is ours and is encoded with special tokens on; what
// people wrote is encoded with special tokens off, each piece on its own, so no text can forge a header or change the
// ids around it, and every id belongs to exactly one span.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policies/text/tokenizer.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/invocation.hpp"

namespace memopd {

struct ChatPiece {
  std::string text;
  SpanKind kind = SpanKind::instruction;
  bool is_markup = false;  ///< encode with special tokens
};

/// Immutable, thread-safe.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  /// Pieces in order, ending where the assistant's turn begins. Markup is SpanKind::instruction.
  /// @param instructions  may be empty: then no system turn
  [[nodiscard]] virtual std::vector<ChatPiece> wrap(const std::string& instructions,
                                                    const std::string& question) const = 0;
};

/// "chatml": `<|im_start|>role\n..<|im_end|>\n`. "none": instructions then question, nothing around them.
/// @error config_error  unknown name (lists the known ones), or a token of the template that `tokenizer` lacks
Expected<std::unique_ptr<const ChatTemplate>> make_chat_template(const std::string& name, const Tokenizer& tokenizer);

}  // namespace memopd
