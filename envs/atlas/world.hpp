// The atlas world: real facts about countries and places, the documents that state them, and the questions about them.
//
// Subjects are countries (capital, currency, language, continent, internet code; some lack some) and places (their
// country). Splits: test = 57 countries and all their places, val = 15 % of the places of the other countries, train =
// the rest; val has no countries of its own. Sources and licences of the facts: envs/atlas/data/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/base/random.hpp"
#include "runtime/data/task.hpp"

namespace memopd::atlas {

enum class Relation : std::uint8_t { capital, currency, language, continent, internet_code, country };
inline constexpr std::size_t kNumRelations = 6;

/// As questions, documents and queries say it: "internet code".
[[nodiscard]] std::string_view to_string(Relation relation);

struct Subject {
  std::string name;
  bool is_country = false;
  std::string kind;                 ///< of a place: "county", "port", ..
  std::string split;                ///< "train" | "val" | "test"
  std::int32_t country_index = -1;  ///< of a place: its country in subjects()
  std::array<std::vector<std::string>, kNumRelations>
      objects;  ///< by Relation; the fact, then its aliases; empty = unknown
  [[nodiscard]] const std::vector<std::string>& object(Relation relation) const {
    return objects[static_cast<std::size_t>(relation)];
  }
};

/// One question, from text or from the generator.
struct Question {
  std::string subject;
  Relation relation = Relation::capital;
  bool is_two_hop = false;  ///< about the country of `subject`
};

/// `What is the R of S?`, `Which country is S in?`, `What is the R of the country of S?`
[[nodiscard]] std::string question_text(const Question& question);
/// The inverse; nothing when the text has none of the three forms.
[[nodiscard]] std::optional<Question> parse_question(std::string_view text);
/// The questions of a task text, which are joined by `; `; nothing when one of them does not parse.
[[nodiscard]] std::optional<std::vector<Question>> parse_questions(std::string_view text);

/// Shares of the three kinds of question; not negative, a positive sum.
struct QuestionMix {
  double country_one_hop = 0.3;
  double place_one_hop = 0.2;
  double place_two_hop = 0.5;
};

/// Immutable and thread-safe once made.
class World {
 public:
  /// The facts that are compiled in.
  static const World& builtin();
  /// facts.tsv: subject, relation, object, aliases (|), subject type, split, source; aliases.tsv: subject, aliases (|).
  /// @error parse_error  names file:line, found, allowed
  static Expected<World> parse(std::string_view facts_tsv, std::string_view aliases_tsv);

  [[nodiscard]] const std::vector<Subject>& subjects() const { return subjects_; }
  [[nodiscard]] const Subject* find(std::string_view name) const;
  [[nodiscard]] const Subject& country_of(const Subject& place) const;

  /// `Kenya is a country. Its capital is Nairobi. ..` or `Turkana is a county in Kenya.`
  [[nodiscard]] std::string document_text(const Subject& subject) const;
  /// One document a subject, in order; id = index.
  [[nodiscard]] std::vector<Document> documents() const;

  /// The fact and up to three aliases.
  [[nodiscard]] std::vector<std::string> answers(const Question& question) const;

  [[nodiscard]] std::vector<std::string> splits() const { return {"train", "val", "test"}; }
  /// K questions about distinct subjects of `split`; left out: answers that equal the subject's name. Depends on the
  /// arguments alone.
  /// @error not_found         unknown split; lists the known ones
  /// @error invalid_argument  num_objectives outside 1..64, or a mix that the split cannot serve
  Expected<Task> make_task(const std::string& split, std::uint64_t seed, std::int32_t task_index,
                           std::int32_t num_objectives, const QuestionMix& mix) const;

 private:
  using Pools = std::array<std::vector<std::int32_t>, 2>;  ///< subject indices: countries, places

  Expected<void> add_fact(const std::vector<std::string_view>& cells, const std::string& place);
  Expected<void> link_countries(const std::unordered_map<std::string, std::vector<std::string>>& aliases);
  std::optional<Question> draw_question(const Pools& pools, const QuestionMix& mix, SplitMix& random) const;

  std::vector<Subject> subjects_;
  std::unordered_map<std::string, std::int32_t> index_by_name_;
  std::map<std::string, Pools> pools_by_split_;
};

}  // namespace memopd::atlas
