// The monitor of a run over HTTP: one page and its data, to look at and nothing else.
//
//   GET /                         the page (tools/monitor/page.html)
//   GET /api/topology, /api/processes, /api/status   the newest document, or null
//   GET /api/metrics?from=STEP    {"records": [{"seq", "step", "time", "train/loss", ..}], "next", "num_missed"}
//   GET /api/events?after=SEQ     {"records": [{"seq", "time", "level", "component", "name", "fields"}], ..}, 1000 at most
//   GET /api/stream               server-sent events: topology (at most 2/s), processes, status, metrics, events
//   GET /metrics                  text of Prometheus
//
// MO-1  read-only     GET alone; nothing sent to it is kept, run or forwarded.
// MO-2  token always  no answer but a refusal without the token, whatever the Host and Origin (runtime MonitorGate).
// MO-3  no waiting    a request must arrive within 3 s, a client must take something every 3 s: a slow one costs one of 16
//                     threads for that long, a stream one of 8, and the run never a moment: nothing waits for a client.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/expected.hpp"
#include "runtime/telemetry/monitor_store.hpp"

namespace memopd {

struct MonitorServerOptions {
  std::string host = "127.0.0.1";  ///< address to listen on
  std::uint16_t port = 0;          ///< 0 = any free one
  std::string token{};             ///< make_monitor_token(); at least 16 characters, letters and digits
};

/// "HOST:PORT", "[::1]:PORT" or ":PORT" (loopback), as in monitor.address.
/// @error invalid_argument  shows what it found
[[nodiscard]] Expected<MonitorServerOptions> parse_monitor_address(const std::string& address);

/// Serves from 16 threads of its own until stopped or destroyed.
class MonitorServer {
 public:
  static constexpr int kMaxStreams = 8;  ///< at once; the next gets 503

  /// Bound when it returns. The store is shared, never written to.
  /// @error invalid_argument  a token that is too short
  /// @error io_error          the address cannot be bound
  [[nodiscard]] static Expected<std::unique_ptr<MonitorServer>> start(const MonitorServerOptions& options,
                                                                      std::shared_ptr<const MonitorStore> store);
  ~MonitorServer();
  MonitorServer(const MonitorServer&) = delete;
  MonitorServer& operator=(const MonitorServer&) = delete;

  /// "127.0.0.1:43211": where it really listens.
  [[nodiscard]] const std::string& address() const;
  /// What a person opens: with the token in it.
  [[nodiscard]] std::string url() const;
  /// Ends streams and threads. Idempotent.
  void stop();

 private:
  struct State;
  explicit MonitorServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace memopd
