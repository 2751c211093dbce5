#include "tools/bench/opd_bench.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "policies/training/head_losses.hpp"
#include "runtime/base/random.hpp"

namespace memopd {
namespace {

/// The most bytes of tensors that were alive at a time since it was made, beyond those that were alive then.
class AllocatedBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t size, std::size_t /*total*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    now_ += size;
    most_ = std::max(most_, now_);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
  [[nodiscard]] std::int64_t most() const { return most_; }

 private:
  std::int64_t now_ = 0;
  std::int64_t most_ = 0;
};

struct Losses {
  double loss = 0;
  at::Tensor d_rows_RD;
  at::Tensor d_head_VD;
};

/// Inputs of both sides and how they weight the losses.
struct Problem {
  HeadLossOptions options;
  at::Tensor rows_RD, head_VD, teacher_rows_RE, teacher_head_VE;
  std::vector<std::int64_t> token_ids;
  std::vector<std::uint8_t> is_included;
  std::vector<double> weights, old_log_probs, advantages;

  [[nodiscard]] double weight() const { return 1.0 / static_cast<double>(token_ids.size()); }
};

Problem make_problem(const OpdBenchOptions& options) {
  Problem p;
  auto generator = at::detail::createCPUGenerator(options.seed);
  const auto normal = [&](std::int64_t rows, std::int64_t columns, double scale) {
    return at::randn({rows, columns}, generator, at::TensorOptions().dtype(at::kFloat)).mul_(scale);
  };
  const std::int64_t num_rows = options.num_rows;
  p.rows_RD = normal(num_rows, options.student_width, 1.0);
  p.teacher_rows_RE = normal(num_rows, options.teacher_width, 1.0);
  // Logits of deviation 2: distributions with a few likely ids, as trained models give.
  p.head_VD = normal(options.vocab_size, options.student_width, 2.0 / std::sqrt(options.student_width));
  p.teacher_head_VE = normal(options.vocab_size, options.teacher_width, 2.0 / std::sqrt(options.teacher_width));
  SplitMix random(options.seed);
  const auto size = static_cast<std::size_t>(num_rows);
  p.is_included.assign(size, 1);
  p.weights.assign(size, 1.0 / static_cast<double>(num_rows));
  for (std::size_t r = 0; r < size; ++r) {
    p.token_ids.push_back(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options.vocab_size))));
    p.old_log_probs.push_back(-std::log(options.vocab_size) + random.normal());
    p.advantages.push_back(random.normal());
  }
  p.options.scored_vocab = options.vocab_size;
  p.options.opd_coef = 1.0;
  p.options.chunk_rows = options.chunk_rows;
  return p;
}

Losses run_ours(const Problem& p) {
  const HeadRows rows{.rows_RD = p.rows_RD,
                      .head_VD = p.head_VD,
                      .teacher_rows_RE = p.teacher_rows_RE,
                      .teacher_head_VE = p.teacher_head_VE,
                      .token_ids = p.token_ids,
                      .is_included = p.is_included,
                      .policy_weights = p.weights,
                      .opd_weight = p.weight(),
                      .old_log_probs = p.old_log_probs,
                      .advantages = p.advantages};
  HeadGradients gradients = head_losses(p.options, rows);
  Losses losses{.d_rows_RD = gradients.d_rows_RD, .d_head_VD = gradients.d_head_VD};
  for (std::size_t r = 0; r < p.token_ids.size(); ++r) {
    losses.loss += p.weight() * gradients.values.divergences[r];
    if (p.options.policy_loss == PolicyLoss::ppo) {
      losses.loss += p.weight() * (p.options.ppo.coef * gradients.values.ppo[r].loss -
                                   p.options.ppo.entropy_coef * gradients.values.entropies[r]);
    }
  }
  return losses;
}

at::Tensor plain_divergence(const HeadLossOptions& options, const at::Tensor& log_p_RV, const at::Tensor& log_q_RV) {
  switch (options.divergence) {
    case Divergence::forward_kl:
      return (log_p_RV.exp() * (log_p_RV - log_q_RV)).sum(-1);
    case Divergence::reverse_kl:
      return (log_q_RV.exp() * (log_q_RV - log_p_RV)).sum(-1);
    case Divergence::jsd:
      break;
  }
  const double beta = options.beta;
  const at::Tensor log_m_RV = at::logaddexp(log_q_RV + std::log(1 - beta), log_p_RV + std::log(beta));
  return beta * (log_p_RV.exp() * (log_p_RV - log_m_RV)).sum(-1) +
         (1 - beta) * (log_q_RV.exp() * (log_q_RV - log_m_RV)).sum(-1);
}

at::Tensor column(const std::vector<double>& values) { return at::tensor(values, at::kDouble).to(at::kFloat); }

at::Tensor plain_ppo(const Problem& p, const at::Tensor& log_q_RV) {
  const PpoConfig& ppo = p.options.ppo;
  const at::Tensor tokens_R1 = at::tensor(p.token_ids, at::kLong).unsqueeze(1);
  const at::Tensor ratio_R = (log_q_RV.gather(1, tokens_R1).squeeze(1) - column(p.old_log_probs)).clamp(-20, 20).exp();
  const at::Tensor advantages_R = column(p.advantages);
  const at::Tensor policy_R =
      at::max(-advantages_R * ratio_R, -advantages_R * ratio_R.clamp(1 - ppo.clip, 1 + ppo.clip));
  const at::Tensor entropy_R = -(log_q_RV.exp() * log_q_RV).sum(-1);
  return ppo.coef * policy_R - ppo.entropy_coef * entropy_R;
}

/// As a trainer writes it: logits of all rows, log-softmax on both sides, autograd.
Losses run_plain(const Problem& p) {
  const c10::AutoGradMode with_grad(true);
  at::Tensor rows_RD = p.rows_RD.detach(), head_VD = p.head_VD.detach();
  rows_RD.requires_grad_(true);
  head_VD.requires_grad_(true);
  at::Tensor log_p_RV;
  {
    const c10::NoGradGuard no_grad;
    log_p_RV = at::mm(p.teacher_rows_RE, p.teacher_head_VE.t()).log_softmax(-1);
  }
  const at::Tensor log_q_RV = at::mm(rows_RD, head_VD.t()).log_softmax(-1);
  at::Tensor loss_R = plain_divergence(p.options, log_p_RV, log_q_RV);
  if (p.options.policy_loss == PolicyLoss::ppo) {
    loss_R = loss_R + plain_ppo(p, log_q_RV);
  }
  const at::Tensor loss = loss_R.sum() * p.weight();
  const auto gradients = torch::autograd::grad({loss}, {rows_RD, head_VD});
  return {loss.item<double>(), gradients[0], gradients[1]};
}

/// Runs one side; its time, and its memory without the head's gradient.
template <class Side>
Losses measure(const Side& side, const Problem& p, double& seconds, std::int64_t& extra_bytes) {
  auto bytes = std::make_shared<AllocatedBytes>();
  const auto begin = std::chrono::steady_clock::now();
  Losses losses;
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
    losses = side(p);
  }
  seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  extra_bytes = bytes->most() - static_cast<std::int64_t>(p.head_VD.nbytes());
  return losses;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

OpdBenchRow bench_row(const std::string& name, const Problem& p, const OpdBenchOptions& options) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  OpdBenchRow row{.name = name, .ours_s = kNever, .plain_s = kNever};
  for (std::int32_t repetition = -1; repetition < options.num_repetitions; ++repetition) {
    double ours_s = row.ours_s, plain_s = row.plain_s;
    const Losses ours = measure(run_ours, p, ours_s, row.ours_extra_bytes);
    const Losses plain = measure(run_plain, p, plain_s, row.plain_extra_bytes);
    if (repetition < 0) {
      row.loss_rel_diff = std::abs(ours.loss - plain.loss) / std::abs(plain.loss);
      row.max_rel_grad_diff = std::max(relative_difference(ours.d_rows_RD, plain.d_rows_RD),
                                       relative_difference(ours.d_head_VD, plain.d_head_VD));
      continue;
    }
    row.ours_s = ours_s;
    row.plain_s = plain_s;
  }
  return row;
}

const char* name_of(Divergence divergence) {
  switch (divergence) {
    case Divergence::forward_kl:
      return "forward_kl";
    case Divergence::reverse_kl:
      return "reverse_kl";
    case Divergence::jsd:
      return "jsd";
  }
  return "";
}

Expected<void> check_options(const OpdBenchOptions& options) {
  const auto at_least = [](const char* name, std::int32_t found, std::int32_t least) -> Expected<void> {
    if (found < least) {
      return unexpected(ErrorCode::invalid_argument,
                        std::string(name) + " is " + std::to_string(found) + ", allowed >= " + std::to_string(least));
    }
    return {};
  };
  MEMOPD_RETURN_IF_ERROR(at_least("vocab_size", options.vocab_size, 2));
  MEMOPD_RETURN_IF_ERROR(at_least("student_width", options.student_width, 1));
  MEMOPD_RETURN_IF_ERROR(at_least("teacher_width", options.teacher_width, 1));
  MEMOPD_RETURN_IF_ERROR(at_least("num_rows", options.num_rows, 1));
  MEMOPD_RETURN_IF_ERROR(at_least("chunk_rows", options.chunk_rows, 1));
  MEMOPD_RETURN_IF_ERROR(at_least("num_repetitions", options.num_repetitions, 1));
  MEMOPD_RETURN_IF_ERROR(at_least("num_threads", options.num_threads, 1));
  return at_least("number of divergences", static_cast<std::int32_t>(options.divergences.size()), 1);
}

}  // namespace

Expected<std::vector<OpdBenchRow>> bench_opd(const OpdBenchOptions& options) {
  MEMOPD_RETURN_IF_ERROR(check_options(options));
  const int threads_before = at::get_num_threads();
  at::set_num_threads(options.num_threads);
  const c10::NoGradGuard no_grad;
  Problem problem = make_problem(options);
  std::vector<OpdBenchRow> rows;
  for (const Divergence divergence : options.divergences) {
    problem.options.divergence = divergence;
    rows.push_back(bench_row(name_of(divergence), problem, options));
  }
  problem.options.divergence = options.divergences.front();
  problem.options.policy_loss = PolicyLoss::ppo;
  problem.options.ppo.coef = 1.0;
  problem.options.ppo.entropy_coef = 0.001;
  rows.push_back(bench_row(std::string("ppo_") + name_of(options.divergences.front()), problem, options));
  at::set_num_threads(threads_before);
  return rows;
}

std::string to_json(const std::vector<OpdBenchRow>& rows) {
  auto array = nlohmann::ordered_json::array();
  for (const OpdBenchRow& row : rows) {
    array.push_back({{"name", row.name},
                     {"ours_s", row.ours_s},
                     {"plain_s", row.plain_s},
                     {"time_ratio", row.time_ratio()},
                     {"ours_extra_bytes", row.ours_extra_bytes},
                     {"plain_extra_bytes", row.plain_extra_bytes},
                     {"memory_ratio", row.memory_ratio()},
                     {"max_rel_grad_diff", row.max_rel_grad_diff},
                     {"loss_rel_diff", row.loss_rel_diff}});
  }
  return array.dump(2);
}

std::string to_table(const std::vector<OpdBenchRow>& rows) {
  std::ostringstream text;
  text << std::left << std::setw(18) << "losses" << std::right << std::setw(10) << "ours, s" << std::setw(10)
       << "plain, s" << std::setw(8) << "ratio" << std::setw(12) << "ours, MB" << std::setw(12) << "plain, MB"
       << std::setw(8) << "ratio" << std::setw(14) << "gradients"
       << "\n";
  for (const OpdBenchRow& row : rows) {
    text << std::left << std::setw(18) << row.name << std::right << std::fixed << std::setprecision(3) << std::setw(10)
         << row.ours_s << std::setw(10) << row.plain_s << std::setw(8) << row.time_ratio() << std::setprecision(1)
         << std::setw(12) << static_cast<double>(row.ours_extra_bytes) / 1e6 << std::setw(12)
         << static_cast<double>(row.plain_extra_bytes) / 1e6 << std::setprecision(3) << std::setw(8)
         << row.memory_ratio() << std::scientific << std::setprecision(1) << std::setw(14) << row.max_rel_grad_diff
         << "\n";
  }
  return text.str();
}

}  // namespace memopd
