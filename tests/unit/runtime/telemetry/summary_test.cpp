#include "runtime/telemetry/summary.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

using namespace memopd;

TEST_CASE("the interval of equal values has no width", "[telemetry]") {
  const std::vector<double> values(50, 0.25);
  CHECK(bootstrap_interval(values) == Interval{0.25, 0.25, 0.25});
}

TEST_CASE("the interval of two values reaches both: one resample in four is all of one kind", "[telemetry]") {
  const std::vector<double> values = {0, 1};
  CHECK(bootstrap_interval(values) == Interval{0.5, 0, 1});
  CHECK(bootstrap_interval(values, 0.4) == Interval{0.5, 0.5, 0.5});  // the middle half of resamples has the mean 0.5
}

TEST_CASE("the interval of many values is that of the normal approximation", "[telemetry]") {
  // 200 tasks, half of them solved: standard error = 0.5 / sqrt(200) = 0.03536, times 1.96 = 0.0693.
  // The bounds are quantiles of 1000 resamples: their own standard error is about 0.0030; three of them.
  std::vector<double> values(200, 0);
  std::fill(values.begin(), values.begin() + 100, 1.0);
  const Interval interval = bootstrap_interval(values);
  CHECK(interval.mean == 0.5);
  CHECK(interval.low == Approx(0.5 - 0.0693).margin(0.009));
  CHECK(interval.high == Approx(0.5 + 0.0693).margin(0.009));
}

TEST_CASE("the interval depends on its seed and on nothing else", "[telemetry][RL-6]") {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) {
    values.push_back(std::sin(i));
  }
  CHECK(bootstrap_interval(values, 0.95, 7) == bootstrap_interval(values, 0.95, 7));
  CHECK_FALSE(bootstrap_interval(values, 0.95, 7) == bootstrap_interval(values, 0.95, 8));
}

TEST_CASE("the interval of nothing is not a number", "[telemetry]") {
  const Interval interval = bootstrap_interval({});
  CHECK(std::isnan(interval.mean));
  CHECK(std::isnan(interval.low));
  CHECK(std::isnan(interval.high));
}

TEST_CASE("a summary has the shape that scripts read", "[telemetry]") {
  Summary summary;
  summary.verdict = Verdict::completed;
  summary.steps = 3;
  summary.metrics["final"] = {{"f1", Interval{0.5, 0.25, 0.75}}, {"num_tasks", 200.0}};
  summary.counts = {96, 2, 0, 1};
  summary.durations["train"] = 12.5;

  const auto json = nlohmann::json::parse(to_json(summary));

  CHECK(json["verdict"] == "completed");
  CHECK(json["steps"] == 3);
  CHECK(json["metrics"]["final"]["f1"] == nlohmann::json({{"mean", 0.5}, {"low", 0.25}, {"high", 0.75}}));
  CHECK(json["metrics"]["final"]["num_tasks"] == 200.0);
  CHECK(json["first_failure"] == "");
  CHECK(json["counts"] == nlohmann::json({{"trained", 96}, {"dropped", 2}, {"superseded", 0}, {"pending", 1}}));
  CHECK(json["durations"]["train"] == 12.5);
}

TEST_CASE("a summary reads back as it was, not-a-number as null", "[telemetry]") {
  Summary summary;
  summary.verdict = Verdict::failed;
  summary.first_failure = "teacher/0: model folder \"x\" is missing";
  summary.metrics["cold_start"] = {{"f1", Interval{0.1, 0.05, 0.2}}, {"em", 0.0}};
  summary.counts.dropped = 5;
  summary.durations["eval"] = 0.1 + 0.2;
  const auto again = parse_summary(to_json(summary));
  REQUIRE(again);
  CHECK(*again == summary);

  summary.metrics["final"] = {{"loss", std::nan("")}};
  const auto with_null = parse_summary(to_json(summary));
  REQUIRE(with_null);
  CHECK(std::isnan(std::get<double>(with_null->metrics.at("final").at("loss"))));
}

TEST_CASE("what is no summary is refused with the reason", "[telemetry][error]") {
  for (const char* text : {"", "[]", "{}", R"({"verdict":"fine"})", R"({"verdict":"failed","steps":"x"})"}) {
    INFO(text);
    const auto summary = parse_summary(text);
    REQUIRE_FALSE(summary);
    CHECK(summary.error().code == ErrorCode::parse_error);
  }
  const auto missing = load_summary("no/such/summary.json");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
  CHECK(missing.error().message == "summary no/such/summary.json: no such file");
}
