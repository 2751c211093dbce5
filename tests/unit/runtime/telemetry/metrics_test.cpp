#include "runtime/telemetry/metrics.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/runtime/telemetry/scratch_folder.hpp"

using namespace memopd;

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("a record is one JSON line: step, time, then metrics by name, on disk when write returns", "[telemetry]") {
  const ScratchFolder folder;
  const auto writer = MetricsWriter::create(folder.path(), 0);
  REQUIRE(writer);
  REQUIRE((*writer)->write(12, {{"train/loss", 0.1}, {"eval/f1", 1}}, 1767225600.5));

  const auto lines = lines_of(folder.path() / "metrics.jsonl");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == R"({"step":12,"time":1767225600.5,"eval/f1":1.0,"train/loss":0.1})");
  CHECK_FALSE(std::filesystem::is_empty(folder.path() / "tensorboard"));
}

TEST_CASE("a number that is not finite is null in the line and counted", "[telemetry]") {
  const ScratchFolder folder;
  const auto writer = MetricsWriter::create(folder.path(), 0);
  REQUIRE(writer);
  REQUIRE((*writer)->write(1, {{"a", std::nan("")}, {"b", std::numeric_limits<double>::infinity()}, {"c", 2.5}}, 0));

  CHECK(lines_of(folder.path() / "metrics.jsonl").at(0) == R"({"step":1,"time":0.0,"a":null,"b":null,"c":2.5})");
  CHECK((*writer)->num_non_finite() == 2);
}

TEST_CASE("a metric may not take the name of step or time", "[telemetry][error]") {
  const ScratchFolder folder;
  const auto writer = MetricsWriter::create(folder.path(), 0);
  REQUIRE(writer);
  for (const char* name : {"step", "time", ""}) {
    const auto result = (*writer)->write(1, {{name, 1.0}}, 0);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ErrorCode::invalid_argument);
  }
  CHECK(lines_of(folder.path() / "metrics.jsonl").empty());
}

TEST_CASE("records of several threads never mix", "[telemetry]") {
  const ScratchFolder folder;
  const auto writer = MetricsWriter::create(folder.path(), 0);
  REQUIRE(writer);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        if (!(*writer)->write(t, {{"value", i}, {"a/long/name/to/make/the/line/longer", t}}, 0)) {
          std::abort();
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  const auto lines = lines_of(folder.path() / "metrics.jsonl");
  REQUIRE(lines.size() == 400);
  for (const auto& line : lines) {
    CHECK(nlohmann::json::accept(line));
  }
}

TEST_CASE("a second writer continues the file", "[telemetry]") {
  const ScratchFolder folder;
  REQUIRE((*MetricsWriter::create(folder.path(), 0))->write(1, {{"a", 1}}, 0));
  REQUIRE((*MetricsWriter::create(folder.path(), 1))->write(2, {{"a", 1}}, 0));
  CHECK(lines_of(folder.path() / "metrics.jsonl").size() == 2);
}
