# What users of the programs build: full optimisation, no tests; a warning of a newer compiler does not stop it.
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(MEMOPD_WERROR OFF CACHE BOOL "")
set(MEMOPD_TESTS OFF CACHE BOOL "")
