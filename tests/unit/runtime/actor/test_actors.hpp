// Messages and actors that the tests of runtime/actor share. Registered under "test_*".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/actor/actor.hpp"
#include "runtime/actor/deterministic_cluster.hpp"
#include "runtime/base/log.hpp"

namespace memopd::testing {

struct Add {
  std::int64_t amount = 0;
};
MEMOPD_MESSAGE(Add, 1, amount)
struct Total {
  std::int64_t value = 0;
};
MEMOPD_MESSAGE(Total, 1, value)
struct Numbers {
  std::vector<std::int64_t> values;
};
MEMOPD_MESSAGE(Numbers, 1, values)
struct Text {
  std::string text;
};
MEMOPD_MESSAGE(Text, 1, text)

/// test_counter: adds, remembers what came, throws on a negative amount, never answers Hold until Open.
struct Recorded {};
MEMOPD_MESSAGE(Recorded, 1)
struct Hold {};
MEMOPD_MESSAGE(Hold, 1)
struct Open {
  std::int64_t value = 0;
};
MEMOPD_MESSAGE(Open, 1, value)
struct Drop {};
MEMOPD_MESSAGE(Drop, 1)
struct Fail {
  std::string cause;
};
MEMOPD_MESSAGE(Fail, 1, cause)
/// No actor handles it.
struct Unknown {};
MEMOPD_MESSAGE(Unknown, 1)

/// test_relay: asks the group named in its init message and continues.
struct RelayInit {
  std::string target;
};
MEMOPD_MESSAGE(RelayInit, 1, target)
struct AddTwice {
  std::int64_t amount = 0;
  std::int64_t deadline_ms = 3'600'000;  ///< far: no test that expects an answer depends on the load of the machine
};
MEMOPD_MESSAGE(AddTwice, 1, amount, deadline_ms)
/// Tells the target 1 .. count.
struct Burst {
  std::int64_t count = 0;
};
MEMOPD_MESSAGE(Burst, 1, count)
/// Asks, and throws in the continuation.
struct ThrowLater {};
MEMOPD_MESSAGE(ThrowLater, 1)

/// test_watcher: watches the target of its RelayInit from the start; answers NextDown when it has ended,
/// Recorded as soon as it watches.
struct NextDown {};
MEMOPD_MESSAGE(NextDown, 1)

/// Every kind of cluster; for GENERATE(from_range(cluster_kinds())).
[[nodiscard]] std::vector<std::string> cluster_kinds();
[[nodiscard]] std::unique_ptr<Cluster> make_cluster(const std::string& kind,
                                                    std::function<void(const Down&)> on_failure = {});

/// Collects what is logged while it lives, instead of printing it. Thread-safe.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  /// The lines of events named `name`, without their time.
  [[nodiscard]] std::vector<std::string> lines(std::string_view name) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace memopd::testing
