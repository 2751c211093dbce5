#include "runtime/cluster/placement.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

ProcessDemand demand(const std::string& name, double cpus, PlacementRule rule = PlacementRule::pack) {
  return {name, name.substr(0, name.find('/')), cpus, 0, {}, rule};
}

TEST_CASE("pack fills the first node, spread takes the one with the fewest of the role", "[cluster]") {
  Placement placement({{"a", 4, 8 * kGib, {}}, {"b", 4, 8 * kGib, {}}});
  const std::vector<ProcessDemand> packed = {demand("env/0", 2), demand("env/1", 2), demand("env/2", 2)};
  CHECK(*placement.place(packed) == std::vector<std::string>{"a", "a", "b"});

  Placement other({{"a", 4, 8 * kGib, {}}, {"b", 4, 8 * kGib, {}}});
  const std::vector<ProcessDemand> spread = {demand("env/0", 1, PlacementRule::spread),
                                             demand("env/1", 1, PlacementRule::spread),
                                             demand("env/2", 1, PlacementRule::spread)};
  CHECK(*other.place(spread) == std::vector<std::string>{"a", "b", "a"});
}

TEST_CASE("a plan that does not fit is refused whole, with what each node lacks", "[cluster][error][pain:L14]") {
  Placement placement({{"a", 2, 1 * kGib, {}}, {"b", 1, 4 * kGib, {"gpu"}}});
  ProcessDemand wide = demand("teacher/0", 3);
  wide.memory_bytes = 2 * kGib;
  wide.labels = {"gpu"};
  const std::vector<ProcessDemand> both = {demand("env/0", 1), wide};

  const auto placed = placement.place(both);

  REQUIRE_FALSE(placed);
  CHECK(placed.error().message ==
        "no node has room for process teacher/0: a lacks label \"gpu\", 2 of 3 cpus, 1.00 of 2.00 GiB memory; "
        "b lacks 2 of 3 cpus");
  const std::vector<ProcessDemand> after = {demand("env/1", 2)};
  CHECK(*placement.place(after) == std::vector<std::string>{"a"});  // nothing was kept of the refused plan
}

TEST_CASE("a process moves to another node with room when its own is gone, or stays", "[cluster]") {
  Placement placement({{"a", 2, 8 * kGib, {"gpu"}}, {"b", 1, 8 * kGib, {"gpu"}}, {"c", 8, 8 * kGib, {}}});
  ProcessDemand small = demand("student/0", 1);
  small.labels = {"gpu"};
  ProcessDemand wide = demand("teacher/0", 1);
  wide.labels = {"gpu"};
  const std::vector<ProcessDemand> both = {small, wide};
  REQUIRE(*placement.place(both) == std::vector<std::string>{"a", "a"});

  placement.set_available("a", false);

  CHECK(placement.move("student/0") == std::optional<std::string>("b"));
  CHECK_FALSE(placement.move("teacher/0"));  // b is full, c lacks the label
  placement.set_available("a", true);
  placement.release("student/0");
  const std::vector<ProcessDemand> again = {small};
  CHECK(*placement.place(again) == std::vector<std::string>{"a"});  // teacher/0 kept its one core there
}

TEST_CASE("labels are words between commas", "[cluster]") {
  CHECK(split_labels(" gpu, fast-disk ,,x") == std::vector<std::string>{"gpu", "fast-disk", "x"});
  CHECK(split_labels("").empty());
}

}  // namespace
}  // namespace memopd
