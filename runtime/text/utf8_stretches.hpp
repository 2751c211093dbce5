// Cuts bytes into stretches that are UTF-8 and stretches that are not; internal to runtime/text.
#pragma once

#include <string_view>
#include <vector>

namespace memopd::detail {

struct Utf8Stretch {
  std::string_view bytes;
  bool is_valid = true;
};

/// Maximal stretches in order; they cover `text`, and neighbours differ in is_valid. Views into `text`.
[[nodiscard]] std::vector<Utf8Stretch> utf8_stretches(std::string_view text);

/// True if every byte is below 0x80.
[[nodiscard]] bool is_ascii(std::string_view text);

}  // namespace memopd::detail
