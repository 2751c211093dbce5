// UTF-8 text: normal forms, lower case, and what to do with bytes that are not UTF-8.
//
// Text comes from models, documents and files; any of it may be ill-formed. Nothing here fails on that: bytes that are
// not UTF-8 pass through unchanged, and the well-formed stretches between them are treated on their own.
// Unicode 15 (ICU 72). All functions are pure and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace memopd {

enum class NormalForm : std::uint8_t { none, nfc, nfkc };

/// `text` in `form`. O(n); a copy without work when all bytes are ASCII.
[[nodiscard]] std::string normalize(std::string_view text, NormalForm form);

/// `text` in `form` as the `tokenizers` package computes it: by the tables of Unicode 9, so characters assigned later are
/// neither composed nor reordered. O(n); a copy without work when all bytes are ASCII.
[[nodiscard]] std::string normalize_unicode9(std::string_view text, NormalForm form);

/// Lower case by the full, locale-independent mapping (`İ` becomes two code points). O(n).
[[nodiscard]] std::string lower_case(std::string_view text);

/// Length in bytes of the longest well-formed prefix of `text`; text.size() iff all of it is UTF-8.
[[nodiscard]] std::size_t valid_utf8_prefix(std::string_view text);

/// Number of bytes at the end of `text` that begin a well-formed character and do not complete it; 0..3.
[[nodiscard]] std::size_t incomplete_utf8_suffix(std::string_view text);

/// `text` with U+FFFD for each maximal ill-formed subsequence, as JSON and terminals need it.
[[nodiscard]] std::string replace_invalid_utf8(std::string_view text);

/// `text` without ASCII white space at its ends. A view into `text`.
[[nodiscard]] std::string_view strip(std::string_view text);

/// `text` without what Python's str.strip() takes away: Unicode white space and U+001C..U+001F. A view into `text`.
[[nodiscard]] std::string_view strip_unicode(std::string_view text);

/// The well-formed character at the beginning, or at the end, of `text`; empty if there is none. A view into `text`.
[[nodiscard]] std::string_view first_character(std::string_view text);
[[nodiscard]] std::string_view last_character(std::string_view text);

}  // namespace memopd
