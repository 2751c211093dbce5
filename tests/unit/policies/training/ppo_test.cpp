#include "policies/training/ppo.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace memopd {

TEST_CASE("the ratio of a policy to itself is 1 and the loss is -A", "[ppo]") {
  const PpoTerm term = ppo_term(-1.3, -1.3, 0.7, PpoConfig{});
  CHECK(term.ratio == 1.0);
  CHECK(term.loss == -0.7);
  CHECK(term.d_log_prob == -0.7);
  CHECK_FALSE(term.is_clipped);
}

TEST_CASE("a good token is not pushed beyond 1 + clip, a bad one not below 1 - clip", "[ppo]") {
  const double up = std::log(1.5);
  CHECK(ppo_term(up, 0, 1.0, PpoConfig{}).d_log_prob == 0.0);
  CHECK(ppo_term(up, 0, 1.0, PpoConfig{}).loss == Approx(-1.2));
  CHECK(ppo_term(up, 0, -1.0, PpoConfig{}).d_log_prob == Approx(1.5));
  CHECK(ppo_term(-up, 0, -1.0, PpoConfig{}).d_log_prob == 0.0);
}

TEST_CASE("the dual clip bounds the loss of a bad token whose ratio exploded", "[ppo]") {
  PpoConfig ppo;
  ppo.dual_clip = 3.0;
  const PpoTerm term = ppo_term(std::log(50.0), 0, -2.0, ppo);
  CHECK(term.loss == 6.0);
  CHECK(term.d_log_prob == 0.0);
}

TEST_CASE("a log-ratio beyond 20 nats stays finite and has no gradient", "[ppo]") {
  const PpoTerm term = ppo_term(0, -1000, -1.0, PpoConfig{});
  CHECK(std::isfinite(term.loss));
  CHECK(term.d_log_prob == 0.0);
}

TEST_CASE("the value loss takes the worse of the plain and the clipped error", "[ppo]") {
  CHECK(value_term(1.0, 0.0, 0.0, 0.5).loss == 0.5);
  // Moved from 0 to 1 towards 2 by more than 0.5: the clipped error 1.5 counts, without gradient.
  CHECK(value_term(1.0, 0.0, 2.0, 0.5).loss == 0.5 * 1.5 * 1.5);
  CHECK(value_term(1.0, 0.0, 2.0, 0.5).d_value == 0.0);
  CHECK(value_term(1.0, 0.0, 2.0, 0.0).d_value == -1.0);
}

}  // namespace memopd
