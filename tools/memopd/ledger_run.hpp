// What the ledger commands read of a run beside its records: configuration, tokenizer, and the weights still there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policies/text/tokenizer.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/data/trajectory_id.hpp"
#include "runtime/ledger/ledger_records.hpp"

namespace memopd {

/// The weights that sampled with `policy_version`, made in `lineage`.
struct KeptPolicy {
  std::int64_t lineage = 0;
  std::int64_t policy_version = 0;
  std::filesystem::path folder;
};

struct LedgerRun {
  std::filesystem::path folder;
  std::filesystem::path ledger;
  std::optional<Config> config;               ///< of config.toml, when there is one
  std::map<std::string, std::string> inputs;  ///< path -> fingerprint, of manifest.json
};

/// @param folder  a run, or a ledger folder alone
/// @error not_found     neither
/// @error config_error  a config.toml that this program cannot read
[[nodiscard]] Expected<LedgerRun> open_ledger_run(const std::filesystem::path& folder);

/// @param folder  "" = the run's own: student.tokenizer, else student.model
/// @error not_found  no folder given and no config.toml; what Tokenizer::load says
[[nodiscard]] Expected<Tokenizer> load_run_tokenizer(const LedgerRun& run, const std::string& folder = {});

/// The cold start (version 0) and every complete checkpoint, ordered by lineage and version. A folder that changed since
/// the run read it is not among them.
/// @error parse_error  a state.json without lineage or policy_version
[[nodiscard]] Expected<std::vector<KeptPolicy>> kept_policies(const LedgerRun& run);

/// The teacher's folder when it is unchanged since the run read it.
[[nodiscard]] std::optional<std::filesystem::path> kept_teacher(const LedgerRun& run);

/// Whether the teacher sampled it: an evaluation under [eval] teacher = true.
[[nodiscard]] bool is_of_teacher(const LedgerRun& run, const TrajectoryId& id);

/// Which weights a (lineage, policy_version) means. A lineage starts with a version of an earlier one, made there.
class PolicyLine {
 public:
  explicit PolicyLine(std::vector<KeptPolicy> kept) : kept_(std::move(kept)) {}

  /// To be told of every invocation before the first question.
  void saw(const InvocationRecord& record);

  /// The weights that are `policy_version` of `lineage`; null when not kept.
  [[nodiscard]] const KeptPolicy* find(std::int64_t lineage, std::int64_t policy_version) const;
  /// The newest kept of that line, not beyond `policy_version`; null when none is.
  [[nodiscard]] const KeptPolicy* newest(std::int64_t lineage, std::int64_t policy_version) const;

 private:
  std::vector<KeptPolicy> kept_;
  std::map<std::int64_t, std::int64_t> first_version_;  ///< by lineage
};

}  // namespace memopd
