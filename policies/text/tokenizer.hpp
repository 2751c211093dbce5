// Byte-level BPE: text to ids and back, exactly as Hugging Face's `tokenizers` computes it.
//
// Every byte string can be encoded: bytes are tokens, and bytes that are not UTF-8 are kept. Without a normal form, and if
// no byte is missing (BPE-2), decode(encode(text)) == text; the reverse does not hold (many id lists spell one text), which is why nothing in
// this project encodes what it has decoded.
// V = vocab_size() = largest id + 1. Immutable, cheap to copy, thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

struct EncodeOptions {
  /// Look for special tokens in the text. Off for everything that a user, a document or an environment wrote: their
  /// `<|im_end|>` is then plain text. Added tokens that are not special are always looked for.
  bool special_tokens = false;
};

namespace detail {
struct TokenizerParts;
}

class Tokenizer {
 public:
  /// Reads `path`/tokenizer.json, or `path` itself when it is a file; eos, bos and chat template from
  /// tokenizer_config.json and chat_template.jinja beside it, if any.
  /// @error not_found, io_error, parse_error  with the file
  /// @error unsupported  anything in the file that would be ignored; named by its JSON path
  static Expected<Tokenizer> load(const std::filesystem::path& path);

  /// The same from the text of the three files; the last two may be empty.
  static Expected<Tokenizer> from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json = {},
                                       std::string_view chat_template_jinja = {});

  /// Writes tokenizer.json, tokenizer_config.json and, if there was one, chat_template.jinja into `folder`, creating it;
  /// files appear by rename.
  /// @error io_error
  Expected<void> save(const std::filesystem::path& folder) const;
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::string config_json() const;

  /// Normalises, cuts out added tokens (leftmost, longest first), pre-tokenizes and merges. Adds nothing of its own: a
  /// begin-of-sequence token is the chat template's business. O(bytes * log of the longest piece); some MB/s.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Bytes of `ids`, one after the other; may not be UTF-8. Ids outside [0, V) give nothing.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// Bytes of one id; empty outside [0, V) and for ids that the vocabulary leaves out. Valid as long as the tokenizer.
  [[nodiscard]] std::string_view token_bytes(std::int32_t id) const;

  [[nodiscard]] std::int32_t vocab_size() const;
  /// The id whose bytes are `text`: an added token first, then the vocabulary.
  [[nodiscard]] std::optional<std::int32_t> token_id(std::string_view text) const;
  [[nodiscard]] std::optional<std::int32_t> eos_id() const;
  [[nodiscard]] bool is_special(std::int32_t id) const;
  /// Bytes that give no id, ascending (BPE-2); empty for most vocabularies.
  [[nodiscard]] std::vector<std::uint8_t> missing_bytes() const;
  /// Text of the begin-of-sequence token by tokenizer_config.json; empty = none. Only chat templates use it.
  [[nodiscard]] const std::string& bos_token() const;
  /// The Jinja text that came with the vocabulary, chat_template.jinja before tokenizer_config.json; empty = none.
  [[nodiscard]] const std::string& chat_template() const;

  explicit Tokenizer(std::shared_ptr<const detail::TokenizerParts> parts) : parts_(std::move(parts)) {}

 private:
  std::shared_ptr<const detail::TokenizerParts> parts_;
};

/// Refuses two models that do not spell the ids they share the same way. Compares ids [0, scored_vocab).
/// @param scored_vocab  ids that losses and sampling use; >= 1; 0 = the smaller of both vocabularies
/// @error tokenizer_mismatch  names the first id that differs, both strings and the three sizes; also when
///                            scored_vocab exceeds either vocabulary
Expected<void> check_compatible(const Tokenizer& student, const Tokenizer& teacher, std::int32_t scored_vocab);

}  // namespace memopd
