// The message set of a training run: who asks whom for what.
//
//   coordinator -> env         RunTask -> TrajectoryDone
//   env         -> student     Generate -> Generated
//   env         -> retriever   Retrieve -> Retrieved
//   env         -> align_pack  EmitInvocation, EmitTrajectory -> Acknowledged
//   align_pack  -> teacher     ScorePack -> PackScored
//   coordinator -> align_pack  CloseStep -> StepClosed; RecordStep -> Acknowledged; BeginLineage -> LineageBegun
//   coordinator -> learner     TrainStep -> StepTrained; SaveCheckpoint -> CheckpointSaved; ShareWeights -> WeightsShared;
//                              RestoreLearner -> LearnerRestored
//   coordinator -> student     LoadWeights -> WeightsLoaded
//   coordinator -> rank_meeting EndRanks
//   learner     -> rank_meeting RankArrival -> RanksMet, when the ranks live in processes of their own
//   student     -> coordinator GetWeights -> WeightsShared
// Packs, scores, step batches and weights travel as objects; a message holds their ObjectRef. Delivery is at least once,
// effects are once: the key of an effect is (lineage, trajectory_id, attempt, invocation_index).
// MEMOPD_IDEMPOTENT: asked again of the same actor when it was restarted. Not so marked although handling them twice does
// no harm: Generate and ScorePack, which the asker sends to another member of the group; LoadWeights, for which a publish
// does not wait, since a restarted student asks for weights itself. RunTask is a new attempt then.
// Length: the one list of what a run says.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/collective/rank_meeting.hpp"
#include "runtime/data/invocation.hpp"
#include "runtime/data/task.hpp"
#include "runtime/data/teacher_scores.hpp"
#include "runtime/data/trajectory.hpp"
#include "runtime/wire/data_codec.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

/// What every actor of a run is started with: the resolved configuration and where it stands in its role.
struct RoleInit {
  std::string config_text;          ///< TOML, as dump_config prints it
  std::string run_directory;        ///< on the head; "" = nothing is written
  std::string model;                ///< student, teacher: Hugging Face folder; "" = the role's own setting
  std::string tokenizer;            ///< folder
  ObjectRef collective;             ///< learner, coordinator: the group of the ranks in this process
  bool is_resumed = false;          ///< the run directory holds an earlier part of this run
  std::string checkpoint;           ///< folder to go on from; "" with is_resumed: nothing was kept, begin anew
  std::int32_t interrupted_at = 0;  ///< with is_resumed: steps that were trained when the earlier part ended
};
MEMOPD_MESSAGE(RoleInit, 1, config_text, run_directory, model, tokenizer, collective, is_resumed, checkpoint,
               interrupted_at)

/// Run one attempt of one task to its end.
struct RunTask {
  TrajectoryId trajectory_id;
  std::int32_t attempt = 0;
  Task task;
  Sampling sampling;                ///< seed is filled in per invocation
  std::string student = "student";  ///< group that samples
  std::uint64_t seed = 0;           ///< of the trajectory
  bool is_training = true;          ///< false: recorded, never scored or trained on
  std::int64_t lineage = 0;         ///< of the run when it was dispatched
};
MEMOPD_MESSAGE(RunTask, 2, trajectory_id, attempt, task, sampling, student, seed, is_training, lineage)

struct TrajectoryDone {
  TrajectoryId trajectory_id;
  std::int32_t attempt = 0;
  TrajectoryStatus status = TrajectoryStatus::completed;
  std::map<std::string, double> rewards;
  std::map<std::string, double> metrics;
  std::string note;  ///< why, when the status is a failure
};
MEMOPD_MESSAGE(TrajectoryDone, 1, trajectory_id, attempt, status, rewards, metrics, note)

struct Generate {
  std::vector<std::int32_t> prompt_token_ids;
  std::vector<Span> spans;
  Sampling sampling;
  std::vector<std::string> stop_strings;
};
MEMOPD_MESSAGE(Generate, 1, prompt_token_ids, spans, sampling, stop_strings)

struct Generated {
  std::vector<std::int32_t> response_token_ids;
  std::vector<float> rollout_log_probs;
  std::vector<float> log_kept_mass;
  std::vector<VersionRun> policy_versions;
  FinishReason finish_reason = FinishReason::stop;
  Digest digest{};  ///< of what stood beside the engine's cache (AP-6)
  InvocationTimings timings;
};
MEMOPD_MESSAGE(Generated, 1, response_token_ids, rollout_log_probs, log_kept_mass, policy_versions, finish_reason,
               digest, timings)

struct Retrieve {
  std::vector<std::string> queries;
  std::int32_t topk = 0;  ///< 0 = the retriever's setting
};
MEMOPD_MESSAGE(Retrieve, 1, queries, topk)
MEMOPD_IDEMPOTENT(Retrieve)

struct Retrieved {
  std::vector<std::vector<Document>> documents;  ///< one list per query, best first
};
MEMOPD_MESSAGE(Retrieved, 1, documents)

struct EmitInvocation {
  Invocation invocation;
  bool is_training = true;
  std::int64_t lineage = 0;  ///< of its task; a record of an earlier one than the ledger's has no effect
};
MEMOPD_MESSAGE(EmitInvocation, 2, invocation, is_training, lineage)
MEMOPD_IDEMPOTENT(EmitInvocation)

/// The trajectory record: everything but the invocations, which were emitted one by one.
struct EmitTrajectory {
  Trajectory trajectory;  ///< invocations empty
  std::int32_t num_invocations = 0;
  bool is_training = true;
  std::int64_t lineage = 0;  ///< as in EmitInvocation
};
MEMOPD_MESSAGE(EmitTrajectory, 2, trajectory, num_invocations, is_training, lineage)
MEMOPD_IDEMPOTENT(EmitTrajectory)

struct Acknowledged {};
MEMOPD_MESSAGE(Acknowledged, 1)

struct ScorePack {
  ObjectRef pack;         ///< PackedBatch
  std::int32_t step = 0;  ///< scope of the scores
};
MEMOPD_MESSAGE(ScorePack, 1, pack, step)

struct PackScored {
  ObjectRef scores;  ///< TeacherScores
  std::uint64_t head_fingerprint = 0;
  double busy_ms = 0;
};
MEMOPD_MESSAGE(PackScored, 1, scores, head_fingerprint, busy_ms)

struct CloseStep {
  std::int64_t lineage = 0;
  std::int32_t step = 0;
  std::int64_t policy_version = 0;
  std::vector<TrajectoryId> trajectory_ids;  ///< those that ended and are to be in the batch
};
MEMOPD_MESSAGE(CloseStep, 1, lineage, step, policy_version, trajectory_ids)
MEMOPD_IDEMPOTENT(CloseStep)

struct StepClosed {
  ObjectRef batch;  ///< StepBatch
  std::map<std::string, double> metrics;
};
MEMOPD_MESSAGE(StepClosed, 1, batch, metrics)

/// A trajectory that a step does not train on.
struct DroppedFromStep {
  TrajectoryId trajectory_id;
  std::int32_t attempt = 0;
  std::string reason;  ///< a status name, "empty", ..
};
MEMOPD_FIELDS(DroppedFromStep, trajectory_id, attempt, reason)

/// To the ledger, once the learner has answered: what became of every trajectory of the step (RL-2).
struct RecordStep {
  std::int64_t lineage = 0;
  std::int32_t step = 0;
  std::int64_t policy_version = 0;           ///< the learner's when the step was closed
  std::vector<TrajectoryId> trajectory_ids;  ///< trained, in id order
  std::vector<DroppedFromStep> dropped;
};
MEMOPD_MESSAGE(RecordStep, 2, lineage, step, policy_version, trajectory_ids, dropped)
MEMOPD_IDEMPOTENT(RecordStep)

/// To the ledger, before anything of a run that goes back: the weights are those of `to_step` again.
struct BeginLineage {
  static constexpr std::int64_t kWhatTheLedgerHas = -1;

  std::int64_t lineage = kWhatTheLedgerHas;  ///< the one that ends; when a later one has begun, that is the answer
  std::int32_t from_step = 0;
  std::int32_t to_step = 0;
};
MEMOPD_MESSAGE(BeginLineage, 2, lineage, from_step, to_step)
MEMOPD_IDEMPOTENT(BeginLineage)

struct LineageBegun {
  std::int64_t lineage = 0;
};
MEMOPD_MESSAGE(LineageBegun, 1, lineage)

struct TrainStep {
  ObjectRef batch;  ///< StepBatch
};
MEMOPD_MESSAGE(TrainStep, 1, batch)

struct StepTrained {
  std::int64_t policy_version = 0;
  std::int32_t num_optimizer_steps = 0;
  std::int32_t num_trained = 0;           ///< trajectories
  std::int32_t max_skipped_in_a_row = 0;  ///< updates left out for a non-finite gradient
  std::vector<DroppedFromStep> dropped;   ///< in id order
  std::map<std::string, double> metrics;
  ObjectRef weights;  ///< WeightSet; rank 0 only
};
MEMOPD_MESSAGE(StepTrained, 1, policy_version, num_optimizer_steps, num_trained, max_skipped_in_a_row, dropped, metrics,
               weights)

struct SaveCheckpoint {
  std::string folder;
  std::string run_state;  ///< JSON object of the coordinator, kept in the checkpoint's state.json as "run"
};
MEMOPD_MESSAGE(SaveCheckpoint, 1, folder, run_state)

struct CheckpointSaved {};
MEMOPD_MESSAGE(CheckpointSaved, 1)

/// To every rank once one of them was lost: load the checkpoint and go on from there.
struct RestoreLearner {
  std::int64_t recovery = 0;  ///< counts in the run, from 1; a learner that was restored by a later one refuses it
  std::string checkpoint;     ///< folder; "" = begin anew from the student's
  ObjectRef collective;       ///< the ranks' new group; none = the one they were started with
};
MEMOPD_MESSAGE(RestoreLearner, 1, recovery, checkpoint, collective)
MEMOPD_IDEMPOTENT(RestoreLearner)

struct LearnerRestored {
  std::int64_t policy_version = 0;
};
MEMOPD_MESSAGE(LearnerRestored, 1, policy_version)

MEMOPD_MESSAGE(RankArrival, 1, generation, rank, num_ranks, meeting, operation, objects, deadline_ms)
MEMOPD_MESSAGE(RanksMet, 1, objects)

/// The group of this generation is over: whoever waits in it, or still comes, hears why.
struct EndRanks {
  std::int64_t generation = 0;
  std::string reason;
};
MEMOPD_MESSAGE(EndRanks, 1, generation, reason)

/// To learner rank 0 after a resume: the weights it goes on from, for the students.
struct ShareWeights {};
MEMOPD_MESSAGE(ShareWeights, 1)
MEMOPD_IDEMPOTENT(ShareWeights)

/// Of a student that was restarted: what is everybody sampling with?
struct GetWeights {
  ObjectRef lost;  ///< the last answer, which is in no store any more: it went with its node
};
MEMOPD_MESSAGE(GetWeights, 1, lost)
MEMOPD_IDEMPOTENT(GetWeights)

struct WeightsShared {
  std::int64_t policy_version = 0;
  ObjectRef weights;  ///< WeightSet; none = those of the student's folder
};
MEMOPD_MESSAGE(WeightsShared, 1, policy_version, weights)

struct LoadWeights {
  ObjectRef weights;  ///< WeightSet
};
MEMOPD_MESSAGE(LoadWeights, 1, weights)

struct WeightsLoaded {
  std::int64_t policy_version = 0;
};
MEMOPD_MESSAGE(WeightsLoaded, 1, policy_version)

/// Coordinator: run the whole training run of the configuration.
struct StartRun {};
MEMOPD_MESSAGE(StartRun, 1)

/// Coordinator: stop after the step in progress.
struct StopRun {};
MEMOPD_MESSAGE(StopRun, 1)

struct RunEnded {
  std::string verdict;  ///< completed | stopped | failed
  std::string first_failure;
};
MEMOPD_MESSAGE(RunEnded, 1, verdict, first_failure)

/// Coordinator: run these tasks and report each; for evaluation and demonstrations outside a run.
struct RunTasks {
  std::vector<RunTask> tasks;
};
MEMOPD_MESSAGE(RunTasks, 1, tasks)

struct TasksDone {
  std::vector<TrajectoryDone> trajectories;  ///< in the order asked
};
MEMOPD_MESSAGE(TasksDone, 1, trajectories)

// Compiled once, in messages.cpp: the codec of a message is the costly part of every file that sends it.
extern template const MessageType& message_type<RoleInit>();
extern template const MessageType& message_type<RunTask>();
extern template const MessageType& message_type<TrajectoryDone>();
extern template const MessageType& message_type<Generate>();
extern template const MessageType& message_type<Generated>();
extern template const MessageType& message_type<Retrieve>();
extern template const MessageType& message_type<Retrieved>();
extern template const MessageType& message_type<EmitInvocation>();
extern template const MessageType& message_type<EmitTrajectory>();
extern template const MessageType& message_type<Acknowledged>();
extern template const MessageType& message_type<ScorePack>();
extern template const MessageType& message_type<PackScored>();
extern template const MessageType& message_type<CloseStep>();
extern template const MessageType& message_type<StepClosed>();
extern template const MessageType& message_type<RecordStep>();
extern template const MessageType& message_type<BeginLineage>();
extern template const MessageType& message_type<LineageBegun>();
extern template const MessageType& message_type<TrainStep>();
extern template const MessageType& message_type<StepTrained>();
extern template const MessageType& message_type<SaveCheckpoint>();
extern template const MessageType& message_type<CheckpointSaved>();
extern template const MessageType& message_type<RestoreLearner>();
extern template const MessageType& message_type<LearnerRestored>();
extern template const MessageType& message_type<RankArrival>();
extern template const MessageType& message_type<RanksMet>();
extern template const MessageType& message_type<EndRanks>();
extern template const MessageType& message_type<GetWeights>();
extern template const MessageType& message_type<ShareWeights>();
extern template const MessageType& message_type<WeightsShared>();
extern template const MessageType& message_type<LoadWeights>();
extern template const MessageType& message_type<WeightsLoaded>();
extern template const MessageType& message_type<StartRun>();
extern template const MessageType& message_type<StopRun>();
extern template const MessageType& message_type<RunEnded>();
extern template const MessageType& message_type<RunTasks>();
extern template const MessageType& message_type<TasksDone>();

}  // namespace memopd
