// The fact tables of envs/atlas/data as the build embedded them, so that a run needs no path.
#pragma once

#include <string_view>

namespace memopd::atlas {

extern const std::string_view kFactsTsv;
extern const std::string_view kAliasesTsv;

}  // namespace memopd::atlas
