#include "envs/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

#include "runtime/base/check.hpp"

namespace memopd {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

const std::string& option_text(const EnvOptions& options, const std::string& key) {
  const auto found = options.options.find(key);
  MEMOPD_CHECK(found != options.options.end(), "option `" + key + "` is not in the environment's definition");
  return found->second;
}

template <class T>
Expected<T> parse_number(const std::string& key, const std::string& text, T low, T high, std::string_view kind) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = failure == std::errc() && end == text.data() + text.size() && !text.empty();
  if (!is_number || !(value >= low && value <= high)) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("option {} = `{}`: allowed is {} in {}..{}", key, text, kind, low, high));
  }
  return value;
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  std::string nearest;
  std::size_t fewest = 0;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    const bool is_near = 2 * distance <= std::max(name.size(), candidate.size());
    if (is_near && (nearest.empty() || distance < fewest)) {
      nearest = candidate;
      fewest = distance;
    }
  }
  return nearest;
}

Expected<EnvOptions> complete_options(std::string_view environment, std::span<const OptionSpec> specs,
                                      EnvOptions options) {
  std::vector<std::string> known;
  for (const OptionSpec& spec : specs) {
    known.push_back(spec.name);
  }
  std::vector<std::string> problems;
  for (const auto& [key, value] : options.options) {
    if (std::find(known.begin(), known.end(), key) != known.end()) {
      continue;
    }
    const std::string nearest = nearest_name(key, known);
    problems.push_back(nearest.empty() ? fmt::format("unknown option {}, known are: {}", key, fmt::join(known, ", "))
                                       : fmt::format("unknown option {}, did you mean {}", key, nearest));
  }
  if (!problems.empty()) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("environment {}: {}", environment, fmt::join(problems, "; ")));
  }
  for (const OptionSpec& spec : specs) {
    options.options.try_emplace(spec.name, spec.default_value);
  }
  return options;
}

Expected<double> option_number(const EnvOptions& options, const std::string& key, double low, double high) {
  return parse_number(key, option_text(options, key), low, high, "a number");
}

Expected<std::int32_t> option_integer(const EnvOptions& options, const std::string& key, std::int32_t low,
                                      std::int32_t high) {
  return parse_number(key, option_text(options, key), low, high, "an integer");
}

Expected<bool> option_flag(const EnvOptions& options, const std::string& key) {
  const std::string& text = option_text(options, key);
  if (text != "true" && text != "false") {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("option {} = `{}`: allowed are true and false", key, text));
  }
  return text == "true";
}

}  // namespace memopd
