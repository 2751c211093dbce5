#include "policies/training/head_losses.hpp"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/random.hpp"

namespace memopd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  SplitMix random(seed);
  std::vector<double> values(static_cast<std::size_t>(rows * columns));
  for (double& value : values) {
    value = random.normal();
  }
  return at::from_blob(values.data(), {rows, columns}, at::kDouble).clone();
}

/// Rows whose logits are `logits` themselves: hidden = logits, head = identity.
struct LogitRows {
  at::Tensor student;
  at::Tensor teacher;
  at::Tensor identity;
  std::vector<std::int64_t> token_ids;
  std::vector<std::uint8_t> is_included;
  std::vector<double> weights;
  std::vector<double> zeros;

  LogitRows(const std::vector<double>& student_logits, const std::vector<double>& teacher_logits, at::ScalarType dtype)
      : student(at::tensor(student_logits, at::kDouble).to(dtype).unsqueeze(0)),
        teacher(at::tensor(teacher_logits, at::kDouble).to(dtype).unsqueeze(0)),
        token_ids{0},
        is_included{1},
        weights{1},
        zeros{0} {
    const auto size = static_cast<std::int64_t>(student_logits.size());
    identity = at::eye(size, at::TensorOptions().dtype(dtype));
  }

  [[nodiscard]] HeadRows rows() const {
    return {.rows_RD = student,
            .head_VD = identity,
            .teacher_rows_RE = teacher,
            .teacher_head_VE = identity,
            .token_ids = token_ids,
            .is_included = is_included,
            .policy_weights = weights,
            .opd_weight = 1.0,
            .old_log_probs = zeros,
            .advantages = zeros};
  }
};

HeadLossOptions opd_only(Divergence divergence, std::int32_t vocab) {
  return {.scored_vocab = vocab, .opd_coef = 1.0, .divergence = divergence};
}

std::vector<double> logs(const std::vector<double>& probs) {
  std::vector<double> result;
  for (const double p : probs) {
    result.push_back(std::log(p));
  }
  return result;
}

double divergence_of(Divergence divergence, const LogitRows& rows) {
  return head_losses(opd_only(divergence, static_cast<std::int32_t>(rows.student.size(1))), rows.rows())
      .values.divergences[0];
}

/// One row whose hidden state is 1 and whose heads are the logits as a column: a product with one term passes -inf and
/// NaN of one id on to that id alone. PPO with entropy and the divergence.
HeadGradients column_losses(const std::vector<double>& student, const std::vector<double>& teacher,
                            Divergence divergence, at::ScalarType dtype) {
  const LogitRows row({0}, {0}, dtype);
  HeadRows inputs = row.rows();
  const at::Tensor one = at::ones({1, 1}, at::TensorOptions().dtype(dtype));
  inputs.rows_RD = one;
  inputs.teacher_rows_RE = one;
  inputs.head_VD = at::tensor(student, at::kDouble).unsqueeze(1).to(dtype);
  inputs.teacher_head_VE = at::tensor(teacher, at::kDouble).unsqueeze(1).to(dtype);
  HeadLossOptions options = opd_only(divergence, static_cast<std::int32_t>(student.size()));
  options.policy_loss = PolicyLoss::ppo;
  options.ppo.entropy_coef = 0.1;
  return head_losses(options, inputs);
}

}  // namespace

TEST_CASE("the forward KL of the check vector is 0.143354, not a truncated value", "[opd][pain:T16]") {
  const std::vector<double> p{.4, .3, .2, .1};
  const std::vector<double> q{.45, .35, .05, .15};
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    CHECK(divergence_of(Divergence::forward_kl, LogitRows(logs(q), logs(p), dtype)) ==
          Approx(0.143354).epsilon(0).margin(1e-6));
  }
}

TEST_CASE("every divergence of equal distributions is zero, and so is its gradient", "[opd][pain:T32]") {
  const std::vector<double> logits{0.3, -2, 1.5, 0.1, -0.7};
  for (const Divergence divergence : {Divergence::forward_kl, Divergence::reverse_kl, Divergence::jsd}) {
    const LogitRows rows(logits, logits, at::kFloat);
    const HeadGradients result = head_losses(opd_only(divergence, 5), rows.rows());
    CHECK(std::abs(result.values.divergences[0]) <= 1e-6);
    CHECK(result.d_rows_RD.abs().max().item<double>() <= 1e-6);
  }
}

TEST_CASE("jsd is symmetric at beta 1/2 and at most log 2", "[opd]") {
  const std::vector<double> a{3, -1, 0, 8};
  const std::vector<double> b{-4, 2, 9, 0};
  const double there = divergence_of(Divergence::jsd, LogitRows(a, b, at::kDouble));
  CHECK(there == Approx(divergence_of(Divergence::jsd, LogitRows(b, a, at::kDouble))).epsilon(1e-12));
  CHECK(there < std::log(2.0));
  CHECK(there > 0.5);
}

TEST_CASE("a logit of -inf on either side leaves loss and gradient finite", "[opd][pain:T15]") {
  const std::vector<double> plain{0.2, -0.4, 1.0, 0.0};
  const std::vector<double> masked{0.1, -kInfinity, 0.7, -kInfinity};
  for (const auto& [student, teacher] :
       {std::pair(plain, masked), std::pair(masked, plain), std::pair(masked, masked)}) {
    for (const Divergence divergence : {Divergence::forward_kl, Divergence::reverse_kl, Divergence::jsd}) {
      for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
        const HeadGradients result = column_losses(student, teacher, divergence, dtype);
        CHECK(std::isfinite(result.values.divergences[0]));
        CHECK(std::isfinite(result.values.entropies[0]));
        CHECK(result.d_head_VD.isfinite().all().item<bool>());
      }
    }
  }
}

TEST_CASE("teacher and student of different vocabularies meet on the shared ids, renormalised", "[opd][pain:T14]") {
  // Student 10 ids, teacher 12, shared 9: what lies beyond the shared ids must not matter at all.
  const auto run = [](double beyond) {
    at::Tensor student = random_matrix(1, 10, 1);
    at::Tensor teacher = random_matrix(1, 12, 2);
    student[0][9] = beyond;
    teacher[0][11] = beyond;
    const std::vector<std::int64_t> token{3};
    const std::vector<std::uint8_t> included{1};
    const std::vector<double> one{1};
    const HeadRows rows{.rows_RD = student,
                        .head_VD = at::eye(10, at::TensorOptions().dtype(at::kDouble)),
                        .teacher_rows_RE = teacher,
                        .teacher_head_VE = at::eye(12, at::TensorOptions().dtype(at::kDouble)),
                        .token_ids = token,
                        .is_included = included,
                        .policy_weights = one,
                        .opd_weight = 1.0,
                        .old_log_probs = one,
                        .advantages = one};
    return head_losses(opd_only(Divergence::forward_kl, 9), rows);
  };
  const HeadGradients low = run(0.0);
  const HeadGradients high = run(50.0);

  CHECK(low.values.divergences[0] == high.values.divergences[0]);
  CHECK(low.values.log_probs[0] == high.values.log_probs[0]);
  CHECK(high.d_head_VD[9].abs().max().item<double>() == 0.0);
  const at::Tensor log_q = random_matrix(1, 10, 1).narrow(1, 0, 9).log_softmax(-1);
  const at::Tensor log_p = random_matrix(1, 12, 2).narrow(1, 0, 9).log_softmax(-1);
  CHECK(low.values.divergences[0] == Approx((log_p.exp() * (log_p - log_q)).sum().item<double>()).epsilon(1e-12));
}

TEST_CASE("the size of a chunk does not change a value", "[opd][head_losses][pain:T10]") {
  const at::Tensor student = random_matrix(7, 5, 3);
  const at::Tensor head = random_matrix(11, 5, 4);
  const at::Tensor teacher = random_matrix(7, 6, 5);
  const at::Tensor teacher_head = random_matrix(11, 6, 6);
  const std::vector<std::int64_t> tokens{0, 1, 2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> included(7, 1);
  const std::vector<double> column(7, 0.5);
  const HeadRows rows{.rows_RD = student,
                      .head_VD = head,
                      .teacher_rows_RE = teacher,
                      .teacher_head_VE = teacher_head,
                      .token_ids = tokens,
                      .is_included = included,
                      .policy_weights = column,
                      .opd_weight = 0.5,
                      .old_log_probs = column,
                      .advantages = column};
  HeadLossOptions options = opd_only(Divergence::reverse_kl, 11);
  options.policy_loss = PolicyLoss::ppo;
  const HeadGradients whole = head_losses(options, rows);
  options.chunk_rows = 2;
  const HeadGradients chunked = head_losses(options, rows);

  CHECK((whole.d_rows_RD - chunked.d_rows_RD).abs().max().item<double>() <= 1e-14);
  CHECK((whole.d_head_VD - chunked.d_head_VD).abs().max().item<double>() <= 1e-14);
  // Products of 7 rows and of 2 differ in the last bit on some processors, and so may what is summed from them.
  REQUIRE(whole.values.divergences.size() == chunked.values.divergences.size());
  for (std::size_t row = 0; row < whole.values.divergences.size(); ++row) {
    CHECK(whole.values.divergences[row] == Approx(chunked.values.divergences[row]).epsilon(1e-14));
  }
}

TEST_CASE("a row that is not included has neither loss nor gradient", "[head_losses][AP-4][pain:T05]") {
  LogitRows rows({1, 2, 3}, {3, 2, 1}, at::kDouble);
  rows.is_included[0] = 0;
  HeadLossOptions options = opd_only(Divergence::forward_kl, 3);
  options.policy_loss = PolicyLoss::ppo;

  const HeadGradients result = head_losses(options, rows.rows());

  CHECK(result.d_rows_RD.abs().max().item<double>() == 0.0);
  CHECK(result.values.divergences[0] == 0.0);
}

TEST_CASE("no rows at all give zero gradients, not NaN", "[head_losses][pain:T05]") {
  const HeadRows rows{.rows_RD = at::zeros({0, 3}, at::kDouble),
                      .head_VD = random_matrix(4, 3, 1),
                      .teacher_rows_RE = at::zeros({0, 3}, at::kDouble),
                      .teacher_head_VE = random_matrix(4, 3, 2)};
  const HeadGradients result = head_losses(opd_only(Divergence::forward_kl, 4), rows);
  CHECK(result.d_head_VD.abs().max().item<double>() == 0.0);
}

TEST_CASE("one teacher logit that is not finite takes its row out of every loss", "[head_losses][error]") {
  for (const double broken : {std::nan(""), kInfinity}) {
    const HeadGradients result = column_losses({1, 2, 3}, {3, broken, 1}, Divergence::forward_kl, at::kFloat);
    CHECK(result.values.is_teacher_finite[0] == 0);
    CHECK(result.d_head_VD.abs().max().item<double>() == 0.0);
  }
}

TEST_CASE("one student logit that is not finite reaches the gradient as NaN", "[head_losses][error]") {
  for (const double broken : {std::nan(""), kInfinity}) {
    const HeadGradients result = column_losses({1, broken, 3}, {3, 2, 1}, Divergence::forward_kl, at::kFloat);
    CHECK_FALSE(result.d_head_VD.isfinite().all().item<bool>());
  }
}

TEST_CASE("log-probs are those of the sampling temperature, divergences are not", "[head_losses][pain:T12][pain:T13]") {
  const LogitRows rows({2, 1, 0}, {0, 1, 2}, at::kDouble);
  HeadLossOptions options = opd_only(Divergence::forward_kl, 3);
  const HeadGradients warm = head_losses(options, rows.rows());
  options.sampling_temperature = 0.5;
  const HeadGradients cold = head_losses(options, rows.rows());

  CHECK(cold.values.log_probs[0] == Approx(4 - std::log(std::exp(4.0) + std::exp(2.0) + 1)).epsilon(1e-12));
  CHECK(warm.values.divergences[0] == cold.values.divergences[0]);
}

TEST_CASE("the vectorised exponential is exact to fp32 over its range", "[head_losses]") {
  // 5 logits so far apart that every exponent of the range is met, against double.
  for (double x = 0; x > -90; x -= 0.37) {
    const LogitRows single({0, x, x / 2, x / 3, x / 5}, {0, 0, 0, 0, 0}, at::kFloat);
    const LogitRows exact({0, x, x / 2, x / 3, x / 5}, {0, 0, 0, 0, 0}, at::kDouble);
    const HeadLossOptions options = opd_only(Divergence::reverse_kl, 5);
    const HeadGradients a = head_losses(options, single.rows());
    const HeadGradients b = head_losses(options, exact.rows());
    CHECK((a.d_rows_RD.to(at::kDouble) - b.d_rows_RD).abs().max().item<double>() <= 2e-6);
    CHECK(a.values.entropies[0] == Approx(b.values.entropies[0]).epsilon(0).margin(2e-6));
  }
}

TEST_CASE("another divergence than the three is refused by name", "[opd][error]") {
  const auto parsed = parse_divergence("forward");
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().message == "divergence \"forward\" is none of forward_kl, reverse_kl, jsd");
}

}  // namespace memopd
