#include "envs/retrieval/server.hpp"

#include <httplib.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/envs/scripted_play.hpp"

namespace memopd {
namespace {

using Json = nlohmann::json;
using testing::must;

std::shared_ptr<const Bm25Index> small_index() {
  return std::make_shared<const Bm25Index>(must(Bm25Index::build(
      {{"0", "Kenya", "Kenya is a country.", 0}, {"1", "Turkana", "Turkana is a county in Kenya.", 0}})));
}

struct Fixture {
  std::unique_ptr<RetrievalServer> server;
  std::unique_ptr<httplib::Client> client;

  explicit Fixture(RetrievalServerOptions options = {}) {
    options.port = 0;
    server = must(RetrievalServer::start(small_index(), options));
    client = std::make_unique<httplib::Client>("127.0.0.1", int{server->port()});
  }
  std::pair<int, Json> post(const std::string& body) {
    const auto result = client->Post("/retrieve", body, "application/json");
    REQUIRE(result);
    return {result->status, Json::parse(result->body)};
  }
};

TEST_CASE("retrieve answers each query with its documents, with scores when asked", "[retrieval_server]") {
  Fixture fixture;
  const Json kenya = {{"id", "0"}, {"contents", "\"Kenya\"\nKenya is a country."}};
  const Json turkana = {{"id", "1"}, {"contents", "\"Turkana\"\nTurkana is a county in Kenya."}};

  CHECK(fixture.post(R"({"queries": ["Kenya", "turkana", "nothing"], "topk": null, "return_scores": false})") ==
        std::pair(200, Json{{"result", {{kenya, turkana}, {turkana}, Json::array()}}}));

  const auto [status, scored] = fixture.post(R"({"queries": ["Kenya"], "topk": 1, "return_scores": true})");
  CHECK(status == 200);
  REQUIRE(scored["result"][0].size() == 1);
  CHECK(scored["result"][0][0]["document"] == kenya);
  CHECK(scored["result"][0][0]["score"].get<double>() > 0);
}

TEST_CASE("a malformed request gets a 4xx status and says what is allowed", "[retrieval_server][error]") {
  Fixture fixture({.default_topk = 3, .max_topk = 5, .max_queries = 2, .max_body_bytes = 1000});
  const auto refused = [&](const std::string& body, const std::string& problem) {
    const auto [status, json] = fixture.post(body);
    CHECK(status == 400);
    CHECK(json["error"] == problem);
  };
  refused("{\"queries\": [", "the body is no JSON");
  refused("[]", "the body is no JSON object");
  refused("{}", "`queries` is missing, allowed is a list of strings");
  refused(R"({"queries": "Kenya"})", "`queries` is a string, allowed is a list of strings");
  refused(R"({"queries": ["a", 7]})", "query 1 is a number, allowed is a string");
  refused(R"({"queries": ["a", "b", "c"]})", "3 queries, allowed are 2");
  refused(R"({"queries": ["a"], "topk": 0})", "`topk` is 0, allowed is an integer in 1..5 or null");
  refused(R"({"queries": ["a"], "topk": 6})", "`topk` is 6, allowed is an integer in 1..5 or null");
  refused(R"({"queries": ["a"], "topk": 1e30})", "`topk` is 1e+30, allowed is an integer in 1..5 or null");
  refused(R"({"queries": ["a"], "return_scores": 1})", "`return_scores` is a number, allowed are true and false");
  CHECK(fixture.post(std::string(2000, ' ')).first == 413);
  const auto unknown = fixture.client->Get("/search");
  REQUIRE(unknown);
  CHECK(unknown->status == 404);
  CHECK(Json::parse(unknown->body)["error"] == "GET /search: allowed are POST /retrieve and GET /health");
  CHECK(fixture.post(R"({"queries": ["Kenya"]})").first == 200);  // and it still serves
}

TEST_CASE("health counts requests, queries and cache hits and has latencies", "[retrieval_server][pain:T26]") {
  Fixture fixture;
  CHECK(fixture.post(R"({"queries": ["Kenya", "Kenya"]})").first == 200);
  const auto result = fixture.client->Get("/health");
  REQUIRE(result);
  const Json health = Json::parse(result->body);
  CHECK(health["status"] == "ok");
  CHECK(health["num_documents"] == 2);
  CHECK(health["num_requests"] == 1);
  CHECK(health["num_queries"] == 2);
  CHECK(health["num_cache_hits"] == 1);
  CHECK(health["p50_ms"].get<double>() > 0);
  CHECK(health["p99_ms"].get<double>() >= health["p50_ms"].get<double>());
}

TEST_CASE("a port in use is an error that names it", "[retrieval_server][error]") {
  Fixture fixture;
  const auto second = RetrievalServer::start(small_index(), {.port = fixture.server->port()});
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::io_error);
  CHECK(second.error().message.find("127.0.0.1:" + std::to_string(fixture.server->port())) != std::string::npos);
}

TEST_CASE("options outside their range are refused", "[retrieval_server][error]") {
  CHECK(RetrievalServer::start(nullptr, {.port = 0}).error().code == ErrorCode::invalid_argument);
  CHECK(RetrievalServer::start(small_index(), {.port = 0, .default_topk = 101}).error().code ==
        ErrorCode::invalid_argument);
}

TEST_CASE("a stopped server refuses connections and frees its port", "[retrieval_server]") {
  Fixture fixture;
  const std::uint16_t port = fixture.server->port();
  fixture.server->stop();
  fixture.server->stop();
  CHECK_FALSE(fixture.client->Get("/health"));
  CHECK(RetrievalServer::start(small_index(), {.port = port}).has_value());
}

}  // namespace
}  // namespace memopd
