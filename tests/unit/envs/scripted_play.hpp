// Plays a trajectory of an environment with its scripted expert, text only: what the env actor and the protocol do.
#pragma once

#include <unistd.h>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "envs/environment.hpp"
#include "envs/retrieval/bm25_index.hpp"

namespace memopd::testing {

/// The value, or an exception that carries the error: a test without it cannot go on.
template <class T>
T must(Expected<T> result) {
  if (!result) {
    throw std::runtime_error(result.error().message);
  }
  return std::move(*result);
}

/// A folder of its own that is gone afterwards.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "memopd_envs_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("no temporary folder");
    }
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

struct PlayedCall {
  std::string context;  ///< what follows the question
  std::string response;
};

struct PlayedTrajectory {
  std::string question;
  std::vector<PlayedCall> calls;
  Turn last;
  bool is_done = false;
};

inline Action parse_action(const std::string& response) {
  for (const auto& [tag, kind] :
       {std::pair<std::string, ActionKind>("search", ActionKind::search), {"answer", ActionKind::answer}}) {
    const std::size_t begin = response.find("<" + tag + ">");
    const std::size_t end = response.find("</" + tag + ">");
    if (begin != std::string::npos && end != std::string::npos) {
      const std::size_t text = begin + tag.size() + 2;
      return {kind, response.substr(text, end - text), response};
    }
  }
  return {ActionKind::invalid, "", response};
}

/// At most `max_turns` calls. `index` answers tool calls; may be null for environments that make none.
inline PlayedTrajectory play(Environment& environment, const Expert& expert, const Bm25Index* index, const Task& task,
                             std::uint64_t seed, std::int32_t topk) {
  PlayedTrajectory played;
  Turn turn = must(environment.reset(task, seed));
  played.question = turn.observation;
  std::string context;
  const std::int32_t max_turns = task.max_turns.value_or(environment.info().max_turns);
  for (std::int32_t i = 0; i < max_turns && !turn.is_done; ++i) {
    const std::string response = must(expert.respond(played.question, context));
    played.calls.push_back({context, response});
    turn = must(environment.step(parse_action(response)));
    if (turn.tool_call) {
      turn = must(environment.tool_result({must(index->query(turn.tool_call->query, topk))}));
    }
    context = response + "\n<information>" + turn.observation + "</information>\n";
  }
  played.is_done = turn.is_done;
  played.last = std::move(turn);
  return played;
}

}  // namespace memopd::testing
