#include "tools/memopd_cluster/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/log.hpp"
#include "runtime/config/load.hpp"
#include "tools/memopd_cluster/pair_probe.hpp"
#include "tools/session/console.hpp"
#include "tools/session/host_check.hpp"
#include "tools/session/local_session.hpp"
#include "tools/session/node_plan.hpp"

namespace memopd {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kMaxClockOffsetMs = 2000;
constexpr std::int64_t kMinOpenFiles = 4096;
constexpr double kMinFreeGib = 1;
constexpr std::chrono::seconds kPairDeadline{60};

struct PairResult {
  std::string from;
  std::string to;
  Expected<PairMeasured> measured;
};

/// What would not keep a run from starting, but trouble it.
std::vector<std::string> warnings_of(const HostAnswer& answer, const HostFacts& here) {
  std::vector<std::string> warnings;
  const HostFacts& facts = answer.facts;
  if (std::abs(answer.clock_offset_ms) > kMaxClockOffsetMs) {
    warnings.push_back(fmt::format("its clock is off by {:.1f} s: events and logs will not be in order",
                                   answer.clock_offset_ms / 1000));
  }
  if (facts.cpu_flags != here.cpu_flags) {
    warnings.push_back(fmt::format("its processor has \"{}\", this one \"{}\": results may differ in the last bits",
                                   facts.cpu_flags, here.cpu_flags));
  }
  if (facts.max_open_files < kMinOpenFiles) {
    warnings.push_back(fmt::format("at most {} open files (ulimit -Hn), {} are advised: each object takes one",
                                   facts.max_open_files, kMinOpenFiles));
  }
  if (static_cast<double>(facts.temp_free_bytes) < kMinFreeGib * kGib) {
    warnings.push_back(fmt::format("{:.2f} GiB free for input files and logs in its temporary folder",
                                   static_cast<double>(facts.temp_free_bytes) / kGib));
  }
  return warnings;
}

/// A cluster with a probe on every node; each node has its name as its only label.
Expected<std::unique_ptr<HeadCluster>> start_probes(const Config& config, const std::vector<PlannedNode>& nodes) {
  ProcessClusterOptions options = process_options(config, {}, nodes);
  options.inputs.clear();
  for (NodeCapacity& node : options.nodes) {
    node.labels = {node.name};
  }
  auto cluster = make_process_cluster(options);
  MEMOPD_RETURN_IF_ERROR(cluster);
  MEMOPD_RETURN_IF_ERROR((*cluster)->wait_for_nodes(std::chrono::seconds(config.net.start_timeout_s)));
  for (const NodeCapacity& node : options.nodes) {
    SpawnOptions place;
    place.process = "own";
    place.blocking = true;
    place.labels = node.name;
    place.max_restarts = 0;
    auto probe = (*cluster)->spawn(kPairProbe, place, "probe_" + node.name);
    MEMOPD_RETURN_IF_ERROR(probe);
  }
  MEMOPD_RETURN_IF_ERROR((*cluster)->wait_until_started(std::chrono::seconds(config.net.start_timeout_s)));
  return cluster;
}

Expected<std::vector<PairResult>> measure_pairs(const Config& config, const std::vector<PlannedNode>& nodes) {
  auto cluster = start_probes(config, nodes);
  MEMOPD_RETURN_IF_ERROR(cluster);
  std::vector<PairResult> results;
  for (const PlannedNode& from : nodes) {
    const auto probe = (*cluster)->find("probe_" + from.capacity.name);
    MEMOPD_RETURN_IF_ERROR(probe);
    for (const PlannedNode& to : nodes) {
      if (from.capacity.name != to.capacity.name) {
        auto answer =
            (*cluster)->ask<PairMeasured>((*probe)[0], MeasurePair{"probe_" + to.capacity.name}, kPairDeadline);
        results.push_back({from.capacity.name, to.capacity.name, answer.get()});
      }
    }
  }
  return results;
}

void print_hosts(const std::vector<PlannedNode>& nodes, const std::map<std::string, HostAnswer>& answers,
                 const HostFacts& here) {
  fmt::print("{:<14} {:<16} {:>6} {:>10} {:>10} {:>9} {:>10}  {}\n", "node", "host", "cpus", "memory", "/tmp free",
             "answer", "clock", "gpus");
  for (const PlannedNode& node : nodes) {
    const HostAnswer& answer = answers.at(node.capacity.name);
    const HostFacts& facts = answer.facts;
    if (!answer.problem.empty()) {
      fmt::print("{:<14} PROBLEM: {}\n", node.capacity.name, answer.problem);
      continue;
    }
    fmt::print("{:<14} {:<16} {:>6g} {:>6.1f} GiB {:>6.1f} GiB {:>6.0f} ms {:>+7.0f} ms  {}\n", node.capacity.name,
               facts.host, facts.usable_cpus, static_cast<double>(facts.memory_bytes) / kGib,
               static_cast<double>(facts.temp_free_bytes) / kGib, answer.round_trip_ms, answer.clock_offset_ms,
               facts.gpus.empty() ? "none" : fmt::format("{}", fmt::join(facts.gpus, ", ")));
    for (const std::string& warning : warnings_of(answer, here)) {
      fmt::print("{:<14} warning: {}\n", "", warning);
    }
  }
}

void print_pairs(const std::vector<PlannedNode>& nodes, const std::vector<PairResult>& pairs) {
  fmt::print("\nround trip of a call, and MB/s of an object, from the row's host to the column's\n{:<14}", "");
  for (const PlannedNode& node : nodes) {
    fmt::print(" {:>20}", node.capacity.name);
  }
  auto pair = pairs.begin();
  for (const PlannedNode& from : nodes) {
    fmt::print("\n{:<14}", from.capacity.name);
    for (const PlannedNode& to : nodes) {
      if (from.capacity.name == to.capacity.name) {
        fmt::print(" {:>20}", "-");
        continue;
      }
      fmt::print(" {:>20}", pair->measured ? fmt::format("{:.0f} us {:.0f} MB/s", pair->measured->round_trip_us,
                                                         pair->measured->mb_per_s)
                                           : std::string("FAILED"));
      ++pair;
    }
  }
  fmt::print("\n");
  for (const PairResult& result : pairs) {
    if (!result.measured) {
      fmt::print("{} -> {}: {}\n", result.from, result.to, result.measured.error().message);
    }
  }
}

nlohmann::ordered_json to_json(const std::map<std::string, HostAnswer>& answers, const std::vector<PairResult>& pairs) {
  nlohmann::ordered_json hosts = nlohmann::ordered_json::array();
  const HostFacts here = read_host_facts();
  for (const auto& [name, answer] : answers) {
    hosts.push_back({{"node", name},
                     {"problem", answer.problem},
                     {"warnings", answer.problem.empty() ? warnings_of(answer, here) : std::vector<std::string>()},
                     {"round_trip_ms", answer.round_trip_ms},
                     {"clock_offset_ms", answer.clock_offset_ms},
                     {"facts", nlohmann::ordered_json::parse(to_json_line(answer.facts))}});
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PairResult& pair : pairs) {
    rows.push_back({{"from", pair.from}, {"to", pair.to}});
    if (pair.measured) {
      rows.back()["round_trip_us"] = pair.measured->round_trip_us;
      rows.back()["mb_per_s"] = pair.measured->mb_per_s;
    } else {
      rows.back()["problem"] = pair.measured.error().message;
    }
  }
  return {{"hosts", hosts}, {"pairs", rows}};
}

Expected<Config> doctors_config(const DoctorArguments& arguments) {
  auto config = arguments.config_path.empty() ? parse_config("", "--set", arguments.overrides)
                                              : load_config(arguments.config_path, arguments.overrides);
  MEMOPD_RETURN_IF_ERROR(config);
  if (!arguments.hosts.empty()) {
    MEMOPD_RETURN_IF_ERROR(use_hosts(*config, arguments.hosts));
  }
  return config;
}

}  // namespace

int doctor(const DoctorArguments& arguments) {
  const auto config = doctors_config(arguments);
  if (!config) {
    return report_error(config.error().message, kExitUsage);
  }
  const auto nodes = plan_nodes(*config);
  if (!nodes) {
    return report_error(nodes.error().message, kExitUsage);
  }
  const auto answers = ask_hosts(*nodes);
  if (!answers) {
    return report_error(answers.error().message, kExitHostCheck);
  }
  const bool all_answer =
      std::all_of(answers->begin(), answers->end(), [](const auto& entry) { return entry.second.problem.empty(); });
  if (!arguments.is_json) {
    print_hosts(*nodes, *answers, read_host_facts());
    std::fflush(stdout);
  }
  set_log_sink([](const LogEvent&) {});
  auto pairs = all_answer && nodes->size() > 1 ? measure_pairs(*config, *nodes)
                                               : Expected<std::vector<PairResult>>(std::vector<PairResult>());
  if (!pairs) {
    return report_error("pairs: " + pairs.error().message, kExitHostCheck);
  }
  if (arguments.is_json) {
    std::puts(to_json(*answers, *pairs).dump(1).c_str());
  } else if (!pairs->empty()) {
    print_pairs(*nodes, *pairs);
  }
  const bool all_linked =
      std::all_of(pairs->begin(), pairs->end(), [](const PairResult& pair) { return pair.measured.has_value(); });
  return all_answer && all_linked ? kExitOk : kExitHostCheck;
}

}  // namespace memopd
