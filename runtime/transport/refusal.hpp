// Refused: input of a peer or stranger that was not acted on. Counted by reason, the sender named; never a crash.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace memopd {

enum class RefusalReason : std::uint8_t {
  stranger,           ///< no member: no CURVE, another key, garbage on the port
  malformed,          ///< a member's frame that is not one
  wrong_run,          ///< a member's frame for another run
  no_session,         ///< a frame on a connection that declared nothing, was refused, or has ended
  duplicate,          ///< a claim on a living instance or role, or a second claim on a connection
  stale_incarnation,  ///< a claim or frame of an earlier incarnation
  stale_sequence,     ///< a frame that was there already
  incompatible,       ///< another protocol, build or schema
  bad_payload,        ///< the user of the transport refused it
};
inline constexpr std::size_t kNumRefusalReasons = 9;

[[nodiscard]] std::string_view to_string(RefusalReason reason);

struct Refused {
  RefusalReason reason = RefusalReason::malformed;
  std::string sender;  ///< the peer if known, else the address
  std::string message;
};

using RefusalCounts = std::array<std::int64_t, kNumRefusalReasons>;

namespace detail {

/// Counts every refusal, tells the handler, logs the first of each sender and reason.
class RefusalLog {
 public:
  explicit RefusalLog(std::function<void(const Refused&)> handler) : handler_(std::move(handler)) {}

  void add(RefusalReason reason, std::string sender, std::string message);  // on the socket thread
  [[nodiscard]] RefusalCounts counts() const;                               // any thread

 private:
  static constexpr std::size_t kMaxRemembered = 1024;

  const std::function<void(const Refused&)> handler_;
  std::array<std::atomic<std::int64_t>, kNumRefusalReasons> counts_{};
  std::set<std::pair<RefusalReason, std::string>> logged_;
};

}  // namespace detail
}  // namespace memopd
