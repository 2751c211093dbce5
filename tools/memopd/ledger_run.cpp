#include "tools/memopd/ledger_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <tuple>
#include <utility>

#include "runtime/config/load.hpp"
#include "runtime/telemetry/run_directory.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;

nlohmann::json read_json(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, false);
}

bool holds_segments(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ledger") {
      return true;
    }
  }
  return false;
}

/// Whether `folder` is there and, if the manifest names it, has the bytes it had then.
bool is_unchanged(const LedgerRun& run, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / "config.json", error)) {
    return false;
  }
  const auto recorded = run.inputs.find(folder.string());
  if (recorded == run.inputs.end()) {
    return true;
  }
  const auto now = fingerprint_input(folder);
  return now && *now == recorded->second;
}

Expected<KeptPolicy> read_checkpoint(const fs::path& folder) {
  const nlohmann::json state = read_json(folder / "state.json");
  for (const char* const key : {"lineage", "policy_version"}) {
    if (!state.is_object() || !state.contains(key) || !state[key].is_number_integer()) {
      return unexpected(ErrorCode::parse_error,
                        fmt::format("{}: no integer \"{}\"", (folder / "state.json").string(), key));
    }
  }
  return KeptPolicy{state["lineage"], state["policy_version"], folder / "policy"};
}

}  // namespace

Expected<LedgerRun> open_ledger_run(const fs::path& folder) {
  LedgerRun run{folder, folder / "ledger", {}, {}};
  if (!holds_segments(run.ledger)) {
    if (!holds_segments(folder)) {
      return unexpected(ErrorCode::not_found,
                        fmt::format("{}: neither a run with a ledger nor a ledger folder", folder.string()));
    }
    run.ledger = folder;
  }
  std::error_code error;
  if (fs::exists(folder / "config.toml", error)) {
    auto config = load_config(folder / "config.toml");
    if (!config) {
      return unexpected(config.error());
    }
    run.config = *std::move(config);
  }
  const nlohmann::json manifest = read_json(folder / "manifest.json");
  if (manifest.is_object() && manifest.contains("inputs") && manifest["inputs"].is_object()) {
    for (const auto& [path, fingerprint] : manifest["inputs"].items()) {
      run.inputs[path] = fingerprint.is_string() ? fingerprint.get<std::string>() : std::string();
    }
  }
  return run;
}

Expected<Tokenizer> load_run_tokenizer(const LedgerRun& run, const std::string& folder) {
  if (!folder.empty()) {
    return Tokenizer::load(folder);
  }
  if (!run.config) {
    return unexpected(ErrorCode::not_found,
                      fmt::format("{}: no config.toml, so name the tokenizer: --tokenizer DIR", run.folder.string()));
  }
  const StudentConfig& student = run.config->student;
  auto tokenizer = Tokenizer::load(student.tokenizer.empty() ? student.model : student.tokenizer);
  if (!tokenizer) {
    return unexpected(tokenizer.error().code,
                      tokenizer.error().message + ": paths of config.toml are relative to where the run was launched");
  }
  return tokenizer;
}

Expected<std::vector<KeptPolicy>> kept_policies(const LedgerRun& run) {
  std::vector<KeptPolicy> kept;
  if (run.config && is_unchanged(run, run.config->student.model)) {
    kept.push_back({0, 0, run.config->student.model});
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run.folder / "checkpoints", error)) {
    if (!fs::exists(entry.path() / "state.json", error)) {
      continue;  // not complete
    }
    auto policy = read_checkpoint(entry.path());
    if (!policy) {
      return unexpected(policy.error());
    }
    kept.push_back(*std::move(policy));
  }
  std::sort(kept.begin(), kept.end(), [](const KeptPolicy& a, const KeptPolicy& b) {
    return std::tie(a.lineage, a.policy_version, a.folder) < std::tie(b.lineage, b.policy_version, b.folder);
  });
  return kept;
}

std::optional<fs::path> kept_teacher(const LedgerRun& run) {
  if (!run.config || run.config->teacher.model.empty() || !is_unchanged(run, run.config->teacher.model)) {
    return std::nullopt;
  }
  return run.config->teacher.model;
}

bool is_of_teacher(const LedgerRun& run, const TrajectoryId& id) {
  if (!run.config || !run.config->eval.teacher) {
    return false;
  }
  const auto& splits = run.config->eval.splits;
  return std::any_of(splits.begin(), splits.end(),
                     [&](const EvalSplitConfig& split) { return id.split == "teacher_" + split.name; });
}

void PolicyLine::saw(const InvocationRecord& record) {
  if (record.invocation.trajectory_id.split != "train") {
    return;  // an evaluation may be of other weights
  }
  for (const VersionRun& versions : record.invocation.policy_versions) {
    const auto [first, is_new] = first_version_.try_emplace(record.lineage, versions.policy_version);
    first->second = std::min(first->second, versions.policy_version);
  }
}

const KeptPolicy* PolicyLine::find(std::int64_t lineage, std::int64_t policy_version) const {
  const KeptPolicy* found = newest(lineage, policy_version);
  return found != nullptr && found->policy_version == policy_version ? found : nullptr;
}

const KeptPolicy* PolicyLine::newest(std::int64_t lineage, std::int64_t policy_version) const {
  for (std::int64_t line = lineage; line >= 0; --line) {
    for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept) {
      if (kept->lineage == line && kept->policy_version <= policy_version) {
        return &*kept;
      }
    }
    // Only the version that a lineage began with, and older ones, were made before it.
    if (const auto first = first_version_.find(line); first != first_version_.end()) {
      policy_version = std::min(policy_version, first->second);
    }
  }
  return nullptr;
}

}  // namespace memopd
