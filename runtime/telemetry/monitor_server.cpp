#include "runtime/telemetry/monitor_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/telemetry/monitor_access.hpp"
#include "runtime/telemetry/monitor_connection.hpp"
#include "runtime/telemetry/monitor_page.hpp"

namespace memopd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kNumThreads = 16;
constexpr std::size_t kMaxWaiting = 64;
constexpr std::size_t kMaxPageRecords = 1000;
constexpr std::size_t kMaxStreamRecords = 200;  // in one piece: a slow client is behind in the store, not in a queue
constexpr std::int64_t kFirstEvents = 50;
constexpr std::chrono::milliseconds kTopologyEvery{500};
constexpr std::chrono::milliseconds kStreamPause{100};
constexpr std::chrono::seconds kHeartbeatEvery{10};

/// A decimal number >= 0.
std::optional<std::int64_t> parse_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return is_number ? std::optional(value) : std::nullopt;
}

std::int64_t parameter(const httplib::Request& request, const char* name) {
  return parse_number(request.get_param_value(name)).value_or(0);
}

std::string to_json(const MonitorStore::Page& page) {
  std::string json = "{\"records\":[";
  for (const auto& record : page.records) {
    json += (json.back() == '[' ? "" : ",") + *record;
  }
  return json + fmt::format("],\"next\":{},\"num_missed\":{}}}", page.next, page.num_missed);
}

void refuse(httplib::Response& response, int status, const char* reason) {
  response.status = status;
  response.set_content(std::string(reason) + "\n", "text/plain");
}

MonitorRequest what_decides(const httplib::Request& request) {
  // Two Host headers: which one a browser meant is unknown, so none is allowed.
  const std::string host = request.get_header_value_count("Host") == 1 ? request.get_header_value("Host") : "";
  return {request.method,
          host,
          request.get_header_value("Origin"),
          request.get_header_value("Authorization"),
          request.get_header_value("Cookie"),
          request.get_param_value("token")};
}

void set_security_headers(httplib::Response& response, const std::string& nonce) {
  response.set_header("Content-Security-Policy",
                      fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src "
                                  "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
                                  nonce));
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("X-Frame-Options", "DENY");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cross-Origin-Resource-Policy", "same-origin");
  response.set_header("Cross-Origin-Opener-Policy", "same-origin");
  response.set_header("Cache-Control", "no-store");
}

std::string page_with(const std::string& nonce) {
  constexpr std::string_view kPlace = "{{NONCE}}";
  std::string page(detail::monitor_page());
  for (auto at = page.find(kPlace); at != std::string::npos; at = page.find(kPlace, at)) {
    page.replace(at, kPlace.size(), nonce);
  }
  return page;
}

/// Where one client of /api/stream stands.
class StreamCursor {
 public:
  /// @param after_event  sequence number; nothing = the newest kFirstEvents come first
  StreamCursor(std::shared_ptr<const MonitorStore> store, std::optional<std::int64_t> after_event)
      : store_(std::move(store)), metrics_(store_->metrics_from(0, 0).next) {
    const std::int64_t newest = store_->events_after(std::numeric_limits<std::int64_t>::max(), 0).next;
    event_ = after_event.value_or(std::max<std::int64_t>(newest - kFirstEvents, 0));
  }

  /// What is new, as server-sent events; a comment when there has been nothing for long; else empty.
  std::string next() {
    std::string text;
    const auto now = Clock::now();
    if (now - topology_sent_ >= kTopologyEvery && add_document(text, "topology", store_->topology(), topology_)) {
      topology_sent_ = now;
    }
    add_document(text, "processes", store_->processes(), processes_);
    add_document(text, "status", store_->status(), status_);
    add_page(text, "metrics", store_->metrics_after(metrics_, kMaxStreamRecords), metrics_);
    add_page(text, "events", store_->events_after(event_, kMaxStreamRecords), event_);
    if (text.empty() && now - sent_ >= kHeartbeatEvery) {
      text = ": alive\n\n";
    }
    sent_ = text.empty() ? sent_ : now;
    return text;
  }

  void wait() { seen_ = store_->wait_for_change(seen_, kTopologyEvery / 2); }

 private:
  static bool add_document(std::string& text, const char* name, const MonitorStore::Document& document,
                           std::uint64_t& version) {
    if (document.version == version) {
      return false;
    }
    version = document.version;
    text += fmt::format("event: {}\ndata: {}\n\n", name, *document.json);
    return true;
  }
  static void add_page(std::string& text, const char* name, const MonitorStore::Page& page, std::int64_t& sequence) {
    sequence = page.next;
    if (!page.records.empty()) {
      text += fmt::format("event: {}\n", name);
      // Documents are sent whole and metrics are asked for anew: events are what a client can be in the middle of.
      text += name == std::string_view("events") ? fmt::format("id: {}\n", page.next) : std::string();
      text += fmt::format("data: {}\n\n", to_json(page));
    }
  }

  std::shared_ptr<const MonitorStore> store_;
  std::uint64_t seen_ = 0;
  std::uint64_t topology_ = 0;
  std::uint64_t processes_ = 0;
  std::uint64_t status_ = 0;
  std::int64_t metrics_;
  std::int64_t event_ = 0;
  Clock::time_point topology_sent_ = Clock::now() - kTopologyEvery;
  Clock::time_point sent_ = Clock::now() - kHeartbeatEvery;
};

}  // namespace

struct MonitorServer::State {
  State(std::shared_ptr<const MonitorStore> shown, std::string secret)
      : store(std::move(shown)), token(std::move(secret)), server(kNumThreads, kMaxWaiting) {}

  std::shared_ptr<const MonitorStore> store;
  std::string token;
  std::unique_ptr<MonitorGate> gate;
  detail::BoundedServer server;
  std::thread thread;
  std::atomic<bool> has_ended = false;
  std::atomic<bool> is_stopping = false;
  std::atomic<int> num_streams = 0;

  httplib::Server::HandlerResponse admit(const httplib::Request& request, httplib::Response& response);
  void stream(const httplib::Request& request, httplib::Response& response);
  void add_routes();
  void serve();
};

httplib::Server::HandlerResponse MonitorServer::State::admit(const httplib::Request& request,
                                                             httplib::Response& response) {
  using Answer = httplib::Server::HandlerResponse;
  const std::string nonce = make_monitor_token();
  set_security_headers(response, nonce);
  switch (gate->check(what_decides(request))) {
    case MonitorAccess::granted:
      if (request.path == "/") {
        response.set_content(page_with(nonce), "text/html; charset=utf-8");
        return Answer::Handled;
      }
      return Answer::Unhandled;
    case MonitorAccess::granted_by_link:
      response.set_header("Set-Cookie",
                          fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", gate->cookie_name(), token));
      response.set_redirect("/", 303);
      return Answer::Handled;
    case MonitorAccess::wrong_method:
      response.set_header("Allow", "GET");
      refuse(response, 405, "method not allowed: this page is to look at, allowed is GET");
      return Answer::Handled;
    case MonitorAccess::wrong_host:
      refuse(response, 403, "unknown Host: open the address that the launcher printed");
      return Answer::Handled;
    case MonitorAccess::wrong_origin:
      refuse(response, 403, "a page of another origin may not read this");
      return Answer::Handled;
    case MonitorAccess::no_token:
      break;
  }
  refuse(response, 401, "no token: open the link in monitor.token of the run's folder");
  return Answer::Handled;
}

void MonitorServer::State::stream(const httplib::Request& request, httplib::Response& response) {
  if (num_streams.fetch_add(1) >= kMaxStreams) {
    --num_streams;
    return refuse(response, 503, "too many streams are open");
  }
  // A browser that comes back asks from where it left off.
  auto cursor = std::make_shared<StreamCursor>(store, parse_number(request.get_header_value("Last-Event-ID")));
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, cursor](std::size_t, httplib::DataSink& sink) {
        const std::string text = cursor->next();
        if (!text.empty() && !sink.write(text.data(), text.size())) {
          return false;
        }
        std::this_thread::sleep_for(kStreamPause);
        cursor->wait();
        return !is_stopping.load();
      },
      [this](bool) { --num_streams; });
}

void MonitorServer::State::add_routes() {
  using Request = httplib::Request;
  using Response = httplib::Response;
  const auto get = [this](const char* path, const char* type, auto text_of) {
    server.Get(path, [type, text_of](const Request& request, Response& response) {
      response.set_content(text_of(request), type);
    });
  };
  constexpr const char* kJson = "application/json";
  server.set_payload_max_length(0);
  server.set_pre_routing_handler(
      [this](const Request& request, Response& response) { return admit(request, response); });
  get("/api/topology", kJson, [this](const Request&) { return *store->topology().json; });
  get("/api/processes", kJson, [this](const Request&) { return *store->processes().json; });
  get("/api/status", kJson, [this](const Request&) { return *store->status().json; });
  get("/api/metrics", kJson, [this](const Request& request) {
    return to_json(store->metrics_from(parameter(request, "from"), kMaxPageRecords));
  });
  get("/api/events", kJson, [this](const Request& request) {
    return to_json(store->events_after(parameter(request, "after"), kMaxPageRecords));
  });
  get("/metrics", "text/plain; version=0.0.4", [this](const Request&) { return store->prometheus(); });
  server.Get("/api/stream", [this](const Request& request, Response& response) { stream(request, response); });
  // The library's default, SO_REUSEPORT, would let two servers share a port without either noticing.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
}

void MonitorServer::State::serve() {
  thread = std::thread([this] {
    server.listen_after_bind();
    has_ended = true;
  });
  // stop() before the loop runs would be lost.
  while (!server.is_running() && !has_ended) {
    std::this_thread::yield();
  }
}

Expected<MonitorServerOptions> parse_monitor_address(const std::string& address) {
  const auto colon = address.rfind(':');
  MonitorServerOptions options;
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), options.port);
  std::string host = address.substr(0, colon == std::string::npos ? 0 : colon);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  host = is_bracketed ? host.substr(1, host.size() - 2) : host;
  if (error != std::errc() || end != port.data() + port.size() || port.empty() ||
      (!is_bracketed && host.find(':') != std::string::npos)) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("monitor.address \"{}\": allowed HOST:PORT with port 0 to 65535", address));
  }
  options.host = host.empty() ? options.host : host;
  return options;
}

MonitorServer::MonitorServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
MonitorServer::~MonitorServer() { stop(); }

Expected<std::unique_ptr<MonitorServer>> MonitorServer::start(const MonitorServerOptions& options,
                                                              std::shared_ptr<const MonitorStore> store) {
  const bool is_plain = std::all_of(options.token.begin(), options.token.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  if (options.token.size() < 16 || !is_plain) {
    return unexpected(ErrorCode::invalid_argument,
                      "monitor: the token is too short or not plain: allowed at least 16 letters and digits");
  }
  auto state = std::make_unique<State>(std::move(store), options.token);
  state->add_routes();
  const int port = options.port == 0 ? state->server.bind_to_any_port(options.host)
                   : state->server.bind_to_port(options.host, int{options.port}) ? int{options.port}
                                                                                 : -1;
  if (port <= 0) {
    return unexpected(
        ErrorCode::io_error,
        fmt::format("monitor: {}:{} cannot be bound: in use, or no address of this host", options.host, options.port));
  }
  state->gate = std::make_unique<MonitorGate>(options.host, static_cast<std::uint16_t>(port), options.token);
  state->serve();
  return std::unique_ptr<MonitorServer>(new MonitorServer(std::move(state)));
}

const std::string& MonitorServer::address() const { return state_->gate->address(); }

std::string MonitorServer::url() const { return fmt::format("http://{}/?token={}", address(), state_->token); }

void MonitorServer::stop() {
  state_->is_stopping = true;
  state_->server.stop();
  if (state_->thread.joinable()) {
    state_->thread.join();
  }
}

}  // namespace memopd
