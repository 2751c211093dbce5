// Seeded schedules in which every role dies and comes back, under delays, duplicates, losses and slow peers: a run ends as
// if nothing had happened. A failing seed is printed; MEMOPD_SIMULATION_SEED=N runs that one of each test with its log,
// MEMOPD_SIMULATION_COUNT=N so many of each.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>
#include <string>

#include "runtime/base/log.hpp"
#include "tests/support/simulated_run.hpp"

using namespace memopd;
using memopd::testing::simulate;
using memopd::testing::SimulationOptions;
using memopd::testing::SimulationResult;

namespace {

const std::vector<std::string> kAllButLearner = {"env", "student", "teacher", "retriever", "align_pack"};
const std::vector<std::string> kAll = {"env", "student", "teacher", "retriever", "align_pack", "learner"};

/// The seeds of a test: `count` from `first`, or the one that MEMOPD_SIMULATION_SEED names.
std::vector<std::uint64_t> seeds(std::uint64_t first, std::uint64_t count) {
  if (const char* const named = std::getenv("MEMOPD_SIMULATION_SEED")) {
    set_log_sink([](const LogEvent& event) { std::printf("%s\n", to_string(event).c_str()); });
    return {std::stoull(named)};
  }
  if (const char* const wanted = std::getenv("MEMOPD_SIMULATION_COUNT"); wanted != nullptr && count > 0) {
    count = std::stoull(wanted);
  }
  set_log_sink([](const LogEvent&) {});
  std::vector<std::uint64_t> result;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    result.push_back(seed);
  }
  return result;
}

const SimulationResult& undisturbed() {
  static const SimulationResult instance = simulate({.seed = 1, .max_delay = std::chrono::milliseconds(0)});
  return instance;
}

std::string first_difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string left = i < a.size() ? a[i] : "(end)";
    const std::string right = i < b.size() ? b[i] : "(end)";
    if (left != right) {
      return left + " | " + right;
    }
  }
  return {};
}

/// "train.0.0.0 calls 2" of every trajectory and attempt, each once.
std::vector<std::string> calls_of(const std::vector<std::string>& texts) {
  std::set<std::string> calls;
  for (const std::string& text : texts) {
    const auto attempt = text.find(" attempt ");
    calls.insert(text.substr(0, attempt) + text.substr(text.find(" calls ", attempt)));
  }
  return {calls.begin(), calls.end()};
}

bool has_repeats(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return std::adjacent_find(lines.begin(), lines.end()) != lines.end();
}

/// What holds of every run that ends, whatever happened in it.
void check_accounts(const SimulationResult& result) {
  REQUIRE(result.first_failure == "");
  REQUIRE(result.ended.first_failure == "");
  REQUIRE(result.ended.verdict == "completed");
  REQUIRE(result.audit.violations == std::vector<std::string>{});
  REQUIRE(result.audit.num_steps == 4);
  REQUIRE(result.audit.num_pending == 0);
  REQUIRE(result.audit.num_trained + result.audit.num_dropped() == 16);
  REQUIRE(result.summary.counts.trained == result.audit.num_trained);
  REQUIRE(result.summary.counts.dropped == result.audit.num_dropped());
  REQUIRE_FALSE(has_repeats(result.texts));
}

/// Runs `seed` and demands the undisturbed run's weights and metrics.
SimulationResult check_same(SimulationOptions options) {
  INFO("MEMOPD_SIMULATION_SEED=" << options.seed);
  SimulationResult result = simulate(options);
  check_accounts(result);
  REQUIRE(result.final_weights == undisturbed().final_weights);
  REQUIRE(first_difference(result.metrics, undisturbed().metrics) == "");
  REQUIRE(first_difference(calls_of(result.texts), calls_of(undisturbed().texts)) == "");
  return result;
}

/// Kills of all but the learner, with what else may happen by the seed.
void simulate_killed(std::uint64_t first, std::uint64_t count) {
  std::int32_t num_restarts = 0;
  for (const std::uint64_t seed : seeds(first, count)) {
    SimulationOptions options{
        .seed = seed, .num_kills = static_cast<std::int32_t>(1 + seed % 4), .victims = kAllButLearner};
    options.duplicate = seed % 3 == 0 ? 0.1 : 0;
    options.has_slow_peer = seed % 5 == 0;
    options.max_delay = std::chrono::milliseconds(seed % 2 == 0 ? 20 : 100);
    num_restarts += check_same(options).num_restarts;
  }
  CHECK(num_restarts > 0);
}

/// Kills of everybody, learners included.
void simulate_all_killed(std::uint64_t first, std::uint64_t count) {
  std::int32_t num_recoveries = 0;
  for (const std::uint64_t seed : seeds(first, count)) {
    SimulationOptions options{.seed = seed, .num_kills = static_cast<std::int32_t>(1 + seed % 4)};
    options.victims = seed % 2 == 0 ? kAll : std::vector<std::string>{"learner", "align_pack"};
    options.duplicate = seed % 3 == 0 ? 0.1 : 0;
    options.checkpoint_every = static_cast<std::int32_t>(seed % 3);
    options.has_slow_peer = seed % 7 == 0;
    num_recoveries += check_same(options).num_recoveries;
  }
  CHECK((num_recoveries > 0 || count == 1));
}

}  // namespace

TEST_CASE("an undisturbed run trains every trajectory", "[recovery][RL-2]") {
  seeds(0, 0);
  check_accounts(undisturbed());
  CHECK(undisturbed().audit.num_trained == 16);
  CHECK(undisturbed().audit.num_superseded == 0);
  CHECK(undisturbed().final_weights != "");
  CHECK(undisturbed().num_deliveries > 300);
}

TEST_CASE("delays, duplicates and slow peers change no metric and no weight", "[recovery][RL-7]") {
  for (const std::uint64_t seed : seeds(100, 200)) {
    check_same({.seed = seed,
                .duplicate = 0.2,
                .max_delay = std::chrono::milliseconds(seed % 200),
                .has_slow_peer = seed % 2 == 0});
  }
}

TEST_CASE("killed env, student, teacher, retriever and align_pack actors change no metric and no weight (part 1)",
          "[recovery][RL-2][RL-6][RL-7][pain:T24]") {
  simulate_killed(1000, 400);
}

TEST_CASE("killed env, student, teacher, retriever and align_pack actors change no metric and no weight (part 2)",
          "[recovery][RL-2][RL-6][RL-7][pain:T24]") {
  simulate_killed(2000, 400);
}

TEST_CASE("after killed learners the weights are those of the run without (part 1)",
          "[recovery][CL-3][RL-2][pain:T24]") {
  simulate_all_killed(3000, 400);
}

TEST_CASE("after killed learners the weights are those of the run without (part 2)",
          "[recovery][CL-3][RL-2][pain:T24]") {
  simulate_all_killed(4000, 400);
}

TEST_CASE("what is lost costs trajectories that are counted, and the run goes on", "[recovery][RL-2]") {
  std::int64_t num_dropped = 0;
  for (const std::uint64_t seed : seeds(5000, 200)) {
    SimulationOptions options{.seed = seed, .num_kills = static_cast<std::int32_t>(seed % 9), .victims = kAll};
    options.lose = 0.01;
    options.duplicate = 0.05;
    INFO("MEMOPD_SIMULATION_SEED=" << seed);
    const SimulationResult result = simulate(options);
    check_accounts(result);
    num_dropped += result.audit.num_dropped();
  }
  CHECK(num_dropped > 0);
}

TEST_CASE("with learners that lag behind everybody may be killed", "[recovery][RL-2][RL-3]") {
  for (const std::uint64_t seed : seeds(6000, 200)) {
    SimulationOptions options{.seed = seed, .num_kills = static_cast<std::int32_t>(1 + seed % 3), .victims = kAll};
    options.max_policy_lag = 1;
    INFO("MEMOPD_SIMULATION_SEED=" << seed);
    const SimulationResult result = simulate(options);
    check_accounts(result);
    CHECK(result.audit.max_lag <= 1);
  }
}

TEST_CASE("without a ledger a lost align_pack ends the run and says why", "[recovery][error]") {
  seeds(0, 0);
  const SimulationResult result =
      simulate({.seed = 3, .num_kills = 1, .victims = {"align_pack"}, .with_ledger = false});

  CHECK(result.ended.verdict == "failed");
  CHECK(result.ended.first_failure.find("ledger.enabled is false") != std::string::npos);
}
