// The files that the processes of a run read, as far as its configuration names them.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/schema.hpp"

namespace memopd {

/// Models, tokenizers, task file, corpus and index, and every option of the environments that names a file or folder which is
/// there. Relative ones only: an absolute path is read where a process runs, and must be there.
[[nodiscard]] std::vector<std::string> run_inputs(const Config& config);

}  // namespace memopd
