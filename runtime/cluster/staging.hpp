// Input files of a run on their way to other hosts, which have no file system in common with the head.
//
// ST-1  a file appears in the node's work folder under the path that it has below the head's working directory, whole and with
//       the SHA-256 it has here, before any process of that node starts.
// ST-2  files travel over the bulk links, one after another, so links of control are not delayed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
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

inline constexpr std::size_t kMaxStagedFiles = 2'000;  ///< their tickets fit one control frame

/// The head's half: publishes `files`. Reads each once, for its hash. The files must not change while `bulk` lives.
/// @error io_error  a file cannot be read
[[nodiscard]] Expected<StageFiles> offer_files(std::span<const std::filesystem::path> files, Bulk& bulk);

/// The node's half. Its callback `done` comes on a thread of `bulk`, once.
class FileFetcher {
 public:
  using Done = std::function<void(Expected<void>)>;

  /// Fetches `request` into `folder`. @error (of done) those of Bulk::fetch and io_error, with the file's name
  static void fetch(StageFiles request, std::filesystem::path folder, Bulk& bulk, Done done);

 private:
  FileFetcher(StageFiles request, std::filesystem::path folder, Bulk& bulk, Done done);
  void next(const std::shared_ptr<FileFetcher>& self);
  Expected<void> begin_file(const StagedFile& file, const std::shared_ptr<FileFetcher>& self);
  Expected<void> finish_file(const StagedFile& file) const;

  const StageFiles request_;
  const std::filesystem::path folder_;
  Bulk& bulk_;
  Done done_;
  std::size_t next_ = 0;
};

}  // namespace memopd
