#include "runtime/telemetry/metrics_tail.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace memopd {
namespace {

constexpr std::size_t kMaxReadBytes = std::size_t{1} << 20;

}  // namespace

Expected<MetricsRecord> parse_metrics_line(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const auto step = json.is_object() ? json.find("step") : json.end();
  if (!json.is_object() || step == json.end() || !step->is_number()) {
    return unexpected(ErrorCode::parse_error,
                      fmt::format("metrics line \"{}\": no object with a step", line.substr(0, 80)));
  }
  MetricsRecord record;
  record.step = step->get<std::int64_t>();
  for (const auto& [name, value] : json.items()) {
    if (name == "time" && value.is_number()) {
      record.time_s = value.get<double>();
    } else if (name != "step" && value.is_number()) {
      record.metrics[name] = value.get<double>();
    }
  }
  return record;
}

std::vector<MetricsRecord> MetricsTail::poll() {
  struct stat status {};
  if (::stat(file_.c_str(), &status) != 0) {
    return {};
  }
  if (status.st_ino != inode_ || status.st_size < offset_) {
    inode_ = status.st_ino;
    offset_ = 0;
    is_skipping_ = false;
  }
  if (status.st_size == offset_) {
    return {};
  }
  std::string text(std::min(kMaxReadBytes, static_cast<std::size_t>(status.st_size - offset_)), '\0');
  std::ifstream stream(file_, std::ios::binary);
  stream.seekg(offset_);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));

  std::vector<MetricsRecord> records;
  std::size_t begin = 0;
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    auto record = parse_metrics_line(std::string_view(text).substr(begin, end - begin));
    if (record && !is_skipping_) {
      records.push_back(*std::move(record));
    } else {
      ++num_bad_lines_;
    }
    is_skipping_ = false;
    begin = end + 1;
  }
  if (begin == 0 && text.size() == kMaxReadBytes) {
    is_skipping_ = true;
    begin = text.size();
  }
  offset_ += static_cast<std::int64_t>(begin);
  return records;
}

}  // namespace memopd
