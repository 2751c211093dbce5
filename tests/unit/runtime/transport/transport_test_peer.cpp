// A process of a test run. usage: transport_test_peer MODE, and on stdin: key line, run id, role, what MODE wants.
//
// echo ENDPOINT   dials and sends every message back
// bind LO HI      listens on ports LO..HI, prints its endpoint, waits for the end of stdin
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <string>

#include "runtime/transport/transport.hpp"

namespace {

using namespace memopd;

constexpr unsigned kLifetimeSeconds = 120;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "transport_test_peer: %s\n", message.c_str());
  std::exit(1);
}

RunId parse_run(const std::string& text) {
  RunId run;
  for (std::size_t i = 0; i < run.bytes.size(); ++i) {
    run.bytes[i] = static_cast<std::uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return run;
}

std::string read_line() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    fail("end of input");
  }
  return line;
}

void wait_for_end_of_input() {
  std::string line;
  while (std::getline(std::cin, line)) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::alarm(kLifetimeSeconds);
  if (argc != 2) {
    fail("usage: transport_test_peer MODE");
  }
  const std::string mode = argv[1];
  const auto key = RunKey::parse(read_line() + "\n");
  if (!key) {
    fail(key.error().message);
  }
  const RunId run = parse_run(read_line());
  const ProcessIdentity self{run,       make_random_id<InstanceId>(), 1, read_line(), kLinkProtocolVersion, "build-1",
                             "schema-1"};
  TransportOptions options{.key = *key, .self = self, .listen = {"", "127.0.0.1", {}}};
  std::string endpoint;
  if (mode == "echo") {
    endpoint = read_line();
  } else {
    options.listen.ports.lo = static_cast<std::uint16_t>(std::stoi(read_line()));
    options.listen.ports.hi = static_cast<std::uint16_t>(std::stoi(read_line()));
  }
  std::atomic<Transport*> transport = nullptr;
  TransportHandlers handlers;
  handlers.on_message = [&](const Peer& peer, std::span<const std::byte> body) {
    return transport.load()->send(peer.identity.instance, body);
  };
  handlers.on_dial_failed = [](const DialRequest&, const Error& error) { fail(error.message); };
  auto started = Transport::start(options, handlers);
  if (!started) {
    fail(started.error().message);
  }
  transport = started->get();
  if (mode == "echo") {
    (*started)->dial({endpoint, std::nullopt});
  } else {
    std::printf("%s\n", (*started)->endpoints().front().c_str());
    std::fflush(stdout);
  }
  wait_for_end_of_input();
  return 0;
}
