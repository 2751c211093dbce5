// The fields of every type in runtime/data (and of Error), so that messages may hold them.
#pragma once

#include "runtime/base/error.hpp"
#include "runtime/data/invocation.hpp"
#include "runtime/data/packed_batch.hpp"
#include "runtime/data/task.hpp"
#include "runtime/data/teacher_scores.hpp"
#include "runtime/data/tensor.hpp"
#include "runtime/data/trajectory.hpp"
#include "runtime/data/trajectory_id.hpp"
#include "runtime/wire/codec.hpp"
#include "runtime/wire/fields.hpp"

namespace memopd {

MEMOPD_ENUM(ErrorCode, internal)
MEMOPD_FIELDS(Error, code, message)

MEMOPD_FIELDS(TrajectoryId, split, step, task_index, sample)

MEMOPD_ENUM(SpanKind, observation)
MEMOPD_ENUM(FinishReason, aborted)
MEMOPD_FIELDS(Span, begin, end, kind)
MEMOPD_FIELDS(Sampling, temperature, top_p, top_k, min_p, max_response_tokens, seed)
MEMOPD_FIELDS(VersionRun, policy_version, count)
MEMOPD_FIELDS(InvocationTimings, queue_ms, prefill_ms, decode_ms)
MEMOPD_FIELDS(Invocation, trajectory_id, attempt, invocation_index, prompt_token_ids, spans, response_token_ids,
              rollout_log_probs, log_kept_mass, policy_versions, sampling, finish_reason, reward, digest, timings)

MEMOPD_ENUM(TrajectoryStatus, teacher_unavailable)
MEMOPD_FIELDS(Trajectory, id, attempt, task_id, env, invocations, status, rewards, answer, metrics)

MEMOPD_FIELDS(PackedInvocation, trajectory_id, attempt, invocation_index, response_begin, response_end, digest)
MEMOPD_FIELDS(PackedBatch, input_ids, position_ids, cu_seqlens_q, kv_index, cu_seqlens_k, response_index,
              response_token_ids, invocations)

MEMOPD_ENUM(DType, uint8)
MEMOPD_FIELDS(HostTensor, name, dtype, shape, bytes)
MEMOPD_FIELDS(WeightSet, lineage, policy_version, tensors)

MEMOPD_FIELDS(ObjectRef, high, low)
MEMOPD_FIELDS(TeacherScores, hidden, row_valid, head_fingerprint, digests)
MEMOPD_FIELDS(ScoreRef, trajectory_id, attempt, invocation_index, object, row_begin, row_end, head_fingerprint, digest)
MEMOPD_FIELDS(StepBatch, lineage, step, policy_version, trajectories, scores)

MEMOPD_ENUM(ActionKind, invalid)
MEMOPD_FIELDS(Task, id, data_source, split, text, targets, extra, max_turns)
MEMOPD_FIELDS(Action, kind, text, response)
MEMOPD_FIELDS(ToolCall, tool, query)
MEMOPD_FIELDS(Document, id, title, text, score)
MEMOPD_FIELDS(ToolResult, documents)
MEMOPD_FIELDS(Turn, observation, reward, is_done, tool_call, metrics)

}  // namespace memopd
