// Every setting by table: name, kind, rule and the line of the reference.
// Length: the one table of all settings.
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/config/field_table.hpp"
#include "runtime/config/schema.hpp"

namespace memopd::detail {
namespace {

template <class Member>
constexpr Kind kind_of_member() {
  if constexpr (std::is_same_v<Member, bool>) {
    return Kind::boolean;
  } else if constexpr (std::is_integral_v<Member>) {
    return Kind::integer;
  } else if constexpr (std::is_floating_point_v<Member>) {
    return Kind::real;
  } else if constexpr (std::is_same_v<Member, std::string>) {
    return Kind::text;
  } else {
    static_assert(std::is_same_v<Member, std::vector<std::int32_t>>);
    return Kind::integers;
  }
}

template <class Member>
SettingValue to_setting(const Member& member) {
  if constexpr (std::is_same_v<Member, bool> || std::is_floating_point_v<Member> ||
                std::is_same_v<Member, std::string>) {
    return member;
  } else if constexpr (std::is_integral_v<Member>) {
    return static_cast<std::int64_t>(member);
  } else {
    return std::vector<std::int64_t>(member.begin(), member.end());
  }
}

template <class Member>
void from_setting(Member& member, const SettingValue& value) {
  if constexpr (std::is_same_v<Member, bool> || std::is_floating_point_v<Member> ||
                std::is_same_v<Member, std::string>) {
    member = std::get<Member>(value);
  } else if constexpr (std::is_integral_v<Member>) {
    member = static_cast<Member>(std::get<std::int64_t>(value));
  } else {
    member.clear();
    for (const std::int64_t item : std::get<std::vector<std::int64_t>>(value)) {
      member.push_back(static_cast<typename Member::value_type>(item));
    }
  }
}

/// Collects the fields of one struct: `table("coef", &OpdConfig::coef, at_least(0), "weight")`.
template <class Struct>
class TableOf {
 public:
  TableOf(std::string name, std::string doc) {
    table_.name = std::move(name);
    table_.doc = std::move(doc);
  }

  template <class Member>
  void operator()(std::string name, Member Struct::*member, Rule rule, std::string doc) {
    if constexpr (!std::is_same_v<Member, std::uint64_t> && kind_of_member<Member>() != Kind::real) {
      rule.high = std::min<double>(rule.high, std::numeric_limits<std::int32_t>::max());
    }
    Field field{std::move(name), kind_of_member<Member>(), std::move(rule), std::move(doc), {}, {}};
    field.get = [member](const void* object) { return to_setting(static_cast<const Struct*>(object)->*member); };
    field.set = [member](void* object, const SettingValue& value) {
      from_setting(static_cast<Struct*>(object)->*member, value);
    };
    table_.fields.push_back(std::move(field));
  }

  /// A free-form table of strings.
  void options(Options Struct::*member) {
    table_.options = [member](void* object) { return &(static_cast<Struct*>(object)->*member); };
  }

  template <class Child>
  void child(Table table, Child Struct::*member) {
    table.at = [member](void* parent, std::size_t) -> void* { return &(static_cast<Struct*>(parent)->*member); };
    table_.children.push_back(std::move(table));
  }

  template <class Child>
  void child(Table table, std::vector<Child> Struct::*member) {
    table.is_array = true;
    table.at = [member](void* parent, std::size_t index) -> void* {
      return &(static_cast<Struct*>(parent)->*member).at(index);
    };
    table.size = [member](void* parent) { return (static_cast<Struct*>(parent)->*member).size(); };
    table.append = [member](void* parent) { (static_cast<Struct*>(parent)->*member).emplace_back(); };
    table_.children.push_back(std::move(table));
  }

  Table take() { return std::move(table_); }

 private:
  Table table_;
};

Table run_table() {
  TableOf<RunConfig> t("run", "what this run is");
  t("name", &RunConfig::name, text(TextForm::folder_name), "folder under `directory`");
  t("directory", &RunConfig::directory, text(TextForm::not_empty), "where run folders are made");
  t("seed", &RunConfig::seed, at_least(0), "root of every seed");
  t("mode", &RunConfig::mode, one_of({"sync", "async"}),
    "sync: lag 0; async: the next steps are collected while one is trained");
  t("max_policy_lag", &RunConfig::max_policy_lag, between(0, 64), "versions; nothing older is trained on; async");
  t("deterministic", &RunConfig::is_deterministic, any(), "equal bits for equal seeds; sync");
  t("num_steps", &RunConfig::num_steps, at_least(1), "steps: collect, then its optimizer steps");
  t("num_threads", &RunConfig::num_threads, between(1, 256), "scheduler threads for actors that do not block");
  t("step_timeout_s", &RunConfig::step_timeout_s, at_least(1),
    "seconds without progress before the run ends naming who waits");
  t("max_hours", &RunConfig::max_hours, at_least(0), "of wall time, then checkpoint and stop; 0 = no limit");
  return t.take();
}

Table env_table() {
  TableOf<EnvConfig> t("env", "an environment and how many actors and slots run it; repeat for more");
  t("name", &EnvConfig::name, any(), "registered name; required");
  t("num_actors", &EnvConfig::num_actors, at_least(1), "actors");
  t("num_slots", &EnvConfig::num_slots, at_least(1), "trajectories at a time, per actor");
  t("num_objectives", &EnvConfig::num_objectives, at_least(0), "K of training tasks; 0 = the environment's choice");
  t("tasks", &EnvConfig::tasks, any(), "task file (JSONL); \"\" = the environment makes them");
  t("scorer", &EnvConfig::scorer, one_of({"f1", "em", "mem1_train", "mem1_eval"}), "the reward");
  t("turn_timeout_ms", &EnvConfig::turn_timeout_ms, at_least(1),
    "a reset, step or tool call that takes longer ends timeout");
  t("num_retries", &EnvConfig::num_retries, between(0, 10), "repeats of a failed reset or tool call");
  t.options(&EnvConfig::options);
  return t.take();
}

Table retriever_table() {
  TableOf<RetrieverConfig> t("retriever", "search behind the environments' \"retrieve\" tool");
  t("kind", &RetrieverConfig::kind, one_of({"fts5"}), "fts5: SQLite full-text index, BM25");
  t("corpus", &RetrieverConfig::corpus, any(), "JSONL {id, contents}; \"\" = the environment's own");
  t("index", &RetrieverConfig::index, any(), "index file to open instead; \"\" = build in memory");
  t("topk", &RetrieverConfig::topk, between(1, 100), "documents per query");
  t("delay_ms", &RetrieverConfig::delay_ms, at_least(0), "added to every answer, to see a run with a slow retriever");
  return t.take();
}

Table protocol_table() {
  TableOf<ProtocolConfig> t("protocol", "how the context is rewritten and what the agent is shown");
  t("name", &ProtocolConfig::name, one_of({"mem1"}), "protocol");
  t("chat_template", &ProtocolConfig::chat_template, one_of({"auto", "chatml", "llama3", "none"}),
    "frame around the first user text");
  t("instructions", &ProtocolConfig::instructions, any(), "text; \"default\" = the protocol's own, \"\" = none");
  t("question", &ProtocolConfig::question, any(), "template of the first user text: {question}");
  t("observation", &ProtocolConfig::observation, any(), "template of an observation: {hint} {documents}");
  t("document", &ProtocolConfig::document, any(), "template of one document: {k} {title} {text}");
  t("separator", &ProtocolConfig::separator, any(), "between two documents");
  t("hint", &ProtocolConfig::hint, any(), "{hint} while more than one turn is left: {n}");
  t("hint_last", &ProtocolConfig::hint_last, any(), "{hint} before the last turn");
  t("max_turns", &ProtocolConfig::max_turns, at_least(0), "lowers the environment's limit; 0 = does not");
  t("max_observation_tokens", &ProtocolConfig::max_observation_tokens, at_least(8),
    "longer ones are cut, the closing tag kept");
  t("max_prompt_tokens", &ProtocolConfig::max_prompt_tokens, at_least(16),
    "a longer prompt ends the trajectory context_limit");
  t("retry_invalid", &ProtocolConfig::retry_invalid, between(0, 8), "corrective observations per trajectory");
  return t.take();
}

Table model_shape_table() {
  TableOf<ModelShapeConfig> t("model", "shape of a decoder made from nothing");
  t("architecture", &ModelShapeConfig::architecture, one_of({"qwen2", "qwen3", "llama"}), "family");
  t("hidden_size", &ModelShapeConfig::hidden_size, at_least(8), "width");
  t("intermediate_size", &ModelShapeConfig::intermediate_size, at_least(8), "width of the feed-forward part");
  t("num_hidden_layers", &ModelShapeConfig::num_hidden_layers, at_least(1), "layers");
  t("num_attention_heads", &ModelShapeConfig::num_attention_heads, at_least(1), "divides hidden_size");
  t("num_key_value_heads", &ModelShapeConfig::num_key_value_heads, at_least(1), "divides num_attention_heads");
  t("rope_theta", &ModelShapeConfig::rope_theta, above(0), "base of the rotary frequencies");
  t("rms_norm_eps", &ModelShapeConfig::rms_norm_eps, above(0), "added to the mean square");
  t("attention_bias", &ModelShapeConfig::attention_bias, any(), "bias on q, k, v");
  t("tie_word_embeddings", &ModelShapeConfig::tie_word_embeddings, any(), "head = embedding");
  t("max_position_embeddings", &ModelShapeConfig::max_position_embeddings, at_least(16), "tokens");
  t("embedding_std", &ModelShapeConfig::embedding_std, above(0), "initialisation");
  t("final_norm_weight", &ModelShapeConfig::final_norm_weight, above(0), "initialisation");
  t("num_previous_token_heads", &ModelShapeConfig::num_previous_token_heads, at_least(0),
    "heads of layer 0 that start out attending to t-1, t-2, ..; at most num_attention_heads");
  return t.take();
}

Table student_table() {
  TableOf<StudentConfig> t("student", "the policy that samples and is trained");
  t("model", &StudentConfig::model, any(), "Hugging Face folder; required for launch, eval and rollout");
  t("tokenizer", &StudentConfig::tokenizer, any(), "folder; \"\" = model's");
  t("num_actors", &StudentConfig::num_actors, at_least(1), "actors");
  t("max_sequences", &StudentConfig::max_sequences, at_least(1), "decoded at a time, per actor");
  t("max_batch_tokens", &StudentConfig::max_batch_tokens, at_least(16), "prompt tokens prefilled at a time");
  t("max_context_tokens", &StudentConfig::max_context_tokens, at_least(16), "prompt + response");
  t("prefix_cache_tokens", &StudentConfig::prefix_cache_tokens, at_least(0),
    "tokens of finished calls that are kept for later ones; 0 = every prompt is computed anew");
  t("weight_swap", &StudentConfig::weight_swap, one_of({"finish", "continue"}),
    "async: requests in flight finish on the old weights, or continue with the new");
  return t.take();
}

Table teacher_table() {
  TableOf<TeacherConfig> t("teacher", "the frozen scorer");
  t("model", &TeacherConfig::model, any(), "Hugging Face folder; \"\" = none (needs opd.coef = 0)");
  t("num_actors", &TeacherConfig::num_actors, at_least(1), "actors");
  return t.take();
}

Table reference_table() {
  TableOf<ReferenceConfig> t("reference", "the frozen policy that ppo.reference_kl_coef pulls towards");
  t("model", &ReferenceConfig::model, any(), "Hugging Face folder; \"\" = student.model");
  return t.take();
}

Table critic_table() {
  TableOf<CriticConfig> t("critic", "the value model");
  t("trunk", &CriticConfig::trunk, one_of({"shared", "own"}),
    "shared: a head on the student's detached features; own: own decoder");
  t("model", &CriticConfig::model, any(), "trunk = own: folder to start from; \"\" = the student's");
  t("lr", &CriticConfig::lr, above(0), "learning rate");
  t("value_clip", &CriticConfig::value_clip, at_least(0), "bound on the change of a value per update; 0 = off");
  return t.take();
}

Table sampling_table() {
  TableOf<SamplingConfig> t("sampling", "how training trajectories are sampled");
  t("temperature", &SamplingConfig::temperature, above(0), "of the softmax");
  t("top_p", &SamplingConfig::top_p, above_to(0, 1), "1 = off");
  t("top_k", &SamplingConfig::top_k, at_least(0), "0 = off");
  t("min_p", &SamplingConfig::min_p, from_to_below(0, 1), "0 = off");
  t("max_response_tokens", &SamplingConfig::max_response_tokens, at_least(1), "tokens of one response");
  t("num_samples", &SamplingConfig::num_samples, at_least(1), "trajectories per task");
  t("allow_cut", &SamplingConfig::allow_cut, any(), "train on top_p, top_k, min_p samples all the same");
  return t.take();
}

Table pack_table() {
  TableOf<PackConfig> t("pack", "how invocations are packed");
  t("max_tokens", &PackConfig::max_tokens, at_least(16), "unique tokens of one pack");
  t("share_prefixes", &PackConfig::share_prefixes, any(), "common prefixes are computed once");
  t("min_shared_tokens", &PackConfig::min_shared_tokens, at_least(1), "shorter common prefixes are not shared");
  t("teacher_flush", &PackConfig::teacher_flush, one_of({"invocation", "size", "step"}), "when a teacher pack is sent");
  t("teacher_pack_tokens", &PackConfig::teacher_pack_tokens, at_least(16),
    "unique tokens of a teacher pack under size");
  return t.take();
}

Table reward_table() {
  TableOf<RewardConfig> t("reward", "what a trajectory is worth");
  t("scale", &RewardConfig::scale, one_of({"mean", "sum"}), "over objectives");
  return t.take();
}

Table ppo_table() {
  TableOf<PpoConfig> t("ppo", "proximal policy optimisation over response tokens");
  t("coef", &PpoConfig::coef, at_least(0), "weight of the PPO loss; 0 = distillation only");
  t("estimator", &PpoConfig::estimator, one_of({"gae", "grpo", "rloo"}),
    "of advantages; grpo and rloo: over the samples of a task, without critic");
  t("gamma", &PpoConfig::gamma, between(0, 1), "discount per response token");
  t("lambda", &PpoConfig::lambda, between(0, 1), "of generalised advantage estimation");
  t("clip", &PpoConfig::clip, strictly_between(0, 1), "bound on the probability ratio");
  t("dual_clip", &PpoConfig::dual_clip, {.low = 1, .is_low_open = true, .or_zero = true},
    "bound for negative advantages; 0 = off");
  t("entropy_coef", &PpoConfig::entropy_coef, at_least(0), "weight of the entropy bonus");
  t("whiten_advantages", &PpoConfig::whiten_advantages, any(), "once per step over its response tokens");
  t("loss_mean", &PpoConfig::loss_mean, one_of({"token", "sequence"}), "what the loss is averaged over");
  t("reference_kl_coef", &PpoConfig::reference_kl_coef, at_least(0),
    "times (log-prob - reference), subtracted from the reward of a token");
  t("max_rollout_weight", &PpoConfig::max_rollout_weight, at_least(1),
    "async: bound of exp(old - rollout log-prob) on the PPO term");
  return t.take();
}

Table opd_table() {
  TableOf<OpdConfig> t("opd", "on-policy distillation from the teacher's full distribution");
  t("coef", &OpdConfig::coef, at_least(0), "weight of the divergence; 0 = PPO only");
  t("divergence", &OpdConfig::divergence, one_of({"forward_kl", "reverse_kl", "jsd"}), "between teacher and student");
  t("beta", &OpdConfig::beta, strictly_between(0, 1), "weight of the teacher in jsd");
  t("temperature", &OpdConfig::temperature, above(0), "of both sides");
  t("state", &OpdConfig::state, one_of({"aligned", "persistent_history", "memory_mask"}),
    "the state the teacher scores in; the last two are controls");
  t("chunk_rows", &OpdConfig::chunk_rows, at_least(1), "rows of logits alive at a time");
  return t.take();
}

Table sft_table() {
  TableOf<SftConfig> t("sft", "supervised cold start from an expert's trajectories");
  t("output", &SftConfig::output, any(), "folder to write; required for `memopd sft`");
  t("tokenizer", &SftConfig::tokenizer, any(), "folder to take the tokenizer from; \"\" = train one");
  t("vocab_size", &SftConfig::vocab_size, at_least(300), "of a tokenizer trained here");
  t("init", &SftConfig::init, any(), "folder to start from; \"\" = [sft.model] at random");
  t("num_steps", &SftConfig::num_steps, at_least(1), "optimizer steps");
  t("batch_invocations", &SftConfig::batch_invocations, at_least(1), "of one optimizer step");
  t("objectives", &SftConfig::objectives, at_least(1), "K of the demonstrations, drawn uniformly");
  t("flat_frac", &SftConfig::flat_frac, between(0, 1), "share of batches in flat histories, for control teachers");
  t("flat_objectives", &SftConfig::flat_objectives, at_least(1), "K of their demonstrations");
  t("copy_warmup_steps", &SftConfig::copy_warmup_steps, at_least(0), "optimizer steps on copying rows before");
  t("copy_warmup_rows", &SftConfig::copy_warmup_rows, at_least(1), "rows of one of them");
  t("copy_warmup_lr", &SftConfig::copy_warmup_lr, above(0), "learning rate of them");
  t("ema", &SftConfig::ema, from_to_below(0, 1), "decay of the averaged weights that are saved; 0 = off");
  t("probe_every", &SftConfig::probe_every, at_least(0), "optimizer steps between probes; 0 = none");
  t("probe_tasks", &SftConfig::probe_tasks, at_least(1), "tasks of one probe");
  t("probe_stop_f1", &SftConfig::probe_stop_f1, between(0, 1), "stop once a probe reaches it");
  t("num_threads", &SftConfig::num_threads, between(1, 1024), "micro-batches computed at a time");
  t.child(model_shape_table(), &SftConfig::model);
  return t.take();
}

Table optimizer_table() {
  TableOf<OptimizerConfig> t("optimizer", "AdamW of the student (and of `memopd sft`)");
  t("lr", &OptimizerConfig::lr, at_least(0), "learning rate; 0 = a canary: nothing may change");
  t("beta1", &OptimizerConfig::beta1, from_to_below(0, 1), "decay of the first moment");
  t("beta2", &OptimizerConfig::beta2, from_to_below(0, 1), "decay of the second moment");
  t("eps", &OptimizerConfig::eps, above(0), "added to the root of the second moment");
  t("weight_decay", &OptimizerConfig::weight_decay, at_least(0), "decoupled");
  t("clip_grad_norm", &OptimizerConfig::clip_grad_norm, above(0), "bound on the norm of the whole gradient");
  t("warmup_steps", &OptimizerConfig::warmup_steps, at_least(0), "optimizer steps of linear warm-up");
  t("schedule", &OptimizerConfig::schedule, one_of({"constant", "linear", "cosine"}), "of the learning rate");
  t("min_lr_frac", &OptimizerConfig::min_lr_frac, between(0, 1), "of lr, where linear and cosine end");
  return t.take();
}

Table learner_table() {
  TableOf<LearnerConfig> t("learner", "how a step is cut into optimizer steps");
  t("tasks_per_step", &LearnerConfig::tasks_per_step, at_least(1), "trajectories = tasks x sampling.num_samples");
  t("mini_batch_trajectories", &LearnerConfig::mini_batch_trajectories, at_least(1),
    "of one optimizer step, over all ranks");
  t("num_epochs", &LearnerConfig::num_epochs, at_least(1), "passes over a step's trajectories");
  t("num_ranks", &LearnerConfig::num_ranks, at_least(1), "learner actors");
  t("num_threads", &LearnerConfig::num_threads, between(1, 1024), "micro-batches computed at a time, per rank");
  t("state", &LearnerConfig::state, one_of({"aligned", "persistent_history"}),
    "the student's state in the losses; the last is a control");
  return t.take();
}

Table eval_split_table() {
  TableOf<EvalSplitConfig> t("splits", "one set of tasks that is evaluated; repeat for more");
  t("name", &EvalSplitConfig::name, any(), "metric name in summary.json; required");
  t("split", &EvalSplitConfig::split, any(), "of the environment; required");
  t("num_objectives", &EvalSplitConfig::num_objectives, at_least(0), "K; 0 = the environment's choice");
  t("num_tasks", &EvalSplitConfig::num_tasks, at_least(1), "tasks");
  t("at_intervals", &EvalSplitConfig::at_intervals, any(), "false = at start and end only");
  return t.take();
}

Table eval_table() {
  TableOf<EvalConfig> t("eval", "evaluation by the same env and student actors");
  t("every", &EvalConfig::every, at_least(0), "steps; 0 = at start and end only");
  t("interval_tasks", &EvalConfig::interval_tasks, at_least(0), "tasks per split at intervals; 0 = all of them");
  t("teacher", &EvalConfig::teacher, any(), "evaluate the teacher too, at start");
  t("temperature", &EvalConfig::temperature, at_least(0), "0 = greedy");
  t("max_response_tokens", &EvalConfig::max_response_tokens, at_least(1), "tokens of one response");
  t.child(eval_split_table(), &EvalConfig::splits);
  return t.take();
}

Table checkpoint_table() {
  TableOf<CheckpointConfig> t("checkpoint", "weights and optimizer state on disk");
  t("every", &CheckpointConfig::every, at_least(0), "steps; 0 = at the end only");
  t("keep", &CheckpointConfig::keep, at_least(1), "newest ones kept");
  t("best", &CheckpointConfig::best, any(), "metric: the checkpoint where it was highest is kept too; \"\" = none");
  return t.take();
}

Table ledger_table() {
  TableOf<LedgerConfig> t("ledger", "append-only record of every invocation");
  t("enabled", &LedgerConfig::enabled, any(), "write it");
  t("keep_steps", &LedgerConfig::keep_steps, at_least(0), "older segments are deleted; 0 = all are kept");
  return t.take();
}

Table alarms_table() {
  TableOf<AlarmsConfig> t("alarms", "conditions that end a run or are shouted about");
  t("max_rollout_gap", &AlarmsConfig::max_rollout_gap, above(0), "mean |rollout - old log-prob| in nats, lag 0");
  t("max_skipped_updates", &AlarmsConfig::max_skipped_updates, at_least(1),
    "skipped in a row for non-finite gradients");
  t("max_empty_steps", &AlarmsConfig::max_empty_steps, at_least(1), "steps in a row without a trained trajectory");
  t("max_gap_growth", &AlarmsConfig::max_gap_growth, above(1), "rollout gap over its median of the first 5 steps");
  t("min_entropy", &AlarmsConfig::min_entropy, at_least(0), "nats per token of the policy; 0 = off");
  t("max_entropy_growth", &AlarmsConfig::max_entropy_growth, above(1), "entropy over its median of the first 5 steps");
  t("max_repeat_frac", &AlarmsConfig::max_repeat_frac, above_to(0, 1), "response tokens in runs of one repeated id");
  t("max_grad_norm", &AlarmsConfig::max_grad_norm, above(0), "before clipping");
  t("max_approx_kl", &AlarmsConfig::max_approx_kl, above(0), "nats, old to new policy within a step");
  t("max_truncated_frac", &AlarmsConfig::max_truncated_frac, above_to(0, 1), "responses cut by their length limit");
  t("no_progress_s", &AlarmsConfig::no_progress_s, at_least(1),
    "seconds without an answer before who waits for whom is reported");
  return t.take();
}

Table net_table() {
  TableOf<NetConfig> t("net", "links between the processes of a run");
  t("heartbeat_ms", &NetConfig::heartbeat_ms, between(10, 60000), "between two signs of life");
  t("dead_after_ms", &NetConfig::dead_after_ms, at_least(20), "silence after which a process is declared dead");
  t("lease_ms", &NetConfig::lease_ms, at_least(20), "a process that its parent forgot for so long ends itself");
  t("start_timeout_s", &NetConfig::start_timeout_s, at_least(1), "for a started process to report itself");
  t("host", &NetConfig::host, any(), "numeric address to bind tcp ports to; \"\" = ipc only, one host");
  t("ports", &NetConfig::ports, {.low = 1, .high = 65535, .or_empty = true},
    "[lowest, highest] tcp port; [] = the kernel chooses");
  t("encrypt_bulk", &NetConfig::encrypt_bulk, any(), "CURVE on the bulk links too");
  return t.take();
}

Table node_table() {
  TableOf<NodeConfig> t("node", "a host and what of it may be used; repeat for more");
  t("name", &NodeConfig::name, any(), "unique; \"\" = as its address; of a pattern: none");
  t("address", &NodeConfig::address, text(TextForm::not_empty),
    "local = this host, [user@]host = through ssh, a pattern like node[1-4] = one node each");
  t("program", &NodeConfig::program, any(), "memopd-cluster on that host, an absolute path; \"\" = where it is here");
  t("cpus", &NodeConfig::cpus, at_least(0), "cores; 0 = those of the affinity mask and the cgroup");
  t("memory_gib", &NodeConfig::memory_gib, at_least(0), "0 = the host's");
  t("labels", &NodeConfig::labels, any(), "comma-separated words that [[role]] may ask for");
  return t.take();
}

Table role_table() {
  TableOf<RoleConfig> t("role",
                        "which process the actors of a role live in; without one the launcher's; repeat for more");
  t("name", &RoleConfig::name, any(), "env, student, teacher, align_pack, learner, retriever, ..; required");
  t("process", &RoleConfig::process, text(TextForm::folder_name),
    "own: each actor has its own; else roles with the same word share one");
  t("cpus", &RoleConfig::cpus, at_least(0), "cores of one process; 0 = not counted");
  t("memory_gib", &RoleConfig::memory_gib, at_least(0), "of one process; 0 = not counted");
  t("labels", &RoleConfig::labels, any(), "comma-separated: only nodes that have all of them");
  t("placement", &RoleConfig::placement, one_of({"pack", "spread"}), "fill a node first, or use many");
  t("max_restarts", &RoleConfig::max_restarts, at_least(0), "within restart_window_s; one more ends the run");
  t("restart_window_s", &RoleConfig::restart_window_s, at_least(1), "seconds");
  t("restart_backoff_ms", &RoleConfig::restart_backoff_ms, at_least(0),
    "before the first restart, doubled by each in the window, at most 10 s");
  return t.take();
}

Table monitor_table() {
  TableOf<MonitorConfig> t("monitor", "the run's page and its data over HTTP, read-only");
  t("address", &MonitorConfig::address, any(), "HOST:PORT, port 0 = any free; \"\" = none");
  t("history_s", &MonitorConfig::history_s, at_least(60), "seconds of events and metrics kept for it");
  t("max_events", &MonitorConfig::max_events, at_least(100), "kept in memory");
  return t.take();
}

Table root_table() {
  TableOf<Config> t("", "");
  t.child(run_table(), &Config::run);
  t.child(env_table(), &Config::env);
  t.child(retriever_table(), &Config::retriever);
  t.child(protocol_table(), &Config::protocol);
  t.child(student_table(), &Config::student);
  t.child(teacher_table(), &Config::teacher);
  t.child(reference_table(), &Config::reference);
  t.child(critic_table(), &Config::critic);
  t.child(sampling_table(), &Config::sampling);
  t.child(pack_table(), &Config::pack);
  t.child(reward_table(), &Config::reward);
  t.child(ppo_table(), &Config::ppo);
  t.child(opd_table(), &Config::opd);
  t.child(sft_table(), &Config::sft);
  t.child(optimizer_table(), &Config::optimizer);
  t.child(learner_table(), &Config::learner);
  t.child(eval_table(), &Config::eval);
  t.child(checkpoint_table(), &Config::checkpoint);
  t.child(ledger_table(), &Config::ledger);
  t.child(alarms_table(), &Config::alarms);
  t.child(net_table(), &Config::net);
  t.child(node_table(), &Config::node);
  t.child(role_table(), &Config::role);
  t.child(monitor_table(), &Config::monitor);
  return t.take();
}

}  // namespace

const Table& config_table() {
  static const Table root = root_table();
  return root;
}

}  // namespace memopd::detail
