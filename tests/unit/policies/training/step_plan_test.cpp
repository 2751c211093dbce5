#include "policies/training/step_plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

namespace memopd {
namespace {

using sizes = std::vector<std::size_t>;

Trajectory trajectory(std::int32_t task, std::vector<std::size_t> response_lengths,
                      TrajectoryStatus status = TrajectoryStatus::completed) {
  Trajectory made;
  made.id = {"train", 4, task, 0};
  made.status = status;
  for (std::size_t j = 0; j < response_lengths.size(); ++j) {
    Invocation invocation;
    invocation.trajectory_id = made.id;
    invocation.invocation_index = static_cast<std::int32_t>(j);
    invocation.prompt_token_ids = {1, 2};
    invocation.response_token_ids.assign(response_lengths[j], 3);
    invocation.policy_versions = {{0, static_cast<std::int32_t>(response_lengths[j])}};
    made.invocations.push_back(invocation);
  }
  return made;
}

ScoreRef score(std::int32_t task, std::int32_t invocation, std::int32_t rows, std::uint64_t fingerprint = 7) {
  return {{"train", 4, task, 0}, 0, invocation, {1, 1}, 10, 10 + rows, fingerprint, {}};
}

const SelectionRules kRules{
    .needs_scores = true, .head_fingerprint = 7, .scored_vocab = 9, .vocab_size = 10, .max_tokens = 16};

StepBatch step(std::vector<Trajectory> trajectories, std::vector<ScoreRef> scores) {
  StepBatch batch;
  batch.trajectories = std::move(trajectories);
  batch.scores = std::move(scores);
  return batch;
}

}  // namespace

TEST_CASE("a trajectory is trained, or dropped with the reason that applies first", "[step_plan]") {
  const StepBatch batch =
      step({trajectory(0, {2, 1}), trajectory(1, {2}, TrajectoryStatus::env_failed), trajectory(2, {0}),
            trajectory(3, {2, 1}), trajectory(4, {1}, TrajectoryStatus::turn_limit)},
           {score(0, 0, 2), score(0, 1, 1), score(3, 0, 2), score(4, 0, 1)});

  const auto selection = select_trajectories(batch, kRules);

  REQUIRE(selection);
  REQUIRE(selection->items.size() == 2);
  CHECK(selection->items[0].trajectory == 0);
  CHECK(selection->items[1].trajectory == 4);
  REQUIRE(selection->dropped.size() == 3);
  CHECK(selection->dropped[0].reason == "env_failed");
  CHECK(selection->dropped[1].reason == "empty");
  CHECK(selection->dropped[2].reason == "teacher_unavailable");
}

TEST_CASE("scores of another attempt are not this attempt's", "[step_plan]") {
  StepBatch batch = step({trajectory(0, {2})}, {score(0, 0, 2)});
  batch.trajectories[0].attempt = 1;
  const auto selection = select_trajectories(batch, kRules);
  REQUIRE(selection);
  CHECK(selection->dropped.at(0).reason == "teacher_unavailable");
}

TEST_CASE("without distillation no scores are needed", "[step_plan]") {
  SelectionRules rules = kRules;
  rules.needs_scores = false;
  const auto selection = select_trajectories(step({trajectory(0, {2})}, {}), rules);
  REQUIRE(selection);
  CHECK(selection->items.size() == 1);
}

TEST_CASE("a trajectory is stale by its oldest token, counted from the learner's version", "[step_plan][RL-3]") {
  StepBatch batch = step({trajectory(0, {2, 3}), trajectory(1, {2})}, {score(0, 0, 2), score(0, 1, 3), score(1, 0, 2)});
  batch.policy_version = 7;
  batch.trajectories[0].invocations[0].policy_versions = {{6, 2}};
  batch.trajectories[0].invocations[1].policy_versions = {{5, 1}, {7, 2}};
  batch.trajectories[1].invocations[0].policy_versions = {{7, 2}};
  SelectionRules rules = kRules;
  rules.max_policy_lag = 2;
  CHECK(select_trajectories(batch, rules)->dropped.empty());
  rules.max_policy_lag = 1;

  const auto selection = select_trajectories(batch, rules);

  REQUIRE(selection);
  REQUIRE(selection->dropped.size() == 1);
  CHECK(selection->dropped[0].id.task_index == 0);
  CHECK(selection->dropped[0].reason == "stale");
}

TEST_CASE("tokens of a later version, without a version or without a needed log-prob are named errors",
          "[step_plan][RL-3][error]") {
  StepBatch batch = step({trajectory(0, {2})}, {score(0, 0, 2)});
  SelectionRules rules = kRules;
  const auto message = [&] {
    const auto selection = select_trajectories(batch, rules);
    return selection ? std::string() : selection.error().message;
  };
  Invocation& invocation = batch.trajectories[0].invocations[0];
  invocation.policy_versions = {{0, 1}, {1, 1}};
  CHECK(message() == "trajectory train.4.0.0, invocation 0: 1 tokens of policy_version 1, the learner is at 0");
  invocation.policy_versions = {{0, 1}};
  CHECK(message() == "trajectory train.4.0.0, invocation 0: versions of 1 tokens, the response has 2");
  invocation.policy_versions = {{0, 2}};
  CHECK(message().empty());
  rules.needs_rollout = true;
  CHECK(message() == "trajectory train.4.0.0, invocation 0: 0 rollout log-probs, the response has 2 tokens");
}

TEST_CASE("a history above the budget is a named error where histories are trained on", "[step_plan][error]") {
  const StepBatch batch = step({trajectory(0, {8, 8})}, {score(0, 0, 8), score(0, 1, 8)});
  SelectionRules rules = kRules;
  CHECK(select_trajectories(batch, rules)->items.size() == 1);
  rules.is_flat = true;

  const auto selection = select_trajectories(batch, rules);

  REQUIRE_FALSE(selection);
  CHECK(selection.error().code == ErrorCode::invocation_too_long);
  CHECK(selection.error().message == "trajectory train.4.0.0: 18 tokens of its history exceed pack.max_tokens 16");
}

TEST_CASE("teacher rows that do not match the response tokens are a named error", "[step_plan][error]") {
  const auto selection = select_trajectories(step({trajectory(3, {2, 4})}, {score(3, 0, 2), score(3, 1, 5)}), kRules);
  REQUIRE_FALSE(selection);
  CHECK(selection.error().code == ErrorCode::row_count_mismatch);
  CHECK(selection.error().message == "trajectory train.4.3.0, invocation 1: 5 teacher rows, 4 response tokens");
}

TEST_CASE("scores for another head are a named error", "[step_plan][error]") {
  const auto selection = select_trajectories(step({trajectory(0, {2})}, {score(0, 0, 2, 8)}), kRules);
  REQUIRE_FALSE(selection);
  CHECK(selection.error().code == ErrorCode::invalid_argument);
  CHECK(selection.error().message ==
        "trajectory train.4.0.0, invocation 0: scored for head 8, the learner holds head 7 over 9 ids");
}

TEST_CASE("an id outside the support and an invocation above the budget are named errors", "[step_plan][error]") {
  Trajectory outside = trajectory(0, {2});
  outside.invocations[0].response_token_ids[1] = 9;
  const auto id_error = select_trajectories(step({outside}, {score(0, 0, 2)}), kRules);
  REQUIRE_FALSE(id_error);
  CHECK(id_error.error().message == "trajectory train.4.0.0, invocation 0: response id 9 is outside [0, 9)");

  const auto long_error = select_trajectories(step({trajectory(0, {15})}, {score(0, 0, 15)}), kRules);
  REQUIRE_FALSE(long_error);
  CHECK(long_error.error().code == ErrorCode::invocation_too_long);
}

TEST_CASE("mini-batches are one shuffle by seed and step, each item once", "[step_plan][RL-6]") {
  const auto parts = cut_mini_batches(10, 4, 1, 2);
  REQUIRE(parts.size() == 3);
  CHECK(parts[2].size() == 2);
  sizes all;
  for (const sizes& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  sizes in_order(10);
  std::iota(in_order.begin(), in_order.end(), std::size_t{0});
  CHECK(all != in_order);
  CHECK(cut_mini_batches(10, 4, 1, 2) == parts);
  CHECK(cut_mini_batches(10, 4, 1, 3) != parts);
  std::sort(all.begin(), all.end());
  CHECK(all == in_order);
}

TEST_CASE("items are split into groups of about equal tokens, each once and in order", "[step_plan]") {
  const std::vector<std::int64_t> tokens{5, 1, 1, 4, 3};
  CHECK(split_by_tokens(tokens, 2) == std::vector<sizes>{{0, 1, 2}, {3, 4}});
  CHECK(split_by_tokens(tokens, 1) == std::vector<sizes>{{0, 1, 2, 3, 4}});
  CHECK(split_by_tokens(std::vector<std::int64_t>{2}, 4) == std::vector<sizes>{{0}});
  CHECK(split_by_tokens(std::vector<std::int64_t>{}, 4).empty());
}

}  // namespace memopd
