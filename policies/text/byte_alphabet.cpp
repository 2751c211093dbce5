#include "policies/text/byte_alphabet.hpp"

#include <algorithm>
#include <numeric>

namespace memopd {
namespace {

constexpr std::uint16_t kFirstReplacement = 0x100;
constexpr std::uint16_t kNumCodePoints = kFirstReplacement + 68;
constexpr std::int16_t kNoByte = -1;

struct Alphabet {
  std::array<std::uint16_t, 256> code_points{};
  std::array<std::int16_t, kNumCodePoints> bytes{};
  std::array<std::uint8_t, 256> order{};
};

bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(kNoByte);
  std::uint16_t replacement = kFirstReplacement;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto code_point = stands_for_itself(byte) ? static_cast<std::uint16_t>(byte) : replacement++;
    alphabet.code_points[byte] = code_point;
    alphabet.bytes[code_point] = static_cast<std::int16_t>(byte);
  }
  std::iota(alphabet.order.begin(), alphabet.order.end(), std::uint8_t{0});
  std::sort(alphabet.order.begin(), alphabet.order.end(),
            [&](std::uint8_t a, std::uint8_t b) { return alphabet.code_points[a] < alphabet.code_points[b]; });
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet instance = make_alphabet();
  return instance;
}

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 4);
  for (const char byte : bytes) {
    const unsigned code_point = alphabet().code_points[static_cast<std::uint8_t>(byte)];
    if (code_point < 0x80) {
      text.push_back(static_cast<char>(code_point));
    } else {
      text.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
      text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
    }
  }
  return text;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code_point = static_cast<unsigned char>(text[i]);
    if (code_point >= 0x80) {
      // The alphabet ends at U+0143: characters of three bytes or more are outside it.
      if ((code_point & 0xE0) != 0xC0 || i + 1 == text.size()) {
        return std::nullopt;
      }
      code_point = ((code_point & 0x1F) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3F);
    }
    if (code_point >= kNumCodePoints || alphabet().bytes[code_point] == kNoByte) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(alphabet().bytes[code_point]));
  }
  return bytes;
}

const std::array<std::uint8_t, 256>& bytes_in_alphabet_order() { return alphabet().order; }

}  // namespace memopd
