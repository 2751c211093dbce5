// The template environment: copy this file and its .cpp, rename, register (envs/README.md walks through it).
//
// A secret word of a short sorted list. A search is a guess and is told whether the secret comes before or after it in
// the alphabet; the answer is the secret. No documents, no tool calls: the environment answers by itself.
#pragma once

#include <cstdint>
#include <string>

#include "envs/environment.hpp"
#include "envs/registry.hpp"
#include "runtime/base/expected.hpp"

namespace memopd::examples {

/// The registry's entry: name, options, and how its parts are made.
[[nodiscard]] EnvironmentDefinition guess_word_definition();

class GuessWord final : public Environment {
 public:
  explicit GuessWord(double hint_reward) : hint_reward_(hint_reward) {}

  [[nodiscard]] EnvironmentInfo info() const override;
  Expected<Turn> reset(const Task& task, std::uint64_t seed) override;
  Expected<Turn> step(const Action& action) override;
  Expected<Turn> tool_result(const ToolResult& result) override;

 private:
  double hint_reward_;  ///< per guess that is a word of the list
  std::string secret_;
  std::int32_t num_turns_ = 0;
  bool is_running_ = false;
};

}  // namespace memopd::examples
