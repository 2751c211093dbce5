// Real models, in virtual time: whoever dies in a deterministic run, its numbers and its weights are those of a run in which
// nobody does.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "actors/env_actor.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/random.hpp"
#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tests/support/restarting_cluster.hpp"
#include "tests/support/tiny_run.hpp"

using namespace memopd;
using namespace memopd::testing;
namespace fs = std::filesystem;

namespace {

/// An env actor whose environment runs on the one thread of the cluster.
class InlineEnvActor final : public EnvActor {
 public:
  using EnvActor::EnvActor;

 protected:
  std::unique_ptr<CallExecutor> make_executor() const override { return make_inline_executor(); }
};
MEMOPD_REGISTER_ACTOR("inline_env", InlineEnvActor, RoleInit)

Config config_in(const fs::path& folder) {
  Config config = tiny_world(folder);
  config.run.num_steps = 4;
  config.run.is_deterministic = true;
  config.learner.num_threads = 2;
  config.env.front().num_actors = 2;
  config.student.num_actors = 2;
  config.teacher.num_actors = 2;
  config.eval.every = 2;
  config.checkpoint.every = 2;
  return config;
}

struct Outcome {
  RunEnded ended;
  std::int32_t num_restarts = 0;
  std::int64_t num_deliveries = 0;
};

/// Runs `config`; at each delivery in `kills` one of `victims` dies.
Outcome run_with_kills(const Config& config, const std::set<std::uint64_t>& kills,
                       const std::vector<std::string>& victims) {
  set_log_sink([](const LogEvent&) {});
  auto directory = RunDirectory::create(config.run.directory, config.run.name);
  REQUIRE(directory);
  REQUIRE(directory->write_manifest(Manifest{}));
  RestartingCluster actors(7, 50);
  RoleSelection selection = launch_roles(config, directory->path().string());
  selection.env_class = "inline_env";
  const auto coordinator = spawn_roles(actors.get(), config, selection);
  REQUIRE(coordinator);
  actors.get().run();
  Outcome outcome;
  std::size_t next_victim = 0;
  actors.get().set_faults([&](const Delivery& delivery) {
    ++outcome.num_deliveries;
    if (kills.contains(delivery.index)) {
      actors.kill_in(std::chrono::milliseconds(1), victims[next_victim++ % victims.size()]);
    }
    return Fault{.delay = std::chrono::milliseconds(splitmix64(delivery.index) % 8)};
  });
  auto ended = actors.get().ask<RunEnded>(*coordinator, StartRun{}, std::chrono::hours(1)).get();
  actors.get().set_faults({});
  set_log_sink({});
  REQUIRE(ended);
  outcome.ended = *ended;
  outcome.num_restarts = actors.num_restarts();
  return outcome;
}

std::string file_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void check_same_run(const fs::path& run, const fs::path& undisturbed) {
  CHECK(first_difference(reproducible_metrics(run), reproducible_metrics(undisturbed)) == "");
  for (const char* file : {"policy/model.safetensors", "optimizer.safetensors"}) {
    const fs::path name = fs::path("checkpoints/step-4") / file;
    CHECK(file_bytes(run / name) == file_bytes(undisturbed / name));
  }
  const auto ledger = read_ledger(run / "ledger");
  REQUIRE(ledger);
  const LedgerAudit audit = audit_ledger(*ledger, {.max_policy_lag = 0});
  CHECK(audit.violations == std::vector<std::string>{});
  CHECK(audit.num_trained + audit.num_dropped() == 4 * 4);
  CHECK(audit.num_pending == 0);
}

}  // namespace

TEST_CASE("killed workers of every role change no bit of a deterministic run",
          "[integration][recovery][RL-6][RL-7][RL-2][pain:T24]") {
  const Scratch whole;
  const Scratch hurt;
  REQUIRE(run_with_kills(config_in(whole.path()), {}, {}).ended.verdict == "completed");

  const Outcome outcome = run_with_kills(config_in(hurt.path()), {60, 100, 140, 180, 220, 260, 300, 340, 380},
                                         {"student/0", "env/0", "align_pack/0", "teacher/0", "student/1", "retriever/0",
                                          "env/1", "align_pack/0", "env/0"});

  REQUIRE(outcome.ended.verdict == "completed");
  CHECK(outcome.num_restarts >= 8);
  check_same_run(hurt.path() / "run", whole.path() / "run");
}

TEST_CASE("a run whose learner is killed before and after its checkpoint ends with the same weights",
          "[integration][recovery][CL-3][RL-2][pain:T24]") {
  const Scratch whole;
  const Scratch hurt;
  REQUIRE(run_with_kills(config_in(whole.path()), {}, {}).ended.verdict == "completed");

  const Outcome outcome = run_with_kills(config_in(hurt.path()), {90, 420}, {"learner/0"});

  REQUIRE(outcome.ended.verdict == "completed");
  CHECK(outcome.num_restarts == 2);
  check_same_run(hurt.path() / "run", whole.path() / "run");
}
