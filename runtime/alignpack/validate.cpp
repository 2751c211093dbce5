#include "runtime/alignpack/validate.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace memopd {
namespace {

using Ints = std::vector<std::int32_t>;

Unexpected broken(const std::string& what) { return unexpected(ErrorCode::invalid_argument, "pack: " + what); }

std::string at(std::string_view name, std::size_t index, std::int64_t found) {
  return std::string(name) + "[" + std::to_string(index) + "] is " + std::to_string(found);
}

Expected<void> check_size(std::string_view name, std::size_t found, std::string_view other, std::size_t wanted) {
  if (found != wanted) {
    return broken(std::string(name) + " has " + std::to_string(found) + " entries, " + std::string(other) + " has " +
                  std::to_string(wanted));
  }
  return {};
}

Expected<void> check_range(std::string_view name, const Ints& values, std::int64_t end) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] >= end) {
      return broken(at(name, i, values[i]) + ", allowed 0 .. " + std::to_string(end - 1));
    }
  }
  return {};
}

Expected<void> check_not_negative(std::string_view name, const Ints& values) {
  return check_range(name, values, std::int64_t{1} << 31);
}

Expected<void> check_cumulative(std::string_view name, const Ints& values, std::size_t total) {
  if (values.empty() || values.front() != 0) {
    return broken(std::string(name) + " must start with 0");
  }
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] < values[i - 1]) {
      return broken(at(name, i, values[i]) + ", below the entry before it");
    }
  }
  if (static_cast<std::size_t>(values.back()) != total) {
    return broken(std::string(name) + " ends at " + std::to_string(values.back()) + ", not at " +
                  std::to_string(total));
  }
  return {};
}

/// Rows seen by one segment; `begin` and `end` into kv_index, the first row of the segment is `q_begin`.
Expected<void> check_segment(const PackedBatch& pack, std::size_t segment) {
  const std::int32_t q_begin = pack.cu_seqlens_q[segment];
  const std::int32_t num_own = pack.cu_seqlens_q[segment + 1] - q_begin;
  const std::int32_t begin = pack.cu_seqlens_k[segment];
  const std::int32_t end = pack.cu_seqlens_k[segment + 1];
  if (end - begin < num_own) {
    return broken("segment " + std::to_string(segment) + " has " + std::to_string(num_own) + " rows and sees " +
                  std::to_string(end - begin));
  }
  std::int32_t last_position = -1;
  for (std::int32_t k = begin; k < end; ++k) {
    const std::int32_t row = pack.kv_index[static_cast<std::size_t>(k)];
    const std::int32_t own = k - (end - num_own);  // index among the segment's own rows, negative in the chain
    if (own >= 0 ? row != q_begin + own : row >= q_begin) {
      return broken(at("kv_index", static_cast<std::size_t>(k), row) + ", segment " + std::to_string(segment) +
                    " allows " + (own >= 0 ? std::to_string(q_begin + own) : "< " + std::to_string(q_begin)));
    }
    const std::int32_t position = pack.position_ids[static_cast<std::size_t>(row)];
    if (position <= last_position) {
      return broken("segment " + std::to_string(segment) + " sees position " + std::to_string(position) +
                    " after position " + std::to_string(last_position));
    }
    last_position = position;
  }
  return {};
}

/// Response token r + 1 is predicted by the row that holds token r, at the next position (AP-4).
Expected<void> check_response(const PackedBatch& pack, std::int32_t begin, std::int32_t end) {
  for (auto r = static_cast<std::size_t>(begin); r + 1 < static_cast<std::size_t>(end); ++r) {
    const auto row = static_cast<std::size_t>(pack.response_index[r]);
    const auto next_row = static_cast<std::size_t>(pack.response_index[r + 1]);
    if (pack.input_ids[next_row] != pack.response_token_ids[r]) {
      return broken("response token " + std::to_string(r) + " is " + std::to_string(pack.response_token_ids[r]) +
                    ", the row after it holds " + std::to_string(pack.input_ids[next_row]));
    }
    if (std::int64_t{pack.position_ids[next_row]} != std::int64_t{pack.position_ids[row]} + 1) {
      return broken("response tokens " + std::to_string(r) + " and " + std::to_string(r + 1) +
                    " do not have consecutive positions");
    }
  }
  return {};
}

Expected<void> check_invocations(const PackedBatch& pack) {
  std::int32_t expected_begin = 0;
  for (std::size_t i = 0; i < pack.invocations.size(); ++i) {
    const PackedInvocation& invocation = pack.invocations[i];
    if (invocation.response_begin != expected_begin || invocation.response_end < invocation.response_begin ||
        invocation.response_end > pack.num_response_tokens()) {
      return broken("invocation " + std::to_string(i) + " has response rows " +
                    std::to_string(invocation.response_begin) + " .. " + std::to_string(invocation.response_end) +
                    ", allowed from " + std::to_string(expected_begin) + " to at most " +
                    std::to_string(pack.num_response_tokens()));
    }
    MEMOPD_RETURN_IF_ERROR(check_response(pack, invocation.response_begin, invocation.response_end));
    expected_begin = invocation.response_end;
  }
  if (expected_begin != pack.num_response_tokens()) {
    return broken("the invocations have " + std::to_string(expected_begin) + " response rows, response_index " +
                  std::to_string(pack.num_response_tokens()));
  }
  return {};
}

}  // namespace

Expected<void> validate(const PackedBatch& pack) {
  const std::size_t num_tokens = pack.input_ids.size();
  constexpr std::size_t kMaxSize = (std::size_t{1} << 31) - 1;
  if (num_tokens > kMaxSize || pack.kv_index.size() > kMaxSize || pack.response_index.size() > kMaxSize) {
    return broken("more rows than 32-bit indices can say");
  }
  MEMOPD_RETURN_IF_ERROR(check_size("position_ids", pack.position_ids.size(), "input_ids", num_tokens));
  MEMOPD_RETURN_IF_ERROR(check_not_negative("input_ids", pack.input_ids));
  MEMOPD_RETURN_IF_ERROR(check_not_negative("position_ids", pack.position_ids));
  MEMOPD_RETURN_IF_ERROR(check_cumulative("cu_seqlens_q", pack.cu_seqlens_q, num_tokens));
  MEMOPD_RETURN_IF_ERROR(check_cumulative("cu_seqlens_k", pack.cu_seqlens_k, pack.kv_index.size()));
  MEMOPD_RETURN_IF_ERROR(
      check_size("cu_seqlens_k", pack.cu_seqlens_k.size(), "cu_seqlens_q", pack.cu_seqlens_q.size()));
  const auto end = static_cast<std::int64_t>(num_tokens);
  MEMOPD_RETURN_IF_ERROR(check_range("kv_index", pack.kv_index, end));
  MEMOPD_RETURN_IF_ERROR(check_range("response_index", pack.response_index, end));
  MEMOPD_RETURN_IF_ERROR(
      check_size("response_token_ids", pack.response_token_ids.size(), "response_index", pack.response_index.size()));
  MEMOPD_RETURN_IF_ERROR(check_not_negative("response_token_ids", pack.response_token_ids));
  for (std::size_t segment = 0; segment + 1 < pack.cu_seqlens_q.size(); ++segment) {
    MEMOPD_RETURN_IF_ERROR(check_segment(pack, segment));
  }
  return check_invocations(pack);
}

}  // namespace memopd
