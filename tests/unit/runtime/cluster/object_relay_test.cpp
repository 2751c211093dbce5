#include "runtime/cluster/object_relay.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

using Outgoing = ObjectRelay::Outgoing;

const ObjectRef kRef{7, 1};
const Scope kStep{ScopeKind::step, 3};

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
  offered.scope = kStep;
  offered.type = "PackedBatch";
  return offered;
}

/// "node: why" of the failures, in order.
std::vector<std::string> failures_of(const std::vector<Outgoing>& outgoing, ErrorCode code = ErrorCode::not_found) {
  std::vector<std::string> failures;
  for (const Outgoing& message : outgoing) {
    const auto* const offered = std::get_if<ObjectOffered>(&message.message);
    if (offered != nullptr && offered->error) {
      CHECK(offered->error->code == code);
      failures.push_back(message.node + ": " + offered->error->message.substr(41));
    }
  }
  return failures;
}

/// Nodes that are asked to offer, "node for node".
std::vector<std::string> asked_of(const std::vector<Outgoing>& outgoing) {
  std::vector<std::string> asked;
  for (const Outgoing& message : outgoing) {
    if (const auto* const request = std::get_if<OfferObject>(&message.message)) {
      asked.push_back(message.node + " for " + request->for_node);
    }
  }
  return asked;
}

/// Nodes that are told of a release.
std::vector<std::string> told_of(const std::vector<Outgoing>& outgoing) {
  std::vector<std::string> told;
  for (const Outgoing& message : outgoing) {
    if (std::holds_alternative<ReleaseObjects>(message.message)) {
      told.push_back(message.node);
    }
  }
  return told;
}

/// `node` has got a ticket from whoever was asked.
void fetch_to(ObjectRelay& relay, const std::string& node) {
  relay.wanted(node, {kRef});
  const auto asked = relay.take();
  REQUIRE(asked.size() == 1);
  relay.offered(asked[0].node, offer_for(node));
  REQUIRE(relay.take().size() == 1);
}

using Names = std::vector<std::string>;

TEST_CASE("a wanted object is asked of the node that has it, and its ticket goes to who wanted it",
          "[cluster][objects][OR-1]") {
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {kRef});
  CHECK(asked_of(relay.take()) == Names{"a for b"});

  relay.offered("a", offer_for("b"));
  const auto told = relay.take();
  REQUIRE(told.size() == 1);
  CHECK(told[0].node == "b");
  CHECK_FALSE(std::get<ObjectOffered>(told[0].message).error);

  relay.offered("a", offer_for("b"));  // again: of an earlier start
  relay.offered("c", offer_for("b"));
  CHECK(relay.take().empty());
}

TEST_CASE("what cannot be had fails at once with the reason", "[cluster][objects][error][OR-1]") {
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {{9, 1}});
  relay.wanted("a", {kRef});
  CHECK(failures_of(relay.take()) == Names{"b: was put by no process of this run", "a: was never put on node a"});
  relay.add_store(9, "d");
  relay.wanted("b", {{9, 1}});
  CHECK(failures_of(relay.take(), ErrorCode::target_down) == Names{"b: is on node d, which is not linked"});
}

TEST_CASE("a node that goes down fails what it was asked for, and its objects from then on",
          "[cluster][objects][error][OR-1]") {
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {kRef});
  relay.wanted("c", {kRef});
  (void)relay.take();

  relay.node_down("c");
  relay.node_down("a");

  CHECK(failures_of(relay.take()) == Names{"b: was lost with node a"});
  relay.wanted("b", {kRef});
  CHECK(failures_of(relay.take()) == Names{"b: was lost with node a"});
  CHECK(relay.num_known() == 0);
}

TEST_CASE("whoever fetches from a node that goes down is told at once", "[cluster][objects][error][OR-1]") {
  ObjectRelay relay = relay_of_three();
  fetch_to(relay, "b");
  relay.node_down("a");
  CHECK(failures_of(relay.take()) == Names{"b: was lost with node a"});

  fetch_to(relay, "c");  // from b
  relay.node_down("b");
  CHECK(failures_of(relay.take()) == Names{"c: was lost with node b"});
}

TEST_CASE("a lost node's object is offered by the nodes that have a copy, one after the other",
          "[cluster][objects][OR-1]") {
  ObjectRelay relay = relay_of_three();
  relay.node_up("d");
  fetch_to(relay, "b");
  fetch_to(relay, "c");
  relay.wanted("d", {kRef});
  CHECK(asked_of(relay.take()) == Names{"a for d"});  // while it lives

  relay.node_down("a");
  CHECK(asked_of(relay.take()) == Names{"b for d"});
  ObjectOffered not_here = offer_for("d");
  not_here.error = Error{ErrorCode::not_found, "was never put on this node"};
  relay.offered("b", not_here);
  CHECK(asked_of(relay.take()) == Names{"c for d"});
  SECTION("the last one has it") {
    relay.offered("c", offer_for("d"));
    const auto told = relay.take();
    REQUIRE(told.size() == 1);
    CHECK(told[0].node == "d");
    CHECK_FALSE(std::get<ObjectOffered>(told[0].message).error);
  }
  SECTION("nobody has it") {
    relay.offered("c", not_here);
    CHECK(failures_of(relay.take()) == Names{"d: was lost with node a"});
  }
  SECTION("the last one goes down too") {
    relay.node_down("b");
    relay.node_down("c");
    CHECK(failures_of(relay.take()) == Names{"d: was lost with node a"});
  }
}

TEST_CASE("a node's own error is passed on while the node lives", "[cluster][objects][error][OR-1]") {
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {kRef});
  (void)relay.take();
  ObjectOffered refused = offer_for("b");
  refused.error = Error{ErrorCode::overloaded, "object " + to_string(kRef) + " was refused: too large"};
  relay.offered("a", refused);
  CHECK(failures_of(relay.take(), ErrorCode::overloaded) == Names{"b: was refused: too large"});
}

TEST_CASE("a release reaches the object's node and every node with a copy; a scope reaches all",
          "[cluster][objects][OR-2]") {
  ObjectRelay relay = relay_of_three();
  fetch_to(relay, "b");
  relay.released("c", {kRef, std::nullopt});
  CHECK(told_of(relay.take()) == Names{"a", "b"});
  relay.released("c", {kRef, std::nullopt});
  CHECK(told_of(relay.take()) == Names{"a"});  // b's copy is gone
  relay.released("a", {std::nullopt, kStep});
  CHECK(told_of(relay.take()) == Names{"b", "c"});
}

TEST_CASE("a release reaches the copies of a lost node's object", "[cluster][objects][OR-2]") {
  ObjectRelay relay = relay_of_three();
  fetch_to(relay, "b");
  relay.node_down("a");
  (void)relay.take();
  relay.released("c", {kRef, std::nullopt});
  CHECK(told_of(relay.take()) == Names{"b"});
}

TEST_CASE("what is released between question and offer is not handed on", "[cluster][objects][error][OR-2]") {
  ObjectRelay relay = relay_of_three();
  relay.wanted("b", {kRef});
  (void)relay.take();
  SECTION("by reference: at once") {
    relay.released("a", {kRef, std::nullopt});
    CHECK(failures_of(relay.take()) == Names{"b: was released"});
    relay.offered("a", offer_for("b"));
    CHECK(relay.take().empty());
  }
  SECTION("by scope: when the offer says that it was of it") {
    relay.released("b", {std::nullopt, kStep});
    (void)relay.take();
    relay.offered("a", offer_for("b"));
    CHECK(failures_of(relay.take()) == Names{"b: was released"});
  }
  SECTION("another scope") {
    relay.released("b", {std::nullopt, Scope{ScopeKind::step, 4}});
    (void)relay.take();
    relay.offered("a", offer_for("b"));
    CHECK(failures_of(relay.take()).empty());
  }
}

TEST_CASE("nothing is remembered of objects that were released", "[cluster][objects][OR-2]") {
  ObjectRelay relay = relay_of_three();
  for (std::uint64_t number = 1; number <= 100; ++number) {
    for (const char* node : {"b", "c"}) {
      relay.wanted(node, {{7, number}});
      ObjectOffered offered = offer_for(node);
      offered.ref = {7, number};
      relay.offered("a", offered);
    }
  }
  CHECK(relay.num_known() == 100);
  relay.released("a", {ObjectRef{7, 1}, std::nullopt});
  CHECK(relay.num_known() == 99);
  relay.released("a", {std::nullopt, kStep});
  CHECK(relay.num_known() == 0);
}

}  // namespace
}  // namespace memopd
