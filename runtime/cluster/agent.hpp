// The agent: one process per node that starts, watches and ends the workers there, and keeps the node's objects.
//
// It ends itself and kills its workers when its parent is gone, when the head's link is lost, or when the head does not
// renew its lease (CL-4). What a worker did not end itself, the agent ends: whole process groups, then every descendant.
#pragma once

namespace memopd {

/// Reads a ProcessStart from standard input and serves it. Leaves the process by _exit (R11).
[[noreturn]] void run_agent();

}  // namespace memopd
