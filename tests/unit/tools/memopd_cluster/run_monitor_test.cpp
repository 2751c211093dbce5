#include "tools/memopd_cluster/run_monitor.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/memopd_cluster/run_folder.hpp"

using namespace memopd;

namespace {

/// The body of GET `path` with the token of `link`, "http://127.0.0.1:PORT/?token=TOKEN".
std::string get(const std::string& link, const std::string& path) {
  const auto port_at = link.rfind(':') + 1;
  const auto token_at = link.rfind('=') + 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const int port = std::stoi(link.substr(port_at));
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
  std::string text;
  if (::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
                                "\r\nAuthorization: Bearer " + link.substr(token_at) + "\r\n\r\n";
    (void)::send(connection, request.data(), request.size(), MSG_NOSIGNAL);
    char bytes[4096];
    for (ssize_t count = 0; (count = ::recv(connection, bytes, sizeof bytes, 0)) > 0;) {
      text.append(bytes, static_cast<std::size_t>(count));
    }
  }
  ::close(connection);
  return text.substr(std::min(text.find("\r\n\r\n") + 4, text.size()));
}

}  // namespace

TEST_CASE("the launcher's monitor shows topology, metrics, processes and events", "[memopd_cluster]") {
  const RunFolder run;
  Config config;
  config.run.name = "try2";
  config.run.num_steps = 9;
  config.monitor.address = "127.0.0.1:0";
  int num_handed_on = 0;
  LogSink sink;
  {
    auto monitor = RunMonitor::start(config, run.path());
    REQUIRE(monitor);
    const std::string link = (*monitor)->url();
    std::ifstream stream(run.path() / "monitor.token");
    std::string first_line;
    std::getline(stream, first_line);
    CHECK(first_line == link);
    struct stat status {};
    REQUIRE(::stat((run.path() / "monitor.token").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);

    sink = (*monitor)->sink([&](const LogEvent&) { ++num_handed_on; });
    LogEvent event;
    event.name = "step_done";
    sink(event);
    event.level = LogLevel::debug;
    sink(event);
    run.launched_by(own_identity());
    run.append("metrics.jsonl", "{\"step\":1,\"x\":0.5}\n{\"step\":2,\"x\":0.25}\n");
    (*monitor)->update({{"actors", nlohmann::json::array()}, {"first_failure", nullptr}});
    const auto json = [&](const char* path) { return nlohmann::json::parse(get(link, path), nullptr, false); };
    CHECK(json("/api/topology")["actors"].empty());
    CHECK(json("/api/metrics")["records"].size() == 2);
    CHECK(json("/api/events")["records"].size() == 1);
    CHECK(json("/api/processes")["launcher"]["pid"] == ::getpid());
    CHECK(json("/api/status")["step"] == 2);
    CHECK(json("/api/status")["num_steps"] == 9);
  }
  CHECK_FALSE(std::filesystem::exists(run.path() / "monitor.token"));
  sink({});
  CHECK(num_handed_on == 3);
}

TEST_CASE("without an address nothing listens and nothing is written", "[memopd_cluster]") {
  const RunFolder run;
  const auto monitor = RunMonitor::start(Config{}, run.path());
  REQUIRE(monitor);
  CHECK((*monitor)->url().empty());
  (*monitor)->update({{"actors", nlohmann::json::array()}});
  (*monitor)->sink()({});
  CHECK_FALSE(std::filesystem::exists(run.path() / "monitor.token"));
  Config config;
  config.monitor.address = "nonsense";
  CHECK(RunMonitor::start(config, run.path()).error().code == ErrorCode::invalid_argument);
}
