#include "actors/step_schedule.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace memopd;

namespace {

/// Steps that may be dispatched now.
std::vector<std::int32_t> dispatch(StepSchedule& schedule) {
  std::vector<std::int32_t> steps;
  while (const auto step = schedule.take_to_collect()) {
    steps.push_back(*step);
  }
  return steps;
}

using Steps = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("without lag a step is dispatched only after the one before it is trained", "[step_schedule][RL-3]") {
  StepSchedule schedule(0, 2, 0);
  CHECK(dispatch(schedule) == Steps{0});
  schedule.collected(0);
  CHECK(dispatch(schedule).empty());
  CHECK(schedule.take_to_train() == 0);
  CHECK(dispatch(schedule).empty());
  schedule.trained();
  CHECK(dispatch(schedule) == Steps{1});
}

TEST_CASE("with lag n, n steps more are dispatched than are trained", "[step_schedule][RL-3]") {
  StepSchedule schedule(0, 10, 2);
  CHECK(dispatch(schedule) == Steps{0, 1, 2});
  schedule.collected(0);
  REQUIRE(schedule.take_to_train() == 0);
  CHECK(dispatch(schedule).empty());
  schedule.trained();
  CHECK(dispatch(schedule) == Steps{3});
}

TEST_CASE("steps are trained in order, one at a time, whichever was collected first", "[step_schedule]") {
  StepSchedule schedule(0, 3, 2);
  dispatch(schedule);
  schedule.collected(1);
  CHECK_FALSE(schedule.take_to_train());
  schedule.collected(0);
  CHECK(schedule.take_to_train() == 0);
  CHECK_FALSE(schedule.take_to_train());
  schedule.trained();
  CHECK(schedule.take_to_train() == 1);
}

TEST_CASE("a run is done when its last step is trained", "[step_schedule]") {
  StepSchedule schedule(0, 1, 0);
  dispatch(schedule);
  schedule.collected(0);
  CHECK_FALSE(schedule.is_done());
  REQUIRE(schedule.take_to_train());
  CHECK_FALSE(schedule.is_done());
  schedule.trained();
  CHECK(schedule.is_done());
  CHECK(dispatch(schedule).empty());
}

TEST_CASE("a stop finishes the step in progress without lag", "[step_schedule]") {
  StepSchedule schedule(0, 5, 0);
  dispatch(schedule);
  schedule.stop();
  CHECK_FALSE(schedule.is_done());
  schedule.collected(0);
  REQUIRE(schedule.take_to_train() == 0);
  schedule.trained();
  CHECK(schedule.is_done());
  CHECK(dispatch(schedule).empty());
}

TEST_CASE("a stop with lag finishes only the step being trained", "[step_schedule]") {
  StepSchedule schedule(0, 5, 1);
  dispatch(schedule);
  schedule.collected(0);
  REQUIRE(schedule.take_to_train() == 0);
  schedule.collected(1);
  schedule.stop();
  schedule.trained();
  CHECK(schedule.is_done());
  CHECK_FALSE(schedule.take_to_train());
}

TEST_CASE("a resumed run goes on with the first step that is not trained", "[step_schedule][CL-3]") {
  StepSchedule schedule(7, 9, 0);
  CHECK(schedule.num_trained() == 7);
  CHECK(dispatch(schedule) == Steps{7});
  CHECK(StepSchedule(9, 9, 0).is_done());
}
