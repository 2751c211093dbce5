// Tells the thread sanitizer of an order between threads that it cannot see: a hand-over through a library that is not
// instrumented (CAF, ZeroMQ). Nothing at all in other builds.
//
// What is done before hand_over(token) in one thread happens before what follows take_over(token) in another, if the library
// really orders them; where it does not, these two hide a race: use them only at the library's own documented hand-over.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace memopd {

/// @param token  the same address in both threads
inline void hand_over([[maybe_unused]] const void* token) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(const_cast<void*>(token));
#endif
}
inline void take_over([[maybe_unused]] const void* token) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(const_cast<void*>(token));
#endif
}

}  // namespace memopd
