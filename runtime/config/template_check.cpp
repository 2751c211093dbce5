#include "runtime/config/template_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/field_table.hpp"

namespace memopd::detail {
namespace {

std::vector<std::string> placeholders(const std::string& text) {
  std::vector<std::string> found;
  for (auto open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", open + 1);
    if (end != std::string::npos && text[end] == '}' && end > open + 1) {
      found.push_back(text.substr(open + 1, end - open - 1));
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> template_problems(const std::string& text, const std::vector<std::string>& allowed,
                                           const std::string& required) {
  std::vector<std::string> problems;
  const std::vector<std::string> found = placeholders(text);
  for (const std::string& word : found) {
    if (std::find(allowed.begin(), allowed.end(), word) == allowed.end()) {
      const auto nearest = nearest_name(word, allowed);
      problems.push_back(fmt::format("has unknown placeholder {{{}}}, allowed {{{}}}{}", word,
                                     fmt::join(allowed, "} {"),
                                     nearest ? fmt::format(", did you mean {{{}}}", *nearest) : ""));
    }
  }
  if (!required.empty() && std::find(found.begin(), found.end(), required) == found.end()) {
    problems.push_back(fmt::format("needs the placeholder {{{}}}", required));
  }
  return problems;
}

}  // namespace memopd::detail
