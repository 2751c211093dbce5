// Watches the global allocator of the test program: the size of the largest request since the last reset.
#pragma once

#include <cstddef>

namespace memopd::testing {

void reset_largest_allocation();
[[nodiscard]] std::size_t largest_allocation_bytes();

}  // namespace memopd::testing
