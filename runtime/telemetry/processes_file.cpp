#include "runtime/telemetry/processes_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "runtime/telemetry/metrics.hpp"

namespace memopd {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<RecordedState, std::string_view>, 7> kStateNames{{{RecordedState::waiting, "waiting"},
                                                                                 {RecordedState::starting, "starting"},
                                                                                 {RecordedState::running, "running"},
                                                                                 {RecordedState::suspect, "suspect"},
                                                                                 {RecordedState::stopping, "stopping"},
                                                                                 {RecordedState::ended, "ended"},
                                                                                 {RecordedState::failed, "failed"}}};

Json to_json_value(const ProcessRecord& process) {
  return {{"name", process.name},
          {"node", process.node},
          {"host", process.identity.host},
          {"pid", process.identity.pid},
          {"pgid", process.pgid},
          {"start_ticks", process.identity.start_ticks},
          {"incarnation", process.incarnation},
          {"state", to_string(process.state)},
          {"reason", process.reason},
          {"restarts", process.restarts},
          {"rss_bytes", process.rss_bytes},
          {"cpu_s", process.cpu_s},
          {"silent_ms", process.silent_ms},
          {"actors", process.actors},
          {"log", process.log}};
}

/// Takes `key` of `json` where it is there; a value of another type throws, as nlohmann does, with the key in its text.
template <class T>
void take(const Json& json, const char* key, T& value) {
  const auto found = json.find(key);
  if (found == json.end()) {
    return;
  }
  try {
    found->get_to(value);
  } catch (const Json::exception& error) {
    throw std::invalid_argument(fmt::format("key \"{}\": {}", key, error.what()));
  }
}

RecordedState parse_state(const std::string& name) {
  for (const auto& [state, state_name] : kStateNames) {
    if (state_name == name) {
      return state;
    }
  }
  throw std::invalid_argument(fmt::format("key \"state\": \"{}\" is no state of a process", name));
}

void take_identity(const Json& json, HostProcess& identity) {
  take(json, "host", identity.host);
  take(json, "pid", identity.pid);
  take(json, "start_ticks", identity.start_ticks);
}

ProcessRecord parse_process(const Json& json) {
  if (!json.is_object()) {
    throw std::invalid_argument("key \"processes\": an entry is no object");
  }
  ProcessRecord process;
  std::string state(to_string(process.state));
  take(json, "name", process.name);
  take(json, "node", process.node);
  take_identity(json, process.identity);
  take(json, "pgid", process.pgid);
  take(json, "incarnation", process.incarnation);
  take(json, "state", state);
  process.state = parse_state(state);
  take(json, "reason", process.reason);
  take(json, "restarts", process.restarts);
  take(json, "rss_bytes", process.rss_bytes);
  take(json, "cpu_s", process.cpu_s);
  take(json, "silent_ms", process.silent_ms);
  take(json, "actors", process.actors);
  take(json, "log", process.log);
  return process;
}

fs::path path_in(const fs::path& run_folder) { return run_folder / "processes.json"; }

}  // namespace

std::string_view to_string(RecordedState state) {
  for (const auto& [candidate, name] : kStateNames) {
    if (candidate == state) {
      return name;
    }
  }
  return "unknown";
}

std::string to_json(const ProcessesFile& file) {
  Json json = {{"run", file.run},
               {"updated_unix_ms", file.updated_unix_ms},
               {"launcher",
                {{"host", file.launcher.host}, {"pid", file.launcher.pid}, {"start_ticks", file.launcher.start_ticks}}},
               {"processes", Json::array()}};
  for (const ProcessRecord& process : file.processes) {
    json["processes"].push_back(to_json_value(process));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Expected<ProcessesFile> parse_processes(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return unexpected(ErrorCode::parse_error, "no JSON object");
  }
  ProcessesFile file;
  try {
    take(json, "run", file.run);
    take(json, "updated_unix_ms", file.updated_unix_ms);
    if (const auto launcher = json.find("launcher"); launcher != json.end() && launcher->is_object()) {
      take_identity(*launcher, file.launcher);
    }
    if (const auto processes = json.find("processes"); processes != json.end()) {
      for (const Json& process : *processes) {
        file.processes.push_back(parse_process(process));
      }
    }
  } catch (const std::exception& error) {
    return unexpected(ErrorCode::parse_error, error.what());
  }
  return file;
}

Expected<void> save_processes(const fs::path& run_folder, const ProcessesFile& file) {
  const fs::path path = path_in(run_folder);
  const fs::path beside = fmt::format("{}.writing-{}", path.string(), ::getpid());
  {
    std::ofstream stream(beside, std::ios::binary | std::ios::trunc);
    stream << to_json(file);
    stream.close();
    if (!stream) {
      return unexpected(ErrorCode::io_error, fmt::format("{}: {}", path.string(), std::strerror(errno)));
    }
  }
  std::error_code error;
  fs::rename(beside, path, error);
  if (error) {
    return unexpected(ErrorCode::io_error, fmt::format("{}: {}", path.string(), error.message()));
  }
  return {};
}

Expected<ProcessesFile> load_processes(const fs::path& run_folder) {
  const fs::path path = path_in(run_folder);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return unexpected(ErrorCode::not_found, fmt::format("{}: {}", path.string(), std::strerror(errno)));
  }
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  auto file = parse_processes(text);
  if (!file) {
    return unexpected(file.error().code, fmt::format("{}: {}", path.string(), file.error().message));
  }
  return file;
}

std::int64_t process_start_ticks(std::int64_t pid) {
  if (pid <= 0) {
    return 0;
  }
  std::ifstream stream(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(stream, text, '\0');
  // The second field is the name in parentheses, which may hold spaces and parentheses; the third is the state.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return 0;
  }
  std::istringstream rest(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    if (!(rest >> field) || (number == 3 && (field == "Z" || field == "X"))) {
      return 0;
    }
  }
  return std::strtoll(field.c_str(), nullptr, 10);
}

std::string own_host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string("localhost");
}

HostProcess own_identity() { return {own_host_name(), ::getpid(), process_start_ticks(::getpid())}; }

ProcessesFile launcher_alone(std::string run) {
  return {std::move(run), static_cast<std::int64_t>(1000 * unix_time_s()), own_identity(), {}};
}

bool is_alive_here(const HostProcess& identity) {
  return identity.pid > 0 && identity.start_ticks > 0 && identity.host == own_host_name() &&
         process_start_ticks(identity.pid) == identity.start_ticks;
}

}  // namespace memopd
