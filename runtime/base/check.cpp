#include "runtime/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace memopd::detail {

void check_failed(std::string_view condition, std::string_view message, const char* file, int line) {
  std::fprintf(stderr, "bug: %.*s does not hold: %.*s (%s:%d)\n", static_cast<int>(condition.size()), condition.data(),
               static_cast<int>(message.size()), message.data(), file, line);
  std::abort();
}

}  // namespace memopd::detail
