#include "tools/memopd/ledger_stats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

namespace memopd {
namespace {

constexpr std::size_t kMaxViolationsShown = 20;

/// Counts one record.
struct Counting {
  LedgerStats& stats;

  void operator()(const InvocationRecord& record) const {
    const Invocation& call = record.invocation;
    ++stats.records["invocation"];
    ++stats.invocations[call.trajectory_id.split];
    stats.prompt_tokens += static_cast<std::int64_t>(call.prompt_token_ids.size());
    stats.response_tokens += static_cast<std::int64_t>(call.response_token_ids.size());
    for (const VersionRun& run : call.policy_versions) {
      stats.first_version =
          stats.first_version < 0 ? run.policy_version : std::min(stats.first_version, run.policy_version);
      stats.last_version = std::max(stats.last_version, run.policy_version);
    }
  }
  void operator()(const TrajectoryRecord& record) const {
    ++stats.records["trajectory"];
    ++stats.statuses[std::string(to_string(record.trajectory.status))];
  }
  void operator()(const StepRecord& record) const {
    ++stats.records["step"];
    stats.first_step = stats.first_step < 0 ? record.step : std::min(stats.first_step, record.step);
    stats.last_step = std::max(stats.last_step, record.step);
  }
  void operator()(const DroppedRecord&) const { ++stats.records["dropped"]; }
  void operator()(const RolledBackRecord&) const { ++stats.records["rolled_back"]; }
  void operator()(const PrunedRecord&) const { ++stats.records["pruned"]; }
};

std::string line(const std::string& name, const std::map<std::string, std::int64_t>& counts) {
  std::string text = fmt::format("{:<14}", name);
  for (const auto& [key, count] : counts) {
    text += fmt::format(" {} {} ", key, count);
  }
  return text + "\n";
}

double ratio(std::int64_t a, std::int64_t b) { return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b); }

std::string accounting_text(const LedgerAudit& audit) {
  std::string text = fmt::format("{:<14} trained {}  dropped {}  superseded {}  pending {}  evaluations {}\n",
                                 "accounting", audit.num_trained, audit.num_dropped(), audit.num_superseded,
                                 audit.num_pending, audit.num_evaluations);
  if (!audit.dropped.empty()) {
    text += line("dropped", audit.dropped);
  }
  text += fmt::format("{:<14} {} versions at most, {} rollbacks, complete from step {}\n", "lag", audit.max_lag,
                      audit.num_rollbacks, audit.complete_from_step);
  text += fmt::format("{:<14} {}\n", "violations", audit.violations.size());
  for (std::size_t i = 0; i < std::min(audit.violations.size(), kMaxViolationsShown); ++i) {
    text += "  " + audit.violations[i] + "\n";
  }
  if (audit.violations.size() > kMaxViolationsShown) {
    text += fmt::format("  .. and {} more (--json lists all)\n", audit.violations.size() - kMaxViolationsShown);
  }
  return text;
}

}  // namespace

Expected<LedgerStats> ledger_stats(const LedgerRun& run) {
  AuditOptions options;
  if (run.config) {
    options.max_policy_lag = run.config->run.max_policy_lag;
  }
  LedgerStats stats;
  LedgerAuditor auditor(options);
  const auto extent = for_each_record(run.ledger, [&](const LedgerRecord& record) -> Expected<void> {
    std::visit(Counting{stats}, record);
    auditor.add(record);
    return {};
  });
  if (!extent) {
    return unexpected(extent.error());
  }
  stats.extent = *extent;
  stats.audit = auditor.result();
  return stats;
}

std::string to_text(const LedgerStats& stats) {
  const LedgerExtent& extent = stats.extent;
  std::string text =
      line("records", stats.records) + line("statuses", stats.statuses) + line("invocations", stats.invocations);
  text += fmt::format("{:<14} {} .. {}, policy versions {} .. {}\n", "steps closed", stats.first_step, stats.last_step,
                      stats.first_version, stats.last_version);
  text += fmt::format("{:<14} prompt {}  response {}\n", "tokens", stats.prompt_tokens, stats.response_tokens);
  text += fmt::format(
      "{:<14} {} on disk in {} segments from {}, {} uncompressed ({:.2f} times); {:.2f} per token, {:.1f} per "
      "response token; {} torn\n",
      "bytes", extent.size_bytes, extent.num_segments, extent.first_segment, extent.body_bytes,
      ratio(extent.body_bytes, extent.size_bytes),
      ratio(extent.size_bytes, stats.prompt_tokens + stats.response_tokens),
      ratio(extent.size_bytes, stats.response_tokens), extent.torn_bytes);
  return text + accounting_text(stats.audit);
}

std::string to_json(const LedgerStats& stats) {
  const LedgerAudit& audit = stats.audit;
  const LedgerExtent& extent = stats.extent;
  const nlohmann::ordered_json accounting = {{"trained", audit.num_trained},
                                             {"dropped", audit.dropped},
                                             {"superseded", audit.num_superseded},
                                             {"pending", audit.num_pending},
                                             {"evaluations", audit.num_evaluations},
                                             {"steps", audit.num_steps},
                                             {"rollbacks", audit.num_rollbacks},
                                             {"complete_from_step", audit.complete_from_step},
                                             {"max_lag", audit.max_lag},
                                             {"violations", audit.violations}};
  return nlohmann::ordered_json{{"records", stats.records},
                                {"statuses", stats.statuses},
                                {"invocations", stats.invocations},
                                {"first_step", stats.first_step},
                                {"last_step", stats.last_step},
                                {"first_version", stats.first_version},
                                {"last_version", stats.last_version},
                                {"prompt_tokens", stats.prompt_tokens},
                                {"response_tokens", stats.response_tokens},
                                {"size_bytes", extent.size_bytes},
                                {"body_bytes", extent.body_bytes},
                                {"first_segment", extent.first_segment},
                                {"num_segments", extent.num_segments},
                                {"torn_bytes", extent.torn_bytes},
                                {"accounting", accounting}}
      .dump(1);
}

}  // namespace memopd
