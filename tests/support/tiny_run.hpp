// Whole training runs with models of a few thousand parameters, on real questions: seconds each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/roles.hpp"
#include "runtime/config/schema.hpp"
#include "tools/session/local_session.hpp"

namespace memopd::testing {

/// A folder that is gone at the end.
class Scratch {
 public:
  Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A random model of one layer with its tokenizer, in `folder`.
void make_model(const std::filesystem::path& folder, std::uint64_t seed);

/// Models `folder`/student (seed 1) and `folder`/teacher (seed 2), and a run of two steps over them named "run".
Config tiny_config(const std::filesystem::path& folder);
/// The same with both models made.
Config tiny_world(const std::filesystem::path& folder);

/// Runs `config` as `memopd-cluster launch` does, in config.run.directory. Fails the test when an actor fails.
/// @param meanwhile  called every few milliseconds until the run ends
RunEnded run_to_end(const Config& config, const std::function<void(LocalSession&)>& meanwhile = {});
/// Goes on with it from its newest checkpoint.
RunEnded resume_to_end(const Config& config, const std::function<void(LocalSession&)>& meanwhile = {});

/// Records of metrics.jsonl, in order.
std::vector<nlohmann::json> metric_records(const std::filesystem::path& run);
/// Those of training steps.
std::vector<nlohmann::json> training_records(const std::filesystem::path& run);
/// Every number that must not depend on time or load, in order: "step name value" with all digits.
std::vector<std::string> reproducible_metrics(const std::filesystem::path& run);
/// Where two such lists differ first: "a | b"; empty when they are equal.
std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b);
/// Events of events.jsonl whose name is `name`.
std::vector<nlohmann::json> events(const std::filesystem::path& run, const std::string& name);

}  // namespace memopd::testing
