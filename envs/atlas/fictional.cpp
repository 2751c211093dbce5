#include "envs/atlas/fictional.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "envs/scoring.hpp"

namespace memopd::atlas {
namespace {

constexpr std::int32_t kMinSharedDocuments = 3;
constexpr double kTwoWordShare = 0.2;
constexpr double kSharedWordShare = 0.4;
constexpr std::array<std::int32_t, 4> kNumPiecesAfterWord = {0, 0, 0, 1};
constexpr std::array<std::int32_t, 4> kNumPiecesAfterSyllable = {0, 1, 1, 2};
constexpr double kGivenTwoWordShare = 0.15;
constexpr double kGivenLongLowShare = 0.3;
constexpr std::array<std::int32_t, 6> kNumGivenPieces = {0, 1, 1, 2, 2, 3};
constexpr std::size_t kDrawsBeforeLonger = 100;
constexpr std::string_view kTemplateWords[] = {
    "a",       "an",     "the",      "is",        "in",          "of",       "its",     "what",  "which",
    "country", "code",   "internet", "capital",   "currency",    "language", "doc",     "title", "think",
    "search",  "answer", "federal",  "continent", "information", "unknown",  "question"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_name_character(char c) { return is_letter(c) || c == '\'' || c == '-'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_vowel(char c) { return std::string_view("aeiouy").find(c) != std::string_view::npos; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

std::string capitalised(std::string text) {
  text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

/// Runs of ASCII letters.
std::vector<std::string_view> letter_runs(std::string_view text) {
  std::vector<std::string_view> runs;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && is_letter(text[end])) {
      ++end;
    }
    if (end > begin) {
      runs.push_back(text.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return runs;
}

/// Cuts a lower-case word before every consonant that a vowel follows: tur-ka-na.
std::vector<std::string> syllables(const std::string& word) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool begins_syllable = !is_vowel(word[i]) && i + 1 < word.size() && is_vowel(word[i + 1]);
    if (begins_syllable && !parts.back().empty()) {
      parts.emplace_back();
    }
    parts.back() += word[i];
  }
  return parts;
}

const std::string& pick(const std::vector<std::string>& from, SplitMix& random) {
  return from[random.below(from.size())];
}

}  // namespace

Expected<WordPieces> load_word_pieces(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return unexpected(ErrorCode::not_found, fmt::format("word pieces {}: no such file", file.string()));
  }
  WordPieces pieces;
  for (std::string line; std::getline(stream, line);) {
    const bool begins_word = line.starts_with(' ');
    const std::string piece = line.substr(begins_word ? 1 : 0);
    const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
    if (piece.empty() || !std::all_of(piece.begin() + 1, piece.end(), is_lower)) {
      continue;
    }
    if (begins_word && is_upper(piece.front())) {
      pieces.first.push_back(piece);
    } else if (begins_word && is_lower(piece.front()) && piece.size() >= 2) {
      pieces.low.push_back(piece);
    } else if (!begins_word && is_lower(piece.front())) {
      pieces.next.push_back(piece);
    }
  }
  if (pieces.first.empty() || pieces.next.empty() || pieces.low.empty()) {
    return unexpected(
        ErrorCode::parse_error,
        fmt::format("word pieces {}: found {} capitalised, {} continuing and {} lower-case pieces, needed "
                    "some of each",
                    file.string(), pieces.first.size(), pieces.next.size(), pieces.low.size()));
  }
  return pieces;
}

NameReplacer::NameReplacer(std::vector<std::pair<std::string, std::string>> from_to) : from_to_(std::move(from_to)) {
  std::stable_sort(from_to_.begin(), from_to_.end(),
                   [](const auto& left, const auto& right) { return left.first.size() > right.first.size(); });
}

std::string NameReplacer::replace(std::string_view text) const {
  std::string result;
  result.reserve(text.size() + text.size() / 4);
  for (std::size_t i = 0; i < text.size();) {
    const bool can_begin = i == 0 || !is_name_character(text[i - 1]);
    const auto is_here = [&](const auto& pair) {
      const std::size_t end = i + pair.first.size();
      return text.substr(i, pair.first.size()) == pair.first && (end == text.size() || !is_name_character(text[end]));
    };
    const auto found = can_begin ? std::find_if(from_to_.begin(), from_to_.end(), is_here) : from_to_.end();
    if (found == from_to_.end()) {
      result += text[i++];
    } else {
      result += found->second;
      i += found->first.size();
    }
  }
  return result;
}

NameMaker::NameMaker(const World& world) {
  std::map<std::string, std::int32_t> documents_by_word;
  std::set<std::string> first;
  std::set<std::string> next;
  for (const Subject& subject : world.subjects()) {
    std::set<std::string_view> words;
    const auto learn = [&](const std::string& name) {
      const auto runs = letter_runs(name);
      words.insert(runs.begin(), runs.end());
    };
    learn(subject.name);
    taken_.insert(lower(subject.name));
    for (const auto& object : subject.objects) {
      if (!object.empty()) {
        learn(object.front());  // aliases stand in no document
      }
      for (const std::string& alias : object) {
        taken_.insert(lower(alias));
      }
    }
    for (const std::string_view word : words) {
      if (is_upper(word.front()) && word.size() >= 3) {
        ++documents_by_word[std::string(word)];
        const auto parts = syllables(lower(word));
        first.insert(capitalised(parts.front()));
        next.insert(parts.begin() + 1, parts.end());
      }
    }
  }
  for (const std::string_view word : kTemplateWords) {
    taken_.emplace(word);
  }
  for (const auto& [word, num_documents] : documents_by_word) {
    if (num_documents >= kMinSharedDocuments) {
      shared_words_.push_back(word);
    }
  }
  first_pieces_.assign(first.begin(), first.end());
  next_pieces_.assign(next.begin(), next.end());
}

NameMaker::NameMaker(const World& world, WordPieces pieces) : NameMaker(world) { given_ = std::move(pieces); }

const NameMaker& NameMaker::builtin() {
  static const NameMaker maker(World::builtin());
  return maker;
}

std::string NameMaker::invent_capitalised(SplitMix& random) const {
  if (given_) {
    std::string word = pick(given_->first, random);
    for (std::int32_t left = kNumGivenPieces[random.below(kNumGivenPieces.size())]; left > 0; --left) {
      word += pick(given_->next, random);
    }
    return word;
  }
  const bool begins_with_word = random.uniform() < kSharedWordShare;
  std::string name = pick(begins_with_word ? shared_words_ : first_pieces_, random);
  const auto& counts = begins_with_word ? kNumPiecesAfterWord : kNumPiecesAfterSyllable;
  for (std::int32_t left = counts[random.below(counts.size())]; left > 0; --left) {
    name += pick(next_pieces_, random);
  }
  return name;
}

std::string NameMaker::invent_lower(SplitMix& random) const {
  if (given_) {
    return pick(given_->low, random) + (random.uniform() < kGivenLongLowShare ? pick(given_->next, random) : "");
  }
  std::string name;
  const auto& counts = kNumPiecesAfterSyllable;
  for (std::int32_t left = 1 + counts[random.below(counts.size())]; left > 0; --left) {
    name += pick(next_pieces_, random);
  }
  return name;
}

std::string NameMaker::invent(std::string_view like, SplitMix& random) const {
  const std::unordered_set<std::string> none;
  return invent_unlike(like, none, random);
}

std::string NameMaker::invent_unlike(std::string_view like, const std::unordered_set<std::string>& used,
                                     SplitMix& random) const {
  for (std::size_t num_draws = 1;; ++num_draws) {
    std::string name;
    if (like.starts_with('.')) {
      name = {'.', static_cast<char>('a' + random.below(26)), static_cast<char>('a' + random.below(26))};
    } else {
      const bool is_lower = !like.empty() && !is_upper(like.front());
      const auto invent_word = [&] { return is_lower ? invent_lower(random) : invent_capitalised(random); };
      name = invent_word();
      name += random.uniform() < (given_ ? kGivenTwoWordShare : kTwoWordShare) ? " " + invent_word() : "";
    }
    // A file of very few pieces can run out of short names.
    for (std::size_t left = like.starts_with('.') ? 0 : num_draws / kDrawsBeforeLonger; left > 0; --left) {
      name += pick(given_ ? given_->next : next_pieces_, random);
    }
    const std::string key = lower(name);
    if (!taken_.contains(key) && !used.contains(key) && !normalize_answer(Scorer::em, name).empty()) {
      return name;
    }
  }
}

NameMap NameMaker::make_map(const World& world, const std::vector<Question>& questions, std::uint64_t seed) const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  };
  for (const Question& question : questions) {
    const Subject* subject = world.find(question.subject);
    if (subject == nullptr) {
      continue;
    }
    add(subject->name);
    add(world.country_of(*subject).name);
    if (const auto answers = world.answers(question); !answers.empty()) {
      add(answers.front());
    }
  }
  SplitMix random(seed);
  std::unordered_set<std::string> used;
  std::vector<std::pair<std::string, std::string>> to_fictional;
  std::vector<std::pair<std::string, std::string>> to_real;
  for (const std::string& name : names) {
    std::string invented = invent_unlike(name, used, random);
    used.insert(lower(invented));
    to_fictional.emplace_back(name, invented);
    to_real.emplace_back(std::move(invented), name);
  }
  return {NameReplacer(std::move(to_fictional)), NameReplacer(std::move(to_real))};
}

}  // namespace memopd::atlas
