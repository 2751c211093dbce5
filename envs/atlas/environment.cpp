#include "envs/atlas/environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "envs/atlas/expert.hpp"
#include "envs/options.hpp"
#include "runtime/base/random.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd::atlas {
namespace {

constexpr std::int32_t kDefaultObjectives = 2;
constexpr std::string_view kTool = "retrieve";

Unexpected refuse(std::string_view problem) {
  return unexpected(ErrorCode::refused, fmt::format("atlas: {}", problem));
}

/// `0.3,0.2,0.5`
Expected<QuestionMix> parse_mix(const std::string& text) {
  std::array<double, 3> shares{};
  const char* begin = text.data();
  const char* const end = text.data() + text.size();
  bool is_valid = true;
  for (std::size_t i = 0; i < shares.size() && is_valid; ++i) {
    const auto [rest, failure] = std::from_chars(begin, end, shares[i]);
    const bool is_last = i + 1 == shares.size();
    is_valid = failure == std::errc() && shares[i] >= 0 && std::isfinite(shares[i]) &&
               (is_last ? rest == end : rest != end && *rest == ',');
    begin = is_valid && !is_last ? rest + 1 : rest;
  }
  if (!is_valid || !(shares[0] + shares[1] + shares[2] > 0)) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("option mix = `{}`: allowed are three shares >= 0 with a positive sum, as in "
                                  "0.3,0.2,0.5 (country one hop, place one hop, place two hops)",
                                  text));
  }
  return QuestionMix{shares[0], shares[1], shares[2]};
}

Expected<std::unique_ptr<Environment>> make_atlas(const EnvOptions& options) {
  const auto parsed = parse_atlas_options(options);
  if (!parsed) {
    return unexpected(parsed.error());
  }
  return std::unique_ptr<Environment>(std::make_unique<AtlasEnvironment>(*parsed));
}

Expected<std::unique_ptr<TaskSource>> make_tasks(const EnvOptions& options) {
  const auto parsed = parse_atlas_options(options);
  if (!parsed) {
    return unexpected(parsed.error());
  }
  return std::unique_ptr<TaskSource>(std::make_unique<AtlasTaskSource>(parsed->mix));
}

}  // namespace

Expected<AtlasOptions> parse_atlas_options(const EnvOptions& options) {
  const auto scorer = parse_scorer(options.scorer);
  const auto fictional = option_number(options, "fictional", 0, 1);
  const auto topk = option_integer(options, "topk", 0, 100);
  const auto titles = option_flag(options, "titles");
  const auto mix = parse_mix(options.options.at("mix"));
  if (!scorer || !fictional || !topk || !titles || !mix) {
    return unexpected(!scorer      ? scorer.error()
                      : !fictional ? fictional.error()
                      : !topk      ? topk.error()
                      : !titles    ? titles.error()
                                   : mix.error());
  }
  AtlasOptions parsed{*scorer, *fictional, nullptr, *topk, *titles, *mix};
  if (const std::string& file = options.options.at("pieces"); !file.empty()) {
    auto pieces = load_word_pieces(file);
    if (!pieces) {
      return unexpected(pieces.error());
    }
    parsed.name_maker = std::make_shared<const NameMaker>(World::builtin(), *std::move(pieces));
  }
  return parsed;
}

EnvironmentDefinition definition() {
  EnvironmentDefinition atlas;
  atlas.name = "atlas";
  atlas.description = "questions of one and two hops about 4,706 real countries and places";
  atlas.options = {
      {"fictional", "0", "share of train trajectories with invented names, by the reset seed; 0..1"},
      {"pieces", "", "file of word pieces, one a line, to invent names from; empty = the world's own"},
      {"topk", "0", "documents shown of those found; 0 = all, at most 100"},
      {"titles", "false", "whether `Doc 1(Title: \"Kenya\")` stands before each document"},
      {"mix", "0.3,0.2,0.5", "shares of country one-hop, place one-hop, place two-hop questions; >= 0"},
  };
  atlas.make_environment = make_atlas;
  atlas.make_task_source = make_tasks;
  atlas.make_expert = [](const EnvOptions&) -> Expected<std::unique_ptr<Expert>> {
    return std::unique_ptr<Expert>(std::make_unique<AtlasExpert>());
  };
  atlas.make_corpus = [](const EnvOptions&) -> Expected<std::vector<Document>> { return World::builtin().documents(); };
  return atlas;
}

AtlasEnvironment::AtlasEnvironment(const AtlasOptions& options) : options_(options) {}

EnvironmentInfo AtlasEnvironment::info() const {
  EnvironmentInfo info;
  info.name = "atlas";
  info.max_turns = 2 * kDefaultObjectives + 2;
  info.tools = {std::string(kTool)};
  return info;
}

Expected<Turn> AtlasEnvironment::reset(const Task& task, std::uint64_t seed) {
  is_running_ = false;
  const auto is_empty = [](const std::vector<std::string>& aliases) { return aliases.empty(); };
  if (task.targets.empty() || std::any_of(task.targets.begin(), task.targets.end(), is_empty)) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("atlas: task {} has an objective without targets", task.id));
  }
  task_ = task;
  targets_ = task.targets;
  names_.reset();
  num_turns_ = 0;
  num_searches_ = 0;
  is_running_ = true;
  is_waiting_ = false;
  Turn turn;
  turn.observation = task.text;
  const bool is_fictional = SplitMix(chain_seed(seed, {hash_name("fictional")})).uniform() < options_.fictional;
  if (is_fictional && task.split == "train") {
    const auto questions = parse_questions(task.text).value_or(std::vector<Question>());
    const NameMaker& maker = options_.name_maker ? *options_.name_maker : NameMaker::builtin();
    names_ = maker.make_map(World::builtin(), questions, chain_seed(seed, {hash_name("names")}));
    turn.observation = names_->to_fictional.replace(task.text);
    for (auto& aliases : targets_) {
      aliases = {names_->to_fictional.replace(aliases.front())};
    }
  }
  return turn;
}

Expected<Turn> AtlasEnvironment::step(const Action& action) {
  if (!is_running_ || is_waiting_) {
    return refuse(is_waiting_ ? "step while a tool call is pending" : "step of a trajectory that is not running");
  }
  ++num_turns_;
  if (action.kind != ActionKind::search) {
    return finish(action.kind == ActionKind::answer ? action.text : "");
  }
  ++num_searches_;
  if (num_turns_ >= task_.max_turns.value_or(info().max_turns)) {
    return finish("");
  }
  is_waiting_ = true;
  const std::string query(strip(action.text));
  Turn turn;
  turn.tool_call = ToolCall{std::string(kTool), names_ ? names_->to_real.replace(query) : query};
  return turn;
}

Expected<Turn> AtlasEnvironment::tool_result(const ToolResult& result) {
  if (!is_waiting_) {
    return refuse("a tool result without a pending tool call");
  }
  is_waiting_ = false;
  const std::size_t limit = options_.topk == 0 ? result.documents.size() : static_cast<std::size_t>(options_.topk);
  std::string shown;
  for (std::size_t i = 0; i < std::min(limit, result.documents.size()); ++i) {
    const Document& document = result.documents[i];
    shown += i == 0 ? "" : "\n";
    shown += options_.titles ? fmt::format("Doc {}(Title: \"{}\") ", i + 1, document.title) : " ";
    shown += document.text;
  }
  Turn turn;
  turn.observation = names_ ? names_->to_fictional.replace(shown) : shown;
  return turn;
}

Turn AtlasEnvironment::finish(std::string_view answer) {
  is_running_ = false;
  const AnswerScores scores = score(options_.scorer, answer, targets_);
  Turn turn;
  turn.is_done = true;
  turn.reward = scores.reward;
  turn.metrics = scores.metrics();
  turn.metrics["searches"] = num_searches_;
  turn.metrics["fictional"] = names_ ? 1 : 0;
  return turn;
}

Expected<std::vector<Task>> AtlasTaskSource::tasks(const TaskRequest& request) const {
  if (request.first < 0 || request.count < 0 ||
      request.count > std::numeric_limits<std::int32_t>::max() - request.first) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("tasks {}..+{}: allowed are numbers >= 0", request.first, request.count));
  }
  const std::vector<std::string> splits = World::builtin().splits();
  if (std::find(splits.begin(), splits.end(), request.split) == splits.end()) {
    return unexpected(ErrorCode::not_found,
                      fmt::format("unknown split `{}`; known are: {}", request.split, fmt::join(splits, ", ")));
  }
  const std::int32_t num_objectives = request.num_objectives == 0 ? kDefaultObjectives : request.num_objectives;
  std::vector<Task> tasks;
  tasks.reserve(static_cast<std::size_t>(request.count));
  for (std::int32_t i = 0; i < request.count; ++i) {
    auto task = World::builtin().make_task(request.split, request.seed, request.first + i, num_objectives, mix_);
    if (!task) {
      return unexpected(task.error());
    }
    tasks.push_back(std::move(*task));
  }
  return tasks;
}

}  // namespace memopd::atlas
