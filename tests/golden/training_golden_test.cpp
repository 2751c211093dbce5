// policies/training against PyTorch: autograd of the naive formulas, torch.optim.AdamW (make_training_golden.py).
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "policies/training/adamw.hpp"
#include "policies/training/advantages.hpp"
#include "policies/training/head_losses.hpp"
#include "policies/training/ppo.hpp"

namespace memopd {
namespace {

using doubles = std::vector<double>;

nlohmann::json golden(const std::string& name) {
  std::ifstream file(std::string(MEMOPD_SOURCE_DIR) + "/tests/golden/training/" + name);
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

at::Tensor matrix(const nlohmann::json& values, std::int64_t rows, std::int64_t columns) {
  auto copy = values.get<doubles>();
  return at::from_blob(copy.data(), {rows, columns}, at::kDouble).clone();
}

double max_error(const at::Tensor& found, const nlohmann::json& expected) {
  auto copy = expected.get<doubles>();
  return (found.to(at::kDouble).flatten() - at::from_blob(copy.data(), {found.numel()}, at::kDouble))
      .abs()
      .max()
      .item<double>();
}

/// One case of head_losses.json in `dtype`; owns what HeadRows only points to.
struct HeadCase {
  HeadLossOptions options;
  HeadRows rows;
  std::vector<std::int64_t> tokens;
  std::vector<std::uint8_t> included;
  doubles weights;
  doubles old_log_probs;
  doubles advantages;

  HeadCase(const nlohmann::json& json, at::ScalarType dtype)
      : tokens(json["tokens"].get<std::vector<std::int64_t>>()),
        included(json["included"].get<std::vector<std::uint8_t>>()),
        weights(json["rows"].get<std::size_t>(), json["weight"].get<double>()),
        old_log_probs(json["old_log_probs"].get<doubles>()),
        advantages(json["advantages"].get<doubles>()) {
    options.scored_vocab = json["scored_vocab"];
    options.sampling_temperature = json["sampling_temperature"];
    options.policy_loss = PolicyLoss::ppo;
    options.ppo.coef = json["ppo_coef"];
    options.ppo.clip = json["clip"];
    options.ppo.dual_clip = json["dual_clip"];
    options.ppo.entropy_coef = json["entropy_coef"];
    options.opd_coef = json["opd_coef"];
    options.divergence = parse_divergence(json["divergence"].get<std::string>()).value();
    options.beta = json["beta"];
    options.opd_temperature = json["opd_temperature"];
    options.chunk_rows = 3;
    rows.rows_RD = matrix(json["hidden"], json["rows"], json["width"]).to(dtype);
    rows.head_VD = matrix(json["head"], json["student_vocab"], json["width"]).to(dtype);
    rows.teacher_rows_RE = matrix(json["teacher_rows"], json["rows"], json["teacher_width"]).to(dtype);
    rows.teacher_head_VE = matrix(json["teacher_head"], json["teacher_vocab"], json["teacher_width"]).to(dtype);
    rows.token_ids = tokens;
    rows.is_included = included;
    rows.policy_weights = weights;
    rows.opd_weight = json["weight"];
    rows.old_log_probs = old_log_probs;
    rows.advantages = advantages;
  }
};

}  // namespace

TEST_CASE("closed-form gradients of PPO, entropy and divergence equal autograd's", "[golden][opd][ppo][pain:T14]") {
  for (const nlohmann::json& json : golden("head_losses.json")) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      // fp32: logits of size 10 with 6 terms, times the largest derivative.
      const double tolerance = dtype == at::kDouble ? 1e-12 : 2e-5;
      HeadCase head_case(json, dtype);
      const HeadGradients found = head_losses(head_case.options, head_case.rows);
      INFO(json["divergence"] << " beta " << json["beta"] << " T " << json["opd_temperature"]);
      CHECK(max_error(found.d_rows_RD, json["d_hidden"]) <= tolerance);
      CHECK(max_error(found.d_head_VD, json["d_head"]) <= tolerance);
      for (std::size_t r = 0; r < head_case.tokens.size(); ++r) {
        if (head_case.included[r] != 0) {
          CHECK(found.values.log_probs[r] == Approx(json["log_probs"][r].get<double>()).epsilon(0).margin(tolerance));
          CHECK(found.values.entropies[r] == Approx(json["entropies"][r].get<double>()).epsilon(0).margin(tolerance));
          CHECK(found.values.divergences[r] ==
                Approx(json["divergences"][r].get<double>()).epsilon(0).margin(tolerance));
          CHECK(found.values.ppo[r].loss == Approx(json["ppo_losses"][r].get<double>()).epsilon(0).margin(tolerance));
        }
      }
    }
  }
}

TEST_CASE("PPO and value terms equal autograd's", "[golden][ppo]") {
  const nlohmann::json json = golden("ppo.json");
  for (const nlohmann::json& one : json["policy"]) {
    PpoConfig ppo;
    ppo.clip = one["clip"];
    ppo.dual_clip = one["dual_clip"];
    const PpoTerm term = ppo_term(one["log_prob"], one["old_log_prob"], one["advantage"], ppo);
    INFO(one.dump());
    CHECK(term.loss == Approx(one["loss"].get<double>()).epsilon(1e-12));
    CHECK(term.d_log_prob == Approx(one["d_log_prob"].get<double>()).epsilon(1e-12).margin(1e-14));
  }
  for (const nlohmann::json& one : json["value"]) {
    const ValueTerm term = value_term(one["value"], one["old_value"], one["target"], one["value_clip"]);
    INFO(one.dump());
    CHECK(term.loss == Approx(one["loss"].get<double>()).epsilon(1e-12));
    CHECK(term.d_value == Approx(one["d_value"].get<double>()).epsilon(1e-12).margin(1e-14));
  }
}

TEST_CASE("AdamW with clipping follows torch.optim.AdamW", "[golden][adamw]") {
  for (const nlohmann::json& json : golden("adamw.json")) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      const double tolerance = dtype == at::kDouble ? 1e-12 : 2e-6;
      const at::Tensor start = matrix(json["start"], 1, 10).to(dtype).flatten();
      const at::Tensor a = start.narrow(0, 0, 6).clone().view({3, 2});
      const at::Tensor b = start.narrow(0, 6, 4).clone();
      AdamW optimizer({a, b}, {.beta1 = json["beta1"], .beta2 = json["beta2"], .weight_decay = json["weight_decay"]});
      for (const nlohmann::json& step : json["steps"]) {
        const at::Tensor gradient = matrix(step["gradient"], 1, 10).to(dtype).flatten();
        CHECK(gradient_norm(gradient) == Approx(step["norm"].get<double>()).epsilon(1e-6));
        optimizer.step(gradient, step["lr"], clip_factor(gradient_norm(gradient), json["max_norm"]));
        CHECK(max_error(at::cat({a.flatten(), b}), step["parameters"]) <= tolerance);
      }
    }
  }
}

TEST_CASE("GAE equals its definition", "[golden][RL-4]") {
  for (const nlohmann::json& json : golden("gae.json")) {
    const auto rewards = json["rewards"].get<doubles>();
    const auto values = json["values"].get<doubles>();
    doubles advantages(rewards.size());
    doubles returns(rewards.size());
    gae(rewards, values, json["gamma"], json["lam"], advantages, returns);
    for (std::size_t t = 0; t < rewards.size(); ++t) {
      CHECK(advantages[t] == Approx(json["advantages"][t].get<double>()).epsilon(0).margin(1e-12));
    }
  }
}

TEST_CASE("advantages of groups equal verl's formulas", "[golden][estimator]") {
  for (const nlohmann::json& json : golden("groups.json")) {
    const auto returns = json["returns"].get<doubles>();
    std::vector<TrajectoryId> ids;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(returns.size()); ++i) {
      ids.push_back({"train", 0, json["task"][static_cast<std::size_t>(i)].get<std::int32_t>(), i});
    }
    for (const auto& [name, estimator] : {std::pair("grpo", Estimator::grpo), std::pair("rloo", Estimator::rloo)}) {
      const GroupAdvantages found = group_advantages(ids, returns, estimator);
      for (std::size_t i = 0; i < returns.size(); ++i) {
        INFO(name << " of " << i);
        CHECK(found.advantages[i] == Approx(json[name][i].get<double>()).epsilon(0).margin(1e-12));
      }
    }
  }
}

}  // namespace memopd
