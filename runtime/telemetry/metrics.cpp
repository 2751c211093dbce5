#include "runtime/telemetry/metrics.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "runtime/telemetry/event_file.hpp"

namespace memopd {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Expected<void> check_names(const std::map<std::string, double>& metrics) {
  for (const auto& [name, value] : metrics) {
    if (name.empty() || name == "step" || name == "time") {
      return unexpected(ErrorCode::invalid_argument,
                        fmt::format("metric \"{}\": allowed any name but \"\", \"step\" and \"time\"", name));
    }
  }
  return {};
}

/// NaN and infinity print as null: JSON has neither.
std::string to_line(std::int64_t step, double time_s, const std::map<std::string, double>& metrics) {
  nlohmann::ordered_json line = {{"step", step}, {"time", time_s}};
  for (const auto& [name, value] : metrics) {
    line[name] = value;
  }
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

double unix_time_s() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

struct MetricsWriter::State {
  std::filesystem::path path;
  File file;
  EventFileWriter events;
  mutable std::mutex mutex;
  std::int64_t num_non_finite = 0;
};

MetricsWriter::MetricsWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
MetricsWriter::~MetricsWriter() = default;

Expected<std::unique_ptr<MetricsWriter>> MetricsWriter::create(const std::filesystem::path& run_folder,
                                                               double start_time_s,
                                                               std::optional<std::int64_t> resumed_at) {
  std::error_code error;
  std::filesystem::create_directories(run_folder, error);
  const auto path = run_folder / "metrics.jsonl";
  File file(std::fopen(path.c_str(), "ab"), &std::fclose);
  if (!file) {
    return unexpected(ErrorCode::io_error, fmt::format("metrics file {}: {}", path.string(), std::strerror(errno)));
  }
  auto events = EventFileWriter::create(run_folder / "tensorboard", start_time_s);
  if (!events) {
    return unexpected(events.error());
  }
  if (resumed_at) {
    MEMOPD_RETURN_IF_ERROR(events->write_restart(*resumed_at, start_time_s));
  }
  return std::unique_ptr<MetricsWriter>(
      new MetricsWriter(std::unique_ptr<State>(new State{path, std::move(file), std::move(*events), {}, 0})));
}

Expected<void> MetricsWriter::write(std::int64_t step, const std::map<std::string, double>& metrics, double time_s) {
  if (metrics.empty()) {
    return {};
  }
  MEMOPD_RETURN_IF_ERROR(check_names(metrics));
  const std::string line = to_line(step, time_s, metrics);
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, value] : metrics) {
    state_->num_non_finite += std::isfinite(value) ? 0 : 1;
  }
  if (std::fwrite(line.data(), 1, line.size(), state_->file.get()) != line.size() ||
      std::fflush(state_->file.get()) != 0) {
    return unexpected(ErrorCode::io_error,
                      fmt::format("metrics file {}: {}", state_->path.string(), std::strerror(errno)));
  }
  return state_->events.write(step, time_s, metrics);
}

std::int64_t MetricsWriter::num_non_finite() const {
  const std::lock_guard lock(state_->mutex);
  return state_->num_non_finite;
}

}  // namespace memopd
