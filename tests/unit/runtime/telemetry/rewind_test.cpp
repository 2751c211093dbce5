#include "runtime/telemetry/rewind.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/unit/runtime/telemetry/scratch_folder.hpp"

using namespace memopd;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const char* kMetrics =
    "{\"step\":0,\"eval/f1/f1\":0.1}\n"
    "{\"step\":1,\"train/loss\":1.0}\n"
    "{\"step\":2,\"train/loss\":2.0}\n"
    "{\"step\":2,\"eval/f1/f1\":0.2}\n"
    "{\"step\":3,\"train/loss\":3.0}\n"
    "{\"step\":4,\"tra";

}  // namespace

TEST_CASE("a rewound run keeps the training up to the step and loses the evaluation after it", "[telemetry][CL-3]") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "metrics.jsonl") << kMetrics;

  REQUIRE(rewind_run_files(folder.path(), 2));

  CHECK(read(folder.path() / "metrics.jsonl") ==
        "{\"step\":0,\"eval/f1/f1\":0.1}\n{\"step\":1,\"train/loss\":1.0}\n{\"step\":2,\"train/loss\":2.0}\n");
}

TEST_CASE("a run rewound to step 0 keeps what was evaluated before it, one that begins anew keeps nothing",
          "[telemetry][CL-3]") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "metrics.jsonl") << kMetrics;
  REQUIRE(rewind_run_files(folder.path(), 0));
  CHECK(read(folder.path() / "metrics.jsonl") == "{\"step\":0,\"eval/f1/f1\":0.1}\n");

  REQUIRE(rewind_run_files(folder.path(), -1));
  CHECK(read(folder.path() / "metrics.jsonl").empty());
}

TEST_CASE("texts of trajectories that will be run again are deleted", "[telemetry][CL-3]") {
  const ScratchFolder folder;
  fs::create_directories(folder.path() / "trajectories");
  for (const char* const name : {"f1-0", "train-0", "train-1", "train-2", "f1-2", "f1_new-2"}) {
    std::ofstream(folder.path() / "trajectories" / (std::string(name) + ".jsonl")) << "{}\n";
  }

  REQUIRE(rewind_run_files(folder.path(), 2));

  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path() / "trajectories")) {
    names.insert(entry.path().filename().string());
  }
  CHECK(names == std::set<std::string>{"f1-0.jsonl", "train-0.jsonl", "train-1.jsonl"});
}

TEST_CASE("a run without files yet is rewound to nothing", "[telemetry]") {
  const ScratchFolder folder;
  CHECK(rewind_run_files(folder.path(), 3));
}
