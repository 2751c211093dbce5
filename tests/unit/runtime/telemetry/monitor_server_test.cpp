#include "runtime/telemetry/monitor_server.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "runtime/telemetry/monitor_access.hpp"

using namespace memopd;
using Json = nlohmann::json;

namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";

LogEvent event_named(std::string name) {
  LogEvent event;
  event.unix_time_ms = 1;
  event.component = "test";
  event.name = std::move(name);
  return event;
}

/// What came back. (httplib::Client is no choice: Debian builds its library with TLS, and the header shows another layout.)
struct Answer {
  int status = 0;
  std::string headers;
  std::string body;

  [[nodiscard]] std::string header(const std::string& name) const {
    std::istringstream lines(headers);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(name + ": ")) {
        return line.substr(name.size() + 2, line.find('\r') - name.size() - 2);
      }
    }
    return {};
  }
};

const std::string kBearer = "Authorization: Bearer " + kToken + "\r\n";

/// A connection that sends what it is told, byte by byte if need be.
class RawConnection {
 public:
  explicit RawConnection(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    timeval limit{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~RawConnection() { ::close(socket_); }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  [[nodiscard]] bool send(const std::string& text) const {
    return is_connected_ && ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size());
  }
  /// Reads until `wanted` appears; everything until the end otherwise.
  std::string read_until(const std::string& wanted) {
    char bytes[4096];
    while (text_.find(wanted) == std::string::npos) {
      const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
      if (count <= 0) {
        break;
      }
      text_.append(bytes, static_cast<std::size_t>(count));
    }
    return text_;
  }
  std::string read_all() { return read_until("\x01 never sent"); }

 private:
  int socket_;
  bool is_connected_ = false;
  std::string text_;
};

/// A server of its own port, with a store to fill.
struct Served {
  std::shared_ptr<MonitorStore> store = std::make_shared<MonitorStore>(MonitorConfig{"", 3600, 1000});
  std::unique_ptr<MonitorServer> server;

  Served() {
    auto started = MonitorServer::start({"127.0.0.1", 0, kToken}, store);
    REQUIRE(started);
    server = *std::move(started);
  }
  [[nodiscard]] std::uint16_t port() const {
    return static_cast<std::uint16_t>(std::stoi(server->address().substr(server->address().rfind(':') + 1)));
  }
  /// @param headers  each with its line end; a Host that is right is added
  [[nodiscard]] Answer ask(const std::string& method, const std::string& path, const std::string& headers = kBearer,
                           const std::string& host = "") const {
    RawConnection connection(port());
    REQUIRE(connection.send(method + " " + path + " HTTP/1.1\r\nHost: " + (host.empty() ? server->address() : host) +
                            "\r\n" + headers + "\r\n"));
    const std::string text = connection.read_all();
    const auto end = text.find("\r\n\r\n");
    REQUIRE(end != std::string::npos);
    return {std::stoi(text.substr(9, 3)), text.substr(0, end + 2), text.substr(end + 4)};
  }
  [[nodiscard]] Json json(const std::string& path) const {
    const Answer answer = ask("GET", path);
    REQUIRE(answer.status == 200);
    return Json::parse(answer.body);
  }
};

std::string stream_request(const Served& served) {
  return "GET /api/stream HTTP/1.1\r\nHost: " + served.server->address() + "\r\nAuthorization: Bearer " + kToken +
         "\r\n\r\n";
}

std::string read_source(const std::string& path) {
  std::ifstream stream(std::string(MEMOPD_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("the monitor gives a run's documents and histories", "[telemetry]") {
  const Served served;
  CHECK(served.json("/api/topology").is_null());
  served.store->set_topology({{"actors", Json::array()}});
  served.store->set_processes({{"run", "try"}});
  served.store->set_status({{"verdict", "running"}});
  served.store->add_metrics(4, {{"train/loss", 0.5}}, 1);
  served.store->add_metrics(5, {{"train/loss", 0.25}}, 2);
  served.store->add_event(event_named("first"));
  served.store->add_event(event_named("second"));
  CHECK(served.json("/api/topology") == Json({{"actors", Json::array()}}));
  CHECK(served.json("/api/processes")["run"] == "try");
  CHECK(served.json("/api/status")["verdict"] == "running");
  CHECK(served.json("/api/metrics?from=5")["records"].size() == 1);
  CHECK(served.json("/api/events?after=1")["records"][0]["name"] == "second");
  CHECK(served.json("/api/events?after=nonsense")["records"].size() == 2);
  CHECK_THAT(served.ask("GET", "/metrics").body, Catch::Contains("memopd_step 5\n"));
  CHECK(served.ask("GET", "/api/else").status == 404);
}

TEST_CASE("nothing is told or taken without the token", "[telemetry][SE-1][pain:L17]") {
  const Served served;
  served.store->add_event(event_named("secret_event"));
  for (const char* path : {"/", "/api/topology", "/api/processes", "/api/metrics", "/api/events", "/api/status",
                           "/api/stream", "/metrics", "/api/else", "/?token=0123456789abcdef0123456789abcdee"}) {
    const Answer answer = served.ask("GET", path, "");
    CHECK(answer.status == 401);
    CHECK_THAT(answer.headers + answer.body, !Catch::Contains("secret_event") && !Catch::Contains(kToken));
  }
  CHECK(served.ask("GET", "/api/events", kBearer, "evil.example:" + std::to_string(served.port())).status == 403);
  CHECK(served.ask("GET", "/api/events", kBearer + "Host: " + served.server->address() + "\r\n").status == 403);
  CHECK(served.ask("GET", "/api/events", kBearer + "Origin: http://evil.example\r\n").status == 403);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"}) {
    CHECK(served.ask(method, "/api/status", kBearer + "Content-Length: 0\r\n").status == 405);
  }
  CHECK(served.ask("POST", "/", kBearer + "Content-Length: 1000000000\r\n").status == 405);
  CHECK(MonitorServer::start({"127.0.0.1", 0, ""}, served.store).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("the link becomes a cookie, and the token leaves the address line", "[telemetry][SE-1]") {
  const Served served;
  CHECK(served.server->url() == "http://" + served.server->address() + "/?token=" + kToken);
  const Answer linked = served.ask("GET", "/?token=" + kToken, "");
  CHECK(linked.status == 303);
  CHECK(linked.header("Location") == "/");
  const std::string cookie = linked.header("Set-Cookie");
  CHECK_THAT(cookie, Catch::Contains("; HttpOnly") && Catch::Contains("; SameSite=Strict"));
  const Answer page = served.ask("GET", "/", "Cookie: " + cookie.substr(0, cookie.find(';')) + "\r\n");
  CHECK(page.status == 200);
  CHECK_THAT(page.body, !Catch::Contains("{{NONCE}}"));
  const std::string policy = page.header("Content-Security-Policy");
  CHECK_THAT(policy, Catch::StartsWith("default-src 'none'; script-src 'nonce-") && !Catch::Contains("unsafe"));
  const std::string nonce = policy.substr(policy.find("nonce-") + 6, 32);
  CHECK_THAT(page.body, Catch::Contains("<script nonce=\"" + nonce + "\">"));
  CHECK(page.header("X-Frame-Options") == "DENY");
  CHECK(page.header("Cache-Control") == "no-store");
  CHECK_THAT(page.headers, !Catch::Contains("Access-Control"));
}

TEST_CASE("the stream tells what is there, then what is new", "[telemetry]") {
  const Served served;
  served.store->set_topology({{"actors", Json::array()}});
  served.store->add_event(event_named("early"));
  RawConnection client(served.port());
  REQUIRE(client.send(stream_request(served)));
  CHECK_THAT(client.read_until("early"),
             Catch::Contains("event: topology\ndata: {\"actors\":[]}\n\n") && Catch::Contains("text/event-stream"));
  served.store->add_event(event_named("late"));
  served.store->add_metrics(1, {{"x", 1}}, 1);
  served.store->set_status({{"verdict", "completed"}});
  CHECK_THAT(client.read_until("\"late\""), Catch::Contains("event: events"));
  CHECK_THAT(client.read_until("completed"), Catch::Contains("event: status"));
  CHECK_THAT(client.read_until("\"x\""), Catch::Contains("event: metrics"));
}

TEST_CASE("a stream that comes back goes on where it was, a new one begins with the newest events", "[telemetry]") {
  const Served served;
  for (int index = 1; index <= 100; ++index) {
    served.store->add_event(event_named("event_" + std::to_string(index)));
  }
  RawConnection first(served.port());
  REQUIRE(first.send(stream_request(served)));
  CHECK_THAT(first.read_until("\"event_100\""),
             Catch::Contains("id: 100\n") && Catch::Contains("\"event_51\"") && !Catch::Contains("\"event_50\""));
  RawConnection again(served.port());
  REQUIRE(again.send(stream_request(served).insert(stream_request(served).size() - 2, "Last-Event-ID: 97\r\n")));
  CHECK_THAT(again.read_until("\"event_100\""), Catch::Contains("\"event_98\"") && !Catch::Contains("\"event_97\""));
}

TEST_CASE("streams are counted: the ninth is refused and does not keep the others from being answered",
          "[telemetry][MO-3]") {
  const Served served;
  served.store->set_status({{"verdict", "running"}});
  std::vector<std::unique_ptr<RawConnection>> streams;
  for (int index = 0; index < MonitorServer::kMaxStreams; ++index) {
    streams.push_back(std::make_unique<RawConnection>(served.port()));
    REQUIRE(streams.back()->send(stream_request(served)));
    REQUIRE_THAT(streams.back()->read_until("running"), Catch::Contains("200 OK"));
  }
  RawConnection ninth(served.port());
  REQUIRE(ninth.send(stream_request(served)));
  CHECK_THAT(ninth.read_all(), Catch::Contains("503"));
  CHECK(served.json("/api/status")["verdict"] == "running");
}

TEST_CASE("clients that do not finish their request are shown the door", "[telemetry][MO-3]") {
  const Served served;
  std::vector<std::unique_ptr<RawConnection>> slow;
  for (int index = 0; index < 20; ++index) {
    slow.push_back(std::make_unique<RawConnection>(served.port()));
    REQUIRE(slow.back()->send("GET / HTTP/1.1\r\nHo"));
  }
  CHECK(served.ask("GET", "/api/status").status == 200);
  CHECK_THAT(slow.front()->read_all(), !Catch::Contains("200 OK"));
}

TEST_CASE("garbage gets a refusal and harms nobody", "[telemetry][error][SE-1]") {
  const Served served;
  for (const std::string& text : {std::string("\r\n\r\n"), std::string("GET\r\n\r\n"), std::string(20'000, 'A'),
                                  "GET / HTTP/1.1\r\nHost: " + std::string(9'000, 'h') + "\r\n\r\n",
                                  std::string("GET /../../etc/passwd HTTP/1.1\r\n\r\n"), std::string("\0\1\2\3", 4)}) {
    RawConnection client(served.port());
    (void)client.send(text);
    CHECK_THAT(client.read_all(), !Catch::Contains("200 OK"));
  }
  CHECK(served.json("/api/status").is_null());
}

TEST_CASE("a stopped monitor ends its streams and frees its port", "[telemetry]") {
  Served served;
  const std::uint16_t port = served.port();
  RawConnection client(port);
  REQUIRE(client.send(stream_request(served)));
  (void)client.read_until("200 OK");
  CHECK(MonitorServer::start({"127.0.0.1", port, kToken}, served.store).error().code == ErrorCode::io_error);
  served.server->stop();
  (void)client.read_all();
  CHECK(MonitorServer::start({"127.0.0.1", port, kToken}, served.store));
}

TEST_CASE("monitor.address is a host and a port", "[telemetry][error]") {
  const auto full = parse_monitor_address("10.0.0.7:8123");
  REQUIRE(full);
  CHECK(full->host == "10.0.0.7");
  CHECK(full->port == 8123);
  CHECK(parse_monitor_address(":0")->host == "127.0.0.1");
  CHECK(parse_monitor_address("[::1]:1")->host == "::1");
  for (const char* wrong : {"", "8123", "host:", "host:x", "host:65536", "host:-1", "::1:80", "host:80x"}) {
    CHECK_FALSE(parse_monitor_address(wrong));
  }
}

TEST_CASE("the page turns no data into markup and asks nobody else", "[telemetry][SE-1][pain:L17]") {
  const std::string page = read_source("tools/monitor/page.html");
  REQUIRE(page.find("<script nonce=\"{{NONCE}}\">") != std::string::npos);
  for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
                           "srcdoc", "DOMParser", "createContextualFragment", "https://", "//cdn", "src=", "@import",
                           "url(", " onclick=", "setTimeout(\"", "method:"}) {
    INFO(word);
    CHECK(page.find(word) == std::string::npos);
  }
  CHECK(std::count(page.begin(), page.end(), '\n') < 400);
}
