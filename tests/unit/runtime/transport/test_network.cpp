#include "tests/unit/runtime/transport/test_network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

namespace memopd::testing {
namespace {

constexpr int kHangMs = 30'000;

sockaddr_in loopback(const std::string& endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  return address;
}

int connect_to(const std::string& endpoint) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(endpoint);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket);
    return -1;
  }
  return socket;
}

void write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) {
      return;  // closed by the other side
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

RawTcp::RawTcp(const std::string& endpoint) : socket_(connect_to(endpoint)) { REQUIRE(socket_ >= 0); }
RawTcp::~RawTcp() { ::close(socket_); }
void RawTcp::send(std::span<const std::byte> bytes) { write_all(socket_, bytes); }

void RawTcp::wait_closed() {
  std::array<std::byte, 4096> ignored{};
  while (true) {
    pollfd item{socket_, POLLIN, 0};
    REQUIRE(::poll(&item, 1, kHangMs) == 1);
    if (::recv(socket_, ignored.data(), ignored.size(), 0) <= 0) {
      return;
    }
  }
}

TcpRelay::TcpRelay(const std::string& target) : target_(target) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(":0");
  socklen_t size = sizeof address;
  REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listener_, 16) == 0);
  REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  REQUIRE(::pipe2(commands_.data(), O_CLOEXEC) == 0);
  REQUIRE(::pipe2(replies_.data(), O_CLOEXEC) == 0);
  thread_ = std::thread([this] { run(); });
}

TcpRelay::~TcpRelay() {
  command('q');
  thread_.join();
  for (const int descriptor : {listener_, commands_[0], commands_[1], replies_[0], replies_[1]}) {
    ::close(descriptor);
  }
}

void TcpRelay::hold() { command('h'); }
void TcpRelay::release() { command('r'); }
void TcpRelay::cut() { command('c'); }

void TcpRelay::command(char what) {
  char reply = 0;
  static_cast<void>(::write(commands_[1], &what, 1) + ::read(replies_[0], &reply, 1));
}

void TcpRelay::close_all() {
  for (const auto& [descriptor, other] : other_end_) {
    ::close(descriptor);
  }
  other_end_.clear();
}

void TcpRelay::accept_one() {
  const int from = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  const int to = connect_to(target_);
  if (to < 0) {
    ::close(from);
    return;
  }
  other_end_[from] = to;
  other_end_[to] = from;
}

void TcpRelay::forward(int from) {
  const auto found = other_end_.find(from);
  if (found == other_end_.end()) {
    return;
  }
  std::array<std::byte, 1 << 16> buffer{};
  const int to = found->second;
  const ssize_t count = ::recv(from, buffer.data(), buffer.size(), 0);
  if (count > 0) {
    write_all(to, std::span(buffer).first(static_cast<std::size_t>(count)));
    return;
  }
  other_end_.erase(from);
  other_end_.erase(to);
  ::close(from);
  ::close(to);
}

bool TcpRelay::obey() {
  char what = 0;
  static_cast<void>(::read(commands_[0], &what, 1));
  is_held_ = what == 'h';
  if (what == 'c' || what == 'q') {
    close_all();
  }
  static_cast<void>(::write(replies_[1], &what, 1) == 1);
  return what != 'q';
}

void TcpRelay::run() {
  while (true) {
    std::vector<pollfd> items{{commands_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& [descriptor, other] : other_end_) {
      if (!is_held_) {
        items.push_back({descriptor, POLLIN, 0});
      }
    }
    ::poll(items.data(), items.size(), -1);
    for (std::size_t i = 2; i < items.size(); ++i) {
      if (items[i].revents != 0) {
        forward(items[i].fd);
      }
    }
    if (items[1].revents != 0) {
      accept_one();
    }
    if (items[0].revents != 0 && !obey()) {
      return;
    }
  }
}

PeerProcess::PeerProcess(const std::string& mode, const TestRun& run, const std::vector<std::string>& first_lines) {
  std::array<int, 2> to_peer{};
  std::array<int, 2> from_peer{};
  REQUIRE(::pipe2(to_peer.data(), O_CLOEXEC) == 0);
  REQUIRE(::pipe2(from_peer.data(), O_CLOEXEC) == 0);
  const std::string program = std::string(MEMOPD_BINARY_DIR) + "/bin/transport_test_peer";
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(to_peer[0], 0);
    ::dup2(from_peer[1], 1);
    ::execl(program.c_str(), program.c_str(), mode.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(to_peer[0]);
  ::close(from_peer[1]);
  input_ = to_peer[1];
  output_ = from_peer[0];
  std::string lines = run.key.text() + to_string(run.run) + "\n";
  for (const std::string& line : first_lines) {
    lines += line + "\n";
  }
  REQUIRE(::write(input_, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()));
}

PeerProcess::~PeerProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(input_);
  ::close(output_);
}

std::string PeerProcess::read_line() {
  std::string line;
  while (true) {
    pollfd item{output_, POLLIN, 0};
    REQUIRE(::poll(&item, 1, kHangMs) == 1);
    char c = 0;
    REQUIRE(::read(output_, &c, 1) == 1);
    if (c == '\n') {
      return line;
    }
    line.push_back(c);
  }
}

void PeerProcess::signal(int number) const { ::kill(pid_, number); }

}  // namespace memopd::testing
