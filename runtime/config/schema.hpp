// Every setting of a run: name, default, unit and range. One struct per TOML table, plain and const after load.
// Length: the one reference of all settings.
//
// Kept in one file on purpose (longer than a header usually is here): it is the reference that `memopd-cluster config`
// prints, and the field table in tables.cpp is checked against it. "" and 0 stand for "not set" only where a comment says so.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace memopd {

/// [run] What this run is.
struct RunConfig {
  std::string name = "run";           ///< folder under `directory`; letters, digits, - _ .
  std::string directory = "runs";     ///< where run folders are made; relative to the working directory
  std::uint64_t seed = 0;             ///< root of every seed; below 2^63
  std::string mode = "sync";          ///< "sync": lag 0 | "async": the next steps are collected while one is trained
  std::int32_t max_policy_lag = 0;    ///< versions; nothing older is trained on; async only; 0..64
  bool is_deterministic = false;      ///< TOML `deterministic`: equal bits for equal seeds; sync only
  std::int32_t num_steps = 1;         ///< steps (collect + optimizer steps); >= 1
  std::int32_t num_threads = 2;       ///< scheduler threads for actors that do not block; 1..256
  std::int32_t step_timeout_s = 600;  ///< seconds without progress before the run ends naming who waits; >= 1
  double max_hours = 0;               ///< of wall time; then checkpoint and stop; 0 = no limit

  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

/// [[env]] An environment and how many actors and slots run it.
struct EnvConfig {
  std::string name{};                            ///< registered name; required
  std::int32_t num_actors = 1;                   ///< >= 1
  std::int32_t num_slots = 32;                   ///< trajectories at a time, per actor; >= 1
  std::int32_t num_objectives = 0;               ///< K of training tasks; 0 = the environment's choice
  std::string tasks{};                           ///< task file (JSONL); "" = the environment makes them
  std::string scorer = "f1";                     ///< "f1" | "em" | "mem1_train" | "mem1_eval": the reward
  std::int32_t turn_timeout_ms = 30000;          ///< a reset, step or tool call that takes longer ends `timeout`; >= 1
  std::int32_t num_retries = 1;                  ///< repeats of a failed reset or tool call; 0..10
  std::map<std::string, std::string> options{};  ///< [env.options] of the environment itself; checked by it

  friend bool operator==(const EnvConfig&, const EnvConfig&) = default;
};

/// [retriever] Search behind the environments' "retrieve" tool.
struct RetrieverConfig {
  std::string kind = "fts5";  ///< "fts5": SQLite full-text index, BM25
  std::string corpus{};       ///< JSONL {id, contents}; "" = the environment's own corpus
  std::string index{};        ///< index file to open instead; "" = build in memory
  std::int32_t topk = 3;      ///< documents per query; 1..100
  std::int32_t delay_ms = 0;  ///< added to every answer, to see a run with a slow retriever; >= 0

  friend bool operator==(const RetrieverConfig&, const RetrieverConfig&) = default;
};

/// [protocol] How the context is rewritten and what the agent is shown (protocol.md section 1).
struct ProtocolConfig {
  std::string name = "mem1";
  std::string chat_template = "chatml";  ///< "auto": as the tokenizer's files say | "chatml" | "llama3" | "none"
  std::string instructions = "default";  ///< text; "default" = the protocol's own, "" = none
  std::string question = "{question}";   ///< template of the first user text
  std::string observation = "\n\n<information>{hint}\n\n{documents}</information>\n\n";
  std::string document = "Doc {k}(Title: {title}) {text}\n";
  std::string separator{};  ///< between two documents
  std::string hint = "[HINT]You have {n} turns left.[/HINT]";
  std::string hint_last = "[HINT]You have 1 turn left. Give your final answer now.[/HINT]";
  std::int32_t max_turns = 0;                  ///< lowers the environment's limit; 0 = does not
  std::int32_t max_observation_tokens = 1000;  ///< >= 8; longer ones are cut, the closing tag kept
  std::int32_t max_prompt_tokens = 4096;       ///< a longer prompt ends the trajectory context_limit; >= 16
  std::int32_t retry_invalid = 0;              ///< corrective observations per trajectory; 0..8

  friend bool operator==(const ProtocolConfig&, const ProtocolConfig&) = default;
};

/// Shape of a decoder made from nothing; Hugging Face names.
struct ModelShapeConfig {
  std::string architecture = "qwen2";    ///< "qwen2" | "qwen3" | "llama"
  std::int32_t hidden_size = 96;         ///< >= 8
  std::int32_t intermediate_size = 240;  ///< >= 8
  std::int32_t num_hidden_layers = 3;    ///< >= 1
  std::int32_t num_attention_heads = 4;  ///< divides hidden_size
  std::int32_t num_key_value_heads = 4;  ///< divides num_attention_heads
  double rope_theta = 10000.0;           ///< > 0
  double rms_norm_eps = 1e-6;            ///< > 0
  bool attention_bias = true;            ///< bias on q, k, v: true for qwen2, false for the others
  bool tie_word_embeddings = true;
  std::int32_t max_position_embeddings = 1024;  ///< tokens; >= 16
  double embedding_std = 0.5;                   ///< initialisation; > 0
  double final_norm_weight = 0.2;               ///< initialisation; > 0
  std::int32_t num_previous_token_heads = 3;    ///< heads of layer 0 that start out attending to t-1, t-2, ..; 0..heads

  friend bool operator==(const ModelShapeConfig&, const ModelShapeConfig&) = default;
};

/// [student] The policy that samples and is trained.
struct StudentConfig {
  std::string model{};                     ///< Hugging Face folder; required for launch, eval and rollout
  std::string tokenizer{};                 ///< folder; "" = model's
  std::int32_t num_actors = 1;             ///< >= 1
  std::int32_t max_sequences = 64;         ///< decoded at a time, per actor; >= 1
  std::int32_t max_batch_tokens = 8192;    ///< prompt tokens prefilled at a time; >= 16
  std::int32_t max_context_tokens = 1024;  ///< prompt + response; >= 16
  std::int32_t prefix_cache_tokens =
      8192;                            ///< of finished calls, kept for later ones; 0 = every prompt computed anew; >= 0
  std::string weight_swap = "finish";  ///< async: requests in flight "finish" on the old weights, or "continue"

  friend bool operator==(const StudentConfig&, const StudentConfig&) = default;
};

/// [teacher] The frozen scorer.
struct TeacherConfig {
  std::string model{};          ///< Hugging Face folder; "" = none (needs opd.coef = 0)
  std::int32_t num_actors = 1;  ///< >= 1

  friend bool operator==(const TeacherConfig&, const TeacherConfig&) = default;
};

/// [reference] The frozen policy that ppo.reference_kl_coef pulls towards.
struct ReferenceConfig {
  std::string model{};  ///< Hugging Face folder; "" = student.model, the cold start

  friend bool operator==(const ReferenceConfig&, const ReferenceConfig&) = default;
};

/// [critic] The value model.
struct CriticConfig {
  std::string trunk = "shared";  ///< "shared": value head on the student's detached features; "own": own decoder
  std::string model{};           ///< trunk = "own": folder to start from; "" = the student's
  double lr = 1e-3;              ///< > 0
  double value_clip = 0.5;       ///< >= 0; 0 = off

  friend bool operator==(const CriticConfig&, const CriticConfig&) = default;
};

/// [sampling] How training trajectories are sampled.
struct SamplingConfig {
  double temperature = 1.0;                ///< > 0 in training
  double top_p = 1.0;                      ///< (0, 1]
  std::int32_t top_k = 0;                  ///< >= 0; 0 = off
  double min_p = 0.0;                      ///< [0, 1)
  std::int32_t max_response_tokens = 256;  ///< >= 1
  std::int32_t num_samples = 1;            ///< trajectories per task; >= 1
  bool allow_cut = false;                  ///< train on top_p, top_k, min_p samples all the same

  friend bool operator==(const SamplingConfig&, const SamplingConfig&) = default;
};

/// [pack] How invocations are packed.
struct PackConfig {
  std::int32_t max_tokens = 4096;  ///< unique tokens of one pack; >= 16
  bool share_prefixes = true;
  std::int32_t min_shared_tokens = 1;       ///< >= 1; shorter common prefixes are not shared
  std::string teacher_flush = "size";       ///< "invocation" | "size" | "step": when a teacher pack is sent
  std::int32_t teacher_pack_tokens = 1024;  ///< unique-token target of a teacher pack under "size"; >= 16

  friend bool operator==(const PackConfig&, const PackConfig&) = default;
};

/// [reward]
struct RewardConfig {
  std::string scale = "mean";  ///< "mean" over objectives | "sum"

  friend bool operator==(const RewardConfig&, const RewardConfig&) = default;
};

/// [ppo] Proximal policy optimisation over response tokens.
struct PpoConfig {
  double coef = 1.0;                ///< weight of the PPO loss; >= 0; 0 = distillation only
  std::string estimator = "gae";    ///< "gae" (critic) | "grpo" | "rloo" (groups of num_samples; no critic)
  double gamma = 1.0;               ///< [0, 1]
  double lambda = 1.0;              ///< [0, 1]
  double clip = 0.2;                ///< (0, 1)
  double dual_clip = 0.0;           ///< 0 = off, else > 1
  double entropy_coef = 0.0;        ///< >= 0
  bool whiten_advantages = true;    ///< once per step over its response tokens; never with "grpo"
  std::string loss_mean = "token";  ///< "token" | "sequence"
  double reference_kl_coef = 0.0;   ///< >= 0; times (log_prob - reference), subtracted from the per-token reward
  double max_rollout_weight = 2.0;  ///< async: bound of exp(old - rollout log-prob) on the PPO term; >= 1

  friend bool operator==(const PpoConfig&, const PpoConfig&) = default;
};

/// [opd] On-policy distillation from the teacher's full distribution.
struct OpdConfig {
  double coef = 1.0;                      ///< weight of the divergence; >= 0; 0 = PPO only
  std::string divergence = "forward_kl";  ///< "forward_kl" | "reverse_kl" | "jsd"
  double beta = 0.5;                      ///< (0, 1); jsd only
  double temperature = 1.0;               ///< > 0, both sides
  std::string state = "aligned";          ///< teacher's: "aligned" | "persistent_history" | "memory_mask" (controls)
  std::int32_t chunk_rows = 256;          ///< rows of logits alive at a time; >= 1

  friend bool operator==(const OpdConfig&, const OpdConfig&) = default;
};

/// [optimizer] AdamW of the student (and of `memopd sft`).
struct OptimizerConfig {
  double lr = 1e-6;                   ///< >= 0; 0 = a canary: nothing may change
  double beta1 = 0.9;                 ///< [0, 1)
  double beta2 = 0.999;               ///< [0, 1)
  double eps = 1e-8;                  ///< > 0
  double weight_decay = 0.01;         ///< >= 0
  double clip_grad_norm = 1.0;        ///< > 0
  std::int32_t warmup_steps = 0;      ///< optimizer steps; >= 0
  std::string schedule = "constant";  ///< "constant" | "linear" | "cosine"
  double min_lr_frac = 0.0;           ///< [0, 1]; where linear and cosine end

  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

/// [learner] How a step is cut into optimizer steps.
struct LearnerConfig {
  std::int32_t tasks_per_step = 32;          ///< >= 1; trajectories = tasks x sampling.num_samples
  std::int32_t mini_batch_trajectories = 8;  ///< of one optimizer step, over all ranks; >= 1
  std::int32_t num_epochs = 1;               ///< >= 1
  std::int32_t num_ranks = 1;                ///< learner actors; >= 1
  std::int32_t num_threads = 1;              ///< micro-batches computed at a time, per rank; >= 1
  std::string state = "aligned";             ///< student's in the losses: "aligned" | "persistent_history" (control)

  friend bool operator==(const LearnerConfig&, const LearnerConfig&) = default;
};

/// [sft] Supervised cold start from an expert's trajectories.
struct SftConfig {
  std::string output{};                                    ///< folder to write; required for `memopd sft`
  std::string tokenizer{};                                 ///< folder to take the tokenizer from; "" = train one
  std::int32_t vocab_size = 4096;                          ///< of a tokenizer trained here; >= 300
  std::string init{};                                      ///< folder to start from; "" = [sft.model] at random
  std::int32_t num_steps = 500;                            ///< optimizer steps; >= 1
  std::int32_t batch_invocations = 16;                     ///< >= 1
  std::vector<std::int32_t> objectives = {1, 2, 2, 2, 3};  ///< K of the demonstrations, drawn uniformly
  double flat_frac = 0.0;  ///< [0, 1]: share of batches in flat histories (control teachers)
  std::vector<std::int32_t> flat_objectives = {1, 2};  ///< K of their demonstrations
  std::int32_t copy_warmup_steps = 0;                  ///< optimizer steps on copying rows before; >= 0
  std::int32_t copy_warmup_rows = 24;                  ///< rows of one of them; >= 1
  double copy_warmup_lr = 3e-3;                        ///< > 0
  double ema = 0.0;               ///< [0, 1): decay of the averaged weights that are saved; 0 = off
  std::int32_t probe_every = 0;   ///< optimizer steps between probes; 0 = none
  std::int32_t probe_tasks = 50;  ///< >= 1
  double probe_stop_f1 = 1.0;     ///< stop once a probe reaches it; [0, 1]
  std::int32_t num_threads = 1;   ///< micro-batches at a time; >= 1
  ModelShapeConfig model{};       ///< [sft.model]

  friend bool operator==(const SftConfig&, const SftConfig&) = default;
};

/// [[eval.splits]] One set of tasks that is evaluated.
struct EvalSplitConfig {
  std::string name{};               ///< metric name in summary.json; required
  std::string split{};              ///< of the environment; required
  std::int32_t num_objectives = 0;  ///< K; 0 = the environment's choice
  std::int32_t num_tasks = 200;     ///< >= 1
  bool at_intervals = true;         ///< false = at start and end only

  friend bool operator==(const EvalSplitConfig&, const EvalSplitConfig&) = default;
};

/// [eval] Evaluation by the same env and student actors.
struct EvalConfig {
  std::vector<EvalSplitConfig> splits{};
  std::int32_t every = 0;                  ///< steps; 0 = at start and end only
  std::int32_t interval_tasks = 0;         ///< tasks per split at intervals; 0 = all of them
  bool teacher = false;                    ///< evaluate the teacher too, at start
  double temperature = 0.0;                ///< >= 0; 0 = greedy
  std::int32_t max_response_tokens = 256;  ///< >= 1

  friend bool operator==(const EvalConfig&, const EvalConfig&) = default;
};

/// [checkpoint]
struct CheckpointConfig {
  std::int32_t every = 0;  ///< steps; 0 = at the end only
  std::int32_t keep = 2;   ///< newest ones kept; >= 1
  std::string best{};      ///< metric ("eval/f1/f1"): the checkpoint where it was highest is kept too; "" = none

  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

/// [ledger] Append-only record of every invocation.
struct LedgerConfig {
  bool enabled = true;
  std::int32_t keep_steps = 0;  ///< whole segments that end more steps ago are deleted; 0 = all are kept

  friend bool operator==(const LedgerConfig&, const LedgerConfig&) = default;
};

/// [alarms] Conditions that end a run or are shouted about.
struct AlarmsConfig {
  double max_rollout_gap = 0.1;  ///< mean |rollout - old log-prob| in nats, lag 0; > 0
  std::int32_t max_skipped_updates =
      3;                             ///< updates skipped in a row for non-finite gradients before the run ends; >= 1
  std::int32_t max_empty_steps = 3;  ///< steps in a row without a trained trajectory before the run ends; >= 1
  double max_gap_growth = 10.0;      ///< rollout gap over its median of the first 5 steps, lag 0; > 1
  double min_entropy = 0.002;        ///< nats per token of the policy; >= 0; 0 = off
  double max_entropy_growth = 3.0;   ///< entropy over its median of the first 5 steps; > 1
  double max_repeat_frac = 0.3;      ///< response tokens that continue a run of one repeated id; (0, 1]
  double max_grad_norm = 100.0;      ///< before clipping; > 0
  double max_approx_kl = 0.5;        ///< nats, old to new policy within a step; > 0
  double max_truncated_frac = 0.5;   ///< responses that ended at their length limit; (0, 1]
  std::int32_t no_progress_s = 60;   ///< seconds without an answer before who waits for whom is reported; >= 1

  friend bool operator==(const AlarmsConfig&, const AlarmsConfig&) = default;
};

/// [net] Links between the processes of a run.
struct NetConfig {
  std::int32_t heartbeat_ms = 500;    ///< between two signs of life; 10..60000
  std::int32_t dead_after_ms = 2000;  ///< silence after which a process is declared dead; >= 2 * heartbeat_ms
  std::int32_t lease_ms = 5000;       ///< a process that its parent forgot for so long ends itself; >= dead_after_ms
  std::int32_t start_timeout_s = 60;  ///< for a started process to report itself; >= 1
  std::string host{};                 ///< numeric address to bind tcp ports to; "" = ipc only, one host
  std::vector<std::int32_t> ports{};  ///< [lowest, highest] tcp port; [] = the kernel chooses
  bool encrypt_bulk = false;          ///< CURVE on the bulk links too

  friend bool operator==(const NetConfig&, const NetConfig&) = default;
};

/// [[node]] A host and what of it may be used.
struct NodeConfig {
  std::string name{};             ///< unique; "" = as its address; of a pattern: none
  std::string address = "local";  ///< "local": this host | "[user@]host" for ssh | a pattern "node[1-4]": one node each
  std::string program{};          ///< memopd-cluster on that host, an absolute path; "" = where it is here
  std::int32_t cpus = 0;          ///< 0 = those of the affinity mask and the cgroup
  double memory_gib = 0;          ///< 0 = the host's
  std::string labels{};           ///< comma-separated words that [[role]] may ask for

  friend bool operator==(const NodeConfig&, const NodeConfig&) = default;
};

/// [[role]] Which process the actors of a role live in, and what happens when it ends. A role without one lives in the
/// launcher's process, as all do when there is none.
struct RoleConfig {
  std::string name{};           ///< required: "env", "student", "teacher", "align_pack", "learner", "retriever", ..
  std::string process = "own";  ///< "own": each actor has its own | a name: roles with the same name share one process
  double cpus = 0;              ///< cores of one process; >= 0; 0 = not counted
  double memory_gib = 0;        ///< of one process; >= 0; 0 = not counted
  std::string labels{};         ///< comma-separated: only nodes that have all of them
  std::string placement = "pack";         ///< "pack": fill a node first | "spread": fewest processes of this role first
  std::int32_t max_restarts = 5;          ///< within restart_window_s, per process; one more ends the run; 0 = none
  std::int32_t restart_window_s = 60;     ///< >= 1
  std::int32_t restart_backoff_ms = 100;  ///< before the first restart, doubled by each in the window, at most 10 s

  friend bool operator==(const RoleConfig&, const RoleConfig&) = default;
};

/// [monitor] The run's page and its data over HTTP, read-only.
struct MonitorConfig {
  std::string address{};             ///< "HOST:PORT" (port 0 = any free); "" = none
  std::int32_t history_s = 86400;    ///< seconds of events and metrics kept for it; >= 60
  std::int32_t max_events = 100000;  ///< kept in memory; >= 100

  friend bool operator==(const MonitorConfig&, const MonitorConfig&) = default;
};

/// Where each setting that was given came from: "launch.toml:12:5" or "--set", by full name ("opd.beta", "env.0.name").
/// A setting that is not here has its default. Never part of a comparison.
struct SettingOrigins {
  std::map<std::string, std::string> by_name{};

  friend bool operator==(const SettingOrigins&, const SettingOrigins&) { return true; }
};

struct Config {
  RunConfig run{};
  std::vector<EnvConfig> env{};  ///< at least one
  RetrieverConfig retriever{};
  ProtocolConfig protocol{};
  StudentConfig student{};
  TeacherConfig teacher{};
  ReferenceConfig reference{};
  CriticConfig critic{};
  SamplingConfig sampling{};
  PackConfig pack{};
  RewardConfig reward{};
  PpoConfig ppo{};
  OpdConfig opd{};
  SftConfig sft{};
  OptimizerConfig optimizer{};
  LearnerConfig learner{};
  EvalConfig eval{};
  CheckpointConfig checkpoint{};
  LedgerConfig ledger{};
  AlarmsConfig alarms{};
  NetConfig net{};
  std::vector<NodeConfig> node{};  ///< none = this host, as it is
  std::vector<RoleConfig> role{};  ///< none = one process
  MonitorConfig monitor{};
  SettingOrigins origins{};

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace memopd
