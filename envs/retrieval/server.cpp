#include "envs/retrieval/server.hpp"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "envs/retrieval/corpus.hpp"

namespace memopd {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNumThreads = 4;
constexpr std::size_t kLatencyWindow = 4096;

struct RetrieveRequest {
  std::vector<std::string> queries;
  std::int32_t topk = 0;
  bool with_scores = false;
};

Unexpected refuse(std::string problem) { return unexpected(ErrorCode::invalid_argument, std::move(problem)); }

Expected<std::vector<std::string>> parse_queries(const Json& body, std::int32_t max_queries) {
  const auto found = body.find("queries");
  if (found == body.end() || !found->is_array()) {
    return refuse(fmt::format("`queries` is {}, allowed is a list of strings",
                              found == body.end() ? "missing" : fmt::format("a {}", found->type_name())));
  }
  if (found->size() > static_cast<std::size_t>(max_queries)) {
    return refuse(fmt::format("{} queries, allowed are {}", found->size(), max_queries));
  }
  std::vector<std::string> queries;
  for (const Json& query : *found) {
    if (!query.is_string()) {
      return refuse(fmt::format("query {} is a {}, allowed is a string", queries.size(), query.type_name()));
    }
    queries.push_back(query.get<std::string>());
  }
  return queries;
}

Expected<RetrieveRequest> parse_request(const std::string& text, const RetrievalServerOptions& options) {
  const Json body = Json::parse(text, nullptr, false);
  if (!body.is_object()) {
    return refuse(body.is_discarded() ? "the body is no JSON" : "the body is no JSON object");
  }
  auto queries = parse_queries(body, options.max_queries);
  if (!queries) {
    return unexpected(queries.error());
  }
  RetrieveRequest request{std::move(*queries), options.default_topk, false};
  if (const auto topk = body.find("topk"); topk != body.end() && !topk->is_null()) {
    const bool is_allowed = topk->is_number_integer() && *topk >= 1 && *topk <= options.max_topk;
    if (!is_allowed) {
      return refuse(
          fmt::format("`topk` is {}, allowed is an integer in 1..{} or null", topk->dump(), options.max_topk));
    }
    request.topk = topk->get<std::int32_t>();
  }
  if (const auto scores = body.find("return_scores"); scores != body.end() && !scores->is_null()) {
    if (!scores->is_boolean()) {
      return refuse(fmt::format("`return_scores` is a {}, allowed are true and false", scores->type_name()));
    }
    request.with_scores = scores->get<bool>();
  }
  return request;
}

Json to_json(const std::vector<std::vector<Document>>& results, bool with_scores) {
  Json lists = Json::array();
  for (const auto& documents : results) {
    Json list = Json::array();
    for (const Document& document : documents) {
      Json item = {{"id", document.id}, {"contents", document_contents(document)}};
      list.push_back(with_scores ? Json{{"document", std::move(item)}, {"score", document.score}} : std::move(item));
    }
    lists.push_back(std::move(list));
  }
  return Json{{"result", std::move(lists)}};
}

void reply(httplib::Response& response, int status, const Json& body) {
  response.status = status;
  response.set_content(body.dump(-1, ' ', false, Json::error_handler_t::replace), "application/json");
}

/// The last requests' latencies. Thread-safe.
class LatencyWindow {
 public:
  void add(double latency_ms) {
    const std::lock_guard lock(mutex_);
    if (latencies_ms_.size() < kLatencyWindow) {
      latencies_ms_.push_back(latency_ms);
    } else {
      latencies_ms_[num_requests_ % kLatencyWindow] = latency_ms;
    }
    ++num_requests_;
  }
  /// {"num_requests", "p50_ms", "p99_ms"}; 0 before the first request.
  [[nodiscard]] Json summary() const {
    const std::lock_guard lock(mutex_);
    std::vector<double> sorted = latencies_ms_;
    std::sort(sorted.begin(), sorted.end());
    const auto quantile = [&](double share) {
      return sorted.empty() ? 0.0 : sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
    };
    return {{"num_requests", num_requests_}, {"p50_ms", quantile(0.5)}, {"p99_ms", quantile(0.99)}};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<double> latencies_ms_;
  std::uint64_t num_requests_ = 0;
};

}  // namespace

struct RetrievalServer::State {
  std::shared_ptr<const Bm25Index> index;
  RetrievalServerOptions options;
  LatencyWindow latencies;
  httplib::Server server;
  std::thread thread;
  std::atomic<bool> has_ended = false;
  std::uint16_t port = 0;

  void add_routes();
  Expected<void> bind();
  void serve();
  void retrieve(const httplib::Request& request, httplib::Response& response);
};

void RetrievalServer::State::retrieve(const httplib::Request& request, httplib::Response& response) {
  const auto begin = std::chrono::steady_clock::now();
  const auto parsed = parse_request(request.body, options);
  if (!parsed) {
    return reply(response, 400, {{"error", parsed.error().message}});
  }
  const auto results = index->query_batch(parsed->queries, parsed->topk);
  if (!results) {
    return reply(response, 500, {{"error", results.error().message}});
  }
  reply(response, 200, to_json(*results, parsed->with_scores));
  latencies.add(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
}

void RetrievalServer::State::add_routes() {
  server.new_task_queue = [] { return new httplib::ThreadPool(kNumThreads); };
  server.set_payload_max_length(static_cast<std::size_t>(options.max_body_bytes));
  server.set_keep_alive_timeout(1);
  // The library's default, SO_REUSEPORT, would let two servers share a port without either noticing.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.Post("/retrieve",
              [this](const httplib::Request& request, httplib::Response& response) { retrieve(request, response); });
  server.Get("/health", [this](const httplib::Request&, httplib::Response& response) {
    Json body = latencies.summary();
    const Bm25Counters counters = index->counters();
    body["status"] = "ok";
    body["num_documents"] = index->num_documents();
    body["num_queries"] = counters.num_queries;
    body["num_cache_hits"] = counters.num_cache_hits;
    reply(response, 200, body);
  });
  server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (response.body.empty()) {
      const std::string problem = response.status == 404   ? "allowed are POST /retrieve and GET /health"
                                  : response.status == 413 ? "the body is too large"
                                                           : "the request is malformed";
      reply(response, response.status, {{"error", fmt::format("{} {}: {}", request.method, request.path, problem)}});
    }
  });
}

Expected<void> RetrievalServer::State::bind() {
  const int bound = options.port == 0                                      ? server.bind_to_any_port(options.host)
                    : server.bind_to_port(options.host, int{options.port}) ? int{options.port}
                                                                           : -1;
  if (bound <= 0) {
    return unexpected(ErrorCode::io_error,
                      fmt::format("retrieval server: {}:{} cannot be bound: in use, or no address of this host",
                                  options.host, options.port));
  }
  port = static_cast<std::uint16_t>(bound);
  return {};
}

void RetrievalServer::State::serve() {
  thread = std::thread([this] {
    server.listen_after_bind();
    has_ended = true;
  });
  // stop() before the loop runs would be lost.
  while (!server.is_running() && !has_ended) {
    std::this_thread::yield();
  }
}

RetrievalServer::RetrievalServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

RetrievalServer::~RetrievalServer() { stop(); }

Expected<std::unique_ptr<RetrievalServer>> RetrievalServer::start(std::shared_ptr<const Bm25Index> index,
                                                                  const RetrievalServerOptions& options) {
  const bool is_valid = index != nullptr && options.max_topk >= 1 && options.max_topk <= 10000 &&
                        options.default_topk >= 1 && options.default_topk <= options.max_topk &&
                        options.max_queries >= 1 && options.max_body_bytes >= 1;
  if (!is_valid) {
    return refuse(
        fmt::format("retrieval server: topk {} of at most {}, {} queries: allowed are 1..max_topk, 1..10000, "
                    "at least 1, and an index",
                    options.default_topk, options.max_topk, options.max_queries));
  }
  auto state = std::make_unique<State>();
  state->index = std::move(index);
  state->options = options;
  state->add_routes();
  MEMOPD_RETURN_IF_ERROR(state->bind());
  state->serve();
  return std::unique_ptr<RetrievalServer>(new RetrievalServer(std::move(state)));
}

std::uint16_t RetrievalServer::port() const { return state_->port; }

void RetrievalServer::stop() {
  state_->server.stop();
  if (state_->thread.joinable()) {
    state_->thread.join();
  }
}

}  // namespace memopd
