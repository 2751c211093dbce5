#include "tools/memopd_cluster/run_processes.hpp"

#include <algorithm>

namespace memopd {
namespace {

RecordedState recorded(ProcessState state) {
  switch (state) {
    case ProcessState::waiting:
      return RecordedState::waiting;
    case ProcessState::starting:
      return RecordedState::starting;
    case ProcessState::running:
      return RecordedState::running;
    case ProcessState::suspect:
      return RecordedState::suspect;
    case ProcessState::stopping:
      return RecordedState::stopping;
    case ProcessState::ended:
      return RecordedState::ended;
    case ProcessState::failed:
      return RecordedState::failed;
  }
  return RecordedState::failed;
}

ProcessRecord to_record(const ProcessView& view) {
  ProcessRecord record;
  record.name = view.entry.name;
  record.node = view.entry.node;
  record.identity = {view.host.empty() ? own_host_name() : view.host, view.pid, view.start_ticks};
  record.pgid = view.pgid;
  record.incarnation = static_cast<std::int64_t>(view.entry.incarnation);
  record.state = recorded(view.entry.state);
  record.reason = view.entry.reason;
  record.restarts = view.num_restarts;
  record.rss_bytes = view.rss_bytes;
  record.cpu_s = view.cpu_s;
  record.silent_ms = static_cast<std::int64_t>(view.silent_ms);
  record.actors = view.actors;
  std::string file = view.entry.name;
  std::replace(file.begin(), file.end(), '/', '-');
  record.log = "logs/" + file + ".out";
  return record;
}

}  // namespace

ProcessesFile recorded_processes(const std::string& run, const HeadCluster* head) {
  ProcessesFile file = launcher_alone(run);
  if (head != nullptr) {
    for (const ProcessView& view : head->processes()) {
      file.processes.push_back(to_record(view));
    }
  }
  return file;
}

}  // namespace memopd
