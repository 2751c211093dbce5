// Added tokens: strings that are one id wherever they stand, found before anything else looks at the text.
//
// AT-1  matches are searched left to right, the longest of those that begin at a place; the search goes on where a match
//       ends, also when the match does not count (a special token not wanted, a single word inside another word).
// AT-2  a token that strips white space takes it out of the text around it: its id then stands for that space too.
// As `tokenizers` has it (added_vocabulary.rs, 0.23).
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
  bool is_normalized = false;   ///< looked for in normalised text instead of in the text as given
  bool is_single_word = false;  ///< only where no letter, mark, digit or underscore touches it
  bool strips_left = false;     ///< takes the white space before it; `lstrip` in the file
  bool strips_right = false;    ///< takes the white space behind it; `rstrip` in the file
};

/// Immutable after the last add(), thread-safe.
class AddedTokenMatcher {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    const AddedToken* token = nullptr;
  };

  AddedTokenMatcher() { nodes_.emplace_back(); }
  /// @param content  what to look for; non-empty; `token.content` in the normal form of the text
  /// @param token    outlives the matcher
  void add(std::string_view content, const AddedToken& token);

  /// The first occurrence that begins at or after byte `from`. O(bytes passed * longest token).
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t from) const;

  /// Calls `on_text(string_view)` for each stretch between tokens and `on_added(id)` for each token, in order.
  template <class OnText, class OnAdded>
  void split(std::string_view text, bool special_tokens, OnText on_text, OnAdded on_added) const {
    std::size_t given = 0;  // bytes of the text that were given out
    std::size_t from = 0;
    while (auto match = find(text, from)) {
      from = match->end;
      if (!counts(text, *match, special_tokens)) {
        continue;
      }
      strip(text, given, *match);
      if (match->begin > given) {
        on_text(text.substr(given, match->begin - given));
      }
      on_added(match->token->id);
      given = match->end;
    }
    if (given < text.size()) {
      on_text(text.substr(given));
    }
  }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Node {
    std::vector<std::pair<char, std::int32_t>> children;  // byte -> node
    const AddedToken* token = nullptr;                    // that ends here
  };
  [[nodiscard]] std::int32_t child(std::int32_t node, char byte) const;
  [[nodiscard]] static bool counts(std::string_view text, const Match& match, bool special_tokens);
  static void strip(std::string_view text, std::size_t given, Match& match);

  std::vector<Node> nodes_;
  std::array<bool, 256> begins_token_{};
};

}  // namespace memopd
