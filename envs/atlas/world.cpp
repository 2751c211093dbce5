#include "envs/atlas/world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "envs/atlas/facts_data.hpp"
#include "envs/scoring.hpp"
#include "runtime/base/check.hpp"

namespace memopd::atlas {
namespace {

constexpr std::array<std::string_view, kNumRelations> kTexts = {"capital",   "currency",      "language",
                                                                "continent", "internet code", "country"};
constexpr std::array<std::string_view, kNumRelations> kKeys = {"capital",   "currency", "language",
                                                               "continent", "code",     "country"};
/// In the order of the documents; `country` belongs to places.
constexpr std::array kCountryRelations = {Relation::capital, Relation::currency, Relation::language,
                                          Relation::continent, Relation::internet_code};
constexpr std::string_view kWhatIsThe = "What is the ";
constexpr std::string_view kOf = " of ";
constexpr std::string_view kOfTheCountryOf = " of the country of ";
constexpr std::string_view kWhichCountryIs = "Which country is ";
constexpr std::string_view kIn = " in?";
constexpr std::size_t kMaxAnswers = 4;
constexpr std::int32_t kMaxObjectives = 64;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string> split_aliases(std::string_view text) {
  std::vector<std::string> aliases;
  for (const std::string_view alias : split(text, '|')) {
    if (!alias.empty()) {
      aliases.emplace_back(alias);
    }
  }
  return aliases;
}

std::optional<Relation> find_relation(std::string_view name, const std::array<std::string_view, kNumRelations>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt
                              : std::optional(static_cast<Relation>(std::distance(names.begin(), found)));
}

Unexpected wrong(const std::string& place, const std::string& problem) {
  return unexpected(ErrorCode::parse_error, fmt::format("{}: {}", place, problem));
}

/// Whether `answer` says no more than the question: it compares equal to `name`.
bool is_same_answer(std::string_view answer, std::string_view name) {
  return normalize_answer(Scorer::em, answer) == normalize_answer(Scorer::em, name);
}

}  // namespace

std::string_view to_string(Relation relation) { return kTexts[static_cast<std::size_t>(relation)]; }

std::string question_text(const Question& question) {
  if (question.relation == Relation::country) {
    return fmt::format("{}{}{}", kWhichCountryIs, question.subject, kIn);
  }
  return fmt::format("{}{}{}{}?", kWhatIsThe, to_string(question.relation), question.is_two_hop ? kOfTheCountryOf : kOf,
                     question.subject);
}

std::optional<Question> parse_question(std::string_view text) {
  if (text.starts_with(kWhichCountryIs) && text.ends_with(kIn) && text.size() > kWhichCountryIs.size() + kIn.size()) {
    text.remove_prefix(kWhichCountryIs.size());
    text.remove_suffix(kIn.size());
    return Question{std::string(text), Relation::country, false};
  }
  if (!text.starts_with(kWhatIsThe) || !text.ends_with('?')) {
    return std::nullopt;
  }
  text.remove_prefix(kWhatIsThe.size());
  text.remove_suffix(1);
  const std::size_t of = text.find(kOf);
  const auto relation = find_relation(text.substr(0, of), kTexts);
  if (of == std::string_view::npos || !relation || relation == Relation::country) {
    return std::nullopt;
  }
  text.remove_prefix(of);
  const bool is_two_hop = text.starts_with(kOfTheCountryOf);
  text.remove_prefix(is_two_hop ? kOfTheCountryOf.size() : kOf.size());
  return text.empty() ? std::nullopt : std::optional(Question{std::string(text), *relation, is_two_hop});
}

std::optional<std::vector<Question>> parse_questions(std::string_view text) {
  std::vector<Question> questions;
  while (!text.empty()) {
    const std::size_t end = text.find("; ");
    auto question = parse_question(text.substr(0, end));
    if (!question) {
      return std::nullopt;
    }
    questions.push_back(std::move(*question));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
  return questions;
}

const World& World::builtin() {
  static const World world = [] {
    auto parsed = parse(kFactsTsv, kAliasesTsv);
    MEMOPD_CHECK(parsed.has_value(), "embedded facts: " + parsed.error().message);
    return std::move(*parsed);
  }();
  return world;
}

Expected<World> World::parse(std::string_view facts_tsv, std::string_view aliases_tsv) {
  World world;
  std::size_t number = 0;
  for (const std::string_view line : split(facts_tsv, '\n')) {
    ++number;
    if (number == 1 || line.empty()) {
      continue;  // the names of the columns; the end of the file
    }
    MEMOPD_RETURN_IF_ERROR(world.add_fact(split(line, '\t'), fmt::format("facts.tsv:{}", number)));
  }
  std::unordered_map<std::string, std::vector<std::string>> aliases;
  number = 0;
  for (const std::string_view line : split(aliases_tsv, '\n')) {
    ++number;
    const auto cells = split(line, '\t');
    if (!line.empty() && cells.size() != 2) {
      return wrong(fmt::format("aliases.tsv:{}", number), fmt::format("{} columns, allowed are 2", cells.size()));
    }
    if (!line.empty()) {
      aliases.emplace(cells[0], split_aliases(cells[1]));
    }
  }
  MEMOPD_RETURN_IF_ERROR(world.link_countries(aliases));
  return world;
}

Expected<void> World::add_fact(const std::vector<std::string_view>& cells, const std::string& place) {
  if (cells.size() != 7) {
    return wrong(place, fmt::format("{} columns, allowed are 7", cells.size()));
  }
  const auto relation = find_relation(cells[1], kKeys);
  const bool is_country = cells[4] == "country";
  if (!relation || (relation == Relation::country) == is_country) {
    return wrong(place, fmt::format("relation `{}` of a {}, allowed is country of a place, or one of {} of a country",
                                    cells[1], cells[4], fmt::join(kKeys.begin(), kKeys.end() - 1, ", ")));
  }
  const std::vector<std::string> known_splits = splits();
  if (std::find(known_splits.begin(), known_splits.end(), cells[5]) == known_splits.end()) {
    return wrong(place, fmt::format("split `{}`, allowed are {}", cells[5], fmt::join(known_splits, ", ")));
  }
  if (cells[0].empty() || cells[2].empty()) {
    return wrong(place, "no subject or no object");
  }
  const auto [found, is_new] =
      index_by_name_.try_emplace(std::string(cells[0]), static_cast<std::int32_t>(subjects_.size()));
  if (is_new) {
    Subject subject;
    subject.name = std::string(cells[0]);
    subject.is_country = is_country;
    subject.kind = std::string(cells[4]);
    subject.split = std::string(cells[5]);
    pools_by_split_[subject.split][is_country ? 0 : 1].push_back(found->second);
    subjects_.push_back(std::move(subject));
  }
  auto& object = subjects_[static_cast<std::size_t>(found->second)].objects[static_cast<std::size_t>(*relation)];
  if (!object.empty()) {
    return wrong(place, fmt::format("a second {} of {}", cells[1], cells[0]));
  }
  object.emplace_back(cells[2]);
  for (std::string& alias : split_aliases(cells[3])) {
    object.push_back(std::move(alias));
  }
  return {};
}

Expected<void> World::link_countries(const std::unordered_map<std::string, std::vector<std::string>>& aliases) {
  for (Subject& subject : subjects_) {
    if (subject.is_country) {
      continue;
    }
    auto& country = subject.objects[static_cast<std::size_t>(Relation::country)];
    const Subject* linked = find(country.front());
    if (linked == nullptr || !linked->is_country) {
      return wrong("facts.tsv", fmt::format("{} is in {}, which is no country there", subject.name, country.front()));
    }
    subject.country_index = static_cast<std::int32_t>(linked - subjects_.data());
    if (const auto found = aliases.find(country.front()); found != aliases.end()) {
      country.insert(country.end(), found->second.begin(), found->second.end());
    }
  }
  return {};
}

const Subject* World::find(std::string_view name) const {
  const auto found = index_by_name_.find(std::string(name));
  return found == index_by_name_.end() ? nullptr : &subjects_[static_cast<std::size_t>(found->second)];
}

const Subject& World::country_of(const Subject& place) const {
  return place.is_country ? place : subjects_[static_cast<std::size_t>(place.country_index)];
}

std::string World::document_text(const Subject& subject) const {
  if (!subject.is_country) {
    const bool has_vowel = std::string_view("aeiou").find(subject.kind.front()) != std::string_view::npos;
    return fmt::format("{} is {} {} in {}.", subject.name, has_vowel ? "an" : "a", subject.kind,
                       subject.object(Relation::country).front());
  }
  std::string text = subject.name + " is a country.";
  for (const Relation relation : kCountryRelations) {
    if (const auto& object = subject.object(relation); !object.empty()) {
      text +=
          fmt::format(" Its {} is {}{}", to_string(relation), object.front(), object.front().ends_with('.') ? "" : ".");
    }
  }
  return text;
}

std::vector<Document> World::documents() const {
  std::vector<Document> documents;
  documents.reserve(subjects_.size());
  for (const Subject& subject : subjects_) {
    documents.push_back({std::to_string(documents.size()), subject.name, document_text(subject), 0});
  }
  return documents;
}

std::vector<std::string> World::answers(const Question& question) const {
  const Subject* subject = find(question.subject);
  if (subject == nullptr) {
    return {};
  }
  std::vector<std::string> answers = (question.is_two_hop ? country_of(*subject) : *subject).object(question.relation);
  answers.resize(std::min(answers.size(), kMaxAnswers));
  return answers;
}

std::optional<Question> World::draw_question(const Pools& pools, const QuestionMix& mix, SplitMix& random) const {
  const double total = mix.country_one_hop + mix.place_one_hop + mix.place_two_hop;
  const double drawn = random.uniform() * total;
  const auto& pool = drawn < mix.country_one_hop ? pools[0] : pools[1];
  if (pool.empty()) {
    return std::nullopt;
  }
  const Subject& subject = subjects_[static_cast<std::size_t>(pool[random.below(pool.size())])];
  Question question{subject.name, Relation::country, false};
  if (!subject.is_country && drawn < mix.country_one_hop + mix.place_one_hop) {
    return question;
  }
  question.is_two_hop = !subject.is_country;
  const Subject& country = country_of(subject);
  std::vector<Relation> known;
  std::copy_if(kCountryRelations.begin(), kCountryRelations.end(), std::back_inserter(known),
               [&](Relation relation) { return !country.object(relation).empty(); });
  if (known.empty()) {
    return std::nullopt;
  }
  question.relation = known[random.below(known.size())];
  const auto& object = country.object(question.relation);
  const bool is_any_alias_tested = question.is_two_hop && question.relation == Relation::capital;
  const auto tested_end = is_any_alias_tested ? object.end() : object.begin() + 1;
  const bool is_trivial = std::any_of(object.begin(), tested_end,
                                      [&](const std::string& answer) { return is_same_answer(answer, subject.name); });
  return is_trivial ? std::nullopt : std::optional(std::move(question));
}

Expected<Task> World::make_task(const std::string& split_name, std::uint64_t seed, std::int32_t task_index,
                                std::int32_t num_objectives, const QuestionMix& mix) const {
  const auto pools = pools_by_split_.find(split_name);
  if (pools == pools_by_split_.end()) {
    return unexpected(ErrorCode::not_found,
                      fmt::format("unknown split `{}`; known are: {}", split_name, fmt::join(splits(), ", ")));
  }
  if (num_objectives < 1 || num_objectives > kMaxObjectives) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("{} objectives, allowed are 1..{}", num_objectives, kMaxObjectives));
  }
  Task task;
  task.id = fmt::format("{}_k{}_s{}_{}", split_name, num_objectives, seed, task_index);
  task.data_source = "atlas";
  task.split = split_name;
  task.max_turns = 2 * num_objectives + 2;
  nlohmann::json extra = {{"subjects", nlohmann::json::array()}};
  SplitMix random(chain_seed(seed, {hash_name(split_name), static_cast<std::uint64_t>(num_objectives),
                                    static_cast<std::uint64_t>(task_index)}));
  auto& subjects = extra["subjects"];
  for (std::int32_t draws_left = 1000 * num_objectives; std::ssize(task.targets) < num_objectives; --draws_left) {
    if (draws_left == 0) {
      return unexpected(ErrorCode::invalid_argument,
                        fmt::format("split {} has too few subjects for {} objectives of mix {}, {}, {}", split_name,
                                    num_objectives, mix.country_one_hop, mix.place_one_hop, mix.place_two_hop));
    }
    const auto question = draw_question(pools->second, mix, random);
    if (!question || std::find(subjects.begin(), subjects.end(), question->subject) != subjects.end()) {
      continue;
    }
    task.text += (task.text.empty() ? "" : "; ") + question_text(*question);
    task.targets.push_back(answers(*question));
    subjects.push_back(question->subject);
    extra["relations"].push_back(kKeys[static_cast<std::size_t>(question->relation)]);
    extra["hops"].push_back(question->is_two_hop ? 2 : 1);
  }
  task.extra = extra.dump();
  return task;
}

}  // namespace memopd::atlas
