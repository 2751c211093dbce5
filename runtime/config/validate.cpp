#include "runtime/config/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/config/template_check.hpp"

namespace memopd {
namespace {

/// Collects problems, each with the place of the setting it begins with.
class Problems {
 public:
  explicit Problems(const Config& config) : config_(config) {}

  /// @param setting  full name, which is also how the line begins
  void add(const std::string& setting, const std::string& rest) {
    const auto origin = config_.origins.by_name.find(setting);
    const std::string place = origin == config_.origins.by_name.end() ? "" : origin->second + ": ";
    lines_.push_back(fmt::format("{}{} {}", place, setting, rest));
  }

  /// A setting that differs from its default although `is_read` is false.
  template <class T>
  void ineffective(const std::string& setting, const T& value, const T& default_value, bool is_read,
                   const std::string& why) {
    if (!is_read && value != default_value) {
      add(setting, fmt::format("has no effect: {}", why));
    }
  }

  [[nodiscard]] bool states(const std::string& setting) const { return config_.origins.by_name.count(setting) != 0; }

  [[nodiscard]] Expected<void> result() const {
    if (lines_.empty()) {
      return {};
    }
    return unexpected(ErrorCode::config_error, fmt::format("{}", fmt::join(lines_, "\n")));
  }

 private:
  const Config& config_;
  std::vector<std::string> lines_;
};

void check_environments(const Config& config, Problems& problems) {
  if (config.env.empty()) {
    problems.add("env", "is missing: at least one [[env]] is needed");
  }
  for (std::size_t i = 0; i < config.env.size(); ++i) {
    if (config.env[i].name.empty()) {
      problems.add(fmt::format("env.{}.name", i), "is missing: the registered name of an environment");
    }
  }
  if (!config.retriever.corpus.empty() && !config.retriever.index.empty()) {
    problems.add("retriever.corpus", "contradicts retriever.index: give the corpus or the index built from it");
  }
}

void check_protocol(const ProtocolConfig& protocol, Problems& problems) {
  const ProtocolConfig defaults;
  const auto check = [&](const char* setting, const std::string& text, std::vector<std::string> allowed,
                         const char* required) {
    for (const std::string& problem : detail::template_problems(text, allowed, required)) {
      problems.add(setting, problem);
    }
  };
  check("protocol.question", protocol.question, {"question"}, "question");
  check("protocol.observation", protocol.observation, {"hint", "documents"}, "documents");
  check("protocol.document", protocol.document, {"k", "title", "text"}, "text");
  check("protocol.hint", protocol.hint, {"n"}, "");
  check("protocol.hint_last", protocol.hint_last, {"n"}, "");
  const bool shows_hint = protocol.observation.find("{hint}") != std::string::npos;
  const std::string why = "protocol.observation has no {hint}";
  problems.ineffective("protocol.hint", protocol.hint, defaults.hint, shows_hint || protocol.hint.empty(), why);
  problems.ineffective("protocol.hint_last", protocol.hint_last, defaults.hint_last,
                       shows_hint || protocol.hint_last.empty(), why);
}

void check_student(const Config& config, Problems& problems) {
  const StudentConfig& student = config.student;
  if (student.model.empty()) {
    problems.add("student.model", "is missing: a Hugging Face folder");
  }
  const auto check_fits = [&](const char* setting, std::int32_t max_response_tokens) {
    if (max_response_tokens >= student.max_context_tokens) {
      problems.add(setting, fmt::format("= {} leaves no room for a prompt: student.max_context_tokens = {}",
                                        max_response_tokens, student.max_context_tokens));
    }
  };
  check_fits("sampling.max_response_tokens", config.sampling.max_response_tokens);
  if (!config.eval.splits.empty()) {
    check_fits("eval.max_response_tokens", config.eval.max_response_tokens);
  }
}

void check_sampling(const SamplingConfig& sampling, Problems& problems) {
  const bool is_cut = sampling.top_p < 1.0 || sampling.top_k > 0 || sampling.min_p > 0.0;
  if (is_cut && !sampling.allow_cut) {
    const std::string setting = sampling.top_p < 1.0 ? "top_p" : (sampling.top_k > 0 ? "top_k" : "min_p");
    problems.add("sampling." + setting, "cuts the distribution that is trained on: needs sampling.allow_cut = true");
  }
  problems.ineffective("sampling.allow_cut", sampling.allow_cut, false, is_cut, "top_p, top_k and min_p are off");
}

void check_run(const Config& config, Problems& problems) {
  const bool is_async = config.run.mode == "async";
  const std::string why = "run.mode is \"sync\"";
  problems.ineffective("run.max_policy_lag", config.run.max_policy_lag, 0, is_async, why);
  problems.ineffective("student.weight_swap", config.student.weight_swap, StudentConfig{}.weight_swap, is_async, why);
  problems.ineffective("ppo.max_rollout_weight", config.ppo.max_rollout_weight, PpoConfig{}.max_rollout_weight,
                       is_async, why);
  if (is_async && config.run.is_deterministic) {
    problems.add("run.deterministic", "= true contradicts run.mode = \"async\": arrival times decide there");
  }
}

void check_estimator(const Config& config, Problems& problems) {
  const PpoConfig& ppo = config.ppo;
  const PpoConfig defaults;
  const bool has_critic = ppo.coef > 0.0 && ppo.estimator == "gae";
  const std::string why = ppo.coef == 0.0 ? "ppo.coef is 0" : "ppo.estimator \"" + ppo.estimator + "\" has no critic";
  problems.ineffective("ppo.gamma", ppo.gamma, defaults.gamma, has_critic, why);
  problems.ineffective("ppo.lambda", ppo.lambda, defaults.lambda, has_critic, why);
  problems.ineffective("critic.trunk", config.critic.trunk, CriticConfig{}.trunk, has_critic, why);
  if (ppo.coef > 0.0 && ppo.estimator != "gae" && config.sampling.num_samples < 2) {
    problems.add("sampling.num_samples", fmt::format("= {}: ppo.estimator \"{}\" compares at least 2 samples of a task",
                                                     config.sampling.num_samples, ppo.estimator));
  }
  problems.ineffective("ppo.estimator", ppo.estimator, defaults.estimator, ppo.coef > 0.0, "ppo.coef is 0");
  problems.ineffective("ppo.reference_kl_coef", ppo.reference_kl_coef, 0.0, ppo.coef > 0.0, "ppo.coef is 0");
  problems.ineffective("reference.model", config.reference.model, std::string(), ppo.reference_kl_coef > 0.0,
                       "ppo.reference_kl_coef is 0");
  problems.ineffective("opd.state", config.opd.state, OpdConfig{}.state, config.opd.coef > 0.0, "opd.coef is 0");
}

void check_losses(const Config& config, Problems& problems) {
  const bool has_teacher = !config.teacher.model.empty();
  if (config.ppo.coef == 0.0 && config.opd.coef == 0.0) {
    problems.add("ppo.coef", "= 0 and opd.coef = 0: nothing is trained");
  }
  if (config.opd.coef > 0.0 && !has_teacher) {
    problems.add("opd.coef", fmt::format("= {} needs teacher.model", config.opd.coef));
  }
  problems.ineffective("opd.beta", config.opd.beta, OpdConfig{}.beta, config.opd.divergence == "jsd",
                       fmt::format("opd.divergence is \"{}\", beta belongs to \"jsd\"", config.opd.divergence));
  problems.ineffective("teacher.num_actors", config.teacher.num_actors, TeacherConfig{}.num_actors, has_teacher,
                       "teacher.model is not set");
  problems.ineffective("critic.model", config.critic.model, std::string(), config.critic.trunk == "own",
                       "critic.trunk is \"shared\"");
  problems.ineffective("pack.teacher_pack_tokens", config.pack.teacher_pack_tokens, PackConfig{}.teacher_pack_tokens,
                       config.pack.teacher_flush == "size",
                       fmt::format("pack.teacher_flush is \"{}\"", config.pack.teacher_flush));
}

void check_learner(const Config& config, Problems& problems) {
  const LearnerConfig& learner = config.learner;
  const std::int64_t num_trajectories = std::int64_t{learner.tasks_per_step} * config.sampling.num_samples;
  if (learner.mini_batch_trajectories > num_trajectories) {
    problems.add(
        "learner.mini_batch_trajectories",
        fmt::format("= {} exceeds the {} trajectories of a step (learner.tasks_per_step x sampling.num_samples)",
                    learner.mini_batch_trajectories, num_trajectories));
  }
  if (learner.num_ranks > learner.mini_batch_trajectories) {
    problems.add("learner.num_ranks",
                 fmt::format("= {} exceeds learner.mini_batch_trajectories = {}: a rank would have no share",
                             learner.num_ranks, learner.mini_batch_trajectories));
  }
  if (config.pack.max_tokens < config.student.max_context_tokens) {
    problems.add("pack.max_tokens",
                 fmt::format("= {} is below student.max_context_tokens = {}: such an invocation fits no pack",
                             config.pack.max_tokens, config.student.max_context_tokens));
  }
}

void check_schedule(const OptimizerConfig& optimizer, Problems& problems) {
  problems.ineffective("optimizer.min_lr_frac", optimizer.min_lr_frac, 0.0, optimizer.schedule != "constant",
                       "optimizer.schedule is \"constant\"");
}

void check_splits(const std::vector<EvalSplitConfig>& splits, Problems& problems) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const std::string prefix = fmt::format("eval.splits.{}.", i);
    if (splits[i].name.empty()) {
      problems.add(prefix + "name", "is missing: the metric name in summary.json");
    } else if (!names.insert(splits[i].name).second) {
      problems.add(prefix + "name", fmt::format("\"{}\" is the name of an earlier split", splits[i].name));
    }
    if (splits[i].split.empty()) {
      problems.add(prefix + "split", "is missing: a split of the environment");
    }
  }
}

void check_evaluation(const Config& config, Problems& problems) {
  const EvalConfig& eval = config.eval;
  check_splits(eval.splits, problems);
  const bool has_interval_split = std::any_of(eval.splits.begin(), eval.splits.end(),
                                              [](const EvalSplitConfig& split) { return split.at_intervals; });
  problems.ineffective("eval.every", eval.every, 0, has_interval_split, "no [[eval.splits]] has at_intervals = true");
  problems.ineffective("eval.interval_tasks", eval.interval_tasks, 0, eval.every > 0 || problems.states("eval.every"),
                       "eval.every is 0");
  problems.ineffective("eval.teacher", eval.teacher, false, !eval.splits.empty(), "there are no [[eval.splits]]");
  if (eval.teacher && config.teacher.model.empty()) {
    problems.add("eval.teacher", "= true needs teacher.model");
  }
}

void check_shape(const ModelShapeConfig& shape, Problems& problems) {
  if (shape.hidden_size % shape.num_attention_heads != 0 || (shape.hidden_size / shape.num_attention_heads) % 2 != 0) {
    problems.add("sft.model.num_attention_heads",
                 fmt::format("= {} must divide hidden_size = {} into heads of even width", shape.num_attention_heads,
                             shape.hidden_size));
  }
  if (shape.num_attention_heads % shape.num_key_value_heads != 0) {
    problems.add("sft.model.num_key_value_heads", fmt::format("= {} must divide num_attention_heads = {}",
                                                              shape.num_key_value_heads, shape.num_attention_heads));
  }
  if (shape.num_previous_token_heads > shape.num_attention_heads) {
    problems.add("sft.model.num_previous_token_heads",
                 fmt::format("= {} exceeds num_attention_heads = {}", shape.num_previous_token_heads,
                             shape.num_attention_heads));
  }
}

void check_sft(const SftConfig& sft, Problems& problems) {
  const SftConfig defaults;
  if (sft.output.empty()) {
    problems.add("sft.output", "is missing: the folder to write");
  }
  if (sft.init.empty()) {
    check_shape(sft.model, problems);
  } else if (sft.model != defaults.model) {
    problems.add("sft.model", "has no effect: sft.init names a folder to start from");
  }
  problems.ineffective("sft.vocab_size", sft.vocab_size, defaults.vocab_size, sft.tokenizer.empty() && sft.init.empty(),
                       "the tokenizer is not trained here");
  const bool copies = sft.copy_warmup_steps > 0 || problems.states("sft.copy_warmup_steps");
  problems.ineffective("sft.copy_warmup_rows", sft.copy_warmup_rows, defaults.copy_warmup_rows, copies,
                       "sft.copy_warmup_steps is 0");
  problems.ineffective("sft.copy_warmup_lr", sft.copy_warmup_lr, defaults.copy_warmup_lr, copies,
                       "sft.copy_warmup_steps is 0");
  problems.ineffective("sft.flat_objectives", sft.flat_objectives, defaults.flat_objectives, sft.flat_frac > 0.0,
                       "sft.flat_frac is 0");
  const bool probes = sft.probe_every > 0 || problems.states("sft.probe_every");
  problems.ineffective("sft.probe_tasks", sft.probe_tasks, defaults.probe_tasks, probes, "sft.probe_every is 0");
  problems.ineffective("sft.probe_stop_f1", sft.probe_stop_f1, defaults.probe_stop_f1, probes, "sft.probe_every is 0");
}

void check_keeping(const Config& config, Problems& problems) {
  problems.ineffective("ledger.keep_steps", config.ledger.keep_steps, 0, config.ledger.enabled,
                       "ledger.enabled is false");
  const std::string& best = config.checkpoint.best;
  const bool is_evaluated =
      best.empty() || std::any_of(config.eval.splits.begin(), config.eval.splits.end(), [&](const auto& split) {
        return best.starts_with("eval/" + split.name + "/") && split.at_intervals;
      });
  if (!is_evaluated) {
    problems.add("checkpoint.best", fmt::format("= \"{}\" is no metric of an evaluation at intervals: eval/<name of an "
                                                "[[eval.splits]] with at_intervals>/<f1, em, ..>",
                                                best));
  } else if (!best.empty() && config.eval.every == 0) {
    problems.add("checkpoint.best", "has no effect: eval.every is 0");
  }
}

void check_net(const NetConfig& net, Problems& problems) {
  if (net.dead_after_ms < 2 * net.heartbeat_ms) {
    problems.add("net.dead_after_ms", fmt::format("= {} must be at least 2 x net.heartbeat_ms = {}", net.dead_after_ms,
                                                  2 * net.heartbeat_ms));
  }
  if (net.lease_ms < net.dead_after_ms) {
    problems.add("net.lease_ms",
                 fmt::format("= {} must be at least net.dead_after_ms = {}", net.lease_ms, net.dead_after_ms));
  }
  if (!net.ports.empty() && (net.ports.size() != 2 || net.ports[0] > net.ports[1])) {
    problems.add("net.ports", "must be [lowest, highest]");
  }
  problems.ineffective("net.ports", net.ports, NetConfig{}.ports, !net.host.empty(), "net.host is not set");
}

void check_nodes(const std::vector<NodeConfig>& nodes, Problems& problems) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string prefix = fmt::format("node.{}.", i);
    const NodeConfig& node = nodes[i];
    if (!node.name.empty() && !names.insert(node.name).second) {
      problems.add(prefix + "name", fmt::format("\"{}\" is the name of an earlier node", node.name));
    }
    if (!node.name.empty() && node.address.find_first_of("[,") != std::string::npos) {
      problems.add(prefix + "name", fmt::format("= \"{}\" for several hosts \"{}\": each is named as its address",
                                                node.name, node.address));
    }
    if (!node.program.empty() && node.program.front() != '/') {
      problems.add(prefix + "program", fmt::format("= \"{}\" is not an absolute path", node.program));
    }
    problems.ineffective(prefix + "program", node.program, std::string(), node.address != "local",
                         fmt::format("node.{}.address is local", i));
  }
}

void check_roles(const Config& config, Problems& problems) {
  static const std::set<std::string> kRoles = {"align_pack", "env",     "learner",       "retriever",
                                               "student",    "teacher", "teacher_policy"};
  std::set<std::string> names;
  for (std::size_t i = 0; i < config.role.size(); ++i) {
    const RoleConfig& role = config.role[i];
    const std::string prefix = fmt::format("role.{}.", i);
    if (!kRoles.contains(role.name)) {
      problems.add(prefix + "name", fmt::format("= \"{}\", allowed: {} (the coordinator lives in the launcher)",
                                                role.name, fmt::join(kRoles, ", ")));
    } else if (!names.insert(role.name).second) {
      problems.add(prefix + "name", fmt::format("\"{}\" has an earlier [[role]]", role.name));
    }
  }
  problems.ineffective("net.host", config.net.host, std::string(), !config.role.empty(), "there is no [[role]]");
}

void check_launch(const Config& config, Problems& problems) {
  check_run(config, problems);
  check_student(config, problems);
  check_sampling(config.sampling, problems);
  check_losses(config, problems);
  check_estimator(config, problems);
  check_learner(config, problems);
  check_schedule(config.optimizer, problems);
  check_evaluation(config, problems);
  check_keeping(config, problems);
  check_net(config.net, problems);
  check_nodes(config.node, problems);
  check_roles(config, problems);
}

}  // namespace

std::string_view to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::launch:
      return "launch";
    case Purpose::sft:
      return "sft";
    case Purpose::eval:
      return "eval";
    case Purpose::rollout:
      return "rollout";
  }
  return "unknown";
}

Expected<void> validate(const Config& config, Purpose purpose) {
  Problems problems(config);
  check_environments(config, problems);
  check_protocol(config.protocol, problems);
  switch (purpose) {
    case Purpose::launch:
      check_launch(config, problems);
      break;
    case Purpose::sft:
      check_sft(config.sft, problems);
      check_schedule(config.optimizer, problems);
      break;
    case Purpose::eval:
      check_student(config, problems);
      check_splits(config.eval.splits, problems);
      if (config.eval.splits.empty()) {
        problems.add("eval.splits", "is missing: at least one [[eval.splits]] is needed");
      }
      break;
    case Purpose::rollout:
      check_student(config, problems);
      break;
  }
  return problems.result();
}

}  // namespace memopd
