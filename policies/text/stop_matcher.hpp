// Finds stop strings in a stream of tokens' bytes, one token at a time, across token borders.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace memopd {

/// One per request. Not thread-safe. Empty stop strings are dropped: they would stop before the first token.
class StopMatcher {
 public:
  explicit StopMatcher(const std::vector<std::string>& stop_strings);

  /// @param bytes  of the next token
  /// @return  true iff some stop string ends within `bytes`, wherever it began; what follows it does not matter
  bool push(std::string_view bytes);

  /// Forgets what was pushed.
  void reset() { tail_.clear(); }

 private:
  std::vector<std::string> stop_strings_;
  std::size_t max_tail_ = 0;  // bytes: one fewer than the longest stop string
  std::string tail_;
};

}  // namespace memopd
