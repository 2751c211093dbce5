# Address and undefined-behaviour sanitizers. LibTorch is not instrumented: build torch_free_tests.
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(MEMOPD_SANITIZE "address,undefined" CACHE STRING "")
# Instrumented code makes g++ 12 see uninitialised and out-of-bounds reads that are not there.
set(MEMOPD_WERROR OFF CACHE BOOL "")
