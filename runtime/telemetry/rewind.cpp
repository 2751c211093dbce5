#include "runtime/telemetry/rewind.hpp"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "runtime/telemetry/run_directory.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;

bool is_kept(const nlohmann::json& record, std::int32_t step) {
  const auto of = record.value("step", std::int64_t{-1});
  if (of < 0 || of != step || step == 0) {
    return of >= 0 && of <= step;
  }
  for (const auto& [name, value] : record.items()) {
    if (name.starts_with("eval/")) {
      return false;
    }
  }
  return true;
}

Expected<void> rewind_metrics(const fs::path& path, std::int32_t step) {
  std::ifstream file(path);
  if (!file) {
    return {};
  }
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object() && is_kept(record, step)) {
      kept += line + "\n";
    }
  }
  return write_file_atomic(path, kept);
}

Expected<void> rewind_trajectories(const fs::path& folder, std::int32_t step) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().stem().string();
    const auto dash = name.rfind('-');
    std::int32_t of = -1;
    if (dash == std::string::npos ||
        std::from_chars(name.data() + dash + 1, name.data() + name.size(), of).ec != std::errc()) {
      continue;
    }
    const bool is_before_the_run = step >= 0 && of == 0 && name.substr(0, dash) != "train";
    if (of >= step && !is_before_the_run && !fs::remove(entry.path(), error)) {
      return unexpected(ErrorCode::io_error, fmt::format("{}: {}", entry.path().string(), error.message()));
    }
  }
  return {};
}

}  // namespace

Expected<void> rewind_run_files(const fs::path& run_folder, std::int32_t step) {
  MEMOPD_RETURN_IF_ERROR(rewind_metrics(run_folder / "metrics.jsonl", step));
  return rewind_trajectories(run_folder / "trajectories", step);
}

}  // namespace memopd
