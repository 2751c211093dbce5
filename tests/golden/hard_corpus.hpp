// The hard corpus of hard_corpus.json: every row of 128 code points with something between them, emoji, code, runs of
// white space, numbers, words, special tokens, random characters and random bytes. hard_corpus.py makes the same lines.
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/random.hpp"

namespace memopd::testing {

/// UTF-8 of a code point; empty for a surrogate.
inline std::string utf8(std::uint32_t c) {
  const auto tail = [c](unsigned shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    return {static_cast<char>(c)};
  }
  if (c < 0x800) {
    return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  }
  if (c < 0x10000) {
    return c >= 0xD800 && c < 0xE000 ? std::string()
                                     : std::string{static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  }
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

/// Makes the lines section by section; the order of draws is part of the corpus.
class HardCorpus {
 public:
  explicit HardCorpus(const std::string& path)
      : spec_(nlohmann::json::parse(std::ifstream(path))), random_(spec_["seed"]) {
    add_rows();
    for (const auto& section : spec_["sections"]) {
      const Strings parts = section["parts"];
      for (int line = 0; line < section["lines"]; ++line) {
        std::string text;
        for (std::uint64_t left = 1 + random_.below(24); left > 0; --left) {
          text += parts[random_.below(parts.size())];
        }
        lines_.push_back(std::move(text));
      }
    }
    add_unicode();
    add_bytes();
  }

  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  using Strings = std::vector<std::string>;

  [[nodiscard]] std::string character(std::uint32_t code_point) const {
    for (const auto& [begin, end] : skipped_) {
      if (begin <= code_point && code_point < end) {
        return {};
      }
    }
    return utf8(code_point);
  }

  void add_rows() {
    constexpr std::uint32_t kRow = 128;
    const Strings glue = spec_["glue"];
    for (const auto& range : spec_["row_ranges"]) {
      for (std::uint32_t row = range[0]; row < range[1]; row += kRow) {
        std::string text;
        for (std::uint32_t code_point = row; code_point < row + kRow; ++code_point) {
          text += character(code_point);
          text += glue[random_.below(glue.size())];
        }
        lines_.push_back(std::move(text));
      }
    }
  }

  void add_unicode() {
    const std::vector<std::array<std::uint32_t, 2>> planes = spec_["unicode"]["planes"];
    for (int line = 0; line < spec_["unicode"]["lines"]; ++line) {
      std::string text;
      for (std::uint64_t left = 1 + random_.below(40); left > 0; --left) {
        const auto [begin, end] = planes[random_.below(planes.size())];
        text += character(begin + static_cast<std::uint32_t>(random_.below(end - begin)));
      }
      lines_.push_back(std::move(text));
    }
  }

  void add_bytes() {
    const Strings parts = spec_["bytes"]["parts"];
    for (int line = 0; line < spec_["bytes"]["lines"]; ++line) {
      std::string text;
      for (std::uint64_t left = 1 + random_.below(40); left > 0; --left) {
        const std::uint64_t kind = random_.below(3);
        if (kind == 0) {
          text.push_back(static_cast<char>(random_.below(256)));
        } else if (kind == 1) {
          text += parts[random_.below(parts.size())];
        } else {
          const std::string whole = character(static_cast<std::uint32_t>(random_.below(0x110000)));
          text += whole.substr(0, random_.below(whole.size() + 1));
        }
      }
      lines_.push_back(std::move(text));
    }
  }

  nlohmann::json spec_;
  std::vector<std::array<std::uint32_t, 2>> skipped_ = spec_["skipped"];  // see hard_corpus.py
  SplitMix random_;
  Strings lines_;
};

}  // namespace memopd::testing
