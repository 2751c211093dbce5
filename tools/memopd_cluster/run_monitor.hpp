// The monitor of a run that this process launched, fed by it: `memopd-cluster launch --monitor HOST:PORT`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/expected.hpp"
#include "runtime/base/log.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

class RunMonitor {
 public:
  /// Listens at config.monitor.address and writes `run_folder`/monitor.token (mode 0600), whose first line is the link.
  /// Without an address it serves nothing and the other methods do nothing.
  /// @error invalid_argument, io_error  the address; the file
  [[nodiscard]] static Expected<std::unique_ptr<RunMonitor>> start(const Config& config,
                                                                   const std::filesystem::path& run_folder);
  /// Stops listening and removes monitor.token.
  ~RunMonitor();
  RunMonitor(const RunMonitor&) = delete;
  RunMonitor& operator=(const RunMonitor&) = delete;

  /// A sink that shows events of level info and above, then hands every one to `next`. Outlives this object safely.
  [[nodiscard]] LogSink sink(LogSink next = {}) const;

  /// The newest topology, from time to time; reads what metrics.jsonl and processes.json gained. One thread at a time.
  void update(const nlohmann::json& topology);

  /// "http://127.0.0.1:43211/?token=..": what a person opens; empty when nothing is served.
  [[nodiscard]] std::string url() const;

 private:
  struct State;
  explicit RunMonitor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace memopd
