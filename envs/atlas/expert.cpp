#include "envs/atlas/expert.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <vector>

#include "envs/atlas/world.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd::atlas {
namespace {

constexpr std::string_view kUnknown = "unknown";

/// What the agent knows: the values of the first questions, and the country of the next one's place.
struct Memory {
  std::vector<std::string> values;
  std::optional<std::string> country;
};

/// How a value is introduced in memory: `in ` or `capital is `.
std::string phrase(const Question& question) {
  return question.relation == Relation::country ? "in " : fmt::format("{} is ", to_string(question.relation));
}

/// The text between the first `begin` and the first (or last) `end` after it.
std::optional<std::string_view> between(std::string_view text, std::string_view begin, std::string_view end,
                                        bool is_last = false) {
  const std::size_t from = text.find(begin);
  if (from == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(from + begin.size());
  const std::size_t to = is_last ? text.rfind(end) : text.find(end);
  return to == std::string_view::npos ? std::nullopt : std::optional(text.substr(0, to));
}

/// Reads `S: R is V; S in C` back; entries stand in the order of the questions.
Memory parse_memory(std::string_view text, const std::vector<Question>& questions) {
  Memory memory;
  while (!strip(text).empty() && memory.values.size() < questions.size()) {
    const std::size_t end = text.find(';');
    const std::string_view entry = strip(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const Question& question = questions[memory.values.size()];
    const std::string solved = question.subject + ": ";
    const std::string half_solved = question.subject + " in ";
    if (entry.starts_with(solved)) {
      std::string_view value = entry.substr(solved.size());
      const std::string introduction = phrase(question);
      value.remove_prefix(value.starts_with(introduction) ? introduction.size() : 0);
      memory.values.emplace_back(value);
    } else if (entry.starts_with(half_solved)) {
      memory.country = std::string(entry.substr(half_solved.size()));
    }
  }
  return memory;
}

/// The sentence part after `entity is a `, on the line of the observation that is about `entity`.
std::optional<std::string_view> find_document(std::string_view information, const std::string& entity) {
  while (!information.empty()) {
    const std::size_t end = information.find('\n');
    std::string_view line = strip(information.substr(0, end));
    information.remove_prefix(end == std::string_view::npos ? information.size() : end + 1);
    const std::size_t header_end = line.starts_with("Doc ") ? line.find(") ") : std::string_view::npos;
    line.remove_prefix(header_end == std::string_view::npos ? 0 : header_end + 2);
    for (const std::string_view article : {" is a ", " is an "}) {
      if (line.starts_with(entity) && line.substr(entity.size()).starts_with(article)) {
        return line.substr(entity.size() + article.size());
      }
    }
  }
  return std::nullopt;
}

/// `document` = `county in Kenya.` or `country. Its capital is Nairobi. Its ..`
std::optional<std::string> find_value(std::string_view document, Relation relation) {
  if (relation == Relation::country) {
    const std::size_t in = document.find(" in ");
    if (in == std::string_view::npos || !document.ends_with('.')) {
      return std::nullopt;
    }
    return std::string(document.substr(in + 4, document.size() - in - 5));
  }
  const std::string introduction = fmt::format("Its {} is ", to_string(relation));
  const std::size_t found = document.find(introduction);
  if (found == std::string_view::npos) {
    return std::nullopt;
  }
  document.remove_prefix(found + introduction.size());
  const std::size_t end = document.find(". Its ");
  document = document.substr(0, end);
  if (end == std::string_view::npos && document.ends_with('.')) {
    document.remove_suffix(1);
  }
  return std::string(document);
}

struct Search {
  std::string entity;
  Relation relation = Relation::country;
};

/// What the first open question needs next.
Search next_search(const Memory& memory, const std::vector<Question>& questions) {
  const Question& question = questions[memory.values.size()];
  if (memory.country) {
    return {*memory.country, question.relation};
  }
  return {question.subject, question.is_two_hop ? Relation::country : question.relation};
}

/// Takes what the observation says about the open search into memory.
void learn(Memory& memory, const std::vector<Question>& questions, std::string_view information) {
  const Search search = next_search(memory, questions);
  const auto document = find_document(information, search.entity);
  const auto value = document ? find_value(*document, search.relation) : std::nullopt;
  const bool is_first_hop = questions[memory.values.size()].is_two_hop && !memory.country;
  if (is_first_hop && value) {
    memory.country = *value;
    return;
  }
  memory.values.push_back(value.value_or(std::string(kUnknown)));
  memory.country.reset();
}

std::string response(const Memory& memory, const std::vector<Question>& questions) {
  std::string think;
  std::string answers;
  for (std::size_t i = 0; i < memory.values.size(); ++i) {
    const std::string_view separator = i == 0 ? "" : ";";
    think += fmt::format("{} {}: {}{}", separator, questions[i].subject, phrase(questions[i]), memory.values[i]);
    answers += fmt::format("{} {}", separator, memory.values[i]);
  }
  if (memory.values.size() == questions.size()) {
    return fmt::format("<think>{}</think><answer>{}</answer>", think, answers);
  }
  if (memory.country) {
    think +=
        fmt::format("{} {} in {}", think.empty() ? "" : ";", questions[memory.values.size()].subject, *memory.country);
  }
  const Search search = next_search(memory, questions);
  return fmt::format("<think>{}</think><search> {} {}</search>", think, search.entity, to_string(search.relation));
}

}  // namespace

Expected<std::string> AtlasExpert::respond(const std::string& question, const std::string& context) const {
  const auto questions = parse_questions(strip(question));
  if (!questions || questions->empty()) {
    return unexpected(ErrorCode::invalid_argument, fmt::format("`{}` is no atlas question", question));
  }
  Memory memory;
  if (!strip(context).empty()) {
    const auto think = between(context, "<think>", "</think>");
    if (!think) {
      return unexpected(ErrorCode::invalid_argument, fmt::format("context `{}` has no think tags", context));
    }
    memory = parse_memory(*think, *questions);
    if (memory.values.size() < questions->size()) {
      learn(memory, *questions, between(context, "<information>", "</information>", true).value_or(""));
    }
  }
  return response(memory, *questions);
}

}  // namespace memopd::atlas
