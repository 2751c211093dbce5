#include "policies/training/advantages.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <thread>
#include <vector>

#include "runtime/base/random.hpp"
#include "runtime/collective/collective.hpp"

namespace memopd {
namespace {

using doubles = std::vector<double>;

Invocation invocation(std::size_t num_prompt, std::size_t num_response, double reward = 0) {
  Invocation made;
  made.prompt_token_ids.assign(num_prompt, 1);
  made.response_token_ids.assign(num_response, 2);
  made.reward = reward;
  return made;
}

Trajectory trajectory(std::vector<Invocation> invocations, double final_reward) {
  Trajectory made;
  made.invocations = std::move(invocations);
  made.rewards["final"] = final_reward;
  return made;
}

struct Credit {
  doubles advantages;
  doubles returns;
};

Credit credit(const doubles& rewards, const doubles& values, double gamma, double lambda) {
  Credit result{doubles(rewards.size()), doubles(rewards.size())};
  gae(rewards, values, gamma, lambda, result.advantages, result.returns);
  return result;
}

}  // namespace

TEST_CASE("the final reward reaches every response token of every call and nothing else",
          "[advantages][RL-4][pain:T01]") {
  // Response positions {2, 3} of the first call and {1} of the second: three tokens, whatever the prompts hold.
  const Trajectory two_calls = trajectory({invocation(2, 2), invocation(1, 1)}, 1.0);

  const doubles rewards = token_rewards(two_calls);

  CHECK(rewards == doubles{0, 0, 1});
  CHECK(credit(rewards, {0, 0, 0}, 1, 1).advantages == doubles{1, 1, 1});
}

TEST_CASE("an observation between two calls neither decays nor loses the reward",
          "[advantages][RL-4][pain:T02][pain:T04]") {
  const Trajectory with_observation = trajectory({invocation(1, 2), invocation(40, 2)}, 1.0);
  const Trajectory without = trajectory({invocation(1, 4)}, 1.0);

  const Credit apart = credit(token_rewards(with_observation), {0, 0, 0, 0}, 0.9, 0.95);
  const Credit together = credit(token_rewards(without), {0, 0, 0, 0}, 0.9, 0.95);

  CHECK(apart.returns == together.returns);
  CHECK(credit(token_rewards(with_observation), {0, 0, 0, 0}, 1, 1).returns == doubles{1, 1, 1, 1});
}

TEST_CASE("the value after the last response token is zero", "[advantages][RL-4][pain:T03]") {
  // A critic that says 100 for the slot after the response must not be asked: it has no place in the row.
  const Credit result = credit({0, 1}, {0, 0}, 1, 0.95);

  CHECK(result.advantages[0] == Approx(0.95).epsilon(1e-12));
  CHECK(result.advantages[1] == Approx(1.0).epsilon(1e-12));
  // With gamma = lambda = 1 an advantage is what is still to come minus the value.
  CHECK(credit({0, 1}, {2, 3}, 1, 1).advantages == doubles{-1, -2});
}

TEST_CASE("a per-turn reward lies on the last response token of its invocation", "[advantages][RL-4]") {
  const Trajectory turns = trajectory({invocation(3, 2, 0.25), invocation(9, 3, -0.5)}, 1.0);

  CHECK(token_rewards(turns) == doubles{0, 0.25, 0, 0, 0.5});
}

TEST_CASE("a per-turn reward of a call without a response goes to the token before it", "[advantages][RL-4]") {
  const Trajectory silent = trajectory({invocation(3, 2), invocation(3, 0, 0.5), invocation(3, 1)}, 0.0);

  CHECK(token_rewards(silent) == doubles{0, 0.5, 0});
}

TEST_CASE("a trajectory without response tokens has no rewards and no advantages", "[advantages][RL-4][pain:T05]") {
  CHECK(token_rewards(trajectory({invocation(3, 0, 0.5)}, 1.0)).empty());
  CHECK(credit({}, {}, 1, 1).advantages.empty());
}

TEST_CASE("gae equals its definition as a double sum", "[advantages][RL-4]") {
  SplitMix random(3);
  for (int round = 0; round < 20; ++round) {
    const auto n = 1 + random.below(12);
    doubles rewards;
    doubles values;
    for (std::uint64_t i = 0; i < n; ++i) {
      rewards.push_back(random.normal());
      values.push_back(random.normal());
    }
    const double gamma = random.uniform();
    const double lambda = random.uniform();

    const Credit result = credit(rewards, values, gamma, lambda);

    for (std::size_t t = 0; t < n; ++t) {
      double advantage = 0;
      for (std::size_t k = t; k < n; ++k) {
        const double next = k + 1 < n ? values[k + 1] : 0.0;
        advantage += std::pow(gamma * lambda, static_cast<double>(k - t)) * (rewards[k] + gamma * next - values[k]);
      }
      CHECK(result.advantages[t] == Approx(advantage).epsilon(0).margin(1e-12));
      CHECK(result.returns[t] == Approx(advantage + values[t]).epsilon(0).margin(1e-12));
    }
  }
}

TEST_CASE("whitening has mean 0 and variance 1 over the included rows and leaves the others out",
          "[advantages][RL-4]") {
  const auto group = make_local_collective(1);
  doubles advantages{1, 3, 1000, 5};
  const std::vector<std::uint8_t> is_included{1, 1, 0, 1};

  REQUIRE(whiten(advantages, is_included, *group[0]));

  // mean 3, mean squared deviation 8/3
  const double unit = 2 / std::sqrt(8.0 / 3.0 + 1e-8);
  CHECK(advantages[0] == Approx(-unit).epsilon(1e-12));
  CHECK(advantages[1] == Approx(0.0).epsilon(0).margin(1e-12));
  CHECK(advantages[2] == 0.0);
  CHECK(advantages[3] == Approx(unit).epsilon(1e-12));
}

TEST_CASE("whitening over two ranks equals whitening of all rows on one", "[advantages][RL-4]") {
  doubles whole{0.3, -1, 2, 7, 0.5};
  const std::vector<std::uint8_t> flags{1, 1, 1, 1, 1};
  REQUIRE(whiten(whole, flags, *make_local_collective(1)[0]));
  doubles first{0.3, -1};
  doubles second{2, 7, 0.5};
  const auto group = make_local_collective(2);

  std::thread other([&] { CHECK(whiten(second, std::vector<std::uint8_t>{1, 1, 1}, *group[1])); });
  CHECK(whiten(first, std::vector<std::uint8_t>{1, 1}, *group[0]));
  other.join();

  CHECK(first[1] == Approx(whole[1]).epsilon(1e-12));
  CHECK(second[0] == Approx(whole[2]).epsilon(1e-12));
}

TEST_CASE("whitening keeps the variance of advantages far from zero", "[advantages]") {
  doubles advantages{1e9 + 1, 1e9 - 1};
  REQUIRE(whiten(advantages, std::vector<std::uint8_t>{1, 1}, *make_local_collective(1)[0]));
  CHECK(advantages[0] == Approx(1.0).epsilon(1e-6));
}

TEST_CASE("whitening without any included row is harmless", "[advantages][pain:T05]") {
  doubles advantages{4};
  REQUIRE(whiten(advantages, std::vector<std::uint8_t>{0}, *make_local_collective(1)[0]));
  CHECK(advantages == doubles{0});
}

}  // namespace memopd
