// On-policy distillation: which divergence between teacher p and student q a response row is charged with.
//
// Values and closed-form gradients: divergence_row.hpp. Over the whole support, in chunks: head_losses.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/expected.hpp"

namespace memopd {

enum class Divergence : std::uint8_t {
  forward_kl,  ///< KL(p, q)
  reverse_kl,  ///< KL(q, p)
  jsd,         ///< beta KL(p, m) + (1 - beta) KL(q, m), m = (1 - beta) q + beta p, 0 < beta < 1
};

/// @error invalid_argument  another name than "forward_kl", "reverse_kl", "jsd"
Expected<Divergence> parse_divergence(std::string_view name);

}  // namespace memopd
