# What developers and CI build: optimised, line numbers, warnings are errors.
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(MEMOPD_WERROR ON CACHE BOOL "")
