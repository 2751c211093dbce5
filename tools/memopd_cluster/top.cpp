#include "tools/memopd_cluster/top.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/telemetry/metrics.hpp"
#include "runtime/telemetry/progress.hpp"
#include "tools/memopd_cluster/status.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

using Json = nlohmann::json;

struct ActorRow {
  const Json* actor;
  std::optional<double> busy_frac;
};

std::map<std::string, double> busy_by_name(const RunView* view) {
  std::map<std::string, double> result;
  if (view != nullptr && view->topology.is_object() && view->topology.contains("actors")) {
    for (const Json& actor : view->topology["actors"]) {
      result[text_in(actor, "name")] = number_in(actor, "busy_ms");
    }
  }
  return result;
}

std::vector<ActorRow> rows_of(const RunView& view, const RunView* before) {
  std::vector<ActorRow> rows;
  if (!view.topology.is_object() || !view.topology.contains("actors")) {
    return rows;
  }
  const auto previous = busy_by_name(before);
  const double elapsed_ms =
      before == nullptr ? 0 : static_cast<double>(view.topology_unix_ms - before->topology_unix_ms);
  for (const Json& actor : view.topology["actors"]) {
    ActorRow row{&actor, std::nullopt};
    const auto old = previous.find(text_in(actor, "name"));
    const double busy_ms = number_in(actor, "busy_ms");
    if (elapsed_ms > 0 && old != previous.end() && busy_ms >= old->second) {
      row.busy_frac = std::min((busy_ms - old->second) / elapsed_ms, 1.0);
    }
    rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ActorRow& a, const ActorRow& b) {
    return a.busy_frac.value_or(0) > b.busy_frac.value_or(0);
  });
  return rows;
}

std::string since(double milliseconds) { return format_duration(milliseconds / 1000); }

std::string format_row(const ActorRow& row) {
  const Json& actor = *row.actor;
  const std::string call = visible(text_in(actor, "current_call"));
  const std::string target = visible(text_in(actor, "waits_for"));
  return fmt::format(
      "{:<18} {:<10} {:>5} {:>8.0f} {:<24} {}\n", visible(text_in(actor, "name")), visible(text_in(actor, "state")),
      row.busy_frac ? fmt::format("{:.0f}%", 100 * *row.busy_frac) : "-", number_in(actor, "mailbox_depth"),
      call.empty() ? "idle" : call + " " + since(number_in(actor, "current_call_age_ms")),
      target.empty() ? ""
                     : fmt::format("waits for {} ({}) since {}", target, visible(text_in(actor, "waits_for_message")),
                                   since(number_in(actor, "waits_for_age_ms"))));
}

std::size_t actors_that_fit(const RunView& view) {
  winsize size{};
  constexpr std::size_t kOtherLines = 12;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) {
    return 1000;
  }
  const std::size_t taken = kOtherLines + (view.processes ? view.processes->processes.size() : 0);
  return size.ws_row > taken + 5 ? size.ws_row - taken : 5;
}

}  // namespace

std::string format_top(const RunView& view, const RunView* before, std::size_t max_actors) {
  std::string text = format_status(view);
  const auto rows = rows_of(view, before);
  text += fmt::format("\n{:<18} {:<10} {:>5} {:>8} {:<24} {}\n", "actor", "state", "busy", "mailbox", "call", "waits");
  for (std::size_t index = 0; index < std::min(rows.size(), max_actors); ++index) {
    text += format_row(rows[index]);
  }
  if (rows.size() > max_actors) {
    text += fmt::format("and {} more\n", rows.size() - max_actors);
  }
  return text;
}

int top(const TopArguments& arguments) {
  const bool is_in_place = is_terminal(STDOUT_FILENO) && !arguments.is_once;
  std::optional<RunView> before;
  while (true) {
    auto view = load_run_view(arguments.run, static_cast<std::int64_t>(1000 * unix_time_s()));
    if (!view) {
      return report_error(view.error().message, kExitUsage);
    }
    const bool is_running = view->life == RunLife::running || view->life == RunLife::elsewhere;
    // Busy is a difference: one look at a living run takes two.
    const bool is_shown = !arguments.is_once || before || !is_running;
    if (is_shown) {
      const std::string text = format_top(*view, before ? &*before : nullptr, actors_that_fit(*view));
      fmt::print("{}{}{}", is_in_place ? "\x1b[H\x1b[J" : "", text, is_in_place ? "" : "\n");
      std::fflush(stdout);
    }
    if ((is_shown && arguments.is_once) || !is_running) {
      return exit_code_of(view->life);
    }
    if (!before || before->topology_unix_ms != view->topology_unix_ms) {
      before = *std::move(view);
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace memopd
