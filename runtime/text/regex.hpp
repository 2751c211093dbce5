// Unicode regular expressions over UTF-8: the pre-tokenizer patterns of tokenizer.json, and normalisation of answers.
//
// The dialect is the part that Oniguruma, which the `tokenizers` package uses, and ICU share; `\s` and `\S` mean the
// property White_Space, as there. Offsets are bytes. Bytes that are not UTF-8 never match: each run of them is a piece
// of its own, and the stretches between such runs are matched as if each were the whole text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Half-open byte range of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A compiled pattern. Immutable, cheap to copy, thread-safe.
class Regex {
 public:
  /// @error parse_error  not a pattern; names the pattern, the offset and what ICU says
  static Expected<Regex> compile(std::string_view pattern);

  /// Cuts `text` into its matches and the stretches between them (Hugging Face's "isolated").
  /// @return  non-empty ranges in order that cover `text`; empty iff `text` is empty
  [[nodiscard]] std::vector<ByteRange> split(std::string_view text) const;

  /// `text` with every match replaced by `replacement`, taken literally.
  [[nodiscard]] std::string replace_all(std::string_view text, std::string_view replacement) const;

  /// True if some part of `text` matches.
  [[nodiscard]] bool is_found_in(std::string_view text) const;

  [[nodiscard]] const std::string& pattern() const;

 private:
  struct Compiled;
  explicit Regex(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  struct Piece {
    ByteRange range;
    bool is_match = false;
  };
  [[nodiscard]] std::vector<Piece> pieces(std::string_view text) const;

  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace memopd
