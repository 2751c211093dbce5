// Identity: random 128-bit names, and what a process declares of itself before anything else is heard (R6, R13).
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/expected.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

/// 128 bits from the kernel's generator: nobody counts them out, nobody guesses one. `Tag` keeps kinds apart.
template <class Tag>
struct RandomId {
  std::array<std::uint8_t, 16> bytes{};

  friend auto operator<=>(const RandomId&, const RandomId&) = default;
};

using RunId = RandomId<struct RunTag>;                ///< one run
using InstanceId = RandomId<struct InstanceTag>;      ///< one process; containers share pids and MACs, never this
using BulkObjectId = RandomId<struct BulkObjectTag>;  ///< one payload offered for bulk transfer
MEMOPD_FIELDS(RunId, bytes)
MEMOPD_FIELDS(InstanceId, bytes)
MEMOPD_FIELDS(BulkObjectId, bytes)

/// Fills `bytes` from getrandom(2). Thread-safe.
void fill_random(std::span<std::uint8_t> bytes);

/// Lower case hexadecimal, two digits a byte.
[[nodiscard]] std::string to_hex(std::span<const std::uint8_t> bytes);

/// A RunId, InstanceId or BulkObjectId.
template <class Id>
[[nodiscard]] Id make_random_id() {
  Id id;
  fill_random(id.bytes);
  return id;
}

template <class Tag>
[[nodiscard]] std::string to_string(const RandomId<Tag>& id) {
  return to_hex(id.bytes);
}

inline constexpr std::int32_t kLinkProtocolVersion = 1;

/// What a process declares of itself; every other process of the run is compared with it.
struct ProcessIdentity {
  RunId run;
  InstanceId instance;
  std::uint64_t incarnation = 0;  ///< counts the starts of `role`; of two processes the higher one is the living one
  std::string role;               ///< the place in the run: "student/0"; at most one living process fills it
  std::int32_t protocol = kLinkProtocolVersion;
  std::string build_id;
  std::string schema_hash;  ///< of the message types it knows
};
MEMOPD_FIELDS(ProcessIdentity, run, instance, incarnation, role, protocol, build_id, schema_hash)

/// `student/0 (instance 8d0c.., incarnation 2)`, the instance in full
[[nodiscard]] std::string to_string(const ProcessIdentity& identity);

/// @error bad_schema  another protocol, build or schema; one line that shows both sides
/// @error refused     another run
[[nodiscard]] Expected<void> check_compatible(const ProcessIdentity& self, const ProcessIdentity& peer);

}  // namespace memopd
