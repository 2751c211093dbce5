#include "runtime/alignpack/prefix_tree.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/runtime/alignpack/random_trajectories.hpp"

namespace memopd::detail {

using testing::invocation;

namespace {

std::int32_t insert(PrefixTree& tree, const Invocation& call) {
  const IdSequence ids(call);
  return tree.insert(ids, tree.find(ids));
}

}  // namespace

TEST_CASE("PrefixTree reads prompt and response as one sequence", "[alignpack][AP-1]") {
  const Invocation call = invocation({4, 5}, {6});
  const IdSequence ids(call);

  CHECK(ids.size() == 3);
  CHECK(ids[1] == 5);
  CHECK(ids[2] == 6);
}

TEST_CASE("PrefixTree continues a run that nothing else continues, without a new node", "[alignpack]") {
  const Invocation first = invocation({1}, {2});
  const Invocation longer = invocation({1, 2, 3}, {4});
  PrefixTree tree(true, 1);

  CHECK(insert(tree, first) == insert(tree, longer));
  CHECK(tree.nodes().size() == 1);
  CHECK(tree.num_tokens() == 4);
}

TEST_CASE("PrefixTree splits a run where sequences part and finds both ways again", "[alignpack]") {
  const Invocation first = invocation({1, 2}, {3});
  const Invocation second = invocation({1, 9}, {3});
  PrefixTree tree(true, 1);
  insert(tree, first);
  insert(tree, second);

  REQUIRE(tree.nodes().size() == 3);
  CHECK(tree.num_tokens() == 5);
  for (const Invocation* call : {&first, &second}) {
    const IdSequence ids(*call);
    const PrefixTree::Place place = tree.find(ids);
    CHECK(place.matched == 3);
    const PrefixNode& leaf = tree.nodes()[static_cast<std::size_t>(place.node)];
    CHECK(leaf.begin == 1);
    CHECK(leaf.end == 3);
    CHECK(tree.nodes()[static_cast<std::size_t>(leaf.parent)].end == 1);
  }
}

TEST_CASE("PrefixTree finds a third way at a run that was cut twice", "[alignpack]") {
  const Invocation calls[] = {invocation({1, 2, 3, 4}, {5}), invocation({1, 2, 3}, {9}), invocation({1, 2}, {8}),
                              invocation({1, 2, 3}, {9, 9})};
  PrefixTree tree(true, 1);
  for (const Invocation& call : calls) {
    insert(tree, call);
  }
  CHECK(tree.num_tokens() == 8);
  CHECK(tree.find(IdSequence(calls[0])).matched == 5);
  CHECK(tree.find(IdSequence(calls[3])).matched == 5);
}

TEST_CASE("PrefixTree without sharing matches nothing", "[alignpack]") {
  const Invocation call = invocation({1, 2}, {3});
  PrefixTree tree(false, 1);
  insert(tree, call);

  CHECK(tree.find(IdSequence(call)).matched == 0);
}

}  // namespace memopd::detail
