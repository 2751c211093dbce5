#include "envs/task_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "runtime/base/random.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kForms =
    "allowed is {\"questions\": [..], \"golden_answers\": [[..], ..]} or {\"prompt\": [{\"role\", \"content\"}], "
    "\"reward_model\": {\"ground_truth\": {\"target\": [[..], ..]}}}";

Unexpected wrong(const std::string& place, const std::string& problem) {
  return unexpected(ErrorCode::parse_error, fmt::format("{}: {}", place, problem));
}

/// The string under `key`, or nothing when it is absent.
Expected<std::optional<std::string>> optional_text(const Json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return std::optional<std::string>();
  }
  if (!found->is_string()) {
    return wrong(place, fmt::format("`{}` is a {}, allowed is a string", key, found->type_name()));
  }
  return std::optional<std::string>(found->get<std::string>());
}

/// list[K] of non-empty lists of strings.
Expected<std::vector<std::vector<std::string>>> parse_targets(const Json& value, const char* key,
                                                              const std::string& place) {
  std::vector<std::vector<std::string>> targets;
  const auto refuse = [&](std::string_view found) {
    return wrong(place, fmt::format("`{}` {}, allowed is a list of lists of aliases", key, found));
  };
  if (!value.is_array() || value.empty()) {
    return refuse(value.is_array() ? "is empty" : fmt::format("is a {}", value.type_name()));
  }
  for (const Json& aliases : value) {
    if (!aliases.is_array() || aliases.empty()) {
      return refuse(fmt::format("holds a {} for objective {}",
                                aliases.is_array() ? "list of none" : aliases.type_name(), targets.size()));
    }
    targets.emplace_back();
    for (const Json& alias : aliases) {
      if (!alias.is_string()) {
        return refuse(
            fmt::format("holds a {} among the aliases of objective {}", alias.type_name(), targets.size() - 1));
      }
      targets.back().push_back(alias.get<std::string>());
    }
  }
  return targets;
}

Expected<void> parse_plain(Json object, const std::string& place, Task& task) {
  const auto questions = object.find("questions");
  if (!questions->is_array() || questions->empty()) {
    return wrong(place, "`questions` is not a list of at least one string");
  }
  for (const Json& question : *questions) {
    const std::string text = question.is_string() ? std::string(strip(question.get<std::string>())) : std::string();
    if (text.empty()) {
      return wrong(place, fmt::format("`questions` holds a {} that is no text", question.type_name()));
    }
    task.text += task.text.empty() ? text : "; " + text;
    task.text += text.back() == '?' ? "" : "?";
  }
  auto targets = parse_targets(object.value("golden_answers", Json()), "golden_answers", place);
  if (!targets) {
    return unexpected(targets.error());
  }
  if (targets->size() != questions->size()) {
    return wrong(place, fmt::format("{} questions but {} golden_answers", questions->size(), targets->size()));
  }
  task.targets = std::move(*targets);
  for (const char* used : {"id", "data_source", "questions", "golden_answers"}) {
    object.erase(used);
  }
  task.extra = object.empty() ? "" : object.dump();
  return {};
}

Expected<void> parse_prompt(const Json& object, const std::string& place, Task& task) {
  const Json& messages = object.at("prompt");
  for (const Json& message : messages.is_array() ? messages : Json::array()) {
    const bool is_message = message.is_object() && message.value("role", Json()).is_string() &&
                            message.value("content", Json()).is_string();
    if (!is_message) {
      return wrong(place, "`prompt` holds something other than {\"role\": \"..\", \"content\": \"..\"}");
    }
    if (message.at("role") == "user") {
      task.text = message.at("content").get<std::string>();
    }
  }
  if (strip(task.text).empty()) {
    return wrong(place, "`prompt` has no message of role user with text");
  }
  const Json::json_pointer pointer("/reward_model/ground_truth/target");
  auto targets =
      parse_targets(object.contains(pointer) ? object.at(pointer) : Json(), "reward_model.ground_truth.target", place);
  if (!targets) {
    return unexpected(targets.error());
  }
  task.targets = std::move(*targets);
  if (const auto extra = object.find("extra_info"); extra != object.end() && !extra->is_null()) {
    if (!extra->is_object()) {
      return wrong(place, fmt::format("`extra_info` is a {}, allowed is an object", extra->type_name()));
    }
    task.extra = extra->dump();
  }
  return {};
}

}  // namespace

Expected<Task> parse_task(std::string_view line, const std::string& split, const std::string& default_id,
                          const std::string& place) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) {
    return wrong(place, fmt::format("{}; {}", object.is_discarded() ? "no JSON" : "JSON, but no object", kForms));
  }
  Task task;
  task.split = split;
  for (const auto& [key, field] : {std::pair("id", &task.id), std::pair("data_source", &task.data_source)}) {
    auto text = optional_text(object, key, place);
    if (!text) {
      return unexpected(text.error());
    }
    *field = text->value_or(*field);
  }
  task.id = task.id.empty() ? default_id : task.id;
  const bool is_plain = object.contains("questions");
  if (is_plain == object.contains("prompt")) {
    return wrong(place, fmt::format("{} of `questions` and `prompt`; {}", is_plain ? "both" : "neither", kForms));
  }
  MEMOPD_RETURN_IF_ERROR(is_plain ? parse_plain(object, place, task) : parse_prompt(object, place, task));
  return task;
}

Expected<std::vector<Task>> load_tasks(const std::filesystem::path& file, const std::string& split) {
  std::ifstream stream(file);
  if (!stream || std::filesystem::is_directory(file)) {
    return unexpected(ErrorCode::not_found, fmt::format("task file {} cannot be read", file.string()));
  }
  std::vector<Task> tasks;
  std::unordered_set<std::string> ids;
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    const std::string place = fmt::format("{}:{}", file.string(), number);
    if (strip(line).empty()) {
      return wrong(place, "an empty line, allowed is one JSON object a line");
    }
    auto task = parse_task(line, split, fmt::format("{}_{}", split, number - 1), place);
    if (!task) {
      return unexpected(task.error());
    }
    if (!ids.insert(task->id).second) {
      return wrong(place, fmt::format("id `{}` stands on an earlier line too", task->id));
    }
    tasks.push_back(std::move(*task));
  }
  if (tasks.empty()) {
    return wrong(file.string(), "no task, allowed is one JSON object a line");
  }
  return tasks;
}

TaskSet::TaskSet(std::map<std::string, std::vector<Task>> tasks_by_split)
    : tasks_by_split_(std::move(tasks_by_split)) {}

Expected<std::unique_ptr<TaskSet>> TaskSet::create(std::map<std::string, std::vector<Task>> tasks_by_split) {
  for (const auto& [split, tasks] : tasks_by_split) {
    if (tasks.empty()) {
      return unexpected(ErrorCode::parse_error, fmt::format("split {}: no task", split));
    }
  }
  return std::unique_ptr<TaskSet>(new TaskSet(std::move(tasks_by_split)));
}

Expected<std::unique_ptr<TaskSet>> TaskSet::load(const std::map<std::string, std::filesystem::path>& file_by_split) {
  std::map<std::string, std::vector<Task>> tasks_by_split;
  for (const auto& [split, file] : file_by_split) {
    auto tasks = load_tasks(file, split);
    if (!tasks) {
      return unexpected(tasks.error());
    }
    tasks_by_split[split] = std::move(*tasks);
  }
  return create(std::move(tasks_by_split));
}

Expected<std::vector<Task>> TaskSet::tasks(const TaskRequest& request) const {
  const auto found = tasks_by_split_.find(request.split);
  if (found == tasks_by_split_.end()) {
    std::vector<std::string> known;
    for (const auto& [split, tasks] : tasks_by_split_) {
      known.push_back(split);
    }
    return unexpected(ErrorCode::not_found,
                      fmt::format("unknown split `{}`; known are: {}", request.split, fmt::join(known, ", ")));
  }
  if (request.first < 0 || request.count < 0) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("tasks {}..+{}: allowed are numbers >= 0", request.first, request.count));
  }
  const std::vector<Task>& all = found->second;
  for (const Task& task : all) {
    if (request.num_objectives != 0 && task.targets.size() != static_cast<std::size_t>(request.num_objectives)) {
      return unexpected(ErrorCode::invalid_argument,
                        fmt::format("task {} of split {} has {} objectives, asked for are {}", task.id, request.split,
                                    task.targets.size(), request.num_objectives));
    }
  }
  std::vector<Task> tasks;
  std::vector<std::size_t> order(all.size());
  std::uint64_t ordered_pass = ~std::uint64_t{0};
  for (std::int32_t i = 0; i < request.count; ++i) {
    const std::uint64_t index = static_cast<std::uint64_t>(request.first) + static_cast<std::uint64_t>(i);
    if (const std::uint64_t pass = index / all.size(); pass != ordered_pass) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      SplitMix random(chain_seed(request.seed, {hash_name(request.split), pass}));
      for (std::size_t left = order.size(); left > 1; --left) {
        std::swap(order[left - 1], order[random.below(left)]);
      }
      ordered_pass = pass;
    }
    tasks.push_back(all[order[index % all.size()]]);
  }
  return tasks;
}

}  // namespace memopd
