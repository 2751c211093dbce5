// Input files of a run on their way to other hosts, which have no file system in common with the head.
//
// ST-1  a file appears in the node's work folder under the path that it has below the head's working directory, whole and with
//       the SHA-256 it has here, before any process of that node starts.
// ST-2  files travel over the bulk links, one after another, so links of control are not delayed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/transport/bulk.hpp"

namespace memopd {

/// The regular files of `inputs`, which are files and folders below the working directory, in order of their paths.
/// @error invalid_argument  an absolute path, or one that leaves the working directory
/// @error not_found         it does not exist
/// @error overloaded        more than kMaxStagedFiles
[[nodiscard]] Expected<std::vector<std::filesystem::path>> list_inputs(std::span<const std::string> inputs);

inline constexpr std::size_t kMaxStagedFiles = 2'000;

/// The head's half: publishes `files`. Reads each once, for its hash. The files must not change while `bulk` lives.
/// @error io_error    a file cannot be read
/// @error overloaded  what the nodes are told of them does not fit one control frame
[[nodiscard]] Expected<StageFiles> offer_files(std::span<const std::filesystem::path> files, Bulk& bulk);

/// The node's half: fetches every file of `request` into `folder`. Blocks; not on the socket thread.
/// @error those of Bulk::fetch and io_error, with the file's name
/// @error refused  a path that leaves `folder`
Expected<void> fetch_files(const StageFiles& request, const std::filesystem::path& folder, Bulk& bulk);

}  // namespace memopd
