#include "runtime/telemetry/metrics_tail.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "runtime/telemetry/metrics.hpp"
#include "tests/unit/runtime/telemetry/scratch_folder.hpp"

using namespace memopd;

namespace {

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

std::vector<std::int64_t> steps(const std::vector<MetricsRecord>& records) {
  std::vector<std::int64_t> result;
  for (const MetricsRecord& record : records) {
    result.push_back(record.step);
  }
  return result;
}

using ints = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("the tail says each record once, as the writer wrote it", "[telemetry]") {
  const ScratchFolder folder;
  MetricsTail tail(folder.path() / "metrics.jsonl");
  CHECK(tail.poll().empty());
  const auto writer = MetricsWriter::create(folder.path(), 1);
  REQUIRE(writer);
  REQUIRE((*writer)->write(3, {{"train/loss", 0.5}, {"x", std::numeric_limits<double>::quiet_NaN()}}, 10.5));
  const auto records = tail.poll();
  REQUIRE(records.size() == 1);
  CHECK(records[0] == MetricsRecord{3, 10.5, {{"train/loss", 0.5}}});
  CHECK(tail.poll().empty());
}

TEST_CASE("half a line waits for its other half", "[telemetry]") {
  const ScratchFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  MetricsTail tail(path);
  append(path, "{\"step\":1}\n{\"st");
  CHECK(steps(tail.poll()) == ints{1});
  append(path, "ep\":2}\n");
  CHECK(steps(tail.poll()) == ints{2});
}

TEST_CASE("a rewound file is read from its start", "[telemetry]") {
  const ScratchFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  MetricsTail tail(path);
  append(path, "{\"step\":1}\n{\"step\":2}\n");
  CHECK(steps(tail.poll()) == ints{1, 2});
  append(folder.path() / "other", "{\"step\":1}\n{\"step\":4}\n{\"step\":5}\n");
  std::filesystem::rename(folder.path() / "other", path);
  CHECK(steps(tail.poll()) == ints{1, 4, 5});
}

TEST_CASE("lines that are no record are skipped and counted", "[telemetry][error]") {
  const ScratchFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  MetricsTail tail(path);
  append(path, "nonsense\n[1]\n{\"time\":1}\n{\"step\":\"x\"}\n{\"step\":7}\n");
  CHECK(steps(tail.poll()) == ints{7});
  CHECK(tail.num_bad_lines() == 4);
  append(path, std::string(3 << 20, 'x') + "\n{\"step\":8}\n");
  ints found;
  for (int round = 0; round < 5; ++round) {
    const auto more = steps(tail.poll());
    found.insert(found.end(), more.begin(), more.end());
  }
  CHECK(found == ints{8});
  CHECK(tail.num_bad_lines() == 5);
}
