#include "runtime/text/character_class.hpp"

#include <unicode/uchar.h>

#include <vector>

namespace memopd {
namespace {

constexpr std::int32_t kNumCodePoints = 0x110000;

struct CodePointRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

// Assigned in Unicode 15.1 and 16, which ICU 72 does not know yet.
constexpr CodePointRange kNewLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3}, {0x10D4A, 0x10D65},
    {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E},
    {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
    {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
    {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};
constexpr CodePointRange kNewNumbers[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9},
                                          {0x16130, 0x16139}, {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9},
                                          {0x1E5F1, 0x1E5FA}};

CharacterClass class_of(std::int32_t code_point) {
  const std::uint32_t category = U_GET_GC_MASK(code_point);
  if ((category & U_GC_L_MASK) != 0) {
    return CharacterClass::letter;
  }
  if ((category & U_GC_N_MASK) != 0) {
    return CharacterClass::number;
  }
  return u_isUWhiteSpace(code_point) ? CharacterClass::space : CharacterClass::other;
}

std::vector<CharacterClass> make_classes() {
  std::vector<CharacterClass> classes(kNumCodePoints);
  for (std::int32_t code_point = 0; code_point < kNumCodePoints; ++code_point) {
    classes[static_cast<std::size_t>(code_point)] = class_of(code_point);
  }
  const auto fill = [&classes](const CodePointRange& range, CharacterClass kind) {
    for (std::int32_t code_point = range.first; code_point <= range.last; ++code_point) {
      classes[static_cast<std::size_t>(code_point)] = kind;
    }
  };
  for (const CodePointRange& range : kNewLetters) {
    fill(range, CharacterClass::letter);
  }
  for (const CodePointRange& range : kNewNumbers) {
    fill(range, CharacterClass::number);
  }
  return classes;
}

}  // namespace

const CharacterClass* character_classes() {
  static const std::vector<CharacterClass> classes = make_classes();
  return classes.data();
}

}  // namespace memopd
