#include "tools/memopd/ledger_divergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/alignpack/align_pack.hpp"

namespace memopd {

Expected<CallDivergence> CallDivergence::load(const LedgerRun& run, PolicyLine line, std::int32_t scored_vocab) {
  const auto teacher = kept_teacher(run);
  if (!teacher) {
    return unexpected(ErrorCode::not_found,
                      fmt::format("{}: no unchanged teacher.model to diverge from", run.folder.string()));
  }
  auto scorer = LogProbScorer::load(*teacher, scored_vocab);
  if (!scorer) {
    return unexpected(scorer.error());
  }
  auto divergence = parse_divergence(run.config->opd.divergence);
  if (!divergence) {
    return unexpected(divergence.error());
  }
  CallDivergence made(std::move(line), scored_vocab);
  made.options_ = {*divergence, run.config->opd.beta, run.config->opd.temperature};
  made.teacher_ = *std::move(scorer);
  return made;
}

Expected<CallDivergence::Values> CallDivergence::of(const InvocationRecord& record) {
  const Invocation& call = record.invocation;
  if (call.response_token_ids.empty()) {
    return Values{};
  }
  std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
  std::int64_t newest = std::numeric_limits<std::int64_t>::min();
  for (const VersionRun& versions : call.policy_versions) {
    oldest = std::min(oldest, versions.policy_version);
    newest = std::max(newest, versions.policy_version);
  }
  const KeptPolicy* const policy = line_.newest(record.lineage, oldest);
  if (policy == nullptr) {
    return unexpected(ErrorCode::not_found, fmt::format("trajectory {}, invocation {}: no policy kept up to version {}",
                                                        to_string(call.trajectory_id), call.invocation_index, oldest));
  }
  auto& scorer = policies_[policy->folder];
  if (!scorer) {
    auto loaded = LogProbScorer::load(policy->folder, scored_vocab_);
    if (!loaded) {
      return unexpected(loaded.error());
    }
    scorer = *std::move(loaded);
  }
  const Invocation* const pointer = &call;
  const auto num_tokens = static_cast<std::int32_t>(call.prompt_token_ids.size() + call.response_token_ids.size());
  const auto pack = align_pack({&pointer, 1}, {.max_tokens = num_tokens});
  if (!pack) {
    return unexpected(pack.error());
  }
  auto values = scorer->divergences(pack->front(), *teacher_, options_);
  if (!values) {
    return unexpected(values.error());
  }
  return Values{*std::move(values), policy->policy_version, policy->policy_version == oldest && oldest == newest};
}

}  // namespace memopd
