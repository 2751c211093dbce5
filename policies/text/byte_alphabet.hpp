// The GPT-2 byte alphabet: a printable character for each of the 256 bytes, so that a vocabulary of byte strings can be
// written as JSON text. Printable Latin-1 stands for itself; the other 68 bytes are U+0100, U+0101, .. in order.
// Source: Radford et al. (2019), the released encoder's bytes_to_unicode. Pure, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memopd {

/// `bytes` in the alphabet, as UTF-8.
[[nodiscard]] std::string to_byte_alphabet(std::string_view bytes);

/// The bytes that `text` spells; nothing if it has a character outside the alphabet.
[[nodiscard]] std::optional<std::string> from_byte_alphabet(std::string_view text);

/// All bytes, by the code point of their character: '!' first. The ids 0..255 of a trained vocabulary.
[[nodiscard]] const std::array<std::uint8_t, 256>& bytes_in_alphabet_order();

}  // namespace memopd
