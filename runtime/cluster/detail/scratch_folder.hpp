// A new folder of this process alone, below the temporary folder.
#pragma once

#include <filesystem>

#include "runtime/base/expected.hpp"

namespace memopd::detail {

/// Of mode 0700, with a name that no other has. The caller removes it.
/// @error io_error
[[nodiscard]] Expected<std::filesystem::path> make_scratch_folder();

}  // namespace memopd::detail
