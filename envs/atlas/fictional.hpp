// Fictional variants of a trajectory: every name of its task is replaced by an invented one, in all that the agent reads
// and back in all that it asks, so that copying from the observation is the only way to an answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "envs/atlas/world.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/random.hpp"

namespace memopd::atlas {

/// Replaces whole names, longest first, in one pass: a replacement is never replaced again. A name is whole when neither
/// neighbour is an ASCII letter, `'` or `-`. Immutable and thread-safe; O(text * names) at worst, no allocation per name.
class NameReplacer {
 public:
  NameReplacer() = default;
  explicit NameReplacer(std::vector<std::pair<std::string, std::string>> from_to);
  [[nodiscard]] std::string replace(std::string_view text) const;

 private:
  std::vector<std::pair<std::string, std::string>> from_to_;  ///< longest `from` first
};

/// Both directions of one trajectory's names.
struct NameMap {
  NameReplacer to_fictional;
  NameReplacer to_real;
};

/// What names are made of, besides the world's own pieces: those of a tokenizer, so that a model which learns to copy
/// invented names has copied every token it has.
struct WordPieces {
  std::vector<std::string> first;  ///< capitalised beginnings of words
  std::vector<std::string> next;   ///< lower-case continuations
  std::vector<std::string> low;    ///< lower-case beginnings of words
};

/// Reads one piece a line; a leading space marks the beginning of a word. Pieces that are not letters are left out.
/// @error not_found    no such file
/// @error parse_error  a file without pieces of each of the three kinds; names what it has
Expected<WordPieces> load_word_pieces(const std::filesystem::path& file);

/// Invents names out of the pieces of the world's own (words that several documents share and syllables of all names),
/// or of given word pieces, uniformly. Codes become `.xx`, lower-case names one or two lower-case words, others one or two
/// capitalised words. Immutable and thread-safe.
class NameMaker {
 public:
  explicit NameMaker(const World& world);
  NameMaker(const World& world, WordPieces pieces);
  static const NameMaker& builtin();  ///< over World::builtin()

  /// A name of the kind of `like` that no subject, fact or template word has.
  [[nodiscard]] std::string invent(std::string_view like, SplitMix& random) const;

  /// Invented names, all different, for the subjects, countries and facts that `questions` are about. Questions whose
  /// subject the world does not know keep their names.
  [[nodiscard]] NameMap make_map(const World& world, const std::vector<Question>& questions, std::uint64_t seed) const;

 private:
  /// invent(), and different from `used` (lower case).
  [[nodiscard]] std::string invent_unlike(std::string_view like, const std::unordered_set<std::string>& used,
                                          SplitMix& random) const;
  [[nodiscard]] std::string invent_capitalised(SplitMix& random) const;
  [[nodiscard]] std::string invent_lower(SplitMix& random) const;

  std::vector<std::string> shared_words_;  ///< capitalised, in several documents
  std::vector<std::string> first_pieces_;  ///< capitalised first syllables
  std::vector<std::string> next_pieces_;   ///< lower-case further syllables
  std::optional<WordPieces> given_;        ///< used instead of the three above
  std::unordered_set<std::string> taken_;  ///< lower case: names, facts, template words
};

}  // namespace memopd::atlas
