// CL-3 for the learner's part: a resumed learner goes on with the bits of an uninterrupted one; a broken checkpoint is a
// named error that changes nothing.
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <limits>

#include "policies/model/safetensors.hpp"
#include "policies/training/learner.hpp"
#include "tests/unit/policies/training/training_fixtures.hpp"

namespace memopd {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): a test file
namespace fs = std::filesystem;

/// Several optimizer steps a step, under a schedule whose rate differs at each of them.
LearnerSetup scheduled_setup(const World& world) {
  LearnerSetup setup = world.setup();
  setup.dtype = DType::float32;
  setup.optimizer.schedule = "cosine";
  setup.optimizer.warmup_steps = 5;
  setup.optimizer.weight_decay = 0.01;
  setup.num_optimizer_steps = 12;
  setup.learner.mini_batch_trajectories = 1;
  return setup;
}

/// Step `number` of a run: other tasks each time, sampled by the learner's version, on lineage 4.
ScoredStep step_of_run(const World& world, const Learner& learner, std::int32_t number) {
  ScoredStep step = score_step({make_trajectory(3 * number, {4, 2, 5}, 1.0), make_trajectory(3 * number + 1, {3}, 0.0),
                                make_trajectory(3 * number + 2, {2, 1, 3, 4}, 0.5)},
                               world.teacher);
  step.batch.step = number;
  step.batch.lineage = 4;
  set_version(step, learner.policy_version());
  return step;
}

StepReport run_next(const World& world, Learner& learner, std::int32_t number) {
  return run_step(learner, step_of_run(world, learner, number));
}

void check_same_metrics(const StepReport& a, const StepReport& b) {
  for (const auto& [name, value] : a.metrics) {
    if (name.rfind("time/", 0) != 0) {
      INFO(name);
      CHECK(b.metrics.at(name) == value);
    }
  }
}

/// Rewrites one tensor file of a checkpoint.
template <class Edit>
void edit_tensors(const fs::path& file, Edit edit) {
  std::vector<HostTensor> tensors = read_safetensors(file).value();
  edit(tensors);
  REQUIRE(write_safetensors(file, tensors));
}

}  // namespace

TEST_CASE("a learner resumed after any step gives the bits of an uninterrupted one, learning rates included",
          "[learner][CL-3][pain:T23]") {
  for (const char* const trunk : {"shared", "own"}) {
    const World world;
    LearnerSetup setup = scheduled_setup(world);
    setup.critic.trunk = trunk;
    const auto whole = make_learner(setup);
    std::vector<StepReport> reports;
    std::vector<WeightSet> weights;
    for (std::int32_t step = 0; step < 4; ++step) {
      REQUIRE(whole->save_checkpoint(world.folder.path() / ("step-" + std::to_string(step))));
      reports.push_back(run_next(world, *whole, step));
      weights.push_back(whole->weights());
    }
    CHECK(reports[1].metrics.at("train/lr") != reports[2].metrics.at("train/lr"));

    for (std::int32_t from = 1; from < 4; ++from) {
      const auto resumed = make_learner(setup);
      REQUIRE(resumed->load_checkpoint(world.folder.path() / ("step-" + std::to_string(from))));
      CHECK(same_bits(weights[static_cast<std::size_t>(from - 1)], resumed->weights()));
      CHECK(resumed->weights().lineage == 4);
      for (std::int32_t step = from; step < 4; ++step) {
        INFO(trunk << ", resumed at " << from << ", step " << step);
        const StepReport report = run_next(world, *resumed, step);
        CHECK(report.policy_version == reports[static_cast<std::size_t>(step)].policy_version);
        check_same_metrics(reports[static_cast<std::size_t>(step)], report);
        CHECK(same_bits(weights[static_cast<std::size_t>(step)], resumed->weights()));
      }
    }
  }
}

TEST_CASE("a checkpoint of one rank resumes two", "[learner][CL-3]") {
  const World world;
  LearnerSetup setup = scheduled_setup(world);
  setup.dtype = DType::float64;
  const auto whole = make_learner(setup);
  run_next(world, *whole, 0);
  REQUIRE(whole->save_checkpoint(world.folder.path() / "step-1"));
  run_next(world, *whole, 1);

  const auto resume = [&](Learner& learner) {
    learner.load_checkpoint(world.folder.path() / "step-1").value();
    return step_of_run(world, learner, 1);
  };
  for (const RankResult& rank : step_on_ranks(setup, 2, resume)) {
    REQUIRE(rank.report);
    // Sums over ranks have another order: fp64 rounding.
    CHECK(max_difference(whole->weights(), rank.weights) <= 1e-10);
  }
}

TEST_CASE("updates skipped in a row are counted across a resume", "[learner][CL-3]") {
  const World world;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  edit_tensors(world.student / "model.safetensors", [&](std::vector<HostTensor>& tensors) {
    for (HostTensor& tensor : tensors) {
      if (tensor.name == "model.norm.weight") {
        std::memcpy(tensor.bytes.data(), &nan, sizeof nan);
      }
    }
  });
  LearnerSetup setup = scheduled_setup(world);
  setup.dtype = DType::float64;
  const auto first = make_learner(setup);
  CHECK(run_next(world, *first, 0).max_skipped_in_a_row == 3);
  REQUIRE(first->save_checkpoint(world.folder.path() / "step-1"));
  const auto resumed = make_learner(setup);
  REQUIRE(resumed->load_checkpoint(world.folder.path() / "step-1"));
  CHECK(run_next(world, *resumed, 1).max_skipped_in_a_row == 6);
}

TEST_CASE("a checkpoint is complete or absent, and never overwritten", "[learner][CL-3][error]") {
  const World world;
  const auto learner = make_learner(world.setup());
  const fs::path folder = world.folder.path() / "step-0";
  fs::create_directories(folder.string() + ".unfinished/policy");  // left by a run that was killed
  REQUIRE(learner->save_checkpoint(folder));
  CHECK_FALSE(fs::exists(folder.string() + ".unfinished"));
  CHECK(learner->save_checkpoint(folder).error().code == ErrorCode::already_exists);
  CHECK(learner->load_checkpoint(world.folder.path() / "none").error().code == ErrorCode::not_found);
}

TEST_CASE("a torn, missing or foreign part of a checkpoint is a named error and the learner goes on unchanged",
          "[learner][CL-3][error]") {
  const World world;
  LearnerSetup setup = scheduled_setup(world);
  setup.critic.trunk = "own";
  const auto saver = make_learner(setup);
  run_next(world, *saver, 0);
  const fs::path intact = world.folder.path() / "intact";
  REQUIRE(saver->save_checkpoint(intact));
  const auto untouched = make_learner(setup);
  const auto learner = make_learner(setup);
  const fs::path broken = world.folder.path() / "broken";

  const auto refused = [&](const std::string& file, const auto& damage) {
    fs::remove_all(broken);
    fs::copy(intact, broken, fs::copy_options::recursive);
    damage(broken / file);
    const auto loaded = learner->load_checkpoint(broken);
    INFO(file);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().message.find(fs::path(file).filename().string()) != std::string::npos);
    CHECK(learner->policy_version() == 0);
    CHECK(same_bits(untouched->weights(), learner->weights()));
  };
  for (const char* const file : {"policy/model.safetensors", "policy/config.json", "critic/model.safetensors",
                                 "critic/value_head.safetensors", "optimizer.safetensors", "state.json"}) {
    refused(file, [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) * 2 / 3); });
    refused(file, [](const fs::path& path) { fs::remove(path); });
    refused(file, [](const fs::path& path) {  // the length is right, bytes are not
      std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(static_cast<std::streamoff>(fs::file_size(path) / 2));
      bytes.write("\x07\x1d\x07", 3);
    });
  }
  // Nothing of the failed attempts is left: both learners make the same step.
  check_same_metrics(run_next(world, *untouched, 0), run_next(world, *learner, 0));
  CHECK(same_bits(untouched->weights(), learner->weights()));
}

TEST_CASE("moments of another model, or none, are refused", "[learner][CL-3][error]") {
  const World world;
  const LearnerSetup setup = scheduled_setup(world);
  const auto learner = make_learner(setup);
  const fs::path folder = world.folder.path() / "step-0";
  REQUIRE(learner->save_checkpoint(folder));
  SECTION("another dtype") {
    LearnerSetup other = setup;
    other.dtype = DType::float64;
    CHECK(make_learner(other)->load_checkpoint(folder).error().code == ErrorCode::shape_mismatch);
  }
  SECTION("another shape of the policy") {
    save_tiny_model(world.folder.path() / "wide", 3, kVocab + 1);
    LearnerSetup other = setup;
    other.student_folder = world.folder.path() / "wide";
    const auto loaded = make_learner(other)->load_checkpoint(folder);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code == ErrorCode::shape_mismatch);
  }
  SECTION("saved without a critic") {
    LearnerSetup without = setup;
    without.ppo.coef = 0;
    REQUIRE(make_learner(without)->save_checkpoint(world.folder.path() / "opd"));
    CHECK(learner->load_checkpoint(world.folder.path() / "opd").error().message.find("no moments of critic") !=
          std::string::npos);
  }
}

}  // namespace memopd
