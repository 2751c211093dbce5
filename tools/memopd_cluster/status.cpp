#include "tools/memopd_cluster/status.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "runtime/telemetry/metrics.hpp"
#include "runtime/telemetry/progress.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

using Json = nlohmann::ordered_json;

std::string metric_text(const RunView& view, const char* name) {
  const auto found = view.metrics.find(name);
  return found == view.metrics.end() ? "-" : fmt::format("{:.4g}", found->second);
}

Json launcher_json(const RunView& view) {
  if (!view.processes) {
    return nullptr;
  }
  const HostProcess& launcher = view.processes->launcher;
  const bool is_here = launcher.host == own_host_name();
  return {{"host", launcher.host},
          {"pid", launcher.pid},
          {"start_ticks", launcher.start_ticks},
          {"is_alive", is_here ? Json(is_alive_here(launcher)) : Json(nullptr)}};
}

}  // namespace

std::string format_processes(const RunView& view) {
  if (!view.processes || view.processes->processes.empty()) {
    return {};
  }
  std::string text = fmt::format("\n{:<16} {:<10} {:>8} {:<9} {:>8} {:>10} {:>9} {:>8} {:>6}\n", "process", "node",
                                 "pid", "state", "restarts", "memory", "cpu", "silent", "actors");
  for (const ProcessRecord& process : view.processes->processes) {
    text += fmt::format("{:<16} {:<10} {:>8} {:<9} {:>8} {:>10} {:>9} {:>8} {:>6}{}\n", visible(process.name),
                        visible(process.node), process.identity.pid, to_string(process.state), process.restarts,
                        format_bytes(process.rss_bytes), format_duration(process.cpu_s),
                        format_duration(static_cast<double>(process.silent_ms) / 1000), process.actors.size(),
                        process.reason.empty() ? "" : "  " + visible(process.reason));
  }
  return text;
}

std::string format_status(const RunView& view) {
  std::string text = fmt::format("run      {} ({})\n", visible(view.run), view.folder.string());
  text += fmt::format("state    {}\n", describe_life(view));
  if (!view.first_failure.empty()) {
    text += fmt::format("failure  {}\n", visible(view.first_failure));
  }
  text += fmt::format("step     {}{}\n", view.step, view.num_steps > 0 ? fmt::format("/{}", view.num_steps) : "");
  text += fmt::format("metrics  reward {} | f1 {} | {} tok/s\n", metric_text(view, "rollout/reward/final"),
                      metric_text(view, "rollout/f1"), metric_text(view, "load/tokens_per_s"));
  if (view.data_age_ms) {
    text += fmt::format("data     {} old\n", format_duration(static_cast<double>(*view.data_age_ms) / 1000));
  } else {
    text += "data     none yet\n";
  }
  return text + format_processes(view);
}

std::string status_json(const RunView& view) {
  Json json = {{"run", view.run},
               {"folder", view.folder.string()},
               {"state", to_string(view.life)},
               {"is_stop_requested", view.is_stop_requested},
               {"step", view.step},
               {"num_steps", view.num_steps > 0 ? Json(view.num_steps) : Json(nullptr)},
               {"metrics", view.metrics},
               {"first_failure", view.first_failure.empty() ? Json(nullptr) : Json(view.first_failure)},
               {"data_age_ms", view.data_age_ms ? Json(*view.data_age_ms) : Json(nullptr)},
               {"launcher", launcher_json(view)},
               {"processes", nullptr}};
  if (view.processes) {
    json["processes"] = Json::parse(to_json(*view.processes))["processes"];
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

int status(const StatusArguments& arguments) {
  const auto view = load_run_view(arguments.run, static_cast<std::int64_t>(1000 * unix_time_s()));
  if (!view) {
    return report_error(view.error().message, kExitUsage);
  }
  std::fputs((arguments.is_json ? status_json(*view) : format_status(*view)).c_str(), stdout);
  return exit_code_of(view->life);
}

int print_monitor_link(const std::string& run) {
  const auto view = load_run_view(run, static_cast<std::int64_t>(1000 * unix_time_s()));
  if (!view) {
    return report_error(view.error().message, kExitUsage);
  }
  std::ifstream stream(view->folder / "monitor.token");
  std::string link;
  // A killed launcher leaves the file behind; whoever listens there by now is someone else.
  if (view->life != RunLife::running || !std::getline(stream, link)) {
    return report_error(describe_life(*view) + ": it serves no page; launch with --monitor 127.0.0.1:0",
                        kExitRunFailed);
  }
  fmt::print("{}\n", link);
  return kExitOk;
}

}  // namespace memopd
