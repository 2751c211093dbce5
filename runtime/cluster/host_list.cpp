#include "runtime/cluster/host_list.hpp"

#include <charconv>
#include <set>
#include <utility>

namespace memopd {
namespace {

using Hosts = std::vector<std::string>;

Error bad(std::string_view list, const std::string& what) {
  return {ErrorCode::invalid_argument, "host list \"" + std::string(list) + "\": " + what};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// Splits at commas outside brackets.
Expected<std::vector<std::string_view>> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool is_inside = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char letter = i < list.size() ? list[i] : ',';
    if (letter == '[' || letter == ']') {
      if (is_inside == (letter == '[')) {
        return unexpected(bad(list, "a bracket at position " + std::to_string(i) + " that does not fit"));
      }
      is_inside = letter == '[';
    } else if (letter == ',' && (!is_inside || i == list.size())) {
      parts.push_back(trimmed(list.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return is_inside ? Expected<std::vector<std::string_view>>(unexpected(bad(list, "a bracket that is not closed")))
                   : Expected<std::vector<std::string_view>>(std::move(parts));
}

bool parse_number(std::string_view digits, std::int64_t& number) {
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return failed == std::errc() && end == digits.data() + digits.size() && digits.size() <= 9;
}

/// "01-03" -> 01 02 03.
Expected<Hosts> numbers_of(std::string_view list, std::string_view range) {
  const auto dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  std::int64_t first = 0;
  std::int64_t last = 0;
  if (!parse_number(low, first) || !parse_number(high, last) || first > last) {
    return unexpected(bad(list, "\"" + std::string(range) + "\" is neither a number nor a rising range"));
  }
  if (last - first >= static_cast<std::int64_t>(kMaxHosts)) {
    return unexpected(bad(list, "more than " + std::to_string(kMaxHosts) + " hosts"));
  }
  Hosts numbers;
  for (std::int64_t number = first; number <= last; ++number) {
    std::string text = std::to_string(number);
    numbers.push_back(text.size() < low.size() ? std::string(low.size() - text.size(), '0') + text : text);
  }
  return numbers;
}

/// One part: text, then bracket groups with text between them.
Expected<Hosts> hosts_of(std::string_view list, std::string_view part) {
  Hosts hosts = {""};
  while (!part.empty()) {
    const auto open = std::min(part.find('['), part.size());
    for (std::string& host : hosts) {
      host += part.substr(0, open);
    }
    part.remove_prefix(open);
    if (part.empty()) {
      break;
    }
    const auto close = part.find(']');
    auto ranges = parts_of(part.substr(1, close - 1));
    MEMOPD_RETURN_IF_ERROR(ranges);
    Hosts grown;
    for (const std::string& host : hosts) {
      for (const std::string_view range : *ranges) {
        auto numbers = numbers_of(list, range);
        MEMOPD_RETURN_IF_ERROR(numbers);
        for (const std::string& number : *numbers) {
          grown.push_back(host + number);
        }
        if (grown.size() > kMaxHosts) {
          return unexpected(bad(list, "more than " + std::to_string(kMaxHosts) + " hosts"));
        }
      }
    }
    hosts = std::move(grown);
    part.remove_prefix(close + 1);
  }
  return hosts;
}

}  // namespace

Expected<std::vector<std::string>> expand_host_list(std::string_view list) {
  auto parts = parts_of(list);
  MEMOPD_RETURN_IF_ERROR(parts);
  Hosts all;
  std::set<std::string> seen;
  for (const std::string_view part : *parts) {
    auto hosts = hosts_of(list, part);
    MEMOPD_RETURN_IF_ERROR(hosts);
    for (std::string& host : *hosts) {
      if (host.empty()) {
        return unexpected(bad(list, "an empty name"));
      }
      if (!seen.insert(host).second) {
        return unexpected(bad(list, "\"" + host + "\" is there twice"));
      }
      all.push_back(std::move(host));
    }
    if (all.size() > kMaxHosts) {
      return unexpected(bad(list, "more than " + std::to_string(kMaxHosts) + " hosts"));
    }
  }
  return all;
}

}  // namespace memopd
