// The thread behind a ProcessTable. All but the queue of commands belongs to it; the map of children is read by others under
// the mutex, so it is changed under it.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/detail/file_descriptor.hpp"
#include "runtime/cluster/detail/watched_child.hpp"
#include "runtime/cluster/process_table.hpp"

struct pollfd;

namespace memopd::detail {

class ProcessLoop {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<ProcessLoop>> start(ProcessTableOptions options,
                                                                    ProcessTableHandlers handlers);
  ~ProcessLoop();
  ProcessLoop(const ProcessLoop&) = delete;
  ProcessLoop& operator=(const ProcessLoop&) = delete;

  // As in ProcessTable.
  Expected<ProcessMark> launch(ChildSpec spec);
  void stop(const std::string& name, std::chrono::milliseconds grace, const std::string& reason);
  void kill(const std::string& name, const std::string& reason);
  void shutdown(std::chrono::milliseconds grace);
  [[nodiscard]] std::vector<ProcessSnapshot> snapshot() const;

 private:
  using Command = std::function<void()>;
  using Children = std::map<std::string, std::unique_ptr<WatchedChild>>;

  ProcessLoop(ProcessTableOptions options, ProcessTableHandlers handlers, FileDescriptor wake);
  void post(Command command);
  [[nodiscard]] bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  void run();
  /// Waits for a pipe, an end, a command or the next thing to do by the clock, and serves the pipes.
  void wait_and_serve();
  [[nodiscard]] Clock::time_point next_deadline() const;
  [[nodiscard]] std::vector<pollfd> poll_set() const;
  void serve(const std::vector<pollfd>& ready, Clock::time_point now);
  void run_commands();
  /// Kills what is left of children that have ended and reports them.
  void report_ended(const std::vector<std::string>& names);
  void judge(Clock::time_point now);
  void judge_silence(WatchedChild& child, Clock::time_point now);
  void renew_leases(Clock::time_point now);
  void take_adopted(Clock::time_point now);

  Expected<ProcessMark> launch_here(const ChildSpec& spec);
  void ask_to_stop(WatchedChild& child, std::chrono::milliseconds grace, const std::string& reason);

  const ProcessTableOptions options_;
  const ProcessTableHandlers handlers_;
  const FileDescriptor wake_;  ///< eventfd
  mutable std::mutex mutex_;   ///< guards commands_, and children_ between this thread and others
  std::vector<Command> commands_;
  Children children_;
  OomKills oom_kills_;
  std::vector<std::string> ended_;
  Clock::time_point last_round_;
  Clock::time_point next_lease_;
  Clock::time_point next_sweep_;
  Clock::time_point give_up_at_ = Clock::time_point::max();
  std::vector<std::shared_ptr<std::promise<void>>> waiting_for_quiet_;
  bool is_shut_down_ = false;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace memopd::detail
