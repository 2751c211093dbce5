#include "runtime/config/field_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace memopd::detail {
namespace {

constexpr double kLargestInt32 =
    std::numeric_limits<std::int32_t>::max();  // the type's bound, worth a word only when passed

std::string number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return fmt::format("{}", static_cast<std::int64_t>(value));
  }
  return fmt::format("{}", value);
}

std::string describe_range(const Rule& rule) {
  const bool has_low = std::isfinite(rule.low);
  const bool has_high = std::isfinite(rule.high) && rule.high != kLargestInt32;
  std::string range;
  if (has_low && has_high) {
    range = fmt::format("in {}{}, {}{}", rule.is_low_open ? '(' : '[', number(rule.low), number(rule.high),
                        rule.is_high_open ? ')' : ']');
  } else if (has_low) {
    range = fmt::format("{} {}", rule.is_low_open ? ">" : ">=", number(rule.low));
  }
  return rule.or_zero ? range + " or 0" : range;
}

bool in_range(const Rule& rule, double value) {
  if (rule.or_zero && value == 0.0) {
    return true;
  }
  const bool above_low = rule.is_low_open ? value > rule.low : value >= rule.low;
  const bool below_high = rule.is_high_open ? value < rule.high : value <= rule.high;
  return std::isfinite(value) && above_low && below_high;
}

bool is_folder_name(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !text.empty() && text != "." && text != ".." && std::all_of(text.begin(), text.end(), is_plain);
}

bool is_allowed_text(const Rule& rule, const std::string& text) {
  if (!rule.words.empty()) {
    return std::find(rule.words.begin(), rule.words.end(), text) != rule.words.end();
  }
  switch (rule.form) {
    case TextForm::any:
      return text.find('\0') == std::string::npos;
    case TextForm::not_empty:
      return !text.empty() && text.find('\0') == std::string::npos;
    case TextForm::folder_name:
      return is_folder_name(text);
  }
  return false;
}

bool has_kind(const Field& field, const SettingValue& value) {
  switch (field.kind) {
    case Kind::boolean:
      return std::holds_alternative<bool>(value);
    case Kind::integer:
      return std::holds_alternative<std::int64_t>(value);
    case Kind::real:
      return std::holds_alternative<double>(value);
    case Kind::text:
      return std::holds_alternative<std::string>(value);
    case Kind::integers:
      return std::holds_alternative<std::vector<std::int64_t>>(value);
  }
  return false;
}

bool is_allowed(const Field& field, const SettingValue& value) {
  const Rule& rule = field.rule;
  switch (field.kind) {
    case Kind::boolean:
      return true;
    case Kind::integer:
      return in_range(rule, static_cast<double>(std::get<std::int64_t>(value)));
    case Kind::real:
      return in_range(rule, std::get<double>(value));
    case Kind::text:
      return is_allowed_text(rule, std::get<std::string>(value));
    case Kind::integers: {
      const auto& items = std::get<std::vector<std::int64_t>>(value);
      return (rule.or_empty || !items.empty()) && std::all_of(items.begin(), items.end(), [&](std::int64_t item) {
               return in_range(rule, static_cast<double>(item));
             });
    }
  }
  return false;
}

std::string_view kind_of(const SettingValue& value) {
  constexpr std::string_view kNames[] = {"boolean ", "integer ", "number ", "string ", "array "};
  return kNames[value.index()];
}

}  // namespace

std::string describe_allowed(const Field& field) {
  const Rule& rule = field.rule;
  const std::string range = describe_range(rule);
  const std::string space = range.empty() ? "" : " ";
  switch (field.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return "an integer" + space + range;
    case Kind::real:
      return "a number" + space + range;
    case Kind::integers:
      return "an array of integers" + space + range;
    case Kind::text:
      break;
  }
  if (!rule.words.empty()) {
    std::string words;
    for (const std::string& word : rule.words) {
      words += (words.empty() ? "\"" : " | \"") + word + "\"";
    }
    return words;
  }
  switch (rule.form) {
    case TextForm::any:
      return "a string";
    case TextForm::not_empty:
      return "a string that is not empty";
    case TextForm::folder_name:
      return "letters, digits, - _ .";
  }
  return {};
}

std::string quote_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      quoted += fmt::format("\\u{:04X}", code);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string to_toml(const SettingValue& value) {
  struct Printer {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const {
      const std::string digits = fmt::format("{}", v);  // the shortest that reads back as the same double
      return std::isfinite(v) && digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
    }
    std::string operator()(const std::string& v) const { return quote_toml(v); }
    std::string operator()(const std::vector<std::int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
  };
  return std::visit(Printer{}, value);
}

std::optional<std::string> check_value(const Field& field, SettingValue& value) {
  if (field.kind == Kind::real && std::holds_alternative<std::int64_t>(value)) {
    value = static_cast<double>(std::get<std::int64_t>(value));
  }
  if (!has_kind(field, value)) {
    return fmt::format("found {}{}, allowed {}", kind_of(value), to_toml(value), describe_allowed(field));
  }
  if (is_allowed(field, value)) {
    return std::nullopt;
  }
  std::string problem = fmt::format("found {}, allowed {}", to_toml(value), describe_allowed(field));
  if (field.kind == Kind::integer && static_cast<double>(std::get<std::int64_t>(value)) > kLargestInt32) {
    problem += " and < 2^31";
  }
  if (const auto nearest =
          nearest_name(field.kind == Kind::text ? std::get<std::string>(value) : "", field.rule.words)) {
    problem += fmt::format(", did you mean \"{}\"", *nearest);
  }
  return problem;
}

}  // namespace memopd::detail
