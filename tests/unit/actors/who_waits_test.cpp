#include "actors/who_waits.hpp"

#include <catch2/catch.hpp>

using namespace memopd;

namespace {

ActorStatus actor(const std::string& name, const std::string& waits_for = "", const std::string& message = "",
                  double age_ms = 0) {
  ActorStatus status;
  status.name = name;
  status.state = ActorState::running;
  status.waits_for = waits_for;
  status.waits_for_message = message;
  status.waits_for_age_ms = age_ms;
  return status;
}

}  // namespace

TEST_CASE("a wait is followed to the actor that works", "[who_waits][pain:T22]") {
  Topology topology;
  topology.actors = {actor("coordinator/0", "env/0", "RunTask", 61200), actor("env/0", "student/0", "Generate", 61100),
                     actor("student/0")};
  topology.actors[2].current_call = "DecodeStep";
  topology.actors[2].current_call_age_ms = 61000;
  topology.actors[2].mailbox_depth = 3;
  CHECK(
      describe_wait(topology, "coordinator/0") ==
      "coordinator/0 waits for env/0 (RunTask, 61.2 s); env/0 waits for student/0 (Generate, 61.1 s); student/0 is in "
      "DecodeStep for 61.0 s, 3 messages wait");
}

TEST_CASE("a wait for an actor that has died ends with its cause", "[who_waits]") {
  Topology topology;
  topology.actors = {actor("coordinator/0", "env/0", "RunTask", 1000), actor("env/0")};
  topology.actors[1].state = ActorState::failed;
  topology.actors[1].reason = "out of memory";
  CHECK(describe_wait(topology, "coordinator/0") ==
        "coordinator/0 waits for env/0 (RunTask, 1.0 s); env/0 failed: out of memory");
}

TEST_CASE("actors that wait for each other are named once", "[who_waits]") {
  Topology topology;
  topology.actors = {actor("a/0", "b/0", "X", 1000), actor("b/0", "a/0", "Y", 2000)};
  CHECK(describe_wait(topology, "a/0") == "a/0 waits for b/0 (X, 1.0 s); b/0 waits for a/0 (Y, 2.0 s)");
}
