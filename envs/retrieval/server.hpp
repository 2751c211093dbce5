// The retriever over HTTP, for agents outside a run.
//
//   POST /retrieve {"queries": [".."], "topk": n | null, "return_scores": bool}
//     -> {"result": [[{"id", "contents"}, ..], ..]}, with scores [[{"document": {"id", "contents"}, "score"}, ..], ..]
//   GET  /health -> {"status": "ok", "num_documents", "num_requests", "num_queries", "num_cache_hits", "p50_ms", "p99_ms"}
//
// A bad request gets a 4xx status and {"error": ".."}.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "envs/retrieval/bm25_index.hpp"
#include "runtime/base/expected.hpp"

namespace memopd {

struct RetrievalServerOptions {
  std::string host = "127.0.0.1";   ///< address to bind
  std::uint16_t port = 8013;        ///< 0 = any free one
  std::int32_t default_topk = 3;    ///< when a request has none; 1..max_topk
  std::int32_t max_topk = 100;      ///< 1..10000
  std::int32_t max_queries = 4096;  ///< of one request; >= 1
  std::int64_t max_body_bytes = 8 << 20;
};

/// Latencies are of the last 4096 requests to /retrieve. Thread-safe.
class RetrievalServer {
 public:
  /// Binds, then serves from threads of its own until stop() or destruction.
  /// @error invalid_argument  an option outside its range
  /// @error io_error          the address cannot be bound; names host and port
  static Expected<std::unique_ptr<RetrievalServer>> start(std::shared_ptr<const Bm25Index> index,
                                                          const RetrievalServerOptions& options = {});
  ~RetrievalServer();

  [[nodiscard]] std::uint16_t port() const;
  /// Answers what was accepted, then ends the threads. Idempotent.
  void stop();

 private:
  struct State;
  explicit RetrievalServer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace memopd
