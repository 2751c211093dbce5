#include "runtime/telemetry/run_directory.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/unit/runtime/telemetry/scratch_folder.hpp"

using namespace memopd;
namespace fs = std::filesystem;

namespace {

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

void write_file(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

LogEvent event_of(LogLevel level, std::string component, std::string name) {
  LogEvent event;
  event.unix_time_ms = 1'767'225'600'500;
  event.level = level;
  event.component = std::move(component);
  event.name = std::move(name);
  return event;
}

}  // namespace

TEST_CASE("a new run has its folders", "[telemetry]") {
  const ScratchFolder root;
  const auto run = RunDirectory::create(root.path() / "runs", "first");
  REQUIRE(run);
  CHECK(run->path() == root.path() / "runs" / "first");
  CHECK(names_in(run->path()) == std::set<std::string>{"checkpoints", "ledger", "logs", "tensorboard", "trajectories"});
  CHECK(run->checkpoints() == run->path() / "checkpoints");
}

TEST_CASE("an existing run is refused and untouched", "[telemetry][error]") {
  const ScratchFolder root;
  REQUIRE(RunDirectory::create(root.path(), "first"));
  write_file(root.path() / "first" / "summary.json", "mine");

  const auto again = RunDirectory::create(root.path(), "first");

  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::already_exists);
  CHECK(again.error().message == "run folder " + (root.path() / "first").string() +
                                     " exists: choose another run.name, move it away, or go on with it by --resume " +
                                     (root.path() / "first").string());
  CHECK(read_file(root.path() / "first" / "summary.json") == "mine");
}

TEST_CASE("a run name is one folder below the root", "[telemetry][error]") {
  const ScratchFolder root;
  for (const char* name : {"", ".", "..", "../x", "a/b", "a b"}) {
    INFO(name);
    const auto run = RunDirectory::create(root.path() / "runs", name);
    REQUIRE_FALSE(run);
    CHECK(run.error().code == ErrorCode::invalid_argument);
  }
  CHECK_FALSE(fs::exists(root.path() / "runs"));
}

TEST_CASE("a run cannot be made below a file", "[telemetry][error]") {
  const ScratchFolder root;
  write_file(root.path() / "runs", "x");
  const auto run = RunDirectory::create(root.path() / "runs", "first");
  REQUIRE_FALSE(run);
  CHECK(run.error().code == ErrorCode::io_error);
}

TEST_CASE("a file is replaced as a whole and leaves nothing beside it", "[telemetry]") {
  const ScratchFolder root;
  const fs::path path = root.path() / "summary.json";
  REQUIRE(write_file_atomic(path, "a long first version"));
  const fs::path kept = root.path() / "kept";
  fs::create_hard_link(path, kept);

  REQUIRE(write_file_atomic(path, "second"));

  CHECK(read_file(path) == "second");
  CHECK(read_file(kept) == "a long first version");  // a reader that had it open still has all of it
  CHECK(names_in(root.path()) == std::set<std::string>{"kept", "summary.json"});
}

TEST_CASE("a file that cannot be replaced is untouched and named", "[telemetry][error]") {
  const ScratchFolder root;
  fs::create_directories(root.path() / "summary.json" / "x");
  const auto written = write_file_atomic(root.path() / "summary.json", "x");
  REQUIRE_FALSE(written);
  CHECK(written.error().code == ErrorCode::io_error);
  CHECK(written.error().message.find("summary.json") != std::string::npos);
  CHECK(names_in(root.path()) == std::set<std::string>{"summary.json"});
}

TEST_CASE("old runs move to the first free number", "[telemetry]") {
  const ScratchFolder root;
  const fs::path run = root.path() / "quickstart";
  CHECK(rename_old_run(run)->empty());
  write_file(run / "id", "first");
  CHECK(*rename_old_run(run) == fs::path(run.string() + ".1"));
  write_file(run / "id", "second");
  CHECK(*rename_old_run(run) == fs::path(run.string() + ".2"));
  CHECK(read_file(run.string() + ".1/id") == "first");
  CHECK(read_file(run.string() + ".2/id") == "second");
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE("the fingerprint of an input is XXH3-128 of its bytes", "[telemetry]") {
  const ScratchFolder root;
  write_file(root.path() / "empty", "");
  CHECK(*fingerprint_input(root.path() / "empty") == "99aa06d3014798d86001c324468d497f");  // published for no bytes
  CHECK(*fingerprint_input(root.path()) != *fingerprint_input(root.path() / "empty"));
}

TEST_CASE("the fingerprint of a folder depends on names and bytes of its files and on nothing else", "[telemetry]") {
  const ScratchFolder root;
  const auto make = [&](const std::string& folder, const std::string& file, const std::string& content) {
    write_file(root.path() / folder / "config.json", "{}");
    write_file(root.path() / folder / "sub" / file, content);
    return *fingerprint_input(root.path() / folder);
  };
  const std::string first = make("a", "model", "weights");
  CHECK(make("b", "model", "weights") == first);
  CHECK(make("c", "model", "weight") != first);
  CHECK(make("d", "modelw", "eights") != first);
}

TEST_CASE("a manifest names its inputs and refuses one that is missing", "[telemetry][pain:T29]") {
  const ScratchFolder root;
  write_file(root.path() / "corpus.jsonl", "x");
  const auto manifest = make_manifest("first", {"memopd-cluster", "launch"}, 7, {root.path() / "corpus.jsonl", ""});
  REQUIRE(manifest);
  CHECK(manifest->seed == 7);
  CHECK(manifest->inputs.size() == 1);
  CHECK(manifest->inputs.begin()->second == *fingerprint_input(root.path() / "corpus.jsonl"));
  CHECK(manifest->started_at.size() == std::string("2026-01-01T00:00:00Z").size());
  CHECK_FALSE(manifest->build_id.empty());
  CHECK_FALSE(manifest->cpu_model.empty());
  CHECK(manifest->version == program_version());

  const auto missing = make_manifest("first", {}, 7, {root.path() / "none"});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
}

TEST_CASE("manifest, config, summary and topology lie where readers look for them", "[telemetry][pain:T29]") {
  const ScratchFolder root;
  const auto run = RunDirectory::create(root.path(), "first");
  REQUIRE(run);
  CHECK_FALSE(RunDirectory::open(run->path()));
  Manifest manifest;
  manifest.run_name = "first";
  manifest.seed = 18446744073709551615ULL;
  manifest.inputs = {{"corpus.jsonl", "00ff"}};
  Summary summary;
  summary.steps = 4;

  REQUIRE(run->write_manifest(manifest));
  REQUIRE(run->write_config("[run]\n"));
  REQUIRE(run->write_summary(summary));
  REQUIRE(run->write_topology("{}"));

  const auto json = nlohmann::json::parse(read_file(run->path() / "manifest.json"));
  CHECK(json["run_name"] == "first");
  CHECK(json["seed"] == 18446744073709551615ULL);
  CHECK(json["inputs"]["corpus.jsonl"] == "00ff");
  CHECK(read_file(run->path() / "config.toml") == "[run]\n");
  CHECK(*load_summary(run->path() / "summary.json") == summary);
  CHECK(read_file(run->path() / "topology.json") == "{}");
  CHECK(RunDirectory::open(run->path()));
}

TEST_CASE("events go to events.jsonl from level info on, to the log of their role and rank always, and on",
          "[telemetry]") {
  const ScratchFolder root;
  const auto run = RunDirectory::create(root.path(), "first");
  REQUIRE(run);
  std::size_t num_passed_on = 0;
  const auto sink = run->open_log_sink([&](const LogEvent&) { ++num_passed_on; });
  REQUIRE(sink);
  LogEvent done = event_of(LogLevel::info, "learner", "step_done");
  done.fields = {{"step", 12}};

  (*sink)(done);
  (*sink)(event_of(LogLevel::debug, "env/3", "slow"));
  (*sink)(event_of(LogLevel::error, "../../x", "odd"));

  CHECK(read_file(run->path() / "events.jsonl") ==
        "{\"time\":1767225600.5,\"level\":\"info\",\"component\":\"learner\",\"name\":\"step_done\",\"fields\":{"
        "\"step\":\"12\"}}\n"
        "{\"time\":1767225600.5,\"level\":\"error\",\"component\":\"../../x\",\"name\":\"odd\"}\n");
  CHECK(read_file(run->path() / "logs" / "learner-0.log") ==
        "2026-01-01T00:00:00.500Z info learner step_done step=12\n");
  CHECK(read_file(run->path() / "logs" / "env-3.log") == "2026-01-01T00:00:00.500Z debug env/3 slow\n");
  CHECK(names_in(run->path() / "logs") == std::set<std::string>{"__-___x.log", "env-3.log", "learner-0.log"});
  CHECK(num_passed_on == 3);
}

TEST_CASE("a run is held by one process at a time", "[telemetry][error]") {
  const ScratchFolder root;
  const auto run = RunDirectory::create(root.path(), "first");
  REQUIRE(run);
  auto held = run->lock();
  REQUIRE(held);

  const auto again = run->lock();
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::refused);
  CHECK(again.error().message == "run " + run->path().string() + ": another process is running it");

  held->reset();
  CHECK(run->lock());
}
