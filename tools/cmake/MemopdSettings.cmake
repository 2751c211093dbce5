# Language, warnings and folders that hold for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# -g1 keeps line numbers for back traces at a third of the link time of -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Paths below the base folder are hashed as relative ones, so build folders and clones share one cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${CCACHE_PROGRAM}")
endif()

# Headers listed in a FILE_SET compile alone: tools/build --headers builds these targets, nothing else does.
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

set(MEMOPD_TEST_DEBUG -g0)
set(MEMOPD_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize takes them")
if(MEMOPD_SANITIZE)
  set(MEMOPD_TEST_DEBUG -g1)
  add_compile_options("-fsanitize=${MEMOPD_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${MEMOPD_SANITIZE}")
endif()

option(MEMOPD_WERROR "Treat warnings as errors" ON)
# g++ 12 reports std::variant members as maybe uninitialised where they are not (-O2); -Wuninitialized stays on.
set(MEMOPD_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Wno-maybe-uninitialized)
if(MEMOPD_WERROR)
  list(APPEND MEMOPD_WARNINGS -Werror)
endif()
