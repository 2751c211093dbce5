#include "runtime/telemetry/monitor_access.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "runtime/base/check.hpp"

namespace memopd {
namespace {

std::string bracketed(std::string_view host) {
  return host.find(':') == std::string_view::npos ? std::string(host) : fmt::format("[{}]", host);
}

bool is_ip_address(std::string host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

std::string make_monitor_token() {
  std::array<unsigned char, 16> bytes{};
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    MEMOPD_CHECK(count > 0 || errno == EINTR, "getrandom failed");
    filled += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  std::string token;
  for (const unsigned char byte : bytes) {
    token += fmt::format("{:02x}", byte);
  }
  return token;
}

Expected<void> write_private_file(const std::filesystem::path& path, std::string_view text) {
  // A new name, created by us alone: an existing file of another mode, or a link laid out by someone, is never opened.
  const std::string beside = fmt::format("{}.writing-{}", path.string(), ::getpid());
  ::unlink(beside.c_str());
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool is_written = file >= 0 && write_all(file, text);
  const int reason = errno;
  if (file >= 0) {
    ::close(file);
  }
  if (!is_written || ::rename(beside.c_str(), path.c_str()) != 0) {
    const int shown = is_written ? errno : reason;
    ::unlink(beside.c_str());
    return unexpected(ErrorCode::io_error, fmt::format("{}: {}", path.string(), std::strerror(shown)));
  }
  return {};
}

bool equal_in_constant_time(std::string_view found, std::string_view expected) {
  unsigned difference = found.size() == expected.size() ? 0 : 1;
  for (std::size_t index = 0; index < found.size(); ++index) {
    const char other = expected.empty() ? '\0' : expected[index % expected.size()];
    difference |= static_cast<unsigned char>(found[index]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0 && !expected.empty();
}

MonitorGate::MonitorGate(std::string_view host, std::uint16_t port, std::string token)
    : is_wildcard_(host == "0.0.0.0" || host == "::"),
      port_suffix_(fmt::format(":{}", port)),
      token_(std::move(token)),
      cookie_name_(fmt::format("memopd_monitor_{}", port)) {
  allowed_hosts_ = {lower(bracketed(host)) + port_suffix_, "localhost" + port_suffix_};
}

bool MonitorGate::is_allowed_host(std::string_view host) const {
  const std::string wanted = lower(host);
  if (std::find(allowed_hosts_.begin(), allowed_hosts_.end(), wanted) != allowed_hosts_.end()) {
    return true;
  }
  // A rebound name is a name; an address in Host cannot have been rebound.
  return is_wildcard_ && wanted.ends_with(port_suffix_) &&
         is_ip_address(wanted.substr(0, wanted.size() - port_suffix_.size()));
}

bool MonitorGate::has_token(const MonitorRequest& request) const {
  constexpr std::string_view kBearer = "Bearer ";
  if (request.authorization.starts_with(kBearer) &&
      equal_in_constant_time(std::string_view(request.authorization).substr(kBearer.size()), token_)) {
    return true;
  }
  std::string_view rest = request.cookie;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == cookie_name_ &&
        equal_in_constant_time(pair.substr(equals + 1), token_)) {
      return true;
    }
  }
  return false;
}

MonitorAccess MonitorGate::check(const MonitorRequest& request) const {
  if (request.method != "GET") {
    return MonitorAccess::wrong_method;
  }
  if (!is_allowed_host(request.host)) {
    return MonitorAccess::wrong_host;
  }
  if (!request.origin.empty() && lower(request.origin) != "http://" + lower(request.host)) {
    return MonitorAccess::wrong_origin;
  }
  if (!request.query_token.empty() && equal_in_constant_time(request.query_token, token_)) {
    return MonitorAccess::granted_by_link;
  }
  return has_token(request) ? MonitorAccess::granted : MonitorAccess::no_token;
}

}  // namespace memopd
