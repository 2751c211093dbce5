#include "runtime/text/unicode.hpp"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>

#include "runtime/base/check.hpp"
#include "runtime/text/character_class.hpp"
#include "runtime/text/utf8_stretches.hpp"

namespace memopd {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

icu::StringPiece piece(std::string_view text) { return {text.data(), static_cast<std::int32_t>(text.size())}; }

/// What may follow a lead byte (Unicode, table 3-7): how many bytes, and the range of the first of them.
struct Continuation {
  std::size_t num_bytes = 0;
  unsigned char first_low = 0x80;
  unsigned char first_high = 0xBF;
};

/// num_bytes == 0 for a byte that begins no character of several bytes.
Continuation continuation_of(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) {
    return {1};
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    return {2, static_cast<unsigned char>(lead == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(lead == 0xED ? 0x9F : 0xBF)};
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    return {3, static_cast<unsigned char>(lead == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(lead == 0xF4 ? 0x8F : 0xBF)};
  }
  return {};
}

/// Steps over one character at `index`, or over a maximal ill-formed part: then the result is false.
bool skip_character(std::string_view text, std::size_t& index) {
  const auto lead = static_cast<unsigned char>(text[index++]);
  if (lead < 0x80) {
    return true;
  }
  const Continuation rest = continuation_of(lead);
  for (std::size_t i = 0; i < rest.num_bytes; ++i, ++index) {
    const auto byte = static_cast<unsigned char>(index < text.size() ? text[index] : '\0');
    if (byte < (i == 0 ? rest.first_low : 0x80) || byte > (i == 0 ? rest.first_high : 0xBF)) {
      return false;
    }
  }
  return rest.num_bytes > 0;
}

/// `convert` applied to each well-formed stretch; the other bytes stay.
template <class Convert>
std::string convert_valid(std::string_view text, Convert convert) {
  std::string result;
  result.reserve(text.size());
  for (const auto& stretch : detail::utf8_stretches(text)) {
    if (stretch.is_valid) {
      UErrorCode status = U_ZERO_ERROR;
      icu::StringByteSink<std::string> sink(&result);
      convert(piece(stretch.bytes), sink, status);
      MEMOPD_CHECK(U_SUCCESS(status), u_errorName(status));
    } else {
      result.append(stretch.bytes);
    }
  }
  return result;
}

const icu::Normalizer2& normalizer_of(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer =
      form == NormalForm::nfc ? icu::Normalizer2::getNFCInstance(status) : icu::Normalizer2::getNFKCInstance(status);
  MEMOPD_CHECK(U_SUCCESS(status) && normalizer != nullptr, u_errorName(status));
  return *normalizer;
}

std::string normalize_with(const icu::Normalizer2& normalizer, std::string_view text) {
  return convert_valid(text, [&normalizer](icu::StringPiece in, icu::ByteSink& out, UErrorCode& error) {
    normalizer.normalizeUTF8(0, in, out, nullptr, error);
  });
}

icu::UnicodeSet unicode9() {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeSet assigned(icu::UnicodeString("[:Age=9.0:]"), status);
  MEMOPD_CHECK(U_SUCCESS(status), u_errorName(status));
  assigned.freeze();
  return assigned;
}

}  // namespace

namespace detail {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::vector<Utf8Stretch> utf8_stretches(std::string_view text) {
  std::vector<Utf8Stretch> stretches;
  if (text.empty()) {
    return stretches;
  }
  std::size_t begin = 0;
  bool is_valid = true;
  for (std::size_t index = 0; index < text.size();) {
    const std::size_t start = index;
    const bool is_character = skip_character(text, index);
    if (is_character != is_valid) {
      if (start > begin) {
        stretches.push_back({text.substr(begin, start - begin), is_valid});
      }
      begin = start;
      is_valid = is_character;
    }
  }
  stretches.push_back({text.substr(begin), is_valid});
  return stretches;
}

}  // namespace detail

std::string normalize(std::string_view text, NormalForm form) {
  return form == NormalForm::none || detail::is_ascii(text) ? std::string(text)
                                                            : normalize_with(normalizer_of(form), text);
}

std::string normalize_unicode9(std::string_view text, NormalForm form) {
  if (form == NormalForm::none || detail::is_ascii(text)) {
    return std::string(text);
  }
  static const icu::UnicodeSet assigned = unicode9();
  return normalize_with(icu::FilteredNormalizer2(normalizer_of(form), assigned), text);
}

std::string lower_case(std::string_view text) {
  return convert_valid(text, [](icu::StringPiece in, icu::ByteSink& out, UErrorCode& error) {
    icu::CaseMap::utf8ToLower("", 0, in, out, nullptr, error);
  });
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t index = 0;
  while (index < text.size()) {
    const std::size_t start = index;
    if (!skip_character(text, index)) {
      return start;
    }
  }
  return index;
}

std::size_t incomplete_utf8_suffix(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    const std::string_view suffix = text.substr(text.size() - length);
    const auto lead = static_cast<unsigned char>(suffix.front());
    if (lead < 0x80 || lead > 0xBF) {
      // Ill-formed only because the text ends: every byte so far is right, and one more is needed.
      std::size_t index = 0;
      const bool is_started = continuation_of(lead).num_bytes >= length;
      return is_started && !skip_character(suffix, index) && index == length ? length : 0;
    }
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t index = 0; index < text.size();) {
    const std::size_t start = index;
    const bool is_character = skip_character(text, index);
    result.append(is_character ? text.substr(start, index - start) : kReplacement);
  }
  return result;
}

std::string_view strip(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string_view strip_unicode(std::string_view text) {
  const auto is_space = [](std::string_view character) {
    return !character.empty() && (classify(character_classes(), character, 0).kind == CharacterClass::space ||
                                  (character[0] >= '\x1C' && character[0] <= '\x1F'));
  };
  while (is_space(first_character(text))) {
    text.remove_prefix(first_character(text).size());
  }
  while (is_space(last_character(text))) {
    text.remove_suffix(last_character(text).size());
  }
  return text;
}

std::string_view first_character(std::string_view text) {
  std::size_t index = 0;
  return !text.empty() && skip_character(text, index) ? text.substr(0, index) : std::string_view();
}

std::string_view last_character(std::string_view text) {
  for (std::size_t size = 1; size <= std::min<std::size_t>(4, text.size()); ++size) {
    const std::string_view suffix = text.substr(text.size() - size);
    if ((static_cast<unsigned char>(suffix.front()) & 0xC0) != 0x80) {
      return first_character(suffix).size() == size ? suffix : std::string_view();
    }
  }
  return {};
}

}  // namespace memopd
