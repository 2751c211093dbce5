// Who may read a run's monitor (SE-1): other users share the loopback, other web pages share the browser.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

/// 128 random bits as 32 hex digits.
[[nodiscard]] std::string make_monitor_token();

/// Replaces `path` by a new file of mode 0600, which no other user could read at any moment.
/// @error io_error
Expected<void> write_private_file(const std::filesystem::path& path, std::string_view text);

/// Takes time by the length of `found` only.
[[nodiscard]] bool equal_in_constant_time(std::string_view found, std::string_view expected);

/// What of a request decides; empty = absent.
struct MonitorRequest {
  std::string method;
  std::string host;           ///< header Host
  std::string origin;         ///< header Origin
  std::string authorization;  ///< header Authorization
  std::string cookie;         ///< header Cookie
  std::string query_token;    ///< ?token=
};

enum class MonitorAccess : std::uint8_t {
  granted,
  granted_by_link,  ///< by ?token=: to be turned into a cookie, so that the token leaves the address line
  wrong_method,
  wrong_host,
  wrong_origin,
  no_token
};

/// Pure; decides in the order of the enumeration's refusals, so a stranger learns nothing of the token.
class MonitorGate {
 public:
  /// @param host  as bound; "0.0.0.0" and "::" admit every Host that is an address, never another name
  MonitorGate(std::string_view host, std::uint16_t port, std::string token);

  [[nodiscard]] MonitorAccess check(const MonitorRequest& request) const;
  /// "memopd_monitor_8123": cookies know no ports, and a host may have several monitors.
  [[nodiscard]] const std::string& cookie_name() const { return cookie_name_; }
  /// "127.0.0.1:8123", "[::1]:8123".
  [[nodiscard]] const std::string& address() const { return allowed_hosts_.front(); }

 private:
  [[nodiscard]] bool is_allowed_host(std::string_view host) const;
  [[nodiscard]] bool has_token(const MonitorRequest& request) const;

  std::vector<std::string> allowed_hosts_;
  bool is_wildcard_;
  std::string port_suffix_;  ///< ":8123"
  std::string token_;
  std::string cookie_name_;
};

}  // namespace memopd
