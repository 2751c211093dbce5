// `memopd-cluster logs RUN`: the logs of all roles as one, by time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/log.hpp"

namespace memopd {

struct LogsArguments {
  std::string run;   ///< its folder
  std::string role;  ///< "env" or "env/3"; empty = all
  bool is_following = false;
  std::string level = "debug";  ///< and above: debug, info, warning, error
};

/// A line of one role's log. One that is no event (output of a library, a crash) has the time of the line before it.
struct MergedLine {
  std::string role;               ///< "env/3", from the file's name
  std::string time;               ///< "2026-11-30T12:00:00.123Z"; "" before the first event
  std::optional<LogLevel> level;  ///< nothing when it is no event: such lines are never left out
  std::string text;
};

/// Reads all of `folder`/*.log in order of time; what is appended, and files that appear, come with later calls.
/// Holds at most one line of 64 KiB and one block of each file; longer lines are cut. Not thread-safe.
class LogMerge {
 public:
  explicit LogMerge(std::filesystem::path folder, std::string role = {});

  /// The next line in order of time, among those that are there.
  /// @param takes_unfinished  also a last line without its end: nobody writes any more
  [[nodiscard]] std::optional<MergedLine> next(bool takes_unfinished);

 private:
  struct File {
    std::filesystem::path path;
    std::int64_t offset = 0;
    std::string buffer;
    bool is_at_end = false;   ///< in this round
    bool is_cutting = false;  ///< the rest of a line that was too long is skipped
    std::string last_time;
    std::optional<MergedLine> line;  ///< read, not yet given
  };
  void begin_round();
  void fill(const std::string& role, File& file, bool takes_unfinished);

  std::filesystem::path folder_;
  std::string role_;
  std::map<std::string, File> files_;  ///< by role
  bool is_new_round_ = true;           ///< after nothing was left: files are looked for, and read on
};

/// "env/3 | text", harmless for a terminal; coloured by level when `has_colour`.
[[nodiscard]] std::string format_line(const MergedLine& line, bool has_colour);

/// @return 0; 2 no run there, or no such level
int logs(const LogsArguments& arguments);

}  // namespace memopd
