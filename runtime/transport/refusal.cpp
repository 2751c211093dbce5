#include "runtime/transport/refusal.hpp"

#include "runtime/base/log.hpp"

namespace memopd {

std::string_view to_string(RefusalReason reason) {
  constexpr std::array<std::string_view, kNumRefusalReasons> kNames{
      "stranger",          "malformed",      "wrong_run",    "no_session", "duplicate",
      "stale_incarnation", "stale_sequence", "incompatible", "bad_payload"};
  return kNames[static_cast<std::size_t>(reason)];
}

namespace detail {

void RefusalLog::add(RefusalReason reason, std::string sender, std::string message) {
  counts_[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  // A stranger has another port each time: its address without it is the key.
  const std::string key = reason == RefusalReason::stranger ? sender.substr(0, sender.rfind(':')) : sender;
  if (logged_.size() < kMaxRemembered && logged_.emplace(reason, key).second) {
    log_warning("transport", "refused", {{"reason", to_string(reason)}, {"sender", sender}, {"message", message}});
  }
  if (handler_) {
    handler_({reason, std::move(sender), std::move(message)});
  }
}

RefusalCounts RefusalLog::counts() const {
  RefusalCounts counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = counts_[i].load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace detail
}  // namespace memopd
