// The other ends of transport tests: plain TCP, a relay that can be cut, a process. Limits of 30 s are for hangs only.
#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd::testing {

/// Connects with plain TCP.
class RawTcp {
 public:
  explicit RawTcp(const std::string& endpoint);
  ~RawTcp();
  RawTcp(const RawTcp&) = delete;
  RawTcp& operator=(const RawTcp&) = delete;
  void send(std::span<const std::byte> bytes);
  /// Waits until the other side has closed the connection; fails the test after 30 s.
  void wait_closed();

 private:
  int socket_;
};

/// Forwards TCP between whoever connects and `target`. hold() keeps what arrives, cut() closes every connection.
class TcpRelay {
 public:
  explicit TcpRelay(const std::string& target);
  ~TcpRelay();
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  void hold();
  void release();
  /// Every connection that was there is closed, with what was held; new ones are forwarded.
  void cut();

 private:
  void run();
  void accept_one();
  void forward(int from);
  void close_all();
  /// False when the relay has to end.
  bool obey();
  void command(char what);

  const std::string target_;
  std::string endpoint_;
  int listener_ = -1;
  std::array<int, 2> commands_{-1, -1};
  std::array<int, 2> replies_{-1, -1};
  // Of the relay's thread:
  std::map<int, int> other_end_;
  bool is_held_ = false;
  std::thread thread_;
};

/// The program transport_test_peer in a process of its own; killed by its pid at the end.
class PeerProcess {
 public:
  /// @param first_lines  what it reads from its stdin: key, run id, and what the mode wants
  PeerProcess(const std::string& mode, const TestRun& run, const std::vector<std::string>& first_lines);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  [[nodiscard]] std::string read_line();
  void signal(int number) const;

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
};

}  // namespace memopd::testing
