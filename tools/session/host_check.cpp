#include "tools/session/host_check.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/cluster/host_resources.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tools/session/host_commands.hpp"

namespace memopd {
namespace {

constexpr std::chrono::seconds kPatience{20};

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs status {};
  return ::statvfs(folder.c_str(), &status) == 0
             ? static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize)
             : 0;
}

std::string cpu_flags() {
  std::string flags;
  const auto add = [&](bool has, const char* name) {
    if (has) {
      flags += (flags.empty() ? "" : " ") + std::string(name);
    }
  };
  add(__builtin_cpu_supports("avx2") != 0, "avx2");
  add(__builtin_cpu_supports("fma") != 0, "fma");
  add(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  return flags;
}

/// Names of the GPUs that the driver shows.
std::vector<std::string> gpus() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    std::ifstream file(entry.path() / "information");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("Model:")) {
        names.push_back(line.substr(line.find_first_not_of(" \t", 6)));
      }
    }
  }
  return names;
}

/// What keeps a host from taking part; empty: nothing.
std::string problem_of(const PlannedNode& node, const CommandEnd& end, HostAnswer& answer) {
  const std::string last = end.lines.empty() ? end.text : end.lines.back();
  if (end.code == 127 || end.code == 126) {
    answer.lacks_program = true;
    return fmt::format("{} cannot be executed there ({}): install this build there, or launch with --push",
                       node.program, last);
  }
  if (end.code != 0) {
    return fmt::format("{}{}", last, end.code == 255 ? "" : fmt::format(" ({})", end.text));
  }
  const auto line =
      std::find_if(end.lines.rbegin(), end.lines.rend(), [](const std::string& text) { return text.starts_with('{'); });
  auto facts = line == end.lines.rend() ? parse_host_facts("") : parse_host_facts(*line);
  if (!facts) {
    return fmt::format("{} answered \"{}\", expected the answer of memopd-cluster host", node.program, last);
  }
  answer.facts = *std::move(facts);
  if (answer.facts.build_id != build_id()) {
    answer.lacks_program = true;
    return fmt::format("{} is build {}, here it is {}: install this build there, or launch with --push", node.program,
                       answer.facts.build_id, build_id());
  }
  return {};
}

}  // namespace

HostFacts read_host_facts() {
  const HostResources host = read_host_resources();
  HostFacts facts;
  facts.host = host.host_name;
  facts.build_id = build_id();
  facts.usable_cpus = host.usable_cpus;
  facts.memory_bytes = host.memory_limit_bytes;
  facts.shm_free_bytes = free_bytes("/dev/shm");
  facts.temp_free_bytes = free_bytes(std::filesystem::temp_directory_path());
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  facts.max_open_files = static_cast<std::int64_t>(files.rlim_max);
  facts.unix_time_ms = now_ms();
  facts.cpu_flags = cpu_flags();
  facts.gpus = gpus();
  return facts;
}

std::string to_json_line(const HostFacts& facts) {
  return nlohmann::ordered_json{{"host", facts.host},
                                {"build_id", facts.build_id},
                                {"usable_cpus", facts.usable_cpus},
                                {"memory_bytes", facts.memory_bytes},
                                {"shm_free_bytes", facts.shm_free_bytes},
                                {"temp_free_bytes", facts.temp_free_bytes},
                                {"max_open_files", facts.max_open_files},
                                {"unix_time_ms", facts.unix_time_ms},
                                {"cpu_flags", facts.cpu_flags},
                                {"gpus", facts.gpus}}
      .dump();
}

Expected<HostFacts> parse_host_facts(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    HostFacts facts;
    json.at("host").get_to(facts.host);
    json.at("build_id").get_to(facts.build_id);
    json.at("usable_cpus").get_to(facts.usable_cpus);
    json.at("memory_bytes").get_to(facts.memory_bytes);
    json.at("shm_free_bytes").get_to(facts.shm_free_bytes);
    json.at("temp_free_bytes").get_to(facts.temp_free_bytes);
    json.at("max_open_files").get_to(facts.max_open_files);
    json.at("unix_time_ms").get_to(facts.unix_time_ms);
    json.at("cpu_flags").get_to(facts.cpu_flags);
    json.at("gpus").get_to(facts.gpus);
    return facts;
  } catch (const nlohmann::json::exception& error) {
    return unexpected(ErrorCode::parse_error, std::string("answer of a host: ") + error.what());
  }
}

Expected<std::map<std::string, HostAnswer>> ask_hosts(const std::vector<PlannedNode>& nodes) {
  std::map<std::string, std::vector<std::string>> commands;
  for (const PlannedNode& node : nodes) {
    commands[node.capacity.name] = command_on(node, {"host"});
  }
  const std::int64_t asked_ms = now_ms();
  const auto ends = run_commands(commands, kPatience);
  if (!ends) {
    return unexpected(ends.error());
  }
  std::map<std::string, HostAnswer> answers;
  for (const PlannedNode& node : nodes) {
    HostAnswer& answer = answers[node.capacity.name];
    const CommandEnd& end = ends->at(node.capacity.name);
    answer.problem = problem_of(node, end, answer);
    if (answer.problem.empty()) {
      answer.round_trip_ms = static_cast<double>(end.duration.count());
      // It read its clock at some moment between the question and the answer: only what lies outside is an offset.
      const double ahead_ms = static_cast<double>(answer.facts.unix_time_ms - asked_ms);
      answer.clock_offset_ms = ahead_ms - std::clamp(ahead_ms, 0.0, answer.round_trip_ms);
    }
  }
  return answers;
}

Expected<void> take_answers(std::vector<PlannedNode>& nodes, const std::map<std::string, HostAnswer>& answers) {
  std::string problems;
  for (PlannedNode& node : nodes) {
    const HostAnswer& answer = answers.at(node.capacity.name);
    if (!answer.problem.empty()) {
      problems += fmt::format("{}node {}: {}", problems.empty() ? "" : "\n", node.capacity.name, answer.problem);
      continue;
    }
    NodeCapacity& capacity = node.capacity;
    capacity.cpus = capacity.cpus > 0 ? capacity.cpus : answer.facts.usable_cpus;
    capacity.memory_bytes =
        capacity.memory_bytes > 0 ? capacity.memory_bytes : static_cast<double>(answer.facts.memory_bytes);
  }
  return problems.empty() ? Expected<void>() : Expected<void>(unexpected(ErrorCode::target_down, problems));
}

}  // namespace memopd
