// Supervisor: decides what becomes of the processes of a run. It hears what happened, keeps the directory, and says what is
// to be started and killed; others do it.
//
// No thread, no clock, no I/O: the head drives it with real events, tests with seeded ones in virtual time.
// SV-1  a process that ends unasked is started again under the next incarnation, after its policy's back-off, and only
//       once the earlier one is known to be gone (CL-2); more than the policy allows ends the run.
// SV-2  a process that does not report within start_timeout, fails to host its actors, or lost its link, is killed first.
// SV-3  the first cause is kept: what happened later is appended to the log, never in front of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/cluster/directory.hpp"
#include "runtime/cluster/placement.hpp"
#include "runtime/cluster/restart_policy.hpp"

namespace memopd {

struct ProcessPlan {
  ProcessDemand demand;
  RestartPolicy policy;
};

struct SupervisorAction {
  enum class Kind : std::uint8_t { start, kill };
  Kind kind = Kind::start;
  std::string process;
  std::uint64_t incarnation = 0;
  std::string node;
  std::string reason;
};

/// Why a process ended, as its agent saw it.
struct ProcessEnd {
  std::string cause;           ///< "killed by SIGKILL"
  std::int32_t exit_code = 0;  ///< 128 + signal for a signal
  bool was_asked = false;      ///< told to stop, and stopped in time
  std::vector<std::string> last_lines;
  std::int64_t peak_rss_bytes = 0;  ///< 0 = unknown
  std::string last_call = "";       ///< "teacher/0 in ScorePack", as it last reported; empty = idle
};

/// What a run that failed reports, in the order it happened.
struct FailureReport {
  std::string process;
  std::string cause;           ///< one line: who, how, what it said last
  std::int32_t exit_code = 1;  ///< of the first failure
};

class Supervisor {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  Supervisor(std::vector<NodeCapacity> nodes, std::chrono::milliseconds start_timeout);

  /// The process that the supervisor lives in; never restarted.
  void add_self(ProcessEntry entry);
  /// Places processes, all or none; each starts once its node is up. @error overloaded, already_exists
  Expected<void> add_processes(const std::vector<ProcessPlan>& plans, Nanoseconds now);
  /// Members of a new group, in processes that were added. @error already_exists
  /// A process that runs already counts as starting until it has made them.
  Expected<void> add_group(std::vector<ActorEntry> members, Nanoseconds now);

  void node_up(std::string_view node, Nanoseconds now);
  /// Its agent is gone, and with it every process there; they move to nodes that have room, or wait for this one.
  void node_down(std::string_view node, const std::string& reason, Nanoseconds now);
  /// The process is linked and can be given its actors. @return false: an earlier incarnation, or unknown
  bool said_hello(std::string_view process, std::uint64_t incarnation, const InstanceId& instance,
                  std::vector<std::string> endpoints);
  void hosted(std::string_view process, std::uint64_t incarnation, const std::string& group,
              const std::optional<Error>& error);
  /// An actor threw or failed; its process is about to end.
  void actor_failed(std::string_view process, std::uint64_t incarnation, const std::string& actor,
                    const std::string& reason);
  /// Its death is usually what cut the link, and its agent will say so; if not, it is killed kLinkPatience later.
  void link_lost(std::string_view process, std::uint64_t incarnation, const std::string& reason, Nanoseconds now);
  /// `silent_ms` 0: it gives signs of life again.
  void suspect(std::string_view process, std::uint64_t incarnation, double silent_ms);
  void exited(std::string_view process, std::uint64_t incarnation, const ProcessEnd& end, Nanoseconds now);
  /// Start timeouts and back-offs that are over.
  void tick(Nanoseconds now);
  /// No more restarts; every end counts as asked for.
  void stop_all();

  [[nodiscard]] std::vector<SupervisorAction> take_actions();
  [[nodiscard]] const Directory& directory() const { return directory_; }
  [[nodiscard]] const std::vector<NodeCapacity>& nodes() const { return placement_.nodes(); }
  [[nodiscard]] std::int32_t num_restarts(std::string_view process) const;
  /// Set once the run cannot go on.
  [[nodiscard]] const std::optional<FailureReport>& failure() const { return failure_; }
  /// Processes, this one apart, that have not ended.
  [[nodiscard]] std::vector<std::string> alive() const;
  /// Processes that wait for `node` to come back, since no other has room: "learner/0, teacher/0"; empty without one.
  [[nodiscard]] std::string describe_bound_to(std::string_view node) const;
  /// Started processes that have not hosted their actors yet, and for how long.
  [[nodiscard]] std::string describe_missing(Nanoseconds now) const;

 private:
  struct Process {
    ProcessEntry entry;
    RestartTracker restarts;
    std::set<std::string> hosted_groups;
    std::string own_account;  ///< what it said itself before it ended
    Nanoseconds since{0};     ///< told to start, or back-off began
    Nanoseconds due{0};       ///< waiting: to be started then
    bool is_started = false;  ///< an incarnation may exist
    bool is_killed = false;
    std::optional<std::pair<Nanoseconds, std::string>> link_lost;  ///< when and why
  };
  static constexpr std::chrono::milliseconds kLinkPatience{1000};

  [[nodiscard]] Process* find(std::string_view process, std::uint64_t incarnation);
  void start(Process& process, Nanoseconds now);
  void kill(Process& process, const std::string& reason);
  void look_whether_running(Process& process);
  void gone(Process& process, const ProcessEnd& end, Nanoseconds now);
  void publish(const Process& process) { directory_.set(process.entry); }

  const std::chrono::milliseconds start_timeout_;
  Placement placement_;
  Directory directory_;
  std::string self_;
  std::map<std::string, Process, std::less<>> processes_;
  std::set<std::string, std::less<>> nodes_up_;
  std::vector<SupervisorAction> actions_;
  std::optional<FailureReport> failure_;
  bool is_stopping_ = false;
};

}  // namespace memopd
