#include "tools/memopd/attempt_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "runtime/ledger/trajectory_text.hpp"

namespace memopd {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::span<const std::int32_t>;

const char* name_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::instruction:
      return "instruction";
    case SpanKind::question:
      return "question";
    case SpanKind::kept:
      return "kept";
    case SpanKind::observation:
      return "observation";
  }
  return "unknown";
}

const char* color_of(const std::string& kind) {
  static const std::map<std::string, const char*> colors = {{"instruction", "\033[34m"},
                                                            {"question", "\033[36m"},
                                                            {"kept", "\033[33m"},
                                                            {"observation", "\033[32m"},
                                                            {"response", "\033[1;35m"}};
  const auto found = colors.find(kind);
  return found == colors.end() ? "" : found->second;
}

/// Without the characters that a terminal obeys (C0, DEL, C1): what a model wrote must not move its cursor.
std::string printable(const std::string& line) {
  std::string shown;
  const std::string valid = Json::parse(Json(line).dump(-1, ' ', false, Json::error_handler_t::replace));
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    const bool is_c1 = byte == 0xc2 && i + 1 < valid.size() && static_cast<unsigned char>(valid[i + 1]) < 0xa0;
    if (is_c1) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(valid[++i]));
    } else {
      shown += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, valid[i]);
    }
  }
  return shown;
}

/// As one JSON string: quotes and line breaks are visible.
std::string quoted(const std::string& text) {
  return printable(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Prompt ids of a span, which is cut to the prompt.
Ids span_ids(const Invocation& call, const Span& span) {
  const auto size = static_cast<std::int32_t>(call.prompt_token_ids.size());
  const std::int32_t begin = std::clamp(span.begin, 0, size);
  const std::int32_t end = std::clamp(span.end, begin, size);
  return Ids(call.prompt_token_ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

std::string versions_of(const Invocation& call) {
  std::string text;
  for (const VersionRun& run : call.policy_versions) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", run.policy_version);
    text += call.policy_versions.size() > 1 ? fmt::format("x{}", run.count) : "";
  }
  return text.empty() ? "-" : text;
}

/// Version of every response token.
std::vector<std::int64_t> token_versions(const Invocation& call) {
  std::vector<std::int64_t> versions;
  for (const VersionRun& run : call.policy_versions) {
    versions.insert(versions.end(), static_cast<std::size_t>(std::max(0, run.count)), run.policy_version);
  }
  versions.resize(call.response_token_ids.size(), -1);
  return versions;
}

bool has_digest(const Invocation& call) { return call.digest != Digest{}; }

std::string digest_text(const Digest& digest) { return fmt::format("{:016x}{:016x}", digest[0], digest[1]); }

class TextView {
 public:
  TextView(const Tokenizer& tokenizer, const AttemptViewOptions& options, std::ostream& out)
      : tokenizer_(tokenizer), options_(options), out_(out) {}

  void show(const AttemptKey& key, const ShownAttempt& attempt) {
    const auto& [lineage, id, number] = key;
    out_ << bold(to_string(id))
         << fmt::format("  attempt {}  lineage {}  {}", number, lineage, to_string(attempt.fate));
    if (attempt.ended) {
      show_end(*attempt.ended);
    } else {
      out_ << "  (no trajectory record)\n";
    }
    for (const ShownCall& call : attempt.calls) {
      show_call(call);
    }
    out_ << '\n';
  }

 private:
  [[nodiscard]] std::string bold(const std::string& text) const {
    return options_.has_colors ? "\033[1m" + text + "\033[0m" : text;
  }

  void show_end(const TrajectoryRecord& record) {
    const Trajectory& ended = record.trajectory;
    out_ << "  " << to_string(ended.status) << '\n';
    out_ << fmt::format("  task {}  env {}  calls {}  answer {}\n", ended.task_id, ended.env, record.num_invocations,
                        quoted(ended.answer));
    for (const auto& [name, numbers] : {std::pair{"rewards", &ended.rewards}, std::pair{"metrics", &ended.metrics}}) {
      out_ << "  " << name;
      for (const auto& [key, value] : *numbers) {
        out_ << fmt::format("  {} {:.6g}", key, value);
      }
      out_ << '\n';
    }
  }

  void show_call(const ShownCall& shown) {
    const Invocation& call = shown.record.invocation;
    const double sum = std::accumulate(call.rollout_log_probs.begin(), call.rollout_log_probs.end(), 0.0);
    out_ << bold(fmt::format("call {}", call.invocation_index))
         << fmt::format("  prompt {}  response {}  {}  version {}  temperature {:g}  reward {:g}",
                        call.prompt_token_ids.size(), call.response_token_ids.size(), to_string(call.finish_reason),
                        versions_of(call), call.sampling.temperature, call.reward);
    if (!call.rollout_log_probs.empty()) {
      out_ << fmt::format("  mean log-prob {:.4f}", sum / static_cast<double>(call.rollout_log_probs.size()));
    }
    if (has_digest(call)) {
      out_ << "  digest " << digest_text(call.digest);
    }
    out_ << '\n';
    for (const Span& span : call.spans) {
      show_part(name_of(span.kind), span_ids(call, span));
    }
    show_part("response", call.response_token_ids);
    show_divergence(shown);
    if (options_.with_tokens) {
      show_tokens(shown);
    }
  }

  void show_part(const std::string& kind, Ids ids) {
    constexpr int kIndent = 14;
    const std::string text = tokenizer_.decode(ids);
    std::string label = fmt::format("  {:<12}", kind);
    std::size_t begin = 0;
    while (begin == 0 || begin < text.size()) {  // an empty part is one empty line
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = printable(text.substr(begin, end - begin));
      out_ << label << (options_.has_colors ? color_of(kind) + line + "\033[0m" : line) << '\n';
      label = std::string(kIndent, ' ');
      begin = end + 1;
    }
    if (options_.with_tokens) {
      out_ << label << "ids";
      for (const std::int32_t id : ids) {
        out_ << ' ' << id;
      }
      out_ << '\n';
    }
  }

  void show_divergence(const ShownCall& shown) {
    if (!shown.no_divergence.empty()) {
      out_ << "  divergence  " << shown.no_divergence << '\n';
    } else if (shown.divergence && !shown.divergence->per_token.empty()) {
      const auto& values = shown.divergence->per_token;
      out_ << fmt::format(
          "  divergence  mean {:.4f} nats, by the policy of version {}{}\n",
          std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          shown.divergence->policy_version,
          shown.divergence->is_own_version ? "" : ", the newest kept that is not newer than the call's");
    }
  }

  void show_tokens(const ShownCall& shown) {
    const Invocation& call = shown.record.invocation;
    const auto versions = token_versions(call);
    const bool has_mass = call.log_kept_mass.size() == call.response_token_ids.size() && !call.log_kept_mass.empty();
    const bool has_divergence = shown.divergence && !shown.divergence->per_token.empty();
    out_ << fmt::format("  {:>8} {:>7} {:>10} {:>7}{}{}  text\n", "position", "id", "log-prob", "version",
                        has_mass ? fmt::format(" {:>9}", "kept mass") : "",
                        has_divergence ? fmt::format(" {:>10}", "divergence") : "");
    for (std::size_t t = 0; t < call.response_token_ids.size(); ++t) {
      const std::int32_t id = call.response_token_ids[t];
      const double log_prob = t < call.rollout_log_probs.size() ? static_cast<double>(call.rollout_log_probs[t]) : 0.0;
      out_ << fmt::format("  {:>8} {:>7} {:>10.5f} {:>7}", call.prompt_token_ids.size() + t, id, log_prob, versions[t]);
      out_ << (has_mass ? fmt::format(" {:>9.5f}", static_cast<double>(call.log_kept_mass[t])) : "");
      out_ << (has_divergence ? fmt::format(" {:>10.5f}", shown.divergence->per_token[t]) : "");
      out_ << "  " << quoted(std::string(tokenizer_.token_bytes(id))) << '\n';
    }
  }

  const Tokenizer& tokenizer_;
  const AttemptViewOptions& options_;
  std::ostream& out_;
};

Json call_json(const Tokenizer& tokenizer, const ShownCall& shown) {
  const Invocation& call = shown.record.invocation;
  Json json = {{"call", call.invocation_index},
               {"finish_reason", to_string(call.finish_reason)},
               {"temperature", call.sampling.temperature},
               {"reward", call.reward},
               {"digest", has_digest(call) ? Json(digest_text(call.digest)) : Json()},
               {"prompt_token_ids", call.prompt_token_ids},
               {"spans", Json::array()}};
  for (const Span& span : call.spans) {
    json["spans"].push_back({{"kind", name_of(span.kind)},
                             {"begin", span.begin},
                             {"end", span.end},
                             {"text", tokenizer.decode(span_ids(call, span))}});
  }
  json["response"] = tokenizer.decode(call.response_token_ids);
  json["response_token_ids"] = call.response_token_ids;
  json["rollout_log_probs"] = call.rollout_log_probs;
  json["policy_versions"] = token_versions(call);
  if (shown.divergence) {
    json["divergence"] = {{"policy_version", shown.divergence->policy_version},
                          {"is_own_version", shown.divergence->is_own_version},
                          {"per_token", shown.divergence->per_token}};
  }
  return json;
}

}  // namespace

void write_text(const AttemptKey& key, const ShownAttempt& attempt, const Tokenizer& tokenizer,
                const AttemptViewOptions& options, std::ostream& out) {
  TextView(tokenizer, options, out).show(key, attempt);
}

std::string to_json(const AttemptKey& key, const ShownAttempt& attempt, const Tokenizer& tokenizer) {
  const auto& [lineage, id, number] = key;
  Json json = {
      {"trajectory_id", to_string(id)}, {"attempt", number}, {"lineage", lineage}, {"fate", to_string(attempt.fate)}};
  if (attempt.ended) {
    const Trajectory& ended = attempt.ended->trajectory;
    json.update({{"status", to_string(ended.status)},
                 {"task_id", ended.task_id},
                 {"answer", ended.answer},
                 {"rewards", ended.rewards},
                 {"metrics", ended.metrics}});
  }
  json["calls"] = Json::array();
  for (const ShownCall& call : attempt.calls) {
    json["calls"].push_back(call_json(tokenizer, call));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace memopd
