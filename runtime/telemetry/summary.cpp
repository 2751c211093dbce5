#include "runtime/telemetry/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/base/random.hpp"

namespace memopd {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kVerdicts = {Verdict::completed, Verdict::stopped, Verdict::failed};

/// Linear between the order statistics around `fraction` of the way (Hyndman and Fan, type 7).
double quantile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

Json to_json_value(const std::variant<double, Interval>& metric) {
  if (const auto* interval = std::get_if<Interval>(&metric)) {
    return {{"mean", interval->mean}, {"low", interval->low}, {"high", interval->high}};
  }
  return std::get<double>(metric);
}

double to_number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::variant<double, Interval> to_metric(const Json& value) {
  if (value.is_object()) {
    return Interval{to_number(value.at("mean")), to_number(value.at("low")), to_number(value.at("high"))};
  }
  return to_number(value);
}

Summary to_summary(const Json& json) {
  Summary summary;
  const auto verdict = json.at("verdict").get<std::string>();
  const auto* found =
      std::find_if(kVerdicts.begin(), kVerdicts.end(), [&](Verdict v) { return to_string(v) == verdict; });
  if (found == kVerdicts.end()) {
    throw std::invalid_argument(fmt::format("verdict: found \"{}\", allowed completed, stopped or failed", verdict));
  }
  summary.verdict = *found;
  summary.steps = json.at("steps").get<std::int64_t>();
  for (const auto& [group, metrics] : json.at("metrics").items()) {
    SummaryGroup& target = summary.metrics[group];
    for (const auto& [name, value] : metrics.items()) {
      target[name] = to_metric(value);
    }
  }
  summary.first_failure = json.at("first_failure").get<std::string>();
  const Json& counts = json.at("counts");
  summary.counts = {counts.at("trained").get<std::int64_t>(), counts.at("dropped").get<std::int64_t>(),
                    counts.at("superseded").get<std::int64_t>(), counts.at("pending").get<std::int64_t>()};
  for (const auto& [name, seconds] : json.at("durations").items()) {
    summary.durations[name] = to_number(seconds);
  }
  return summary;
}

}  // namespace

Interval bootstrap_interval(std::span<const double> values, double level, std::uint64_t seed, std::int32_t resamples) {
  if (values.empty()) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan, nan};
  }
  MEMOPD_CHECK(level > 0 && level < 1 && resamples >= 1, "bootstrap_interval: level in (0, 1), resamples >= 1");
  SplitMix random(seed);
  std::vector<double> sample(values.size());
  std::vector<double> means(static_cast<std::size_t>(resamples));
  for (double& mean : means) {
    for (double& value : sample) {
      value = values[random.below(values.size())];
    }
    mean = mean_of(sample);
  }
  std::sort(means.begin(), means.end());
  const double tail = (1 - level) / 2;
  return {mean_of(values), quantile(means, tail), quantile(means, 1 - tail)};
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::completed:
      return "completed";
    case Verdict::stopped:
      return "stopped";
    case Verdict::failed:
      return "failed";
  }
  return "unknown";
}

std::string to_json(const Summary& summary) {
  Json metrics = Json::object();
  for (const auto& [group, values] : summary.metrics) {
    metrics[group] = Json::object();
    for (const auto& [name, metric] : values) {
      metrics[group][name] = to_json_value(metric);
    }
  }
  Json durations = Json::object();
  for (const auto& [name, seconds] : summary.durations) {
    durations[name] = seconds;
  }
  const TrajectoryCounts& counts = summary.counts;
  const Json json = {{"verdict", to_string(summary.verdict)},
                     {"steps", summary.steps},
                     {"metrics", metrics},
                     {"first_failure", summary.first_failure},
                     {"counts",
                      {{"trained", counts.trained},
                       {"dropped", counts.dropped},
                       {"superseded", counts.superseded},
                       {"pending", counts.pending}}},
                     {"durations", durations}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Expected<Summary> parse_summary(std::string_view json) {
  try {
    return to_summary(Json::parse(json));
  } catch (const std::exception& error) {
    return unexpected(ErrorCode::parse_error, fmt::format("summary: {}", error.what()));
  }
}

Expected<Summary> load_summary(const std::filesystem::path& path) {
  std::error_code status;
  if (!std::filesystem::exists(path, status)) {
    return unexpected(ErrorCode::not_found, fmt::format("summary {}: no such file", path.string()));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    return unexpected(ErrorCode::io_error, fmt::format("summary {}: cannot be read", path.string()));
  }
  auto summary = parse_summary(text);
  return summary ? summary
                 : unexpected(summary.error().code, fmt::format("{}: {}", path.string(), summary.error().message));
}

}  // namespace memopd
