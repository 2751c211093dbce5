#include "runtime/telemetry/progress.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <sstream>

using namespace memopd;

namespace {

ProgressState state_of(std::int64_t step, double elapsed_s) {
  ProgressState state;
  state.step = step;
  state.reward = 0.5;
  state.elapsed_s = elapsed_s;
  return state;
}

}  // namespace

TEST_CASE("a progress line shows step, reward, F1, tokens per second, elapsed and time left", "[telemetry]") {
  ProgressState state = state_of(12, 102);
  state.num_steps = 50;
  state.reward = 0.412;
  state.f1 = 0.4361;
  state.tokens_per_s = 3120.4;
  state.eta_s = 323;
  CHECK(format_progress(state) == "step 12/50 | reward 0.412 | f1 0.436 | 3,120 tok/s | 1m42s | eta 5m23s");
}

TEST_CASE("what is not known is left out of the line", "[telemetry]") {
  ProgressState state;
  state.num_steps = 3;
  state.tokens_per_s = std::nan("");
  CHECK(format_progress(state) == "step 0/3 | 0.0s");
}

TEST_CASE("durations show their two largest units", "[telemetry]") {
  CHECK(format_duration(0.44) == "0.4s");
  CHECK(format_duration(9.96) == "10s");
  CHECK(format_duration(59.4) == "59s");
  CHECK(format_duration(59.6) == "1m00s");
  CHECK(format_duration(3599.7) == "1h00m");
  CHECK(format_duration(11220) == "3h07m");
  CHECK(format_duration(187200) == "2d04h");
  CHECK(format_duration(-1) == "?");
  CHECK(format_duration(std::nan("")) == "?");
}

TEST_CASE("time left follows an exponential average of step durations", "[telemetry]") {
  EtaEstimator eta(0.25);
  CHECK_FALSE(eta.remaining_s(10));
  eta.step_done(8);
  CHECK(eta.remaining_s(10).value() == 80);
  eta.step_done(4);  // 8 + 0.25 * (4 - 8) = 7
  CHECK(eta.remaining_s(10).value() == 70);
  CHECK(eta.remaining_s(0).value() == 0);
}

TEST_CASE("a terminal shows one rewritten line, with nothing left of a longer one before", "[telemetry]") {
  std::ostringstream out;
  ProgressDisplay display(out, true, 20);
  display.step_done(state_of(9, 100));
  display.step_done(state_of(10, 102));
  CHECK(out.str() ==
        "\rstep 9/20 | reward 0.500 | 1m40s | eta 18m20s"
        "\rstep 10/20 | reward 0.500 | 1m42s | eta 13m24s");
  out.str("");
  display.step_done(state_of(20, 103));
  CHECK(out.str() == "\rstep 20/20 | reward 0.500 | 1m43s | eta 0.0s  ");
}

TEST_CASE("a note on a terminal keeps its line and clears the progress line first", "[telemetry]") {
  std::ostringstream out;
  ProgressDisplay display(out, true, 2);
  display.step_done(state_of(2, 1));
  out.str("");
  display.note("evaluating val");
  CHECK(out.str() == "\r" + std::string(std::string("step 2/2 | reward 0.500 | 1.0s | eta 0.0s").size(), ' ') +
                         "\revaluating val\n");
}

TEST_CASE("elsewhere every step is a line", "[telemetry]") {
  std::ostringstream out;
  {
    ProgressDisplay display(out, false, 2);
    display.note("evaluating val");
    display.step_done(state_of(1, 2));
    display.step_done(state_of(2, 4));
  }
  CHECK(out.str() ==
        "evaluating val\n"
        "step 1/2 | reward 0.500 | 2.0s | eta 2.0s\n"
        "step 2/2 | reward 0.500 | 4.0s | eta 0.0s\n");
}

TEST_CASE("the rewritten line ends when the display does", "[telemetry]") {
  std::ostringstream out;
  { ProgressDisplay(out, true, 1).step_done(state_of(1, 1)); }
  CHECK(out.str().back() == '\n');
}
