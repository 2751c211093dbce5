// Added tokens: strings that are one id wherever they stand, found before anything else looks at the text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace memopd {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;  ///< non-empty UTF-8
  bool is_special = false;
  bool is_normalized = false;  ///< looked for in normalised text instead of in the text as given
};

/// Finds the leftmost token, the longest of those that begin there. Immutable after the last add(), thread-safe.
class AddedTokenMatcher {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = 0;
  };

  AddedTokenMatcher() { nodes_.emplace_back(); }
  /// @param content  non-empty
  void add(std::string_view content, std::int32_t id);
  /// The first match that begins at or after byte `from`. O(bytes passed * longest token).
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t from) const;

 private:
  static constexpr std::int32_t kNone = -1;
  struct Node {
    std::vector<std::pair<char, std::int32_t>> children;  // byte -> node
    std::int32_t id = kNone;                              // of the token that ends here
  };
  [[nodiscard]] std::int32_t child(std::int32_t node, char byte) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> begins_token_{};
};

}  // namespace memopd
