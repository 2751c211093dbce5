#include "tools/session/host_commands.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "runtime/cluster/process_table.hpp"

namespace memopd {

Expected<std::map<std::string, CommandEnd>> run_commands(
    const std::map<std::string, std::vector<std::string>>& commands, std::chrono::milliseconds patience) {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, CommandEnd> ends;
  const auto began = std::chrono::steady_clock::now();
  ProcessTableHandlers on;
  on.on_exit = [&](const std::string& name, const ExitReport& report) {
    const std::lock_guard lock(mutex);
    ends[name] = {report.shell_code, report.text, report.last_lines,
                  std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began)};
    changed.notify_all();
  };
  auto table = ProcessTable::start({}, std::move(on));
  if (!table) {
    return unexpected(table.error());
  }
  for (const auto& [name, argv] : commands) {
    ChildSpec child;
    child.name = name;
    child.argv = argv;
    if (const auto started = (*table)->launch(std::move(child)); !started) {
      const std::lock_guard lock(mutex);
      ends[name] = {127, started.error().message, {}, {}};
    }
  }
  const auto is_over = [&] { return ends.size() == commands.size(); };
  std::unique_lock lock(mutex);
  if (!changed.wait_for(lock, patience, is_over)) {
    for (const auto& [name, argv] : commands) {
      if (!ends.contains(name)) {
        (*table)->kill(name, "no answer within " + std::to_string(patience.count() / 1000) + " s");
      }
    }
    changed.wait(lock, is_over);
  }
  lock.unlock();
  table->reset();
  return ends;
}

}  // namespace memopd
