#include "tools/memopd_cluster/launch.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "actors/roles.hpp"
#include "policies/model/thread_settings.hpp"
#include "runtime/actor/topology.hpp"
#include "runtime/cluster/head.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/validate.hpp"
#include "runtime/telemetry/processes_file.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tools/memopd_cluster/run_monitor.hpp"
#include "tools/memopd_cluster/run_processes.hpp"
#include "tools/session/console.hpp"
#include "tools/session/host_check.hpp"
#include "tools/session/local_session.hpp"
#include "tools/session/node_plan.hpp"
#include "tools/session/process_plan.hpp"
#include "tools/session/push_program.hpp"

namespace memopd {
namespace {

std::atomic<int> received_signal{0};

// The first INT or TERM asks the run to checkpoint and stop, the second ends the process.
void watch_signals(const sigset_t& signals) {
  std::thread([signals] {
    while (true) {
      int number = 0;
      sigwait(&signals, &number);
      if (received_signal.exchange(number) != 0) {
        _exit(128 + number);
      }
    }
  }).detach();
}

sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

Expected<RunEnded> wait_for_end(LocalSession& session, const std::string& run, const RunDirectory& directory,
                                RunMonitor& monitor) {
  const auto show = [&](const nlohmann::json& topology) {
    (void)directory.write_topology(topology.dump(1) + "\n");
    (void)save_processes(directory.path(), recorded_processes(run, session.processes()));
    monitor.update(topology);
  };
  auto ended = session.cluster().ask<RunEnded>(session.coordinator(), StartRun{}, std::chrono::hours(24 * 365));
  bool is_stop_sent = false;
  while (!ended.wait_for(std::chrono::milliseconds(500))) {
    show(session.cluster().topology());
    if (const std::string failure = session.first_failure(); !failure.empty()) {
      return unexpected(ErrorCode::target_down, failure);
    }
    if (received_signal != 0 && !is_stop_sent) {
      is_stop_sent = true;
      (void)session.cluster().tell(session.coordinator(), StopRun{});
    }
  }
  show(session.cluster().topology());
  return ended.get();
}

void write_failed_summary(const RunDirectory& directory, const std::string& failure) {
  Summary summary;
  if (auto written = load_summary(directory.path() / "summary.json")) {
    summary = *std::move(written);
  }
  summary.verdict = Verdict::failed;
  summary.first_failure = failure;
  (void)directory.write_summary(summary);
}

// One row per moment, one column per split of [eval]: mean F1 over tasks with its 95 % interval.
void print_table(const Config& config, const RunDirectory& directory) {
  const auto summary = load_summary(directory.path() / "summary.json");
  if (!summary || summary->metrics.empty()) {
    return;
  }
  fmt::print("\n{:<12}", "F1");
  for (const EvalSplitConfig& split : config.eval.splits) {
    fmt::print(" {:>24}", fmt::format("{} ({}, K={})", split.name, split.split, split.num_objectives));
  }
  for (const char* moment : {"cold_start", "final", "teacher"}) {
    const auto group = summary->metrics.find(moment);
    if (group == summary->metrics.end()) {
      continue;
    }
    fmt::print("\n{:<12}", moment);
    for (const EvalSplitConfig& split : config.eval.splits) {
      const auto value = group->second.find(split.name);
      const auto* interval = value == group->second.end() ? nullptr : std::get_if<Interval>(&value->second);
      fmt::print(" {:>24}", interval == nullptr ? std::string("-")
                                                : fmt::format("{:.3f} [{:.3f}, {:.3f}]", interval->mean, interval->low,
                                                              interval->high));
    }
  }
  fmt::print("\n\n");
  std::fflush(stdout);
}

/// What a launch writes into, and what it goes on from.
struct RunPlace {
  RunDirectory directory;
  std::shared_ptr<void> lock;
  RoleSelection selection;
};

Expected<RunPlace> with_lock(const Config& config, RunDirectory directory) {
  auto lock = directory.lock();
  if (!lock) {
    return unexpected(lock.error());
  }
  RoleSelection selection = launch_roles(config, directory.path().string());
  return RunPlace{std::move(directory), *std::move(lock), std::move(selection)};
}

Expected<RunPlace> resume_directory(const Config& config, const LaunchArguments& arguments) {
  auto directory = RunDirectory::open(arguments.resume);
  if (!directory) {
    return unexpected(directory.error());
  }
  auto place = with_lock(config, *std::move(directory));
  if (!place) {
    return place;
  }
  MEMOPD_RETURN_IF_ERROR(place->directory.write_config(dump_config(config)));
  place->selection = resume_roles(config, place->directory);
  return place;
}

Expected<RunPlace> new_directory(const Config& config, const LaunchArguments& arguments) {
  auto manifest = make_manifest(config.run.name, arguments.command_line, config.run.seed,
                                {arguments.config_path, config.student.model, config.teacher.model,
                                 config.env.front().tasks, config.retriever.corpus, config.retriever.index});
  if (!manifest) {
    return unexpected(manifest.error());
  }
  auto directory = RunDirectory::create(config.run.directory, config.run.name);
  if (!directory) {
    return unexpected(directory.error());
  }
  MEMOPD_RETURN_IF_ERROR(directory->write_config(dump_config(config)));
  MEMOPD_RETURN_IF_ERROR(directory->write_manifest(*manifest));
  return with_lock(config, *std::move(directory));
}

/// The nodes, each asked and, if it is to be, given the program.
Expected<std::vector<PlannedNode>> ready_nodes(const Config& config, bool is_pushing) {
  auto nodes = plan_nodes(config);
  MEMOPD_RETURN_IF_ERROR(nodes);
  if (std::all_of(nodes->begin(), nodes->end(), [](const PlannedNode& node) { return node.is_here(); })) {
    return nodes;
  }
  auto answers = ask_hosts(*nodes);
  MEMOPD_RETURN_IF_ERROR(answers);
  if (is_pushing) {
    MEMOPD_RETURN_IF_ERROR(push_program(*nodes, *answers));
    answers = ask_hosts(*nodes);
    MEMOPD_RETURN_IF_ERROR(answers);
  }
  MEMOPD_RETURN_IF_ERROR(take_answers(*nodes, *answers));
  return nodes;
}

int run(const Config& config, const LaunchArguments& arguments, const std::vector<PlannedNode>& nodes) {
  const sigset_t signals = block_signals();
  auto place = arguments.resume.empty() ? new_directory(config, arguments) : resume_directory(config, arguments);
  if (!place) {
    return report_error(place.error().message, kExitUsage);
  }
  const RunDirectory& directory = place->directory;
  watch_signals(signals);
  Console console(config.run.num_steps);
  auto monitor = RunMonitor::start(config, directory.path());
  if (!monitor) {
    return report_error(monitor.error().message, kExitUsage);
  }
  auto sink = directory.open_log_sink((*monitor)->sink(console.sink()));
  if (!sink) {
    return report_error(sink.error().message, kExitRunFailed);
  }
  set_log_sink(*std::move(sink));
  console.note("run " + directory.path().string());
  if (!(*monitor)->url().empty()) {
    console.note("monitor: " + (*monitor)->url());
  }
  (void)save_processes(directory.path(), recorded_processes(config.run.name, nullptr));

  int code = kExitRunFailed;
  std::string failure;
  if (auto session = LocalSession::start(config, place->selection, nodes); !session) {
    failure = session.error().message;
  } else {
    auto ended = wait_for_end(**session, config.run.name, directory, **monitor);
    failure = ended ? ended->first_failure : ended.error().message;
    code = ended && ended->verdict != "failed" ? kExitOk : kExitRunFailed;
    if (code != kExitOk && (*session)->processes() != nullptr && (*session)->processes()->failure_exit_code() != 0) {
      code = (*session)->processes()->failure_exit_code();
    }
    const ShutdownReport report = (*session)->cluster().shutdown();
    (void)save_processes(directory.path(), recorded_processes(config.run.name, (*session)->processes()));
    for (const std::string& survivor : report.survivors) {
      console.note("still running: " + survivor);
    }
    if (!report.survivors.empty()) {
      std::fflush(stdout);
      _exit(code);
    }
  }
  set_log_sink({});
  if (code != kExitOk) {
    write_failed_summary(directory, failure);
    return report_error("run failed: " + failure, code);
  }
  print_table(config, directory);
  const int signal_number = received_signal;
  const auto summary = load_summary(directory.path() / "summary.json");
  const bool is_stopped = summary && summary->verdict == Verdict::stopped;
  console.note(
      fmt::format("{}: {}", is_stopped ? "stopped" : "completed", (directory.path() / "summary.json").string()));
  if (is_stopped) {
    console.note("go on: memopd-cluster launch --resume " + directory.path().string());
  }
  return signal_number != 0 ? 128 + signal_number : code;
}

}  // namespace

int launch(const LaunchArguments& arguments) {
  if (arguments.config_path.empty() && arguments.resume.empty()) {
    return report_error("launch: a TOML file is needed, or --resume RUN", kExitUsage);
  }
  if (auto run = RunDirectory::open(arguments.resume); !arguments.resume.empty() && !run) {
    return report_error("--resume " + run.error().message, kExitUsage);
  }
  const std::filesystem::path own_config = std::filesystem::path(arguments.resume) / "config.toml";
  auto config =
      load_config(arguments.config_path.empty() ? own_config.string() : arguments.config_path, arguments.overrides);
  if (!config) {
    return report_error(config.error().message, kExitUsage);
  }
  if (!arguments.hosts.empty() && config->role.empty()) {
    return report_error("--nodes has no effect: without a [[role]] everything lives in this process", kExitUsage);
  }
  if (auto used = arguments.hosts.empty() ? Expected<void>() : use_hosts(*config, arguments.hosts); !used) {
    return report_error("--nodes: " + used.error().message, kExitUsage);
  }
  if (auto valid = validate(*config, Purpose::launch); !valid) {
    return report_error(valid.error().message, kExitUsage);
  }
  if (auto nodes = plan_nodes(*config); !nodes) {
    return report_error("[[node]]: " + nodes.error().message, kExitUsage);
  }
  if (arguments.is_dry_run) {
    std::fputs(dump_config(*config).c_str(), stdout);
    return kExitOk;
  }
  if (auto checked = check_inputs(*config, launch_roles(*config, {})); !checked) {
    return report_error(checked.error().message, kExitUsage);
  }
  auto nodes = ready_nodes(*config, arguments.is_pushing);
  if (!nodes) {
    return report_error(nodes.error().message, kExitHostCheck);
  }
  if (auto placed = plan_processes(*config, *nodes); !placed) {
    return report_error(placed.error().message, kExitInfeasible);
  }
  return run(*config, arguments, *nodes);
}

void serve_if_child(int argc, char** argv) {
  set_operation_threads(1);
  run_as_child(argc, argv);
}

}  // namespace memopd
