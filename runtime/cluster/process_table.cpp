#include "runtime/cluster/process_table.hpp"

#include <utility>

#include "runtime/cluster/detail/process_loop.hpp"

namespace memopd {

Expected<std::unique_ptr<ProcessTable>> ProcessTable::start(ProcessTableOptions options,
                                                            ProcessTableHandlers handlers) {
  auto loop = detail::ProcessLoop::start(std::move(options), std::move(handlers));
  MEMOPD_RETURN_IF_ERROR(loop);
  return std::unique_ptr<ProcessTable>(new ProcessTable(std::move(*loop)));
}

ProcessTable::ProcessTable(std::unique_ptr<detail::ProcessLoop> loop) : loop_(std::move(loop)) {}
ProcessTable::~ProcessTable() = default;

Expected<ProcessMark> ProcessTable::launch(ChildSpec spec) { return loop_->launch(std::move(spec)); }
void ProcessTable::stop(const std::string& name, std::chrono::milliseconds grace, const std::string& reason) {
  loop_->stop(name, grace, reason);
}
void ProcessTable::kill(const std::string& name, const std::string& reason) { loop_->kill(name, reason); }
void ProcessTable::shutdown(std::chrono::milliseconds grace) { loop_->shutdown(grace); }
std::vector<ProcessSnapshot> ProcessTable::snapshot() const { return loop_->snapshot(); }

}  // namespace memopd
