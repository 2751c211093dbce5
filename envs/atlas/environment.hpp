// The atlas environment: questions about countries and places, answered by searching the documents of the world.
//
// Observation of a search: the texts of the documents found, a space before each, joined by a newline.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "envs/atlas/fictional.hpp"
#include "envs/atlas/world.hpp"
#include "envs/environment.hpp"
#include "envs/registry.hpp"
#include "envs/scoring.hpp"
#include "runtime/base/expected.hpp"

namespace memopd::atlas {

struct AtlasOptions {
  Scorer scorer = Scorer::f1;  ///< the reward: its per-objective mean
  double fictional = 0;        ///< share of "train" trajectories with invented names, by the reset seed; 0..1
  std::shared_ptr<const NameMaker> name_maker{};  ///< invents them; null = the world's own pieces
  std::int32_t topk = 0;                          ///< documents shown of those found; 0 = all
  bool titles = false;  ///< `Doc 1(Title: "Kenya") ` before each document instead of the space
  QuestionMix mix{};    ///< of the tasks made
};

/// @error invalid_argument  a bad value
Expected<AtlasOptions> parse_atlas_options(const EnvOptions& options);

/// The registry's entry.
[[nodiscard]] EnvironmentDefinition definition();

class AtlasEnvironment final : public Environment {
 public:
  explicit AtlasEnvironment(const AtlasOptions& options);

  [[nodiscard]] EnvironmentInfo info() const override;
  /// @error invalid_argument  a task without targets
  Expected<Turn> reset(const Task& task, std::uint64_t seed) override;
  /// A search gives the tool call `retrieve`; on the last allowed turn it ends the trajectory. An answer or an invalid
  /// action ends it. @error refused  before reset, after the end, or while a tool call is pending
  Expected<Turn> step(const Action& action) override;
  /// @error refused  no tool call is pending
  Expected<Turn> tool_result(const ToolResult& result) override;

 private:
  [[nodiscard]] Turn finish(std::string_view answer);

  AtlasOptions options_;
  Task task_;
  std::vector<std::vector<std::string>> targets_;  ///< as this trajectory names them
  std::optional<NameMap> names_;                   ///< when this trajectory is fictional
  std::int32_t num_turns_ = 0;
  std::int32_t num_searches_ = 0;
  bool is_running_ = false;
  bool is_waiting_ = false;
};

/// Tasks by seed, endless. Thread-safe.
class AtlasTaskSource final : public TaskSource {
 public:
  explicit AtlasTaskSource(const QuestionMix& mix) : mix_(mix) {}
  [[nodiscard]] Expected<std::vector<Task>> tasks(const TaskRequest& request) const override;

 private:
  QuestionMix mix_;
};

}  // namespace memopd::atlas
