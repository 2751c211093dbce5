// How answers are compared with targets: EM and F1 per objective, after one of three normalisations.
//
//   scorer             normalise                                                     match                     count mismatch
//   em, f1             NFKC, lower, punctuation removed, articles removed            EM: any alias; F1: best   missing = 0, extra
//                                                                                    alias, multiset tokens    ignored
//   mem1_train         lower, ASCII punctuation deleted, a/an/the dropped            as above                  missing = 0
//   mem1_eval          lower, ASCII punctuation to space, articles kept              F1 on sets of tokens      whole sample 0
//
// An answer is split on ';', stripped, and aligned with the objectives by position. An empty text after normalisation
// matches nothing, on either side.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

enum class Scorer : std::uint8_t { em, f1, mem1_train, mem1_eval };

[[nodiscard]] std::string_view to_string(Scorer scorer);

/// @error not_found  another name; lists the four
Expected<Scorer> parse_scorer(std::string_view name);

struct AnswerScores {
  double em = 0;             ///< mean over objectives, 0..1
  double f1 = 0;             ///< mean over objectives, 0..1
  double em_sum = 0;         ///< 0..K
  double f1_sum = 0;         ///< 0..K
  std::int32_t missing = 0;  ///< objectives without an answer, or with a blank one
  std::int32_t extra = 0;    ///< answers beyond the last objective that are not blank
  double reward = 0;         ///< the scorer's own number, mean over objectives: f1 of `f1`, else em

  /// em, f1, em_sum, f1_sum, missing, extra.
  [[nodiscard]] std::map<std::string, double> metrics() const;
};

/// `answer_text` is the inside of the final answer pair; `targets` [K] lists of aliases. K = 0 scores 0.
/// Pure and thread-safe.
[[nodiscard]] AnswerScores score(Scorer scorer, std::string_view answer_text,
                                 const std::vector<std::vector<std::string>>& targets);

/// The text as `scorer` compares it: words separated by single spaces.
[[nodiscard]] std::string normalize_answer(Scorer scorer, std::string_view text);

/// `text` split on ';', each part stripped of white space; an empty or blank text has no answers.
[[nodiscard]] std::vector<std::string> split_answers(std::string_view text);

}  // namespace memopd
