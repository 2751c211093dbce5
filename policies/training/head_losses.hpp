// All losses that read logits, from one set of logits per chunk: log-prob of the response token (PPO or cross-entropy),
// entropy, divergence from the teacher, and their closed-form gradients.
//
// Shapes  R response rows, D student width, E teacher width, V = scored_vocab ids of the support, C rows of a chunk.
// Student logits are rows_RD head_VD^T, computed once per chunk for every loss; dlogits replace them in place and turn
// into d_rows and d_head by two products. No tensor of R x V elements exists: at most C x V (two of them with a teacher).
// The gradient does not pass through autograd; the caller seeds it with d_rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "policies/training/opd.hpp"
#include "policies/training/ppo.hpp"

namespace memopd {

enum class PolicyLoss : std::uint8_t {
  none,           ///< log-probs and entropy only
  cross_entropy,  ///< -log_prob
  ppo,            ///< ppo_term
};

struct HeadLossOptions {
  std::int32_t scored_vocab = 0;    ///< V; 1 <= V <= rows of every head
  double sampling_temperature = 1;  ///< of log-probs, ratio and entropy; > 0
  PolicyLoss policy_loss = PolicyLoss::none;
  PpoConfig ppo{};      ///< coef, clip, dual_clip, entropy_coef
  double opd_coef = 0;  ///< 0 = no teacher is read
  Divergence divergence = Divergence::forward_kl;
  double beta = 0.5;              ///< of jsd
  double opd_temperature = 1;     ///< both sides; > 0
  std::int32_t chunk_rows = 256;  ///< C; >= 1
  bool is_row_exact = false;      ///< the bits of a row's values do not depend on the other rows (row_products.hpp)
};

/// One micro-batch. Spans and tensors are read during the call only.
struct HeadRows {
  at::Tensor rows_RD{};          ///< student's hidden states at response_index, no autograd history
  at::Tensor head_VD{};          ///< student's head, >= V rows
  at::Tensor teacher_rows_RE{};  ///< with opd_coef > 0, else undefined
  at::Tensor teacher_head_VE{};
  std::span<const std::int64_t> token_ids{};    ///< [R] response tokens; each < V
  std::span<const std::uint8_t> is_included{};  ///< [R] 0 = no loss reads the row
  std::span<const double> policy_weights{};     ///< [R] factor of the policy loss and entropy: 1/R_total or alike
  double opd_weight = 0;                        ///< factor of every row's divergence: 1/R_total
  std::span<const double> old_log_probs{};      ///< [R] ppo only
  std::span<const double> advantages{};         ///< [R] ppo only
};

/// [R] each; before weights and coefficients. Rows that are not included have zeros.
struct HeadRowValues {
  std::vector<double> log_probs;
  std::vector<double> entropies;
  std::vector<double> divergences;
  std::vector<PpoTerm> ppo;
  std::vector<std::uint8_t> is_teacher_finite;  ///< 0: the teacher's logits were not; the row took part in no loss
};

/// Log-probs and entropies only.
HeadRowValues head_log_probs(const HeadLossOptions& options, const HeadRows& rows);

struct HeadGradients {
  HeadRowValues values;
  at::Tensor d_rows_RD;
  at::Tensor d_head_VD;  ///< as `head_VD`; rows beyond V are zero
};

/// Gradients of sum_r is_included (policy_weight (coef policy - entropy_coef entropy) + opd_weight opd_coef D);
/// coef is ppo.coef for PPO, 1 for cross-entropy. Thread-safe.
HeadGradients head_losses(const HeadLossOptions& options, const HeadRows& rows);

}  // namespace memopd
