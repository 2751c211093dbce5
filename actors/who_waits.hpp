// Who waits for whom and since when, as one line for the person who wonders why nothing happens.
#pragma once

#include <string>
#include <string_view>

#include "runtime/actor/topology.hpp"

namespace memopd {

/// Follows the oldest open request from `start` on: "coordinator/0 waits for env/0 (RunTask, 61.2 s); env/0 waits for
/// student/0 (Generate, 61.1 s); student/0 is in DecodeStep for 61.1 s, 3 messages wait". Ends at an actor that waits for
/// nobody, is not alive ("student/0 failed: cause"), or has been named before.
[[nodiscard]] std::string describe_wait(const Topology& topology, std::string_view start);

}  // namespace memopd
