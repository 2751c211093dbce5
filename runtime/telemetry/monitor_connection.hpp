// HTTP connections that cannot hold anybody up. Internal to this folder: sees cpp-httplib.
#pragma once

#include <httplib.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace memopd::detail {

constexpr std::chrono::seconds kRequestLimit{3};   ///< for a whole request to arrive
constexpr std::chrono::seconds kProgressLimit{3};  ///< for a client to take at least one byte
constexpr std::chrono::seconds kWriteLimit{30};    ///< for a client to take one piece of an answer

/// A socket with deadlines over the whole, where cpp-httplib's own start anew with every byte.
class DeadlineStream final : public httplib::Stream {
 public:
  explicit DeadlineStream(socket_t socket);
  [[nodiscard]] bool is_readable() const override { return true; }
  [[nodiscard]] bool is_writable() const override { return true; }
  ssize_t read(char* bytes, std::size_t size) override;
  ssize_t write(const char* bytes, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  [[nodiscard]] socket_t socket() const override { return socket_; }

 private:
  socket_t socket_;
  std::chrono::steady_clock::time_point read_deadline_;
  std::vector<char> buffer_;
  std::size_t buffer_begin_ = 0;
};

/// (httplib::Server has the same layout with and without TLS, which Debian's library is built with and its header does not
/// say; httplib::Client and Request's end have not.)
/// cpp-httplib's server with one request per connection, deadlines, and a bounded queue of connections.
class BoundedServer final : public httplib::Server {
 public:
  explicit BoundedServer(std::size_t num_threads, std::size_t max_waiting);

 private:
  bool process_and_close_socket(socket_t socket) override;
};

}  // namespace memopd::detail
