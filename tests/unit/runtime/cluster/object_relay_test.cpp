#include "runtime/cluster/object_relay.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

using Outgoing = ObjectRelay::Outgoing;

const ObjectRef kRef{7, 1};

/// Store 7 on node a; b and c look for its objects.
ObjectRelay relay_of_three() {
  ObjectRelay relay;
  for (const char* node : {"a", "b", "c"}) {
    relay.node_up(node);
  }
  relay.add_store(7, "a");
  return relay;
}

ObjectOffered offer_for(const std::string& node) {
  ObjectOffered offered;
  offered.ref = kRef;
  offered.for_node = node;
  offered.type = "PackedBatch";
  return offered;
}

/// "node: why" of the failures, in order.
std::vector<std::string> failures_of(const std::vector<Outgoing>& outgoing) {
  std::vector<std::string> failures;
  for (const Outgoing& message : outgoing) {
    const auto* const offered = std::get_if<ObjectOffered>(&message.message);
    if (offered != nullptr && offered->error) {
      failures.push_back(message.node + ": " + offered->error->message.substr(41));
    }
  }
  return failures;
}

TEST_CASE("a wanted object is asked of the node that has it, and its ticket goes to who wanted it",
          "[cluster][objects]") {
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {kRef});
  const auto asked = relay.take();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].node == "a");
  CHECK(std::get<OfferObject>(asked[0].message).for_node == "b");

  relay.offered("a", offer_for("b"));
  const auto told = relay.take();
  REQUIRE(told.size() == 1);
  CHECK(told[0].node == "b");
  CHECK_FALSE(std::get<ObjectOffered>(told[0].message).error);

  relay.offered("a", offer_for("b"));  // again: of an earlier start
  relay.offered("c", offer_for("b"));
  CHECK(relay.take().empty());
}

TEST_CASE("what cannot be had fails at once with the reason", "[cluster][objects][error]") {
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {{9, 1}});
  relay.wanted("a", {kRef});
  CHECK(failures_of(relay.take()) ==
        std::vector<std::string>{"b: was put by no process of this run", "a: was never put on node a"});
}

TEST_CASE("a node that goes down fails what it was asked for, and its objects from then on", "[cluster][objects]") {
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {kRef});
  relay.wanted("c", {kRef});
  (void)relay.take();

  relay.node_down("c");
  relay.node_down("a");

  CHECK(failures_of(relay.take()) == std::vector<std::string>{"b: was lost with node a"});
  relay.wanted("b", {kRef});
  CHECK(failures_of(relay.take()) == std::vector<std::string>{"b: was lost with node a"});
}

TEST_CASE("a release reaches the object's node and every node that asked for it; a scope reaches all",
          "[cluster][objects]") {
  const auto nodes_of = [](const std::vector<Outgoing>& outgoing) {
    std::vector<std::string> nodes;
    for (const Outgoing& message : outgoing) {
      REQUIRE(std::holds_alternative<ReleaseObjects>(message.message));
      nodes.push_back(message.node);
    }
    return nodes;
  };
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {kRef});
  (void)relay.take();
  relay.released("c", {kRef, std::nullopt});
  CHECK(nodes_of(relay.take()) == std::vector<std::string>{"a", "b"});
  relay.released("c", {kRef, std::nullopt});
  CHECK(nodes_of(relay.take()) == std::vector<std::string>{"a"});  // b's copy is gone
  relay.released("a", {std::nullopt, Scope{ScopeKind::step, 3}});
  CHECK(nodes_of(relay.take()) == std::vector<std::string>{"b", "c"});
}

}  // namespace
}  // namespace memopd
