#include "policies/text/stop_matcher.hpp"

#include <algorithm>

namespace memopd {

StopMatcher::StopMatcher(const std::vector<std::string>& stop_strings) {
  for (const std::string& stop : stop_strings) {
    if (!stop.empty()) {
      stop_strings_.push_back(stop);
      max_tail_ = std::max(max_tail_, stop.size() - 1);
    }
  }
}

bool StopMatcher::push(std::string_view bytes) {
  const std::size_t old_size = tail_.size();
  tail_.append(bytes);
  bool is_found = false;
  for (const std::string& stop : stop_strings_) {
    // Only matches that end in the new bytes: earlier ones were reported by earlier calls.
    const std::size_t from = old_size >= stop.size() ? old_size - stop.size() + 1 : 0;
    is_found = is_found || tail_.find(stop, from) != std::string::npos;
  }
  if (tail_.size() > max_tail_) {
    tail_.erase(0, tail_.size() - max_tail_);
  }
  return is_found;
}

}  // namespace memopd
