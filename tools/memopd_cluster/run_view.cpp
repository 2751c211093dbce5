#include "tools/memopd_cluster/run_view.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "runtime/config/load.hpp"
#include "runtime/telemetry/metrics_tail.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "runtime/telemetry/summary.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::streamoff kTailBytes = 256 * 1024;

/// Modification time, or 0.
std::int64_t written_unix_ms(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0
             ? std::int64_t{status.st_mtim.tv_sec} * 1000 + status.st_mtim.tv_nsec / 1'000'000
             : 0;
}

/// The last whole lines of a file, at most kTailBytes.
std::string read_tail(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) {
    return {};
  }
  const std::streamoff size = stream.tellg();
  const std::streamoff begin = std::max<std::streamoff>(size - kTailBytes, 0);
  stream.seekg(begin);
  std::string text((std::istreambuf_iterator<char>(stream)), {});
  const auto first_break = begin > 0 ? text.find('\n') : std::string::npos;
  return first_break == std::string::npos ? text : text.substr(first_break + 1);
}

Json read_json(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json();
}

/// What the newest events say of the end.
struct Ending {
  bool has_ended = false;
};

Ending read_events(const fs::path& path, RunView& view) {
  Ending ending;
  std::istringstream lines(read_tail(path));
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, false);
    const std::string name = event.is_object() ? text_in(event, "name") : std::string();
    if (name.empty()) {
      continue;
    }
    view.last_event = name;
    if (name == "run_ended") {
      ending.has_ended = true;
      view.is_stop_requested = false;
    } else if (name == "stop_requested") {
      view.is_stop_requested = true;
    } else if (name == "resumed" || name == "step_done") {
      ending.has_ended = false;
      view.is_stop_requested = view.is_stop_requested && name != "resumed";
    }
  }
  return ending;
}

void read_metrics(const fs::path& path, RunView& view) {
  std::istringstream lines(read_tail(path));
  for (std::string line; std::getline(lines, line);) {
    if (const auto record = parse_metrics_line(line)) {
      for (const auto& [name, value] : record->metrics) {
        view.metrics[name] = value;
      }
    }
  }
}

RunLife life_of(const RunView& view, const std::optional<Summary>& summary, bool has_ended) {
  if (view.processes && is_alive_here(view.processes->launcher)) {
    return RunLife::running;
  }
  if (summary && summary->verdict == Verdict::failed) {
    return RunLife::failed;
  }
  if (summary && has_ended) {
    return summary->verdict == Verdict::completed ? RunLife::completed : RunLife::stopped;
  }
  const bool is_of_another_host =
      view.processes && !view.processes->launcher.host.empty() && view.processes->launcher.host != own_host_name();
  return is_of_another_host ? RunLife::elsewhere : RunLife::lost;
}

}  // namespace

std::string_view to_string(RunLife life) {
  switch (life) {
    case RunLife::running:
      return "running";
    case RunLife::elsewhere:
      return "elsewhere";
    case RunLife::completed:
      return "completed";
    case RunLife::stopped:
      return "stopped";
    case RunLife::failed:
      return "failed";
    case RunLife::lost:
      return "lost";
  }
  return "unknown";
}

Expected<RunView> load_run_view(const fs::path& folder, std::int64_t now_unix_ms) {
  const auto directory = RunDirectory::open(folder);
  if (!directory) {
    return unexpected(directory.error());
  }
  RunView view;
  view.folder = folder;
  view.run = text_in(read_json(folder / "manifest.json"), "run_name");
  if (auto processes = load_processes(folder)) {
    view.processes = *std::move(processes);
  }
  view.topology = read_json(folder / "topology.json");
  view.topology_unix_ms = written_unix_ms(folder / "topology.json");
  const std::int64_t newest =
      std::max(view.topology_unix_ms, view.processes ? view.processes->updated_unix_ms : std::int64_t{0});
  view.data_age_ms = newest > 0 ? std::optional(std::max<std::int64_t>(now_unix_ms - newest, 0)) : std::nullopt;
  const Ending ending = read_events(folder / "events.jsonl", view);
  read_metrics(folder / "metrics.jsonl", view);
  std::optional<Summary> summary;
  if (auto loaded = load_summary(folder / "summary.json")) {
    summary = *std::move(loaded);
    view.step = summary->steps;
    view.first_failure = summary->first_failure;
  }
  if (const auto config = load_config(folder / "config.toml")) {
    view.num_steps = config->run.num_steps;
  }
  const auto failure = view.topology.is_object() ? view.topology.find("first_failure") : view.topology.end();
  if (view.topology.is_object() && failure != view.topology.end() && failure->is_object()) {
    view.first_failure = text_in(*failure, "name") + ": " + text_in(*failure, "reason");
  }
  view.life = life_of(view, summary, ending.has_ended);
  return view;
}

int exit_code_of(RunLife life) { return life == RunLife::failed || life == RunLife::lost ? 1 : 0; }

std::string describe_life(const RunView& view) {
  const HostProcess launcher = view.processes ? view.processes->launcher : HostProcess{};
  switch (view.life) {
    case RunLife::running:
      return fmt::format("running, pid {} on {}{}", launcher.pid, visible(launcher.host),
                         view.is_stop_requested ? ", asked to stop" : "");
    case RunLife::elsewhere:
      return fmt::format("launched on {}, pid {}: not to be seen from here", visible(launcher.host), launcher.pid);
    case RunLife::lost:
      return launcher.pid == 0 ? std::string("no process is recorded, and it has not ended as it should")
                               : fmt::format("lost: the launcher, pid {}, is gone", launcher.pid);
    case RunLife::completed:
    case RunLife::stopped:
    case RunLife::failed:
      break;
  }
  return std::string(to_string(view.life));
}

std::string visible(std::string_view text) {
  std::string result(text);
  std::replace_if(
      result.begin(), result.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  // C1 control characters in UTF-8: 0xC2 0x80..0x9F.
  for (std::size_t index = 0; index + 1 < result.size(); ++index) {
    const auto next = static_cast<unsigned char>(result[index + 1]);
    if (static_cast<unsigned char>(result[index]) == 0xc2 && next >= 0x80 && next <= 0x9f) {
      result.replace(index, 2, "?");
    }
  }
  return result;
}

std::string format_bytes(std::int64_t bytes) {
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024) {
      break;
    }
    value /= 1024;
    unit = larger;
  }
  return unit[0] == 'B' ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, unit);
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double number_in(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace memopd
