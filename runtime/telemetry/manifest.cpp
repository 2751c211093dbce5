#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <system_error>

#include "runtime/telemetry/run_directory.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;

class Hash {
 public:
  Hash() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void add(const void* data, std::size_t size) { XXH3_128bits_update(state_.get(), data, size); }
  [[nodiscard]] std::string hex() const {
    const XXH128_hash_t digest = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

Expected<void> add_file(Hash& hash, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 1 << 16> buffer;
  while (file.good()) {
    file.read(buffer.data(), buffer.size());
    hash.add(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) {
    return unexpected(ErrorCode::io_error, fmt::format("input {}: cannot be read", path.string()));
  }
  return {};
}

/// Regular files below `folder`, by relative name; directory order differs between file systems.
Expected<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(error)) {
      files.push_back(at->path().lexically_relative(folder));
    }
  }
  if (error) {
    return unexpected(ErrorCode::io_error, fmt::format("input {}: {}", folder.string(), error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, length);
}

}  // namespace

Expected<std::string> fingerprint_input(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return unexpected(ErrorCode::not_found, fmt::format("input {}: no such file or folder", path.string()));
  }
  Hash hash;
  if (!fs::is_directory(path, error)) {
    MEMOPD_RETURN_IF_ERROR(add_file(hash, path));
    return hash.hex();
  }
  const auto files = files_below(path);
  if (!files) {
    return unexpected(files.error());
  }
  for (const fs::path& file : *files) {
    const std::string name = file.generic_string();
    hash.add(name.c_str(), name.size() + 1);  // with its zero, so that name and bytes cannot be told apart another way
    MEMOPD_RETURN_IF_ERROR(add_file(hash, path / file));
  }
  return hash.hex();
}

Expected<Manifest> make_manifest(std::string run_name, std::vector<std::string> command_line, std::uint64_t seed,
                                 const std::vector<fs::path>& input_paths) {
  Manifest manifest;
  manifest.run_name = std::move(run_name);
  manifest.version = program_version();
  manifest.build_id = build_id();
  manifest.started_at = utc_now();
  manifest.command_line = std::move(command_line);
  manifest.host = host_name();
  manifest.cpu_model = cpu_model();
  manifest.seed = seed;
  for (const fs::path& path : input_paths) {
    if (path.empty()) {
      continue;
    }
    const auto fingerprint = fingerprint_input(path);
    if (!fingerprint) {
      return unexpected(fingerprint.error());
    }
    manifest.inputs[path.string()] = *fingerprint;
  }
  return manifest;
}

}  // namespace memopd
