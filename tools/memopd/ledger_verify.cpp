#include "tools/memopd/ledger_verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "policies/model/state_digest.hpp"
#include "policies/training/log_prob_scorer.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "runtime/base/random.hpp"
#include "runtime/ledger/read_ledger.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;

/// One attempt as the ledger names it.
using AttemptKey = std::tuple<std::int64_t, TrajectoryId, std::int32_t>;

struct PolicyKey {
  std::string label;
  fs::path folder;
  friend auto operator<=>(const PolicyKey&, const PolicyKey&) = default;
};

AttemptKey key_of(const InvocationRecord& record) {
  return {record.lineage, record.invocation.trajectory_id, record.invocation.attempt};
}

std::string name_of(const Invocation& call) {
  return fmt::format("trajectory {}, attempt {}, invocation {}", to_string(call.trajectory_id), call.attempt,
                     call.invocation_index);
}

/// Finds the weights of an invocation, or says why they are not there.
class PolicyLookup {
 public:
  PolicyLookup(const LedgerRun& run, std::vector<KeptPolicy> kept)
      : run_(run), line_(std::move(kept)), teacher_(kept_teacher(run)) {}

  void saw(const InvocationRecord& record) { line_.saw(record); }

  /// @param report  counts why there is none
  [[nodiscard]] std::optional<PolicyKey> find(const InvocationRecord& record, VerifyReport& report) const {
    const Invocation& call = record.invocation;
    std::set<std::int64_t> versions;
    for (const VersionRun& sampled : call.policy_versions) {
      versions.insert(sampled.policy_version);
    }
    if (call.response_token_ids.empty() || versions.size() != 1) {
      ++(call.response_token_ids.empty() ? report.num_empty : report.num_mixed);
      return std::nullopt;
    }
    std::optional<PolicyKey> found;
    if (is_of_teacher(run_, call.trajectory_id)) {
      found = teacher_ ? std::optional(PolicyKey{"teacher", *teacher_}) : std::nullopt;
    } else if (const KeptPolicy* kept = line_.find(record.lineage, *versions.begin())) {
      found = {kept->lineage == 0 ? fmt::format("version {}", kept->policy_version)
                                  : fmt::format("lineage {} version {}", kept->lineage, kept->policy_version),
               kept->folder};
    }
    report.num_not_kept += found ? 0 : 1;
    return found;
  }

 private:
  const LedgerRun& run_;
  PolicyLine line_;
  std::optional<fs::path> teacher_;
};

/// Whole attempts, so that their calls share prefixes; at least `per_policy` invocations of each policy where there are.
using Choice = std::map<PolicyKey, std::set<AttemptKey>>;

Choice choose(std::map<PolicyKey, std::map<AttemptKey, std::int64_t>> candidates, const VerifyOptions& options) {
  Choice choice;
  const std::int64_t num_policies = std::max<std::int64_t>(1, static_cast<std::int64_t>(candidates.size()));
  const std::int64_t per_policy = (options.limit + num_policies - 1) / num_policies;
  for (const auto& [policy, attempts] : candidates) {
    std::vector<std::pair<std::uint64_t, AttemptKey>> order;
    for (const auto& [key, count] : attempts) {
      const auto& [lineage, id, attempt] = key;
      const std::uint64_t seed = chain_seed(trajectory_seed(options.seed, id),
                                            {static_cast<std::uint64_t>(lineage), static_cast<std::uint64_t>(attempt)});
      order.emplace_back(seed, key);
    }
    std::sort(order.begin(), order.end());
    std::int64_t chosen = 0;
    for (const auto& [seed, key] : order) {
      if (options.limit > 0 && chosen >= per_policy) {
        break;
      }
      choice[policy].insert(key);
      chosen += attempts.at(key);
    }
  }
  return choice;
}

/// Compares the invocations of one policy.
class Verification {
 public:
  Verification(const VerifyOptions& options, const LogProbScorer& scorer, std::int32_t max_tokens, VerifyReport& report)
      : options_(options), scorer_(scorer), max_tokens_(max_tokens), report_(report) {}

  /// `calls` of one temperature, in id order.
  Expected<void> run(const std::vector<const Invocation*>& calls, double temperature) {
    auto packs = align_pack(calls, {.max_tokens = max_tokens_});
    if (!packs) {
      return unexpected(packs.error());
    }
    std::size_t next = 0;
    for (const PackedBatch& pack : *packs) {
      const auto packed = scorer_.log_probs(pack, temperature);
      if (!packed) {
        return unexpected(packed.error());
      }
      const std::vector<Digest> digests = pack_digests(pack);
      for (std::size_t i = 0; i < pack.invocations.size(); ++i) {
        const Invocation& call = *calls[next++];
        const PackedInvocation& place = pack.invocations[i];
        const std::vector<double> rows(packed->begin() + place.response_begin, packed->begin() + place.response_end);
        MEMOPD_RETURN_IF_ERROR(compare(call, temperature, rows, digests[i]));
      }
    }
    return {};
  }

 private:
  Expected<void> compare(const Invocation& call, double temperature, const std::vector<double>& packed,
                         const Digest& digest) {
    const Invocation* const pointer = &call;
    const auto alone_pack = align_pack({&pointer, 1}, {.max_tokens = max_tokens_, .share_prefixes = false});
    if (!alone_pack) {
      return unexpected(alone_pack.error());
    }
    const auto alone = scorer_.log_probs(alone_pack->front(), temperature);
    if (!alone) {
      return unexpected(alone.error());
    }
    const std::vector<double> recorded(call.rollout_log_probs.begin(), call.rollout_log_probs.end());
    ++report_.num_checked;
    report_.num_tokens += static_cast<std::int64_t>(packed.size());
    const bool is_alone_equal =
        agree(call, "alone", *alone, packed, options_.alone_tolerance, report_.max_alone_difference);
    const bool is_recorded_equal =
        agree(call, "recorded", recorded, packed, options_.recorded_tolerance, report_.max_recorded_difference);
    const bool is_state_equal = has_state(call, digest);
    report_.num_verified += is_alone_equal && is_recorded_equal && is_state_equal ? 1 : 0;
    return {};
  }

  /// The engine's digest of what stood beside its cache, against that of the pack (AP-6); none recorded, none compared.
  bool has_state(const Invocation& call, const Digest& packed) {
    if (call.digest == Digest{}) {
      return true;
    }
    ++report_.num_digests;
    if (call.digest == packed) {
      return true;
    }
    report_.mismatches.push_back(fmt::format("{}: digest {:016x}{:016x} recorded, {:016x}{:016x} packed", name_of(call),
                                             call.digest[0], call.digest[1], packed[0], packed[1]));
    return false;
  }

  bool agree(const Invocation& call, const char* what, const std::vector<double>& found,
             const std::vector<double>& packed, double tolerance, double& largest) {
    if (found.size() != packed.size()) {
      report_.mismatches.push_back(
          fmt::format("{}: {} {} log-probs for {} response tokens", name_of(call), found.size(), what, packed.size()));
      return false;
    }
    for (std::size_t t = 0; t < packed.size(); ++t) {
      const double difference = std::abs(found[t] - packed[t]);
      largest = std::isnan(difference) ? difference : std::max(largest, difference);
      if (!(difference <= tolerance)) {
        report_.mismatches.push_back(
            fmt::format("{}: response token {}: log-prob {:.7f} {}, {:.7f} packed, allowed {:g} apart", name_of(call),
                        t, found[t], what, packed[t], tolerance));
        return false;
      }
    }
    return true;
  }

  const VerifyOptions& options_;
  const LogProbScorer& scorer_;
  std::int32_t max_tokens_;
  VerifyReport& report_;
};

Expected<void> verify_policy(const LedgerRun& run, const PolicyKey& policy, std::vector<Invocation> calls,
                             std::int32_t scored_vocab, const VerifyOptions& options, VerifyReport& report) {
  const auto scorer = LogProbScorer::load(policy.folder, scored_vocab);
  if (!scorer) {
    return unexpected(scorer.error());
  }
  std::sort(calls.begin(), calls.end(), [](const Invocation& a, const Invocation& b) {
    return std::tie(a.trajectory_id, a.attempt, a.invocation_index) <
           std::tie(b.trajectory_id, b.attempt, b.invocation_index);
  });
  std::int32_t max_tokens = run.config ? run.config->pack.max_tokens : 4096;
  std::map<double, std::vector<const Invocation*>> by_temperature;
  for (const Invocation& call : calls) {
    by_temperature[call.sampling.temperature].push_back(&call);
    max_tokens =
        std::max(max_tokens, static_cast<std::int32_t>(call.prompt_token_ids.size() + call.response_token_ids.size()));
  }
  report.by_policy[policy.label] += static_cast<std::int64_t>(calls.size());
  for (const auto& [temperature, group] : by_temperature) {
    MEMOPD_RETURN_IF_ERROR(Verification(options, **scorer, max_tokens, report).run(group, temperature));
  }
  return {};
}

/// Which attempts each policy that is there sampled, and how many invocations of them it can score.
Expected<Choice> survey(const LedgerRun& run, PolicyLookup& lookup, const VerifyOptions& options,
                        VerifyReport& report) {
  // Lineages overlap in versions, so every invocation is seen before the first is looked up.
  auto read = for_each_record(run.ledger, [&](const LedgerRecord& record) -> Expected<void> {
    if (const auto* called = std::get_if<InvocationRecord>(&record)) {
      lookup.saw(*called);
    }
    return {};
  });
  if (!read) {
    return unexpected(read.error());
  }
  std::map<PolicyKey, std::map<AttemptKey, std::int64_t>> candidates;
  read = for_each_record(run.ledger, [&](const LedgerRecord& record) -> Expected<void> {
    if (const auto* called = std::get_if<InvocationRecord>(&record)) {
      ++report.num_invocations;
      if (const auto policy = lookup.find(*called, report)) {
        ++candidates[*policy][key_of(*called)];
      }
    }
    return {};
  });
  if (!read) {
    return unexpected(read.error());
  }
  return choose(std::move(candidates), options);
}

}  // namespace

Expected<VerifyReport> verify_ledger(const LedgerRun& run, const Tokenizer& tokenizer, const VerifyOptions& options) {
  auto kept = kept_policies(run);
  if (!kept) {
    return unexpected(kept.error());
  }
  VerifyReport report;
  PolicyLookup lookup(run, *std::move(kept));
  const auto choice = survey(run, lookup, options, report);
  if (!choice) {
    return unexpected(choice.error());
  }
  std::map<PolicyKey, std::vector<Invocation>> calls;
  const auto read = for_each_record(run.ledger, [&](LedgerRecord record) -> Expected<void> {
    auto* const called = std::get_if<InvocationRecord>(&record);
    VerifyReport ignored;
    const auto policy = called == nullptr ? std::nullopt : lookup.find(*called, ignored);
    const auto chosen = policy ? choice->find(*policy) : choice->end();
    if (chosen != choice->end() && chosen->second.contains(key_of(*called))) {
      calls[*policy].push_back(std::move(called->invocation));
    }
    return {};
  });
  if (!read) {
    return unexpected(read.error());
  }
  if (calls.empty()) {
    return unexpected(
        ErrorCode::not_found,
        fmt::format("{}: {} invocations, none with its weights kept (checkpoints of the run, the unchanged "
                    "student.model of its config.toml)",
                    run.folder.string(), report.num_invocations));
  }
  for (auto& [policy, chosen] : calls) {
    MEMOPD_RETURN_IF_ERROR(verify_policy(run, policy, std::move(chosen), tokenizer.vocab_size(), options, report));
  }
  return report;
}

std::string to_text(const VerifyReport& report) {
  std::string text;
  for (const std::string& mismatch : report.mismatches) {
    text += "mismatch: " + mismatch + "\n";
  }
  for (const auto& [policy, count] : report.by_policy) {
    text += fmt::format("{:24} {:8} invocations\n", policy, count);
  }
  text += fmt::format("{:24} {:8} invocations\n", "weights not kept", report.num_not_kept);
  text += fmt::format("{:24} {:8} invocations\n", "several versions", report.num_mixed);
  text += fmt::format("{:24} {:8} invocations\n", "empty response", report.num_empty);
  text += fmt::format("{:24} {:8} invocations\n", "in the ledger", report.num_invocations);
  return text + fmt::format(
                    "{} of {} invocations ({} response tokens) over {} versions verified, largest log-prob "
                    "difference {:.2e} (alone - packed {:.2e}, packed - recorded {:.2e}); {} digests compared\n",
                    report.num_verified, report.num_checked, report.num_tokens, report.by_policy.size(),
                    std::max(report.max_alone_difference, report.max_recorded_difference), report.max_alone_difference,
                    report.max_recorded_difference, report.num_digests);
}

std::string to_json(const VerifyReport& report) {
  return nlohmann::ordered_json{{"invocations", report.num_invocations},
                                {"empty", report.num_empty},
                                {"several_versions", report.num_mixed},
                                {"not_kept", report.num_not_kept},
                                {"checked", report.num_checked},
                                {"verified", report.num_verified},
                                {"tokens", report.num_tokens},
                                {"digests", report.num_digests},
                                {"by_policy", report.by_policy},
                                {"max_alone_difference", report.max_alone_difference},
                                {"max_recorded_difference", report.max_recorded_difference},
                                {"mismatches", report.mismatches}}
      .dump(1);
}

}  // namespace memopd
