#include "runtime/telemetry/monitor_access.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "tests/unit/runtime/telemetry/scratch_folder.hpp"

using namespace memopd;

namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";

MonitorRequest request(const std::string& host = "127.0.0.1:8123") {
  return {"GET", host, "", "Bearer " + kToken, "", ""};
}

MonitorGate gate(const std::string& host = "127.0.0.1") { return {host, 8123, kToken}; }

}  // namespace

TEST_CASE("the monitor admits nobody without the token", "[telemetry][SE-1][pain:L17]") {
  MonitorRequest wanted = request();
  CHECK(gate().check(wanted) == MonitorAccess::granted);
  const std::vector<std::string> wrong_headers{
      "",     "Bearer ",         "Bearer " + kToken + "0",   "Bearer " + kToken.substr(1),
      kToken, "Basic " + kToken, "Bearer " + kToken + kToken};
  for (const std::string& wrong : wrong_headers) {
    wanted.authorization = wrong;
    CHECK(gate().check(wanted) == MonitorAccess::no_token);
  }
  wanted.cookie = "a=b; memopd_monitor_8123=" + kToken + "; c=d";
  CHECK(gate().check(wanted) == MonitorAccess::granted);
  wanted.cookie = "memopd_monitor_8124=" + kToken + ";; =;memopd_monitor_8123";
  CHECK(gate().check(wanted) == MonitorAccess::no_token);
  wanted.cookie.clear();
  wanted.query_token = kToken;
  CHECK(gate().check(wanted) == MonitorAccess::granted_by_link);
  wanted.query_token = kToken.substr(0, 31) + "e";
  CHECK(gate().check(wanted) == MonitorAccess::no_token);
}

TEST_CASE("the monitor answers under its own name only", "[telemetry][SE-1][pain:L17]") {
  // A rebound name resolves to this host, and the browser says it in Host.
  for (const char* host : {"", "evil.example:8123", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8123.evil.example",
                           "evil.example@127.0.0.1:8123", "127.0.0.2:8123"}) {
    CHECK(gate().check(request(host)) == MonitorAccess::wrong_host);
  }
  CHECK(gate().check(request("LocalHost:8123")) == MonitorAccess::granted);
  CHECK(gate("::1").check(request("[::1]:8123")) == MonitorAccess::granted);
  CHECK(gate("0.0.0.0").check(request("10.0.0.7:8123")) == MonitorAccess::granted);
  CHECK(gate("0.0.0.0").check(request("evil.example:8123")) == MonitorAccess::wrong_host);
}

TEST_CASE("pages of other origins and other methods are refused", "[telemetry][SE-1][pain:L17]") {
  MonitorRequest wanted = request();
  wanted.origin = "http://127.0.0.1:8123";
  CHECK(gate().check(wanted) == MonitorAccess::granted);
  for (const char* origin : {"null", "http://127.0.0.1:8124", "https://127.0.0.1:8123", "http://evil.example"}) {
    wanted.origin = origin;
    CHECK(gate().check(wanted) == MonitorAccess::wrong_origin);
  }
  wanted = request();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"}) {
    wanted.method = method;
    CHECK(gate().check(wanted) == MonitorAccess::wrong_method);
  }
}

TEST_CASE("a token is 128 bits that do not repeat", "[telemetry][SE-1]") {
  const std::string token = make_monitor_token();
  CHECK(token.size() == 32);
  CHECK(token.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(token != make_monitor_token());
  CHECK(equal_in_constant_time(token, token));
  CHECK_FALSE(equal_in_constant_time("", ""));
}

TEST_CASE("a private file is readable by its owner alone, whatever lay there", "[telemetry][SE-1]") {
  const ScratchFolder folder;
  const auto path = folder.path() / "monitor.token";
  std::ofstream(path) << "an old one";
  ::chmod(path.c_str(), 0644);
  REQUIRE(write_private_file(path, "secret\n"));
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  std::ifstream stream(path);
  CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == "secret\n");
  CHECK(write_private_file(folder.path() / "none" / "file", "x").error().code == ErrorCode::io_error);
}
