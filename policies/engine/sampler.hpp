// One token from one row of logits: which id, how probable it was, and how much of the distribution was kept.
//
// Over the V ids of the row, with logits z:
//   p = softmax(z / temperature). top_k, top_p and min_p each name a set over the full p: the k most probable; the fewest
//   most probable whose mass reaches top_p; those with p >= min_p max(p). Ties go to the lowest id. S = all three.
//   The id is the first in id order whose cumulated mass of S exceeds u * mass(S).
//   log_prob = log p(id) over the full softmax; log_kept_mass = log mass(S).
// Temperature 0: argmax, lowest id on ties, log_prob at temperature 1, mass 1.
// Torch-free. Sums in double.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/invocation.hpp"

namespace memopd {

struct SampledToken {
  std::int32_t id = 0;
  float log_prob = 0;       ///< nats, <= 0
  float log_kept_mass = 0;  ///< nats, <= 0; 0 = nothing was cut
};

/// Whether top_p, top_k or min_p can cut something.
[[nodiscard]] bool cuts(const Sampling& sampling);

/// Buffers of one caller, kept between calls.
struct SamplerScratch {
  std::vector<float> mass;
  std::vector<std::int32_t> order;
};

/// @param logits  [V], V >= 1; -inf = impossible
/// @param u       in [0, 1); not read at temperature 0
/// @return  nothing when a logit is NaN or +inf, or all are -inf
std::optional<SampledToken> sample_token(std::span<const float> logits, const Sampling& sampling, double u,
                                         SamplerScratch& scratch);

}  // namespace memopd
