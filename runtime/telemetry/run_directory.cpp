#include "runtime/telemetry/run_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "runtime/telemetry/log_files.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;

Unexpected io_failure(const fs::path& path, const std::string& reason) {
  return unexpected(ErrorCode::io_error, fmt::format("{}: {}", path.string(), reason));
}

bool is_folder_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Expected<void> write_synced(const fs::path& path, std::string_view content) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.number() < 0 || !write_all(file.number(), content) || ::fsync(file.number()) != 0) {
    return io_failure(path, std::strerror(errno));
  }
  return {};
}

std::string to_json(const Manifest& manifest) {
  const nlohmann::ordered_json json = {{"run_name", manifest.run_name},
                                       {"version", manifest.version},
                                       {"build_id", manifest.build_id},
                                       {"started_at", manifest.started_at},
                                       {"command_line", manifest.command_line},
                                       {"host", manifest.host},
                                       {"cpu_model", manifest.cpu_model},
                                       {"seed", manifest.seed},
                                       {"inputs", manifest.inputs}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Expected<void> write_file_atomic(const fs::path& path, std::string_view content) {
  const fs::path beside = fmt::format("{}.writing-{}", path.string(), ::getpid());
  auto written = write_synced(beside, content);
  std::error_code error;
  if (written) {
    fs::rename(beside, path, error);
    written = error ? Expected<void>(io_failure(path, error.message())) : Expected<void>();
  }
  if (!written) {
    fs::remove(beside, error);
  }
  return written;
}

Expected<fs::path> rename_old_run(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) {
    return fs::path();
  }
  for (int number = 1;; ++number) {
    const fs::path target = fmt::format("{}.{}", path.string(), number);
    if (fs::exists(fs::symlink_status(target, error))) {
      continue;
    }
    fs::rename(path, target, error);
    return error ? Expected<fs::path>(io_failure(path, error.message())) : Expected<fs::path>(target);
  }
}

Expected<RunDirectory> RunDirectory::create(const fs::path& root, const std::string& name) {
  if (!is_folder_name(name)) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("run name \"{}\": allowed letters, digits, - _ . and not \".\" or \"..\"", name));
  }
  const fs::path path = root / name;
  std::error_code error;
  fs::create_directories(root, error);
  if (!error && !fs::create_directory(path, error) && !error && !fs::is_empty(path, error)) {
    return unexpected(ErrorCode::already_exists,
                      fmt::format("run folder {} exists: choose another run.name, move it away, or go on with it by "
                                  "--resume {}",
                                  path.string(), path.string()));
  }
  for (const char* folder : {"logs", "checkpoints", "trajectories", "tensorboard", "ledger"}) {
    if (!error) {
      fs::create_directory(path / folder, error);
    }
  }
  if (error) {
    return io_failure(path, error.message());
  }
  return RunDirectory(path);
}

Expected<RunDirectory> RunDirectory::open(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / "manifest.json", error)) {
    return unexpected(ErrorCode::not_found, fmt::format("{}: no run here, manifest.json is missing", folder.string()));
  }
  return RunDirectory(folder);
}

Expected<std::shared_ptr<void>> RunDirectory::lock() const {
  const fs::path path = path_ / "run.lock";
  auto file = std::make_shared<Descriptor>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (file->number() < 0) {
    return io_failure(path, std::strerror(errno));
  }
  if (::flock(file->number(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK
               ? unexpected(ErrorCode::refused, fmt::format("run {}: another process is running it", path_.string()))
               : io_failure(path, std::strerror(errno));
  }
  return std::shared_ptr<void>(std::move(file));
}

Expected<void> RunDirectory::write_manifest(const Manifest& manifest) const {
  return write_file_atomic(path_ / "manifest.json", to_json(manifest));
}
Expected<void> RunDirectory::write_config(std::string_view toml) const {
  return write_file_atomic(path_ / "config.toml", toml);
}
Expected<void> RunDirectory::write_summary(const Summary& summary) const {
  return write_file_atomic(path_ / "summary.json", memopd::to_json(summary));
}
Expected<void> RunDirectory::write_topology(std::string_view json) const {
  return write_file_atomic(path_ / "topology.json", json);
}

Expected<LogSink> RunDirectory::open_log_sink(LogSink next) const {
  auto opened = detail::LogFiles::open(path_);
  if (!opened) {
    return unexpected(opened.error());
  }
  return LogSink(
      [files = std::shared_ptr<detail::LogFiles>(std::move(*opened)), next = std::move(next)](const LogEvent& event) {
        files->write(event);
        if (next) {
          next(event);
        }
      });
}

}  // namespace memopd
