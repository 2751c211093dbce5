// Which of a process's endpoints another one dials, and which of a host's addresses others can dial.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

/// The endpoint to dial: the first one on the same node, the first tcp one from another node, or the first if there is no
/// tcp (two nodes of one host). @param endpoints  as Transport::endpoints, not empty
[[nodiscard]] std::string endpoint_for(const std::vector<std::string>& endpoints, bool is_same_node);

/// "tcp://10.0.0.1:4711" -> "10.0.0.1"; empty for other kinds.
[[nodiscard]] std::string host_of_endpoint(std::string_view endpoint);

/// "user@host" -> "host".
[[nodiscard]] std::string host_of_address(std::string_view address);

/// This host's numeric IPv4 address on the way to `host`, a name or a number: what `host` can dial. Sends nothing.
/// @error not_found  the name does not resolve, or there is no route
[[nodiscard]] Expected<std::string> own_address_towards(const std::string& host);

}  // namespace memopd
