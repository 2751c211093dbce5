// How many threads one tensor operation uses. Torch-free.
#pragma once

namespace memopd {

/// Sets the threads of one tensor operation, for this and every later thread of the process. `num_threads` >= 1.
/// Call it first thing in a program: parallelism here comes from actors and from micro-batches on threads of their own,
/// and the thread pool of single operations would only compete with them.
void set_operation_threads(int num_threads);

}  // namespace memopd
