#include "runtime/transport/detail/fence.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

using detail::Fence;

TEST_CASE("a second claim on a living instance is refused and names both", "[transport][R6][R13][error]") {
  const testing::TestRun run;
  Fence fence(run.identity("launcher"));
  const auto student = run.identity("student/0");
  auto twin = student;
  twin.role = "student/1";
  REQUIRE_FALSE(fence.admit(student).refusal);

  const auto verdict = fence.admit(twin);

  REQUIRE(verdict.refusal);
  CHECK(verdict.refusal->first == RefusalReason::duplicate);
  CHECK(verdict.refusal->second.code == ErrorCode::already_exists);
  CHECK_THAT(verdict.refusal->second.message, Catch::Contains("student/1") && Catch::Contains("student/0"));
  fence.release(student.instance);
  CHECK_FALSE(fence.admit(student).refusal);
}

TEST_CASE("a role has one living process: the higher incarnation replaces, the lower is refused", "[transport][CL-2]") {
  const testing::TestRun run;
  Fence fence(run.identity("launcher"));
  const auto second = run.identity("student/0", 2);
  const auto third = run.identity("student/0", 3);
  REQUIRE_FALSE(fence.admit(second).refusal);

  CHECK(fence.admit(run.identity("student/0", 2)).refusal->first == RefusalReason::duplicate);
  CHECK(fence.admit(run.identity("student/0", 1)).refusal->first == RefusalReason::stale_incarnation);
  CHECK(fence.admit(third).superseded == second.instance);
  fence.release(second.instance);
  fence.release(third.instance);
  CHECK(fence.admit(second).refusal->first == RefusalReason::stale_incarnation);
}

TEST_CASE("another build or schema is one line that shows both sides", "[transport][pain:L07][error]") {
  const testing::TestRun run;
  const auto self = run.identity("launcher");
  auto peer = run.identity("student/0");
  peer.build_id = "build-2";
  peer.schema_hash = "schema-2";

  const auto verdict = Fence(self).admit(peer);

  REQUIRE(verdict.refusal);
  CHECK(verdict.refusal->second.code == ErrorCode::bad_schema);
  CHECK(verdict.refusal->second.message == to_string(peer) + " has protocol 1, build build-2, schema schema-2; " +
                                               to_string(self) + " has protocol 1, build build-1, schema schema-1");
  auto newer = run.identity("student/0");
  newer.protocol = 2;
  CHECK(Fence(self).admit(newer).refusal->first == RefusalReason::incompatible);
  CHECK(Fence(self).admit(testing::TestRun().identity("student/0")).refusal->first == RefusalReason::wrong_run);
}

TEST_CASE("nobody may claim to be this process or its role", "[transport][R13][error]") {
  const testing::TestRun run;
  const auto self = run.identity("launcher");
  Fence fence(self);

  CHECK(fence.admit(self).refusal->first == RefusalReason::duplicate);
  CHECK(fence.admit(run.identity("launcher", 2)).refusal->first == RefusalReason::duplicate);
}

}  // namespace
}  // namespace memopd
