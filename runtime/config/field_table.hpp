// The one table that says which settings exist: name, member, allowed values, meaning. Internal to this folder and its
// tests; load, dump, nearest names and the reference walk it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace memopd::detail {

/// A setting's value between TOML and the struct.
using SettingValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

enum class Kind : std::uint8_t { boolean, integer, real, text, integers };
enum class TextForm : std::uint8_t { any, not_empty, folder_name };

/// Which values of the kind are allowed.
struct Rule {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool is_low_open = false;
  bool is_high_open = false;
  bool or_zero = false;   ///< 0 is allowed although it is outside
  bool or_empty = false;  ///< of an array: it may have no items
  TextForm form = TextForm::any;
  std::vector<std::string> words = {};  ///< allowed texts; empty = any
};

[[nodiscard]] inline Rule any() { return {}; }
[[nodiscard]] inline Rule at_least(double low) { return {.low = low}; }
[[nodiscard]] inline Rule above(double low) { return {.low = low, .is_low_open = true}; }
[[nodiscard]] inline Rule between(double low, double high) { return {.low = low, .high = high}; }
[[nodiscard]] inline Rule from_to_below(double low, double high) {
  return {.low = low, .high = high, .is_high_open = true};
}
[[nodiscard]] inline Rule above_to(double low, double high) { return {.low = low, .high = high, .is_low_open = true}; }
[[nodiscard]] inline Rule strictly_between(double low, double high) {
  return {.low = low, .high = high, .is_low_open = true, .is_high_open = true};
}
[[nodiscard]] inline Rule text(TextForm form) { return {.form = form}; }
[[nodiscard]] inline Rule one_of(std::vector<std::string> words) { return {.words = std::move(words)}; }

struct Field {
  std::string name;
  Kind kind = Kind::text;
  Rule rule;
  std::string doc;
  std::function<SettingValue(const void* object)> get;
  std::function<void(void* object, const SettingValue&)> set;  ///< the value has the field's kind and is allowed
};

using Options = std::map<std::string, std::string>;

/// A TOML table and the struct behind it.
struct Table {
  std::string name;  ///< last part: "opd", "splits"
  std::string doc;
  bool is_array = false;
  std::vector<Field> fields;
  std::vector<Table> children;
  std::function<void*(void* parent, std::size_t index)> at;  ///< the struct; index 0 unless is_array
  std::function<std::size_t(void* parent)> size;             ///< is_array only
  std::function<void(void* parent)> append;                  ///< is_array only
  std::function<Options*(void* object)> options;             ///< set when the table has a free-form "options" table
};

/// The root: its children are [run], [[env]], ..; its object is a Config.
[[nodiscard]] const Table& config_table();

/// "an integer >= 1", "a number in [0, 1)", "\"gae\"", "true or false".
[[nodiscard]] std::string describe_allowed(const Field& field);

/// The value as TOML: 3, 0.5, "text", [1, 2], true.
[[nodiscard]] std::string to_toml(const SettingValue& value);

/// `text` as a TOML basic string.
[[nodiscard]] std::string quote_toml(std::string_view text);

/// What is wrong with a value, as "found .., allowed .."; nothing if it is allowed. Turns an integer into a number
/// where the field wants one.
[[nodiscard]] std::optional<std::string> check_value(const Field& field, SettingValue& value);

/// The closest of `names` to `name` by edits (a swap of neighbours is one), if it is close enough to be meant.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& names);

}  // namespace memopd::detail
