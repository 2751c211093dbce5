// What the process tests share: a table of test children that records its events. Waiting is for events; the limit of 30 s
// is there for hangs only.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cluster/process_table.hpp"

namespace memopd::testing {

/// The command line of a test child: `test_child({"beat", "40", "30000"})`.
[[nodiscard]] std::vector<std::string> test_child(std::vector<std::string> arguments);

/// Whether the process has ended or ends within the 10 s of CL-4; also one that is not our child. A zombie has ended.
[[nodiscard]] bool has_ended(pid_t pid);

/// A folder of its own, removed at the end.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Waits until `file` holds `text`, or fails the test after 30 s; returns its content.
  [[nodiscard]] std::string wait_for_text(const std::string& file, const std::string& text) const;
  void write(const std::string& file, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

struct TableEvent {
  enum class Kind { suspect, recovered, exit } kind;
  std::string name;
  ExitReport report;
};

/// A process table that logs into its folder and keeps its events.
class TestTable {
 public:
  explicit TestTable(std::chrono::milliseconds heartbeat_interval = std::chrono::milliseconds(40),
                     std::chrono::milliseconds dead_after = std::chrono::milliseconds(30'000));

  /// Fails the test unless the child starts.
  ProcessMark launch(const std::string& name, std::vector<std::string> arguments);
  /// The next event, taken out. Fails the test after 30 s.
  [[nodiscard]] TableEvent next();
  /// The next exit; other events before it are dropped.
  [[nodiscard]] TableEvent next_exit();
  /// Waits for the first heartbeat of a child, or fails the test after 30 s.
  void wait_for_heartbeat(const std::string& name) const;
  /// The number behind `word` in the log of a child, when it has been said.
  [[nodiscard]] long said_number(const std::string& name, const std::string& word) const;

  TestFolder folder;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<TableEvent> events;
  std::unique_ptr<ProcessTable> table;  ///< last: it ends before what its handlers use

 private:
  void add(TableEvent event);
};

}  // namespace memopd::testing
