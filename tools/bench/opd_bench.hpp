// What the fused head costs beside the same losses written as tensor operations with autograd, in one run.
//
// Both sides get hidden rows of a student and of a teacher, two heads, and give the loss, its gradient by the rows and by
// the student's head. Extra bytes are the most that was allocated at a time beyond the inputs and the head's gradient.
// Repetitions of the sides take turns; the time of a side is its fastest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/training/opd.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

struct OpdBenchOptions {
  std::int32_t vocab_size = 151936;   ///< V; >= 2
  std::int32_t student_width = 2048;  ///< D; >= 1
  std::int32_t teacher_width = 3584;  ///< E; >= 1
  std::int32_t num_rows = 512;        ///< R; >= 1
  std::int32_t chunk_rows = 256;      ///< as opd.chunk_rows
  std::vector<Divergence> divergences = {Divergence::forward_kl, Divergence::reverse_kl, Divergence::jsd};
  std::int32_t num_repetitions = 2;  ///< >= 1; after one that warms up
  std::int32_t num_threads = 2;      ///< of one operation, both sides; >= 1
  std::uint64_t seed = 1;
};

struct OpdBenchRow {
  std::string name;  ///< "forward_kl" | "reverse_kl" | "jsd": OPD alone; "ppo_forward_kl": with PPO and entropy
  double ours_s = 0;
  double plain_s = 0;
  std::int64_t ours_extra_bytes = 0;
  std::int64_t plain_extra_bytes = 0;
  double max_rel_grad_diff = 0;  ///< larger of rows and head, norm of the difference over the norm
  double loss_rel_diff = 0;

  [[nodiscard]] double time_ratio() const { return ours_s / plain_s; }
  [[nodiscard]] double memory_ratio() const {
    return static_cast<double>(ours_extra_bytes) / static_cast<double>(plain_extra_bytes);
  }
};

/// One row per divergence, then PPO, entropy and the first divergence together.
/// @error invalid_argument  an option out of range
Expected<std::vector<OpdBenchRow>> bench_opd(const OpdBenchOptions& options);

/// The array that `memopd bench opd --json` prints.
std::string to_json(const std::vector<OpdBenchRow>& rows);

/// The same for people.
std::string to_table(const std::vector<OpdBenchRow>& rows);

}  // namespace memopd
