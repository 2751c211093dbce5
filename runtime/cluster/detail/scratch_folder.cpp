#include "runtime/cluster/detail/scratch_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace memopd::detail {

Expected<std::filesystem::path> make_scratch_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "memopd-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    return unexpected(ErrorCode::io_error, "a folder for sockets and files, " + path + ": " + std::strerror(errno));
  }
  return std::filesystem::path(path);
}

}  // namespace memopd::detail
