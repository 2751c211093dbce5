#include "actors/evaluation.hpp"

#include <catch2/catch.hpp>

using namespace memopd;

namespace {

TrajectoryDone done(const std::string& split, double f1, TrajectoryStatus status = TrajectoryStatus::completed) {
  TrajectoryDone result;
  result.trajectory_id = {split, 0, 0, 0};
  result.status = status;
  result.metrics = {{"f1", f1}, {"em", f1 == 1 ? 1.0 : 0.0}};
  result.rewards = {{"final", f1}};
  return result;
}

EvalConfig two_splits() {
  EvalConfig config;
  config.splits = {{"near", "val", 2, 2, true}, {"far", "test", 2, 2, false}};
  return config;
}

}  // namespace

TEST_CASE("each split is summarised from its own trajectories", "[evaluation]") {
  const auto result = summarize(two_splits(), {}, {done("near", 1.0), done("near", 0.5), done("far", 0.0)});

  CHECK(std::get<Interval>(result.summary.at("near")).mean == 0.75);
  CHECK(std::get<Interval>(result.summary.at("near_em")).mean == 0.5);
  CHECK(std::get<Interval>(result.summary.at("far")).mean == 0.0);
  CHECK(result.metrics.at("eval/near/f1") == 0.75);
}

TEST_CASE("a failed evaluation trajectory counts as zero, it does not vanish", "[evaluation]") {
  TrajectoryDone failed;
  failed.trajectory_id = {"near", 0, 1, 0};
  failed.status = TrajectoryStatus::timeout;

  const auto result = summarize(two_splits(), {}, {done("near", 1.0), failed});

  CHECK(std::get<Interval>(result.summary.at("near")).mean == 0.5);
  CHECK(result.metrics.at("eval/near/failed") == 0.5);
}

TEST_CASE("the teacher's evaluation is told apart by its prefix", "[evaluation]") {
  const EvaluationRequest teacher{"teacher_policy", "teacher_", 0, false};

  const auto result = summarize(two_splits(), teacher, {done("teacher_near", 1.0), done("near", 0.0)});

  CHECK(std::get<Interval>(result.summary.at("near")).mean == 1.0);
  CHECK(result.summary.count("far") == 0);
}

TEST_CASE("rollout metrics average what is trained and show the share of every status", "[evaluation]") {
  const auto metrics = rollout_metrics({done("train", 1.0), done("train", 0.0, TrajectoryStatus::invalid_action),
                                        done("train", 1.0, TrajectoryStatus::env_failed), done("train", 0.5)});

  CHECK(metrics.at("rollout/f1") == Approx(0.5));
  CHECK(metrics.at("rollout/reward/final") == Approx(0.5));
  CHECK(metrics.at("rollout/status/env_failed") == Approx(0.25));
}
