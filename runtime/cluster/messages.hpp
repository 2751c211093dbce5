// What the processes of a run say to one another beneath the actors: calls on their way, the directory, starts and ends.
//
//   worker -> head    ProcessHello, ActorsHosted, ProcessReport, ActorFailed, EventReport
//   head   -> worker  DirectoryUpdate, HostActors, StopProcess
//   agent  -> head    AgentHello, ProcessStarted, ProcessSuspect, ProcessExited, AgentReport, ProcessOutput, ObjectWanted
//   head   -> agent   StageFiles, StartProcess, KillProcess, AgentLease, StopProcess, OfferObject
//   both              ObjectOffered, ReleaseObjects
//   any    -> any     ActorCall, ActorAnswer, StopActor
// Length: the one list of what processes say.
// Each is one control frame (runtime/wire/frame.hpp) on a link of runtime/transport, whose peer is known and of this run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/topology.hpp"
#include "runtime/base/error.hpp"
#include "runtime/objects/object_store.hpp"
#include "runtime/transport/bulk.hpp"
#include "runtime/transport/identity.hpp"
#include "runtime/wire/data_codec.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

/// One message from an actor to another.
struct ActorCall {
  std::string from;                  ///< actor, or "client"
  std::string to;                    ///< actor
  std::uint64_t to_incarnation = 0;  ///< of the receiver, as the sender knows it; another one refuses (CL-2)
  std::uint64_t call = 0;            ///< names the answer; 0 = a tell
  std::string message;               ///< "Add"
  std::int32_t version = 0;
  std::vector<std::byte> body;
};
MEMOPD_MESSAGE(ActorCall, 1, from, to, to_incarnation, call, message, version, body)

struct ActorAnswer {
  std::uint64_t call = 0;
  std::optional<Error> error;  ///< set: there is no message
  std::string message;
  std::int32_t version = 0;
  std::vector<std::byte> body;
};
MEMOPD_MESSAGE(ActorAnswer, 1, call, error, message, version, body)

struct StopActor {
  std::string actor;
  std::string reason;
};
MEMOPD_MESSAGE(StopActor, 1, actor, reason)

enum class ProcessState : std::uint8_t {
  waiting,   ///< for its node, or for its back-off to end
  starting,  ///< told to start; has not hosted its actors yet
  running,
  suspect,  ///< silent, but not for long enough to be dead
  stopping,
  ended,   ///< as told
  failed,  ///< for good
};
MEMOPD_ENUM(ProcessState, failed)
[[nodiscard]] std::string_view to_string(ProcessState state);

struct ProcessEntry {
  std::string name;  ///< the place in the run: "student/0", "rollout", "launcher"
  std::string node;
  ProcessState state = ProcessState::waiting;
  std::uint64_t incarnation = 0;  ///< counts its starts
  InstanceId instance;            ///< zero until it has said hello
  std::vector<std::string> endpoints;
  std::string reason;  ///< why it is not running
};
MEMOPD_FIELDS(ProcessEntry, name, node, state, incarnation, instance, endpoints, reason)

struct ActorEntry {
  std::string name;  ///< "student/0"
  std::string group;
  std::string type;  ///< registered name
  std::int32_t rank = 0;
  std::int32_t group_size = 1;
  bool is_blocking = false;
  std::int32_t max_mailbox = 1;
  std::string process;
};
MEMOPD_FIELDS(ActorEntry, name, group, type, rank, group_size, is_blocking, max_mailbox, process)

/// Entries that are new or changed; each replaces what was known under its name.
struct DirectoryUpdate {
  std::uint64_t version = 0;  ///< of the directory once this is applied; rises
  std::vector<ProcessEntry> processes;
  std::vector<ActorEntry> actors;
};
MEMOPD_MESSAGE(DirectoryUpdate, 1, version, processes, actors)

struct ProcessHello {
  std::vector<std::string> endpoints;
  std::uint64_t object_store = 0;  ///< first half of the references to what it puts
};
MEMOPD_MESSAGE(ProcessHello, 1, endpoints, object_store)

/// Members of one group that live in the process.
struct HostActors {
  std::string actor;  ///< registered class
  std::string group;
  std::vector<std::int32_t> ranks;
  std::int32_t group_size = 1;
  bool is_blocking = false;
  std::int32_t max_mailbox = 1;
  bool has_init = false;
  std::string init_message;
  std::int32_t init_version = 0;
  std::vector<std::byte> init_body;
};
MEMOPD_MESSAGE(HostActors, 1, actor, group, ranks, group_size, is_blocking, max_mailbox, has_init, init_message,
               init_version, init_body)

struct ActorsHosted {
  std::string group;
  std::vector<std::int32_t> ranks;
  std::optional<Error> error;
};
MEMOPD_MESSAGE(ActorsHosted, 1, group, ranks, error)

struct ActorFailed {
  std::string actor;
  std::string reason;
};
MEMOPD_MESSAGE(ActorFailed, 1, actor, reason)

/// What the actors of a process do now, and what they have sent.
struct ProcessReport {
  std::vector<ActorStatus> actors;
  std::vector<EdgeStatus> edges;
  std::int64_t num_refused = 0;  ///< frames of peers and strangers that were not acted on
};
MEMOPD_MESSAGE(ProcessReport, 1, actors, edges, num_refused)

struct ReportedEvent {
  std::int64_t unix_time_ms = 0;
  std::int32_t level = 0;
  std::string component;
  std::string name;
  std::vector<std::string> keys;
  std::vector<std::string> values;
};
MEMOPD_FIELDS(ReportedEvent, unix_time_ms, level, component, name, keys, values)

struct EventReport {
  std::vector<ReportedEvent> events;
};
MEMOPD_MESSAGE(EventReport, 1, events)

struct StopProcess {
  std::string reason;
};
MEMOPD_MESSAGE(StopProcess, 1, reason)

struct AgentHello {
  double cpus = 0;
  double memory_bytes = 0;
  std::string host;
  std::string object_socket;  ///< where the processes of the node reach its object server
  std::string ipc_folder;     ///< of the sockets of the node's processes
  std::string tcp_host;       ///< where they listen for other nodes; empty: nowhere
};
MEMOPD_MESSAGE(AgentHello, 1, cpus, memory_bytes, host, object_socket, ipc_folder, tcp_host)

struct AgentLease {};
MEMOPD_MESSAGE(AgentLease, 1)

struct StartProcess {
  std::string process;
  std::uint64_t incarnation = 0;
  std::vector<std::byte> start;  ///< WorkerStart, for the process's standard input
};
MEMOPD_MESSAGE(StartProcess, 1, process, incarnation, start)

struct KillProcess {
  std::string process;
  std::uint64_t incarnation = 0;
  std::string reason;
};
MEMOPD_MESSAGE(KillProcess, 1, process, incarnation, reason)

struct ProcessStarted {
  std::string process;
  std::uint64_t incarnation = 0;
  std::int64_t pid = 0;
  std::int64_t pgid = 0;
  std::int64_t start_ticks = 0;  ///< with the pid names a process of this boot
};
MEMOPD_MESSAGE(ProcessStarted, 1, process, incarnation, pid, pgid, start_ticks)

struct ProcessSuspect {
  std::string process;
  std::uint64_t incarnation = 0;
  double silent_ms = 0;  ///< 0: it is back
};
MEMOPD_MESSAGE(ProcessSuspect, 1, process, incarnation, silent_ms)

struct ProcessExited {
  std::string process;
  std::uint64_t incarnation = 0;
  std::string cause;           ///< "killed by SIGKILL", ..
  std::int32_t exit_code = 0;  ///< as a shell shows it: 128 + signal
  bool was_asked = false;
  std::int64_t peak_rss_bytes = 0;
  std::vector<std::string> last_lines;
};
MEMOPD_MESSAGE(ProcessExited, 1, process, incarnation, cause, exit_code, was_asked, peak_rss_bytes, last_lines)

struct ProcessUsage {
  std::string process;
  double silent_ms = 0;
  std::int64_t rss_bytes = 0;
  double cpu_s = 0;
};
MEMOPD_FIELDS(ProcessUsage, process, silent_ms, rss_bytes, cpu_s)

struct AgentReport {
  std::vector<ProcessUsage> processes;
};
MEMOPD_MESSAGE(AgentReport, 1, processes)

/// What a process on another host printed, for its log file in the run directory.
struct ProcessOutput {
  std::string process;
  std::string text;  ///< whole lines where possible, in order, nothing left out
};
MEMOPD_MESSAGE(ProcessOutput, 1, process, text)

/// A process of the node looks for an object that was put elsewhere.
struct ObjectWanted {
  ObjectRef ref;
};
MEMOPD_MESSAGE(ObjectWanted, 1, ref)

struct OfferObject {
  ObjectRef ref;
  std::string for_node;
};
MEMOPD_MESSAGE(OfferObject, 1, ref, for_node)

/// From the agent that has it to the head, and from there to the agent of `for_node`.
struct ObjectOffered {
  ObjectRef ref;
  std::string for_node;
  std::optional<Error> error;  ///< set: there is no ticket
  BulkTicket ticket;
  Scope scope;
  std::string type;
};
MEMOPD_MESSAGE(ObjectOffered, 1, ref, for_node, error, ticket, scope, type)

/// One of the two is set.
struct ReleaseObjects {
  std::optional<ObjectRef> ref;
  std::optional<Scope> scope;
};
MEMOPD_MESSAGE(ReleaseObjects, 1, ref, scope)

/// An input file for another host.
struct StagedFile {
  std::string path;       ///< below the working directory of the head, and below the node's work folder
  std::int32_t mode = 0;  ///< permission bits
  std::uint64_t size_bytes = 0;
  BulkTicket ticket;  ///< of a file that is not empty
};
MEMOPD_FIELDS(StagedFile, path, mode, size_bytes, ticket)

/// All that a node needs before its processes start; it says AgentHello when it has them.
struct StageFiles {
  std::vector<StagedFile> files;
};
MEMOPD_MESSAGE(StageFiles, 1, files)

/// How every process of a run is linked.
struct LinkSettings {
  std::int32_t heartbeat_ms = 500;
  std::int32_t dead_after_ms = 2000;
  std::int32_t lease_ms = 5000;
  std::string ipc_folder;
  std::string tcp_host;
  std::int32_t port_lo = 0;
  std::int32_t port_hi = 0;
  bool encrypt_bulk = false;
};
MEMOPD_FIELDS(LinkSettings, heartbeat_ms, dead_after_ms, lease_ms, ipc_folder, tcp_host, port_lo, port_hi, encrypt_bulk)

/// The first thing on a started process's standard input.
struct ProcessStart {
  std::string key;  ///< RunKey::text(); never in argv or the environment
  RunId run;
  std::string process;  ///< "student/0"; of an agent: "agent/<node>"
  std::uint64_t incarnation = 1;
  std::string node;
  std::string head_node;
  InstanceId head_instance;
  std::vector<std::string> head_endpoints;
  std::string object_socket;
  bool is_remote = false;                   ///< agents: on another host than the head; folders there are its own
  std::string log_folder;                   ///< agents: where the output of processes goes
  std::vector<std::string> worker_command;  ///< agents: how a worker is executed
  std::int32_t num_threads = 2;             ///< of the scheduler
  std::int32_t report_interval_ms = 500;    ///< <= 0: no ProcessReport, no EventReport, and AgentReport says no usage
  LinkSettings links;
};
MEMOPD_MESSAGE(ProcessStart, 1, key, run, process, incarnation, node, head_node, head_instance, head_endpoints,
               object_socket, is_remote, log_folder, worker_command, num_threads, report_interval_ms, links)

}  // namespace memopd
