#include "policies/model/initialization.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

namespace {

/// Angles of one position whose head turns at least this much help to tell neighbours apart.
constexpr double kMinTurn = 0.004;
/// Score by which the wanted position beats a far one, in units of sqrt(Dh).
constexpr double kMargin = 5.0;
/// Content weights of a previous-token head: small, so that position decides at first.
constexpr double kContentScale = 0.1;

double standard_deviation(const NamedTensor& slice, const InitOptions& options) {
  const std::string& name = slice.name;
  if (name == "model.embed_tokens.weight" || name == "lm_head.weight") return options.embedding_std;
  const double fan_in = static_cast<double>(slice.tensor.size(1));
  const bool is_residual = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
  return (is_residual ? options.residual_scale : 1.0) / std::sqrt(fan_in);
}

void fill_normal(const at::Tensor& target, double std, std::uint64_t seed) {
  SplitMix random(seed);
  at::Tensor values = at::empty(target.sizes(), at::kDouble);
  auto* value = values.data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) value[i] = std * random.normal();
  target.copy_(values);
}

/// Makes head `head` of `layer` attend to the token `offset` before through the biases of q and k alone: with RoPE the
/// score of distance n is a^2 sum_i cos((n - offset) theta_i), largest at n = offset.
void make_previous_token_head(const ModelConfig& config, const DecoderLayer& layer, std::int64_t head,
                              std::int64_t offset) {
  const std::int64_t dh = config.head_dim;
  const std::int64_t half = dh / 2;
  const std::int64_t group = config.num_attention_heads / config.num_key_value_heads;
  const std::int64_t q_begin = head * dh;
  const std::int64_t k_begin = (config.num_attention_heads + head / group) * dh;
  const std::vector<double> theta = rope_frequencies(config);
  double turned = 0;
  for (const double angle : theta) {
    if (1 - std::cos(angle) > kMinTurn) turned += 1 - std::cos(angle);
  }
  const double a = turned > 0 ? std::sqrt(kMargin * std::sqrt(static_cast<double>(dh)) / turned) : 0.0;
  layer.qkv_weight.narrow(0, q_begin, dh).mul_(kContentScale);
  // The key bias is the same for every offset, so query heads that share a key head do not disturb one another.
  if (head % group == 0) layer.qkv_weight.narrow(0, k_begin, dh).mul_(kContentScale);
  const auto set = [&layer](std::int64_t row, double value) { layer.qkv_bias.select(0, row).fill_(value); };
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = theta[static_cast<std::size_t>(i)];
    const double size = 1 - std::cos(angle) > kMinTurn ? a : 0.0;
    const double back = static_cast<double>(offset) * angle;
    set(q_begin + i, size * std::cos(back));
    set(q_begin + half + i, -size * std::sin(back));
    set(k_begin + i, size);
    set(k_begin + half + i, 0.0);
  }
}

Expected<void> check_options(const ModelConfig& config, const InitOptions& options) {
  if (!(options.embedding_std > 0) || !(options.final_norm_weight > 0) || !(options.residual_scale > 0)) {
    return unexpected(ErrorCode::invalid_argument,
                      "initialisation: embedding_std, final_norm_weight and residual_scale must be above 0");
  }
  const std::int32_t n = options.previous_token_heads;
  if (n < 0 || n > config.num_attention_heads) {
    return unexpected(ErrorCode::invalid_argument, "initialisation: " + std::to_string(n) +
                                                       " previous-token heads, at most " +
                                                       std::to_string(config.num_attention_heads) + " heads");
  }
  if (n > 0 && !config.attention_bias) {
    return unexpected(
        ErrorCode::invalid_argument,
        "initialisation: previous-token heads need a bias on q and k, which " + config.architecture + " lacks");
  }
  return {};
}

}  // namespace

InitOptions init_options(const ModelShapeConfig& shape, std::uint64_t seed) {
  return {.seed = seed,
          .embedding_std = shape.embedding_std,
          .final_norm_weight = shape.final_norm_weight,
          .previous_token_heads = shape.num_previous_token_heads};
}

Expected<Transformer> random_transformer(const ModelConfig& config, const InitOptions& options, at::ScalarType dtype) {
  MEMOPD_RETURN_IF_ERROR(validate(config));
  MEMOPD_RETURN_IF_ERROR(check_options(config, options));
  const at::NoGradGuard no_grad;
  Transformer model(config, dtype);
  for (const NamedTensor& slice : model.named_slices()) {
    if (slice.tensor.dim() != 2) continue;  // norms stay one, biases zero
    fill_normal(slice.tensor, standard_deviation(slice, options), chain_seed(options.seed, {hash_name(slice.name)}));
  }
  model.final_norm().fill_(options.final_norm_weight);
  for (std::int32_t n = 0; n < options.previous_token_heads; ++n) {
    make_previous_token_head(config, model.layers().front(), n, n + 1);
  }
  return model;
}

}  // namespace memopd
