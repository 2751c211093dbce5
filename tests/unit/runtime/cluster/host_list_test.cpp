#include "runtime/cluster/host_list.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

using Hosts = std::vector<std::string>;

TEST_CASE("a host list expands ranges and keeps its order and leading zeros", "[cluster][pain:L16]") {
  CHECK(expand_host_list("h2").value() == Hosts{"h2"});
  CHECK(expand_host_list("node[1-3,7], gpu01").value() == Hosts{"node1", "node2", "node3", "node7", "gpu01"});
  CHECK(expand_host_list("n[08-11]").value() == Hosts{"n08", "n09", "n10", "n11"});
  CHECK(expand_host_list("r[1-2]n[1,3]x").value() == Hosts{"r1n1x", "r1n3x", "r2n1x", "r2n3x"});
}

TEST_CASE("a host list that is none is refused with the part that is wrong", "[cluster][error]") {
  const auto message = [](const char* list) {
    const auto hosts = expand_host_list(list);
    return hosts ? std::string("accepted") : hosts.error().message;
  };
  CHECK(message("") == "host list \"\": an empty name");
  CHECK(message("a,,b") == "host list \"a,,b\": an empty name");
  CHECK(message("a,a") == "host list \"a,a\": \"a\" is there twice");
  CHECK(message("n[1-2") == "host list \"n[1-2\": a bracket that is not closed");
  CHECK(message("n1]") == "host list \"n1]\": a bracket at position 2 that does not fit");
  CHECK(message("n[3-1]") == "host list \"n[3-1]\": \"3-1\" is neither a number nor a rising range");
  CHECK(message("n[]") == "host list \"n[]\": \"\" is neither a number nor a rising range");
  CHECK(message("n[1-99999]") == "host list \"n[1-99999]\": more than 10000 hosts");
  CHECK(message("n[1-200]x[1-200]") == "host list \"n[1-200]x[1-200]\": more than 10000 hosts");
}

}  // namespace
}  // namespace memopd
