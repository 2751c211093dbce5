// The peers of packing: one padded batch per token budget, dense causal attention of the tensor library.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "policies/model/transformer.hpp"
#include "runtime/data/invocation.hpp"

namespace memopd {

/// B invocations padded on the right to L tokens (so that causal attention alone hides the padding), R response tokens.
struct PaddedBatch {
  at::Tensor input_ids;           ///< int64 [B, L]
  at::Tensor position_ids;        ///< int64 [B * L]
  at::Tensor next_token_ids;      ///< int64 [B * L] the token after each row; 0 where there is none
  at::Tensor response_index;      ///< int64 [R] rows of [B * L] that predict response tokens
  at::Tensor response_token_ids;  ///< int64 [R]
};

/// Batches of as many invocations as fit: batch size times `length` <= `max_tokens` (one invocation always fits).
/// @param length  the longest prompt ++ response, or more
std::vector<PaddedBatch> pad(std::span<const Invocation* const> invocations, std::int32_t length,
                             std::int32_t max_tokens);

/// [B * L, D] after the final norm. The layers of `model` with scaled_dot_product_attention in place of packed attention.
at::Tensor padded_hidden(const Transformer& model, const PaddedBatch& batch);

}  // namespace memopd
