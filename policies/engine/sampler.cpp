#include "policies/engine/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "policies/model/row_kernels.hpp"

namespace memopd {

namespace {

/// Zeroes the mass of every id outside the set that top_k, top_p and min_p name; returns the mass that is left.
double cut(const Sampling& sampling, double total, SamplerScratch& scratch) {
  auto& mass = scratch.mass;
  auto& order = scratch.order;
  order.resize(mass.size());
  std::iota(order.begin(), order.end(), 0);
  const auto mass_of = [&mass](std::int32_t id) { return mass[static_cast<std::size_t>(id)]; };
  std::sort(order.begin(), order.end(),
            [&](std::int32_t a, std::int32_t b) { return mass_of(a) != mass_of(b) ? mass_of(a) > mass_of(b) : a < b; });
  const std::size_t max_ids = sampling.top_k > 0 ? static_cast<std::size_t>(sampling.top_k) : order.size();
  const double least = sampling.min_p * static_cast<double>(mass_of(order.front()));
  double kept = 0;
  std::size_t count = 0;
  for (; count < std::min(max_ids, order.size()); ++count) {
    const double next = mass_of(order[count]);
    if (next < least || (sampling.top_p < 1 && kept >= sampling.top_p * total)) break;
    kept += next;
  }
  for (std::size_t i = count; i < order.size(); ++i) mass[static_cast<std::size_t>(order[i])] = 0;
  return kept;
}

/// First id whose cumulated mass exceeds u * kept; the last id with mass when rounding leaves none.
std::size_t first_beyond(std::span<const float> mass, double target) {
  double cumulated = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < mass.size(); ++i) {
    if (!(mass[i] > 0)) continue;
    cumulated += static_cast<double>(mass[i]);
    last = i;
    if (cumulated > target) break;
  }
  return last;
}

}  // namespace

bool cuts(const Sampling& sampling) { return sampling.top_p < 1 || sampling.top_k > 0 || sampling.min_p > 0; }

std::optional<SampledToken> sample_token(std::span<const float> logits, const Sampling& sampling, double u,
                                         SamplerScratch& scratch) {
  std::size_t best = 0;
  float top = -std::numeric_limits<float>::infinity();
  bool is_nan = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    is_nan |= std::isnan(logits[i]);
    if (logits[i] > top) {
      top = logits[i];
      best = i;
    }
  }
  if (is_nan || !std::isfinite(top)) return std::nullopt;

  const bool is_greedy = sampling.temperature == 0;
  const float scale = is_greedy ? 1.0f : static_cast<float>(1.0 / sampling.temperature);
  scratch.mass.resize(logits.size());
  const double total =
      exp_row(logits.data(), top, scale, static_cast<std::int64_t>(logits.size()), scratch.mass.data());
  SampledToken token;
  std::size_t chosen = best;
  if (!is_greedy) {
    double kept = total;
    if (cuts(sampling)) {
      kept = cut(sampling, total, scratch);
      token.log_kept_mass = static_cast<float>(std::min(0.0, std::log(kept / total)));
    }
    chosen = first_beyond(scratch.mass, u * kept);
  }
  token.id = static_cast<std::int32_t>(chosen);
  token.log_prob =
      static_cast<float>(static_cast<double>(logits[chosen] - top) * static_cast<double>(scale) - std::log(total));
  return token;
}

}  // namespace memopd
