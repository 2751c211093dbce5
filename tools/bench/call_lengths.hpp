// How long the calls of a workload are, and trajectories of that shape with random ids.
//
// A prompt is [instruction][question][kept][observation]. Instructions are the same for all trajectories, questions for
// all trajectories of a task; kept is the end of the previous response, all of it when the lengths agree. So trajectories
// share prefixes where recorded ones do by construction; what they share by accident is not modelled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/data/trajectory.hpp"

namespace memopd {

/// Tokens of one call; all >= 0, instruction + question and response >= 1.
struct CallLengths {
  std::int32_t task = 0;
  std::int32_t trajectory = 0;
  std::int32_t call = 0;  ///< 0-based within the trajectory
  std::int32_t instruction = 0;
  std::int32_t question = 0;
  std::int32_t kept = 0;  ///< <= response of the call before; 0 in call 0
  std::int32_t observation = 0;
  std::int32_t response = 0;

  friend bool operator==(const CallLengths&, const CallLengths&) = default;
};

/// Reads tab-separated values: lines that begin with # are skipped, then a header that names the fields above in their
/// order, then one line per call, trajectories and their calls in order.
/// @error not_found    no such file
/// @error parse_error  another header, a field that is no number or out of range, calls out of order; names the line
Expected<std::vector<CallLengths>> read_call_lengths(const std::filesystem::path& file);

/// 8 trajectories of a MemOPD-like workload: 300 instruction tokens shared by all, lognormal lengths with sigma 0.3 around
/// medians of 60 question, 430 observation and 120 response tokens, 2 to 6 calls, whole responses kept.
std::vector<CallLengths> memopd_like_lengths(std::uint64_t seed);

/// Trajectories with ids in [0, vocab_size) drawn from `seed`. @param lengths  as read_call_lengths gives them
std::vector<Trajectory> trajectories_of(const std::vector<CallLengths>& lengths, std::int32_t vocab_size,
                                        std::uint64_t seed);

/// One line: trajectories, calls, and mean and maximum of calls per trajectory, tokens and response tokens per call.
std::string describe(const std::vector<CallLengths>& lengths);

}  // namespace memopd
