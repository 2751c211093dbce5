// The object store of a process that shares its node: objects lie with the node's ObjectServer as sealed memfds.
//
// A type with fields is encoded at put and decoded by the first get of another process; while somebody in this process
// holds the object, get returns that one, also when another process has released it. A type without fields stays here.
// Blobs are mapped, never copied by a reader.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "runtime/base/expected.hpp"
#include "runtime/objects/object_store.hpp"

namespace memopd {

struct SharedStoreOptions {
  std::filesystem::path socket;              ///< of the node's ObjectServer
  std::uint64_t store_id = 0;                ///< of this start of this process alone in the run; >= 1
  std::chrono::milliseconds patience{5000};  ///< for the server to come up, and for each answer; >= 1
  std::chrono::milliseconds remote_patience{
      120'000};  ///< for an object to come from another node; a dead one is told sooner
};

/// @error invalid_argument  an option out of range
/// @error target_down       no server within the patience
/// @error refused           the server belongs to another user
[[nodiscard]] Expected<std::unique_ptr<ObjectStore>> connect_object_store(const SharedStoreOptions& options);

}  // namespace memopd
