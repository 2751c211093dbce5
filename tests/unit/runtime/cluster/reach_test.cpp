#include "runtime/cluster/reach.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

TEST_CASE("ipc is dialled on a node, tcp from another, ipc again where there is no tcp", "[cluster]") {
  const std::vector<std::string> both = {"ipc:///tmp/a", "tcp://10.0.0.1:4711"};
  CHECK(endpoint_for(both, true) == "ipc:///tmp/a");
  CHECK(endpoint_for(both, false) == "tcp://10.0.0.1:4711");
  CHECK(endpoint_for({"ipc:///tmp/a"}, false) == "ipc:///tmp/a");
}

TEST_CASE("hosts are read from endpoints and addresses", "[cluster]") {
  CHECK(host_of_endpoint("tcp://10.0.0.1:4711") == "10.0.0.1");
  CHECK(host_of_endpoint("ipc:///tmp/a").empty());
  CHECK(host_of_address("carol@gpu01") == "gpu01");
  CHECK(host_of_address("gpu01") == "gpu01");
}

TEST_CASE("the address of this host is the one on the way to another", "[cluster]") {
  CHECK(own_address_towards("127.0.0.1").value() == "127.0.0.1");
  const auto nowhere = own_address_towards("no-such-host.invalid");
  REQUIRE_FALSE(nowhere);
  CHECK_THAT(nowhere.error().message, Catch::Contains("towards no-such-host.invalid"));
}

}  // namespace
}  // namespace memopd
