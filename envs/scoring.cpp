#include "envs/scoring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "runtime/base/check.hpp"
#include "runtime/text/regex.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd {
namespace {

using Words = std::vector<std::string>;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string ascii_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return lower;
}

/// ASCII punctuation deleted, or each mark replaced by `substitute`.
std::string without_ascii_punctuation(std::string_view text, std::string_view substitute) {
  std::string kept;
  kept.reserve(text.size());
  for (const char c : text) {
    if (is_ascii_punctuation(c)) {
      kept += substitute;
    } else {
      kept += c;
    }
  }
  return kept;
}

/// Punctuation of any script, and the ASCII marks that Unicode counts as symbols.
std::string without_unicode_punctuation(std::string text) {
  text = without_ascii_punctuation(text, "");
  if (is_ascii(text)) {
    return text;
  }
  static const Regex kPunctuation = Regex::compile(R"(\p{P}+)").value();
  static const Regex kSpace = Regex::compile(R"(\s+)").value();
  return kSpace.replace_all(kPunctuation.replace_all(text, ""), " ");
}

Words split_words(std::string_view text) {
  Words words;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = begin;
    while (end < text.size() && !is_space(text[end])) {
      ++end;
    }
    if (end > begin) {
      words.emplace_back(text.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return words;
}

Words without_articles(Words words) {
  std::erase_if(words, [](const std::string& word) { return word == "a" || word == "an" || word == "the"; });
  return words;
}

/// Full lower case of any script for text that is not ASCII; the same bytes otherwise.
std::string lower(std::string_view text) { return is_ascii(text) ? ascii_lower(text) : lower_case(text); }

Words answer_words(Scorer scorer, std::string_view text) {
  switch (scorer) {
    case Scorer::em:
    case Scorer::f1:
      return without_articles(split_words(without_unicode_punctuation(lower(normalize(text, NormalForm::nfkc)))));
    case Scorer::mem1_train:
      return without_articles(split_words(without_ascii_punctuation(lower(text), "")));
    case Scorer::mem1_eval:
      return split_words(without_ascii_punctuation(lower(text), " "));
  }
  MEMOPD_CHECK(false, "a scorer outside the enumeration");
  return {};
}

/// 2 * common / (left + right), of multisets; of sets when the arguments hold each word once. Both sorted.
double overlap_f1(const Words& left, const Words& right) {
  Words common;
  std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(common));
  return common.empty() ? 0.0
                        : 2.0 * static_cast<double>(common.size()) / static_cast<double>(left.size() + right.size());
}

Words sorted_for_f1(Scorer scorer, Words words) {
  std::sort(words.begin(), words.end());
  if (scorer == Scorer::mem1_eval) {
    words.erase(std::unique(words.begin(), words.end()), words.end());
  }
  return words;
}

struct ObjectiveScore {
  double em = 0;
  double f1 = 0;
};

ObjectiveScore score_objective(Scorer scorer, std::string_view answer, const std::vector<std::string>& aliases) {
  ObjectiveScore best;
  const Words words = answer_words(scorer, answer);
  if (words.empty()) {
    return best;
  }
  const Words sorted = sorted_for_f1(scorer, words);
  for (const std::string& alias : aliases) {
    const Words gold = answer_words(scorer, alias);
    best.em = words == gold ? 1.0 : best.em;
    best.f1 = std::max(best.f1, overlap_f1(sorted, sorted_for_f1(scorer, gold)));
  }
  return best;
}

}  // namespace

std::string_view to_string(Scorer scorer) {
  constexpr std::array<std::string_view, 4> kNames = {"em", "f1", "mem1_train", "mem1_eval"};
  return kNames[static_cast<std::size_t>(scorer)];
}

Expected<Scorer> parse_scorer(std::string_view name) {
  for (const Scorer scorer : {Scorer::em, Scorer::f1, Scorer::mem1_train, Scorer::mem1_eval}) {
    if (name == to_string(scorer)) {
      return scorer;
    }
  }
  return unexpected(ErrorCode::not_found,
                    fmt::format("unknown scorer `{}`; allowed are em, f1, mem1_train, mem1_eval", name));
}

std::map<std::string, double> AnswerScores::metrics() const {
  return {{"em", em},
          {"f1", f1},
          {"em_sum", em_sum},
          {"f1_sum", f1_sum},
          {"missing", static_cast<double>(missing)},
          {"extra", static_cast<double>(extra)}};
}

std::string normalize_answer(Scorer scorer, std::string_view text) {
  std::string joined;
  for (const std::string& word : answer_words(scorer, text)) {
    joined += joined.empty() ? word : " " + word;
  }
  return joined;
}

std::vector<std::string> split_answers(std::string_view text) {
  std::vector<std::string> answers;
  if (strip(text).empty()) {
    return answers;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    answers.emplace_back(strip(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return answers;
}

AnswerScores score(Scorer scorer, std::string_view answer_text, const std::vector<std::vector<std::string>>& targets) {
  const std::vector<std::string> answers = split_answers(answer_text);
  AnswerScores scores;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string_view answer = i < answers.size() ? std::string_view(answers[i]) : std::string_view();
    scores.missing += answer.empty() ? 1 : 0;
    const ObjectiveScore objective = score_objective(scorer, answer, targets[i]);
    scores.em_sum += objective.em;
    scores.f1_sum += objective.f1;
  }
  for (std::size_t i = targets.size(); i < answers.size(); ++i) {
    scores.extra += answers[i].empty() ? 0 : 1;
  }
  if (scorer == Scorer::mem1_eval && answers.size() != targets.size()) {
    scores.em_sum = 0;
    scores.f1_sum = 0;
  }
  const double num_objectives = static_cast<double>(std::max<std::size_t>(targets.size(), 1));
  scores.em = scores.em_sum / num_objectives;
  scores.f1 = scores.f1_sum / num_objectives;
  scores.reward = scorer == Scorer::f1 ? scores.f1 : scores.em;
  return scores;
}

}  // namespace memopd
