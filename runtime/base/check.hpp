// MEMOPD_CHECK: for our own bugs only. Input of users, peers, plug-ins, models and files never reaches one.
#pragma once

#include <string_view>

namespace memopd::detail {

[[noreturn]] void check_failed(std::string_view condition, std::string_view message, const char* file, int line);

}  // namespace memopd::detail

/// Ends the process with the condition, the message and the place when `condition` is false.
#define MEMOPD_CHECK(condition, message)                                         \
  do {                                                                           \
    if (!(condition)) {                                                          \
      ::memopd::detail::check_failed(#condition, (message), __FILE__, __LINE__); \
    }                                                                            \
  } while (false)
