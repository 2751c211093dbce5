#include "runtime/alignpack/history_pack.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

namespace memopd {
namespace {

/// Rows [begin, end) of a history, counted from its first row.
struct Rows {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  [[nodiscard]] std::int64_t size() const { return std::int64_t{end} - begin; }
};

/// One invocation in its history.
struct Call {
  const Invocation* invocation = nullptr;
  Rows observation{};  ///< what answered the call before; of the first call the question
  Rows response{};
  Rows memory{};  ///< memory_mask: the part of the response that the next call sees
};

struct History {
  std::vector<std::int32_t> ids;
  std::vector<Call> calls;
};

std::string name_of(const Trajectory& trajectory) { return "trajectory " + to_string(trajectory.id); }

std::string name_of(const Invocation& invocation) {
  return "trajectory " + to_string(invocation.trajectory_id) + ", invocation " +
         std::to_string(invocation.invocation_index);
}

/// The spans of a prompt after its last kept one: older observations, where a protocol shows them, stand before.
std::span<const Span> spans_after_kept(const Invocation& invocation) {
  const auto last_kept = std::find_if(invocation.spans.rbegin(), invocation.spans.rend(),
                                      [](const Span& span) { return span.kind == SpanKind::kept; });
  return {last_kept.base(), invocation.spans.end()};
}

Expected<void> check_spans(const Invocation& invocation) {
  const auto num_prompt = static_cast<std::int64_t>(invocation.prompt_token_ids.size());
  for (const Span& span : invocation.spans) {
    if (span.begin < 0 || span.end < span.begin || span.end > num_prompt) {
      return unexpected(ErrorCode::invalid_argument, name_of(invocation) + ": span " + std::to_string(span.begin) +
                                                         " .. " + std::to_string(span.end) + " in a prompt of " +
                                                         std::to_string(num_prompt) + " tokens");
    }
  }
  return {};
}

/// Collects the rows of one trajectory.
class HistoryBuilder {
 public:
  HistoryBuilder(const Trajectory& trajectory, HistoryState state, const ReasoningEnd& reasoning_end)
      : trajectory_(trajectory), state_(state), reasoning_end_(reasoning_end) {}

  Expected<History> build() {
    for (const Invocation& invocation : trajectory_.invocations) {
      Call call{.invocation = &invocation};
      call.observation = history_.calls.empty() ? append(invocation.prompt_token_ids) : append_observation(invocation);
      call.response = append(invocation.response_token_ids);
      if (state_ == HistoryState::memory_mask) {
        MEMOPD_RETURN_IF_ERROR(set_memory(call));
      }
      history_.calls.push_back(call);
    }
    MEMOPD_RETURN_IF_ERROR(check_ids());
    return std::move(history_);
  }

 private:
  Rows append(std::span<const std::int32_t> ids) {
    const auto begin = static_cast<std::int32_t>(history_.ids.size());
    history_.ids.insert(history_.ids.end(), ids.begin(), ids.end());
    return {begin, static_cast<std::int32_t>(history_.ids.size())};
  }

  Rows append_observation(const Invocation& invocation) {
    Rows rows = append({});
    for (const Span& span : spans_after_kept(invocation)) {
      if (span.kind == SpanKind::observation) {
        rows.end =
            append(std::span(invocation.prompt_token_ids)
                       .subspan(static_cast<std::size_t>(span.begin), static_cast<std::size_t>(span.end - span.begin)))
                .end;
      }
    }
    return rows;
  }

  Expected<void> set_memory(Call& call) const {
    const std::int32_t begin = reasoning_end_(*call.invocation);
    if (begin < 0 || begin > call.response.size()) {
      return unexpected(ErrorCode::invalid_argument, name_of(*call.invocation) + ": the reasoning ends at " +
                                                         std::to_string(begin) + ", allowed 0 .. " +
                                                         std::to_string(call.response.size()));
    }
    call.memory = {call.response.begin + begin, call.response.end};
    return {};
  }

  [[nodiscard]] Expected<void> check_ids() const {
    if (!history_.calls.empty() && history_.calls.front().observation.size() == 0) {
      return unexpected(ErrorCode::invalid_argument,
                        name_of(*history_.calls.front().invocation) + ": the prompt is empty");
    }
    const auto negative = std::find_if(history_.ids.begin(), history_.ids.end(), [](auto id) { return id < 0; });
    if (negative != history_.ids.end()) {
      return unexpected(ErrorCode::invalid_argument,
                        name_of(trajectory_) + ": token " + std::to_string(negative - history_.ids.begin()) +
                            " of its history has id " + std::to_string(*negative) + ", allowed >= 0");
    }
    return {};
  }

  const Trajectory& trajectory_;
  HistoryState state_;
  const ReasoningEnd& reasoning_end_;
  History history_;
};

/// Appends histories to one pack.
class PackBuilder {
 public:
  PackBuilder() {
    pack_.cu_seqlens_q.push_back(0);
    pack_.cu_seqlens_k.push_back(0);
  }

  [[nodiscard]] bool is_empty() const { return pack_.input_ids.empty(); }

  void append(const History& history, HistoryState state) {
    first_row_ = pack_.num_tokens();
    for (const std::int32_t id : history.ids) {
      pack_.position_ids.push_back(pack_.num_tokens() - first_row_);
      pack_.input_ids.push_back(id);
    }
    if (state == HistoryState::persistent_history) {
      add_segment({}, {0, static_cast<std::int32_t>(history.ids.size())});
    } else {
      add_masked_segments(history.calls);
    }
    for (const Call& call : history.calls) {
      add_invocation(call);
    }
  }

  [[nodiscard]] PackedBatch build() { return std::move(pack_); }

 private:
  /// Rows `own` see those of `chain` and, causally, themselves.
  void add_segment(std::initializer_list<Rows> chain, Rows own) {
    if (own.size() == 0) {
      return;
    }
    const auto see = [this](Rows rows) {
      for (std::int32_t row = rows.begin; row < rows.end; ++row) {
        pack_.kv_index.push_back(first_row_ + row);
      }
    };
    std::for_each(chain.begin(), chain.end(), see);
    see(own);
    pack_.cu_seqlens_q.push_back(first_row_ + own.end);
    pack_.cu_seqlens_k.push_back(static_cast<std::int32_t>(pack_.kv_index.size()));
  }

  void add_masked_segments(const std::vector<Call>& calls) {
    const Rows question = calls.front().observation;
    add_segment({}, {question.begin, calls.front().response.end});
    for (std::size_t j = 1; j < calls.size(); ++j) {
      add_segment({}, calls[j].observation);
      add_segment({question, calls[j - 1].memory, calls[j].observation}, calls[j].response);
    }
  }

  void add_invocation(const Call& call) {
    if (call.response.size() == 0) {
      return;
    }
    const Invocation& invocation = *call.invocation;
    PackedInvocation entry{
        invocation.trajectory_id, invocation.attempt, invocation.invocation_index, pack_.num_response_tokens(), 0,
        invocation.digest};
    for (std::int32_t row = call.response.begin; row < call.response.end; ++row) {
      pack_.response_index.push_back(first_row_ + row - 1);
      pack_.response_token_ids.push_back(pack_.input_ids[static_cast<std::size_t>(first_row_ + row)]);
    }
    entry.response_end = pack_.num_response_tokens();
    pack_.invocations.push_back(std::move(entry));
  }

  PackedBatch pack_;
  std::int32_t first_row_ = 0;  ///< of the history that is being appended
};

/// Visible rows over all segments: at most the question and the last call again for every call.
std::int64_t max_visible_rows(const Trajectory& trajectory) {
  const std::int64_t num_rows = num_history_tokens(trajectory);
  const auto num_question = static_cast<std::int64_t>(trajectory.invocations.front().prompt_token_ids.size());
  return 3 * num_rows + num_question * static_cast<std::int64_t>(trajectory.invocations.size());
}

Expected<void> check_trajectory(const Trajectory& trajectory, const AlignPackOptions& options) {
  for (const Invocation& invocation : trajectory.invocations) {
    MEMOPD_RETURN_IF_ERROR(check_spans(invocation));
  }
  const std::int64_t num_rows = num_history_tokens(trajectory);
  if (num_rows > options.max_tokens) {
    return unexpected(ErrorCode::invocation_too_long, name_of(trajectory) + ": " + std::to_string(num_rows) +
                                                          " tokens of its history exceed max_tokens " +
                                                          std::to_string(options.max_tokens));
  }
  if (max_visible_rows(trajectory) > std::numeric_limits<std::int32_t>::max()) {
    return unexpected(ErrorCode::invocation_too_long, name_of(trajectory) + ": " +
                                                          std::to_string(trajectory.invocations.size()) +
                                                          " calls see more rows than 32-bit indices can say");
  }
  return {};
}

}  // namespace

std::int64_t num_history_tokens(const Trajectory& trajectory) {
  std::int64_t count = num_response_tokens(trajectory);
  for (std::size_t j = 0; j < trajectory.invocations.size(); ++j) {
    const Invocation& invocation = trajectory.invocations[j];
    if (j == 0) {
      count += static_cast<std::int64_t>(invocation.prompt_token_ids.size());
      continue;
    }
    for (const Span& span : spans_after_kept(invocation)) {
      count += span.kind == SpanKind::observation ? std::int64_t{span.end} - span.begin : 0;
    }
  }
  return count;
}

Expected<std::vector<PackedBatch>> pack_histories(std::span<const Trajectory* const> trajectories, HistoryState state,
                                                  const AlignPackOptions& options, const ReasoningEnd& reasoning_end) {
  if (options.max_tokens < 1) {
    return unexpected(ErrorCode::invalid_argument,
                      "max_tokens is " + std::to_string(options.max_tokens) + ", allowed >= 1");
  }
  if (state == HistoryState::memory_mask && !reasoning_end) {
    return unexpected(ErrorCode::invalid_argument,
                      "memory_mask needs to be told where the reasoning of a response ends");
  }
  std::vector<PackedBatch> packs;
  PackBuilder builder;
  std::int64_t num_rows = 0;
  std::int64_t num_visible = 0;
  for (const Trajectory* const trajectory : trajectories) {
    if (num_response_tokens(*trajectory) == 0) {
      continue;
    }
    MEMOPD_RETURN_IF_ERROR(check_trajectory(*trajectory, options));
    Expected<History> history = HistoryBuilder(*trajectory, state, reasoning_end).build();
    if (!history) {
      return unexpected(history.error());
    }
    const std::int64_t visible = max_visible_rows(*trajectory);
    if (!builder.is_empty() && (num_rows + num_history_tokens(*trajectory) > options.max_tokens ||
                                num_visible + visible > std::numeric_limits<std::int32_t>::max())) {
      packs.push_back(builder.build());
      builder = {};
      num_rows = num_visible = 0;
    }
    builder.append(*history, state);
    num_rows += num_history_tokens(*trajectory);
    num_visible += visible;
  }
  if (!builder.is_empty()) {
    packs.push_back(builder.build());
  }
  return packs;
}

}  // namespace memopd
