// A translation unit of its own: inlined into others, the replaced operators look mismatched to the compiler.
#include "tests/unit/runtime/wire/allocation_watch.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> largest{0};
}  // namespace

void* operator new(std::size_t size) {
  std::size_t seen = largest.load();
  while (size > seen && !largest.compare_exchange_weak(seen, size)) {
  }
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace memopd::testing {

void reset_largest_allocation() { largest = 0; }
std::size_t largest_allocation_bytes() { return largest.load(); }

}  // namespace memopd::testing
