// memopd-cluster: training runs, and looking into them.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>

#include "runtime/config/load.hpp"
#include "tools/memopd_cluster/detach.hpp"
#include "tools/memopd_cluster/doctor.hpp"
#include "tools/memopd_cluster/launch.hpp"
#include "tools/memopd_cluster/logs.hpp"
#include "tools/memopd_cluster/plan.hpp"
#include "tools/memopd_cluster/status.hpp"
#include "tools/memopd_cluster/stop.hpp"
#include "tools/memopd_cluster/top.hpp"
#include "tools/session/console.hpp"
#include "tools/session/host_check.hpp"

namespace {

struct LaunchOptions {
  memopd::LaunchArguments arguments;
  std::string monitor;
  bool is_detached = false;
};

CLI::App* add_launch(CLI::App& app, LaunchOptions& options) {
  CLI::App* launch = app.add_subcommand("launch", "Run everything a configuration describes");
  launch->add_option("config", options.arguments.config_path, "TOML file; with --resume the run's own by default");
  launch->add_option("--resume", options.arguments.resume, "Go on with a run from its newest checkpoint: runs/<name>");
  launch->add_option("--set", options.arguments.overrides, "Override a setting: table.key=value")
      ->take_all()
      ->allow_extra_args(false);
  launch->add_option("--monitor", options.monitor, "Serve the run's page at HOST:PORT (port 0 = any free)");
  launch->add_option("--nodes", options.arguments.hosts,
                     "Hosts instead of the addresses of [[node]], this one among them: h1,h2 or node[1-4]");
  launch->add_flag("--push", options.arguments.is_pushing,
                   "Copy this program to hosts that lack this build (~/.cache/memopd)");
  launch->add_flag("--detach", options.is_detached, "Go on without this terminal; return once the run has begun");
  launch->add_flag("--dry-run", options.arguments.is_dry_run, "Check, print the resolved configuration, start nothing");
  launch->footer("Example: memopd-cluster launch configs/quickstart.toml --set run.name=try2 --monitor 127.0.0.1:0");
  return launch;
}

CLI::App* add_plan(CLI::App& app, memopd::PlanArguments& arguments) {
  CLI::App* plan = app.add_subcommand("plan", "Print what a run would hold on each GPU, and whether it fits");
  plan->add_option("config", arguments.config_path, "TOML file; its models need no more than a config.json")
      ->required();
  plan->add_option("--set", arguments.overrides, "Override a setting: table.key=value")
      ->take_all()
      ->allow_extra_args(false);
  plan->add_option("--nodes", arguments.hosts, "Hosts instead of the addresses of [[node]]");
  plan->add_option("--gpus", arguments.num_gpus, "GPUs of the host")->check(CLI::PositiveNumber);
  plan->add_option("--gpu-memory-gib", arguments.gpu_memory_gib, "Memory of one")->check(CLI::PositiveNumber);
  plan->add_flag("--shard-optimizer", arguments.shard_optimizer, "Split the optimizer's state over the ranks");
  plan->add_flag("--json", arguments.is_json, "Print JSON");
  plan->footer("Example: memopd-cluster plan configs/memopd_q2_3b.toml --gpus 4 --gpu-memory-gib 80");
  return plan;
}

CLI::App* add_doctor(CLI::App& app, memopd::DoctorArguments& arguments) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "Ask every host of a run, and measure every pair of them on its links; exit 4 when one has a problem");
  doctor->add_option("config", arguments.config_path, "TOML file with [[node]] and [net]; none = --nodes alone");
  doctor->add_option("--set", arguments.overrides, "Override a setting: table.key=value")
      ->take_all()
      ->allow_extra_args(false);
  doctor->add_option("--nodes", arguments.hosts, "Hosts instead of the addresses of [[node]], this one among them");
  doctor->add_flag("--json", arguments.is_json, "Print JSON");
  doctor->footer("Example: memopd-cluster doctor --nodes h1,h2,h3");
  return doctor;
}

CLI::App* add_status(CLI::App& app, memopd::StatusArguments& arguments) {
  CLI::App* status =
      app.add_subcommand("status", "Say how a run stands; exit 1 when it failed or its launcher is gone");
  status->add_option("run", arguments.run, "Its folder: runs/<name>")->required();
  status->add_flag("--json", arguments.is_json, "Print JSON");
  return status;
}

CLI::App* add_top(CLI::App& app, memopd::TopArguments& arguments) {
  CLI::App* top = app.add_subcommand("top", "Show processes and actors, each second: who is busy, who waits for whom");
  top->add_option("run", arguments.run, "Its folder: runs/<name>")->required();
  top->add_flag("--once", arguments.is_once, "Show it once");
  return top;
}

CLI::App* add_logs(CLI::App& app, memopd::LogsArguments& arguments) {
  CLI::App* logs = app.add_subcommand("logs", "Print the logs of all roles, merged by time");
  logs->add_option("run", arguments.run, "Its folder: runs/<name>")->required();
  logs->add_option("--role", arguments.role, "Only this role: env, or one of it: env/3");
  logs->add_flag("--follow", arguments.is_following, "Go on until the run ends");
  logs->add_option("--level", arguments.level, "This level and above: debug, info, warning, error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  return logs;
}

CLI::App* add_stop(CLI::App& app, memopd::StopArguments& arguments) {
  CLI::App* stop = app.add_subcommand("stop", "Ask a run to checkpoint and stop, and wait for it");
  stop->add_option("run", arguments.run, "Its folder: runs/<name>")->required();
  stop->add_flag("--now", arguments.is_now, "Kill its recorded processes instead: no checkpoint");
  return stop;
}

CLI::App* add_monitor(CLI::App& app, std::string& run) {
  CLI::App* monitor = app.add_subcommand("monitor", "Print the link of the page that a run serves");
  monitor->add_option("run", run, "Its folder: runs/<name>")->required();
  return monitor;
}

int launch(LaunchOptions options) {
  if (!options.monitor.empty()) {
    options.arguments.overrides.push_back("monitor.address=\"" + options.monitor + "\"");
  }
  memopd::LaunchArguments& arguments = options.arguments;
  if (!options.is_detached || arguments.is_dry_run) {
    return memopd::launch(arguments);
  }
  memopd::DetachPlan plan{arguments.resume, !arguments.resume.empty()};
  if (!plan.is_resumed) {
    const auto config = memopd::load_config(arguments.config_path, arguments.overrides);
    if (!config) {
      return memopd::report_error(config.error().message, memopd::kExitUsage);
    }
    plan.run_folder = std::filesystem::path(config->run.directory) / config->run.name;
  }
  return memopd::run_detached(plan, [&] { return memopd::launch(arguments); });
}

}  // namespace

int main(int argc, char** argv) {
  memopd::serve_if_child(argc, argv);
  CLI::App app{"memopd-cluster: train memory agents by PPO and on-policy distillation on a cluster of actors"};
  app.require_subcommand(1);
  app.footer("Example: memopd-cluster launch configs/quickstart.toml --set run.seed=3");
  LaunchOptions launch_options;
  launch_options.arguments.command_line.assign(argv, argv + argc);
  memopd::PlanArguments plan_arguments;
  memopd::StatusArguments status_arguments;
  memopd::TopArguments top_arguments;
  memopd::LogsArguments logs_arguments;
  memopd::StopArguments stop_arguments;
  add_launch(app, launch_options);
  const CLI::App* plan = add_plan(app, plan_arguments);
  const CLI::App* status = add_status(app, status_arguments);
  const CLI::App* top = add_top(app, top_arguments);
  const CLI::App* logs = add_logs(app, logs_arguments);
  const CLI::App* stop = add_stop(app, stop_arguments);
  std::string monitored_run;
  const CLI::App* monitor = add_monitor(app, monitored_run);
  memopd::DoctorArguments doctor_arguments;
  const CLI::App* doctor = add_doctor(app, doctor_arguments);
  const CLI::App* host =
      app.add_subcommand("host", "Print what this host offers, as a line of JSON; what launch and doctor ask hosts");
  const CLI::App* config = app.add_subcommand("config", "Print every setting with default, range and meaning");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? memopd::kExitOk : memopd::kExitUsage;
  }
  if (config->parsed()) {
    std::fputs(memopd::config_reference().c_str(), stdout);
    return memopd::kExitOk;
  }
  if (host->parsed()) {
    std::puts(memopd::to_json_line(memopd::read_host_facts()).c_str());
    return memopd::kExitOk;
  }
  return plan->parsed()      ? memopd::plan(plan_arguments)
         : doctor->parsed()  ? memopd::doctor(doctor_arguments)
         : status->parsed()  ? memopd::status(status_arguments)
         : top->parsed()     ? memopd::top(top_arguments)
         : logs->parsed()    ? memopd::logs(logs_arguments)
         : stop->parsed()    ? memopd::stop(stop_arguments)
         : monitor->parsed() ? memopd::print_monitor_link(monitored_run)
                             : launch(launch_options);
}
