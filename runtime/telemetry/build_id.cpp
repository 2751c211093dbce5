#include "runtime/telemetry/run_directory.hpp"

namespace memopd {

std::string_view program_version() { return MEMOPD_VERSION; }
std::string_view build_id() { return MEMOPD_BUILD_ID; }

}  // namespace memopd
