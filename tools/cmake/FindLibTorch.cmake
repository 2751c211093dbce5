# LibTorch's CPU half from the PyPI wheel that tools/setup unpacks into .deps/libtorch (or MEMOPD_LIBTORCH_ROOT).
# The wheel's own CMake config probes for a GPU and for NVSHMEM; this module links torch_cpu and c10 only.
set(MEMOPD_LIBTORCH_ROOT "${PROJECT_SOURCE_DIR}/.deps/libtorch" CACHE PATH "Folder that holds torch/ and nvidia/")
find_path(LIBTORCH_INCLUDE_DIR ATen/ATen.h PATHS "${MEMOPD_LIBTORCH_ROOT}/torch/include" NO_DEFAULT_PATH)
find_library(LIBTORCH_CPU_LIBRARY torch_cpu PATHS "${MEMOPD_LIBTORCH_ROOT}/torch/lib" NO_DEFAULT_PATH)
find_library(LIBTORCH_C10_LIBRARY c10 PATHS "${MEMOPD_LIBTORCH_ROOT}/torch/lib" NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LIBTORCH_CPU_LIBRARY LIBTORCH_C10_LIBRARY LIBTORCH_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run tools/setup first")
if(LibTorch_FOUND AND NOT TARGET memopd_torch)
  get_filename_component(_torch_lib "${LIBTORCH_CPU_LIBRARY}" DIRECTORY)
  add_library(memopd_torch INTERFACE)
  target_include_directories(memopd_torch SYSTEM INTERFACE "${LIBTORCH_INCLUDE_DIR}"
    "${LIBTORCH_INCLUDE_DIR}/torch/csrc/api/include")
  target_compile_options(memopd_torch INTERFACE -Wno-conversion -Wno-shadow)
  # -rpath-link lets the linker see what libtorch_cpu needs through its own run path.
  file(GLOB _nvidia_lib "${MEMOPD_LIBTORCH_ROOT}/nvidia/*/lib")
  target_link_options(memopd_torch INTERFACE "-Wl,-rpath,${_torch_lib}")
  foreach(_dir IN LISTS _nvidia_lib)
    target_link_options(memopd_torch INTERFACE "-Wl,-rpath-link,${_dir}")
  endforeach()
  target_link_libraries(memopd_torch INTERFACE "${LIBTORCH_CPU_LIBRARY}" "${LIBTORCH_C10_LIBRARY}")
endif()
mark_as_advanced(LIBTORCH_INCLUDE_DIR LIBTORCH_CPU_LIBRARY LIBTORCH_C10_LIBRARY)
