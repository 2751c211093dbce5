#include "envs/examples/guess_word.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "envs/options.hpp"
#include "runtime/base/random.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd::examples {
namespace {

constexpr std::array<std::string_view, 15> kWords = {"amber", "birch", "cedar", "dune",   "ember",
                                                     "fjord", "grove", "heron", "iris",   "jade",
                                                     "kelp",  "lotus", "maple", "nettle", "opal"};
constexpr std::int32_t kMaxTurns = 6;  // four guesses find one word of 15; one more turn answers

// 1. Tasks: by split, seed and index alone. `text` is what the agent is asked, `targets` what counts as right.
class GuessWordTasks final : public TaskSource {
 public:
  [[nodiscard]] Expected<std::vector<Task>> tasks(const TaskRequest& request) const override {
    if (request.split != "train" && request.split != "test") {
      return unexpected(ErrorCode::not_found, fmt::format("unknown split `{}`; known are: train, test", request.split));
    }
    if (request.first < 0 || request.count < 0 || request.num_objectives > 1) {
      return unexpected(ErrorCode::invalid_argument, "guess_word: allowed are first, count >= 0 and one objective");
    }
    std::vector<Task> tasks;
    for (std::int64_t i = request.first; i < std::int64_t{request.first} + request.count; ++i) {
      SplitMix random(chain_seed(request.seed, {hash_name(request.split), static_cast<std::uint64_t>(i)}));
      Task task;
      task.id = fmt::format("{}_s{}_{}", request.split, request.seed, i);
      task.data_source = "guess_word";
      task.split = request.split;
      task.text = "Which word is it? Words go from amber to opal.";
      task.targets = {{std::string(kWords[random.below(kWords.size())])}};
      tasks.push_back(std::move(task));
    }
    return tasks;
  }
};

// 2. A scripted policy, if you can write one: it proves that the task can be solved from the context text alone, and
//    `memopd sft` can imitate it. This one halves the list; its memory is the range that is left.
class GuessWordExpert final : public Expert {
 public:
  [[nodiscard]] Expected<std::string> respond(const std::string& /*question*/,
                                              const std::string& context) const override {
    std::size_t low = 0;
    std::size_t high = kWords.size();  // the secret is one of kWords[low, high)
    const auto index_after = [&](std::string_view tag) {
      const std::size_t begin = context.rfind(tag);
      const std::string_view rest =
          begin == std::string::npos ? "" : std::string_view(context).substr(begin + tag.size());
      const std::string_view word = rest.substr(0, rest.find_first_of(" <."));
      return static_cast<std::size_t>(std::find(kWords.begin(), kWords.end(), word) - kWords.begin());
    };
    if (!context.empty()) {
      const std::size_t guess = index_after("<search> ");
      const bool is_right = context.find("right: ") != std::string::npos;
      const bool is_before = context.find("before ") != std::string::npos;
      low = is_right ? guess : is_before ? index_after("from ") : guess + 1;
      high = is_right ? guess + 1 : is_before ? guess : index_after("up to ") + 1;
    }
    if (low >= high || high > kWords.size()) {
      return unexpected(ErrorCode::invalid_argument, "guess_word: the context is not of this policy");
    }
    const std::string_view middle = kWords[low + (high - low) / 2];
    const std::string think = fmt::format("<think> from {} up to {}</think>", kWords[low], kWords[high - 1]);
    return think + (high - low == 1 ? fmt::format("<answer> {}</answer>", middle)
                                    : fmt::format("<search> {}</search>", middle));
  }
};

Unexpected refuse(std::string_view problem) {
  return unexpected(ErrorCode::refused, fmt::format("guess_word: {}", problem));
}

}  // namespace

// 3. What the env actor must know before it starts a trajectory.
EnvironmentInfo GuessWord::info() const {
  EnvironmentInfo info;
  info.name = "guess_word";
  info.max_turns = kMaxTurns;
  return info;
}

// 4. A trajectory starts: forget the last one, check the task (it may come from a user's file), return the question.
Expected<Turn> GuessWord::reset(const Task& task, std::uint64_t /*seed*/) {
  is_running_ = false;
  if (task.targets.size() != 1 || task.targets.front().empty()) {
    return unexpected(ErrorCode::invalid_argument, fmt::format("guess_word: task {} needs one target", task.id));
  }
  secret_ = task.targets.front().front();
  num_turns_ = 0;
  is_running_ = true;
  Turn turn;
  turn.observation = task.text;
  return turn;
}

// 5. An action of the agent. Return bare text; tags, hints and truncation are the protocol's. End on an answer, on
//    nonsense and on the last turn. To have something retrieved, set Turn::tool_call instead of the observation.
Expected<Turn> GuessWord::step(const Action& action) {
  if (!is_running_) {
    return refuse("step of a trajectory that is not running");
  }
  ++num_turns_;
  const std::string text(strip(action.text));
  Turn turn;
  if (action.kind != ActionKind::search || num_turns_ >= kMaxTurns) {
    is_running_ = false;
    turn.is_done = true;
    turn.reward = action.kind == ActionKind::answer && text == secret_ ? 1 : 0;
    turn.metrics = {{"em", turn.reward}, {"guesses", num_turns_ - 1}};
    return turn;
  }
  if (std::find(kWords.begin(), kWords.end(), text) == kWords.end()) {
    turn.observation = fmt::format("`{}` is not in the list", text);
    return turn;
  }
  turn.reward = hint_reward_;
  turn.observation =
      text == secret_ ? "right: " + text : fmt::format("{} {}", secret_ < text ? "before" : "after", text);
  return turn;
}

// 6. Answers Turn::tool_call; this environment makes none.
Expected<Turn> GuessWord::tool_result(const ToolResult& /*result*/) {
  return refuse("a tool result without a pending tool call");
}

EnvironmentDefinition guess_word_definition() {
  EnvironmentDefinition definition;
  definition.name = "guess_word";
  definition.description = "the template environment: find a word by asking whether it comes before or after another";
  definition.options = {{"hint_reward", "0", "reward of a guess that is in the list; 0..1"}};
  definition.make_environment = [](const EnvOptions& options) -> Expected<std::unique_ptr<Environment>> {
    const auto hint_reward = option_number(options, "hint_reward", 0, 1);
    if (!hint_reward) {
      return unexpected(hint_reward.error());
    }
    return std::unique_ptr<Environment>(std::make_unique<GuessWord>(*hint_reward));
  };
  definition.make_task_source = [](const EnvOptions&) -> Expected<std::unique_ptr<TaskSource>> {
    return std::unique_ptr<TaskSource>(std::make_unique<GuessWordTasks>());
  };
  definition.make_expert = [](const EnvOptions&) -> Expected<std::unique_ptr<Expert>> {
    return std::unique_ptr<Expert>(std::make_unique<GuessWordExpert>());
  };
  return definition;
}

}  // namespace memopd::examples
