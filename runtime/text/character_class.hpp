// What pre-tokenizer patterns ask about a character: is it a letter, a number, white space, or none of these.
//
// \p{L}, \p{N} and White_Space of Unicode 16, as the Oniguruma of the `tokenizers` package has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace memopd {

enum class CharacterClass : std::uint8_t { other, letter, number, space };

/// One entry for each code point below 0x110000. Made at the first call (some ms), then constant; thread-safe.
[[nodiscard]] const CharacterClass* character_classes();

struct ClassifiedCharacter {
  std::size_t end = 0;  ///< byte after the character
  CharacterClass kind = CharacterClass::other;
};

/// The character that begins at byte `index` of `text`.
/// @param text   well-formed UTF-8; nothing is checked
/// @param classes  what character_classes() returns
[[nodiscard]] inline ClassifiedCharacter classify(const CharacterClass* classes, std::string_view text,
                                                  std::size_t index) {
  const auto byte = [text, index](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[index + i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) {
    return {index + 1, classes[lead]};
  }
  if (lead < 0xE0) {
    return {index + 2, classes[((lead & 0x1F) << 6) | (byte(1) & 0x3F)]};
  }
  if (lead < 0xF0) {
    return {index + 3, classes[((lead & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F)]};
  }
  return {index + 4,
          classes[((lead & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F)]};
}

}  // namespace memopd
