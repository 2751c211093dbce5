# Thread sanitizer, for the parts that share memory between threads.
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(MEMOPD_SANITIZE "thread" CACHE STRING "")
# g++ 12 does not model std::atomic_thread_fence under this sanitizer and says so for every library that uses it.
set(MEMOPD_WERROR OFF CACHE BOOL "")
