// What each role does when it is told something twice, late, or after it was lost.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <utility>
#include <vector>

#include "actors/learner_actor.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/config/load.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "tests/support/restarting_cluster.hpp"
#include "tests/support/scripted_run.hpp"
#include "tests/support/simulated_models.hpp"
#include "tests/support/simulated_run.hpp"

using namespace memopd;
using namespace memopd::testing;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

/// One actor of a run in a folder of its own, and what it asks for.
struct Bench {
  explicit Bench(const std::string& actor, const std::string& group, bool has_ledger = true) {
    fs::remove_all(folder);
    fs::create_directories(folder / "run");
    REQUIRE(simulated_tokenizer().save(folder));
    Config config = ScriptedRun::default_config();
    config.ledger.enabled = has_ledger;
    RoleInit init;
    init.config_text = dump_config(config);
    init.tokenizer = folder.string();
    init.run_directory = (folder / "run").string();
    init.collective =
        actors.get().objects().put(std::make_shared<const CollectiveGroup>(make_local_collective(1)), Scope{});
    register_simulation(actors.get());
    target = actors.get().spawn(actor, {}, group, init)[0];
    actors.get().run();
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    actors.get().shutdown();
    fs::remove_all(folder);
  }

  template <class R, Message M>
  Expected<R> ask(M message) {
    return actors.get().ask<R>(target, std::move(message), 1h).get();
  }
  void restart() {
    actors.get().kill(target, "test");
    actors.get().run_for(20ms);
    REQUIRE(target.is_alive());
  }

  fs::path folder = fs::temp_directory_path() / ("memopd_bench_" + std::to_string(getpid()));
  RestartingCluster actors{1, 10};
  ActorRef target;
};

EmitInvocation call(std::int64_t lineage = 0) {
  EmitInvocation made;
  made.invocation.trajectory_id = {"train", 0, 0, 0};
  made.invocation.prompt_token_ids = {65, 66};
  made.invocation.response_token_ids = {67};
  made.invocation.policy_versions = {{0, 1}};
  made.lineage = lineage;
  return made;
}

EmitTrajectory end(std::int64_t lineage = 0) {
  EmitTrajectory made;
  made.trajectory.id = {"train", 0, 0, 0};
  made.num_invocations = 1;
  made.lineage = lineage;
  return made;
}

CloseStep close_of(std::int64_t lineage = 0) { return {lineage, 0, 0, {{"train", 0, 0, 0}}}; }

std::size_t num_records(const Bench& bench) { return read_ledger(bench.folder / "run/ledger")->records.size(); }

ObjectRef put_weights(DeterministicCluster& cluster, std::int64_t lineage, std::int64_t version) {
  WeightSet weights{lineage, version, {HostTensor{"hash", DType::float32, {2}, {}}}};
  weights.tensors.front().bytes.assign(8, static_cast<std::byte>(version));
  return cluster.objects().put(std::make_shared<const WeightSet>(std::move(weights)), Scope{});
}

struct AnswerNow {};
MEMOPD_MESSAGE(AnswerNow, 1)

/// Stands for the coordinator: says which weights are current, 100 ms after it was asked.
class WeightsKeeper final : public Actor {
 public:
  static ObjectRef& weights() {
    static ObjectRef instance;
    return instance;
  }

 private:
  void setup() override {
    on(&WeightsKeeper::get);
    on(&WeightsKeeper::answer);
  }
  Later<WeightsShared> get(const GetWeights& request) {
    if (request.lost == weights()) {
      return unexpected(ErrorCode::refused, "the weights are lost");
    }
    askers_.push_back(make_promise<WeightsShared>());
    after(100ms, AnswerNow{});
    return askers_.back().later();
  }
  void answer(const AnswerNow&) {
    for (Promise<WeightsShared>& asker : std::exchange(askers_, {})) {
      asker.deliver(WeightsShared{3, weights()});
    }
  }
  std::vector<Promise<WeightsShared>> askers_;
};
MEMOPD_REGISTER_ACTOR("test_weights_keeper", WeightsKeeper)

Generate question() {
  Generate request;
  request.prompt_token_ids = {65, 66};
  return request;
}

/// Puts a batch of one trajectory for a learner at `version`.
ObjectRef put_batch(Bench& bench, std::int64_t version) {
  StepBatch batch;
  batch.policy_version = version;
  Trajectory trajectory;
  trajectory.id = {"train", 0, 0, 0};
  trajectory.rewards["final"] = 1;
  trajectory.invocations.push_back(call().invocation);
  trajectory.invocations.front().response_token_ids.clear();
  trajectory.invocations.front().policy_versions = {{version, 0}};
  batch.trajectories.push_back(std::move(trajectory));
  return bench.actors.get().objects().put(std::make_shared<const StepBatch>(std::move(batch)), Scope{});
}

}  // namespace

TEST_CASE("records of an earlier lineage are acknowledged and have no effect", "[align_pack][recovery][RL-2]") {
  Bench bench("align_pack", "align_pack");
  REQUIRE(bench.ask<Acknowledged>(call()));
  REQUIRE(bench.ask<LineageBegun>(BeginLineage{0, 1, 0})->lineage == 1);
  const std::size_t before = num_records(bench);

  CHECK(bench.ask<Acknowledged>(call()));
  CHECK(bench.ask<Acknowledged>(end()));

  REQUIRE(num_records(bench) == before);
  const auto refused = bench.ask<StepClosed>(close_of());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::refused);
  REQUIRE(bench.ask<Acknowledged>(call(1)));
  REQUIRE(bench.ask<Acknowledged>(end(1)));
  CHECK(bench.ask<StepClosed>(close_of(1)));
}

TEST_CASE("without a ledger too an earlier lineage has no effect", "[align_pack][recovery][RL-2]") {
  Bench bench("align_pack", "align_pack", false);
  REQUIRE(bench.ask<Acknowledged>(call()));
  REQUIRE(bench.ask<LineageBegun>(BeginLineage{0, 1, 0})->lineage == 1);
  REQUIRE(bench.ask<LineageBegun>(BeginLineage{0, 1, 0})->lineage == 1);
  REQUIRE(bench.ask<Acknowledged>(end()));

  auto closing = bench.actors.get().ask<StepClosed>(bench.target, close_of(1), 1s);

  CHECK(closing.get().error().code == ErrorCode::timeout);  // nothing of the trajectory is there
}

TEST_CASE("a restarted align_pack closes a step from the ledger", "[align_pack][recovery][RL-1][RL-2]") {
  Bench bench("align_pack", "align_pack");
  REQUIRE(bench.ask<Acknowledged>(call()));
  bench.restart();
  REQUIRE(bench.ask<Acknowledged>(call()));  // asked again: a repeat
  REQUIRE(bench.ask<Acknowledged>(end()));
  bench.restart();

  const auto closed = bench.ask<StepClosed>(close_of());

  REQUIRE(closed);
  const auto batch = *bench.actors.get().objects().get<StepBatch>(closed->batch);
  REQUIRE(batch->trajectories.size() == 1);
  CHECK(batch->trajectories.front().invocations.size() == 1);
  CHECK(num_records(bench) == 2);
}

TEST_CASE("a close of a step asked twice is answered twice, also across a restart", "[align_pack][recovery]") {
  Bench bench("align_pack", "align_pack");
  auto first = bench.actors.get().ask<StepClosed>(bench.target, close_of(), 1h);
  auto second = bench.actors.get().ask<StepClosed>(bench.target, close_of(), 1h);
  bench.actors.get().run();
  REQUIRE(bench.ask<Acknowledged>(call()));
  REQUIRE(bench.ask<Acknowledged>(end()));

  const auto answer = first.get();
  REQUIRE(answer);
  CHECK(second.get()->batch == answer->batch);
  CHECK(bench.ask<StepClosed>(close_of())->batch == answer->batch);
  bench.restart();
  const auto rebuilt = bench.ask<StepClosed>(close_of());
  REQUIRE(rebuilt);
  CHECK((*bench.actors.get().objects().get<StepBatch>(rebuilt->batch))->trajectories.size() == 1);
}

TEST_CASE("a task that is told twice runs once", "[env][recovery][RL-2]") {
  ScriptedRun run({.num_searches = 1});
  auto first = run.begin(ScriptedRun::task(0));
  auto second = run.begin(ScriptedRun::task(0));

  const auto done = first.get();
  REQUIRE(done);
  CHECK(second.get()->metrics == done->metrics);
  CHECK(run.run(ScriptedRun::task(0))->metrics == done->metrics);

  std::int64_t num_first_calls = 0;
  for (const auto& event : ScriptedRun::seen()) {
    num_first_calls += event.what == "generate call 0" ? 1 : 0;
  }
  CHECK(num_first_calls == 1);
}

TEST_CASE("a restarted learner refuses everything until it is told what to go on from", "[learner][recovery][CL-3]") {
  Bench bench("simulated_learner", "learner");
  bench.restart();

  CHECK(bench.ask<StepTrained>(TrainStep{put_batch(bench, 0)}).error().code == ErrorCode::target_down);
  CHECK(bench.ask<CheckpointSaved>(SaveCheckpoint{"nowhere", "{}"}).error().code == ErrorCode::target_down);
  REQUIRE(bench.ask<LearnerRestored>(RestoreLearner{1, "", {}}));
  CHECK(bench.ask<StepTrained>(TrainStep{put_batch(bench, 0)})->policy_version == 1);
}

TEST_CASE("a recovery that is told again changes nothing, an earlier one is refused", "[learner][recovery][CL-3]") {
  Bench bench("simulated_learner", "learner");
  REQUIRE(bench.ask<LearnerRestored>(RestoreLearner{2, "", {}}));
  REQUIRE(bench.ask<StepTrained>(TrainStep{put_batch(bench, 0)}));

  CHECK(bench.ask<LearnerRestored>(RestoreLearner{2, "", {}})->policy_version == 1);
  CHECK(bench.ask<LearnerRestored>(RestoreLearner{1, "", {}}).error().code == ErrorCode::refused);
  CHECK(bench.ask<LearnerRestored>(RestoreLearner{3, "", {}})->policy_version == 0);
}

TEST_CASE("a step that is told twice is trained once", "[learner][recovery][RL-2]") {
  Bench bench("simulated_learner", "learner");
  const TrainStep request{put_batch(bench, 0)};

  const auto first = bench.ask<StepTrained>(request);
  const auto second = bench.ask<StepTrained>(request);

  REQUIRE(first);
  REQUIRE(second);
  CHECK(second->policy_version == 1);
  CHECK(second->metrics == first->metrics);
}

TEST_CASE("a restarted student answers nothing before it has the weights of the others", "[student][recovery][RL-7]") {
  Bench bench("simulated_student", "student");
  WeightsKeeper::weights() = put_weights(bench.actors.get(), 0, 3);
  REQUIRE(bench.actors.get().spawn("test_weights_keeper", {}, "coordinator"));
  CHECK(bench.ask<Generated>(question())->policy_versions.front().policy_version == 0);

  bench.restart();
  const auto answer = bench.ask<Generated>(question());

  REQUIRE(answer);
  CHECK(answer->policy_versions.front().policy_version == 3);
  CHECK(bench.actors.get().now() >= 100ms);
}

TEST_CASE("weights that are lost with their node are no reason to wait: what is held is refused",
          "[student][recovery]") {
  Bench bench("simulated_student", "student");
  WeightsKeeper::weights() = put_weights(bench.actors.get(), 0, 3);
  REQUIRE(bench.actors.get().objects().release(WeightsKeeper::weights()));
  REQUIRE(bench.actors.get().spawn("test_weights_keeper", {}, "coordinator"));
  bench.restart();

  const auto answer = bench.ask<Generated>(question());

  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == ErrorCode::refused);
  REQUIRE(bench.ask<WeightsLoaded>(LoadWeights{put_weights(bench.actors.get(), 1, 2)}));
  CHECK(bench.ask<Generated>(question())->policy_versions.front().policy_version == 2);
}

TEST_CASE("what a publish brings to a restarted student is newer than what it was told", "[student][recovery][RL-7]") {
  Bench bench("simulated_student", "student");
  WeightsKeeper::weights() = put_weights(bench.actors.get(), 0, 3);
  REQUIRE(bench.actors.get().spawn("test_weights_keeper", {}, "coordinator"));
  bench.restart();

  REQUIRE(bench.ask<WeightsLoaded>(LoadWeights{put_weights(bench.actors.get(), 0, 4)})->policy_version == 4);
  bench.actors.get().run_for(1s);

  CHECK(bench.ask<Generated>(question())->policy_versions.front().policy_version == 4);
}

TEST_CASE("weights go back to a lower version", "[student][recovery][CL-3]") {
  Bench bench("simulated_student", "student");
  REQUIRE(bench.ask<WeightsLoaded>(LoadWeights{put_weights(bench.actors.get(), 0, 4)}));

  CHECK(bench.ask<WeightsLoaded>(LoadWeights{put_weights(bench.actors.get(), 0, 2)})->policy_version == 2);
}

TEST_CASE("what is still sampled when a step's weights come has no asker any more and is aborted",
          "[student][recovery]") {
  Bench bench("simulated_student", "student");
  auto orphan = bench.actors.get().ask<Generated>(bench.target, question(), 1h);
  auto loaded =
      bench.actors.get().ask<WeightsLoaded>(bench.target, LoadWeights{put_weights(bench.actors.get(), 0, 1)}, 1h);

  CHECK(loaded.get()->policy_version == 1);
  CHECK(orphan.get()->finish_reason == FinishReason::aborted);
}

TEST_CASE("weights that come again leave what is being sampled alone", "[student][recovery]") {
  Bench bench("simulated_student", "student");
  const LoadWeights weights{put_weights(bench.actors.get(), 0, 1)};
  REQUIRE(bench.ask<WeightsLoaded>(weights));
  auto answer = bench.actors.get().ask<Generated>(bench.target, question(), 1h);
  auto again = bench.actors.get().ask<WeightsLoaded>(bench.target, weights, 1h);

  CHECK(again.get()->policy_version == 1);
  CHECK(answer.get()->finish_reason == FinishReason::stop);
}
