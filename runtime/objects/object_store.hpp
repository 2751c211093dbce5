// ObjectStore: large immutable payloads by reference. Packs, scores, weights and step batches travel as an ObjectRef.
//
// Two forms: within one process (make_local_object_store), and over the processes of a node (shared_object_store.hpp).
// Lifetime is by scope, never by counting references across processes: an object lives until its scope or itself is
// released, or the run ends. A reader that holds the shared_ptr or the Blob keeps the bytes beyond that.
// Unknown or released = not_found with the reference and which of the two; another type than asked for = bad_schema.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/base/expected.hpp"
#include "runtime/data/teacher_scores.hpp"
#include "runtime/objects/object_type.hpp"

namespace memopd {

enum class ScopeKind : std::uint8_t { step, version, manual };
MEMOPD_ENUM(ScopeKind, manual)

/// What ends the life of an object: the end of a step, of a policy_version, or a call.
struct Scope {
  ScopeKind kind = ScopeKind::manual;
  std::int64_t id = 0;

  friend auto operator<=>(const Scope&, const Scope&) = default;
};
MEMOPD_FIELDS(Scope, kind, id)

struct ObjectStoreCounters {
  std::int64_t num_objects = 0;   ///< now
  std::int64_t size_bytes = 0;    ///< now; as told by put, encoded where objects leave their process
  std::int64_t num_put = 0;       ///< ever
  std::int64_t num_released = 0;  ///< ever
};
MEMOPD_FIELDS(ObjectStoreCounters, num_objects, size_bytes, num_put, num_released)

/// "00000000000000a1-0000000000000007"
[[nodiscard]] std::string to_string(const ObjectRef& ref);
/// "step 12", "version 3", "manual 0"
[[nodiscard]] std::string to_string(const Scope& scope);

/// Immutable bytes and what keeps them in memory.
struct Blob {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

/// A blob in the making, in its final place. Not thread-safe; ends before its store does. Dropped = never put.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  /// Zeros at first. Nobody else sees them; invalid after seal_and_put.
  [[nodiscard]] virtual std::span<std::byte> bytes() = 0;
  /// Once (MEMOPD_CHECK). No copy.
  [[nodiscard]] virtual ObjectRef seal_and_put(const Scope& scope) = 0;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// @param object      not null (MEMOPD_CHECK); nobody writes to it any more
  /// @param size_bytes  what the counters show while the object stays in this process; >= 0
  /// A store that could not keep it logs why and lets later calls of get say so.
  template <class T>
  ObjectRef put(std::shared_ptr<const T> object, Scope scope, std::size_t size_bytes = 0) {
    return put_any({std::move(object), &object_type<T>()}, scope, size_bytes);
  }
  template <class T>
  ObjectRef put(std::shared_ptr<T> object, Scope scope, std::size_t size_bytes = 0) {
    return put<std::remove_const_t<T>>(std::shared_ptr<const std::remove_const_t<T>>(std::move(object)), scope,
                                       size_bytes);
  }

  /// No copy while somebody in this process holds the object; O(bytes) for the first reader in another process.
  /// @error not_found   never put here, or released
  /// @error bad_schema  put as another type
  /// @error what refused the put; target_down when the store is out of reach
  template <class T>
  [[nodiscard]] Expected<std::shared_ptr<const T>> get(const ObjectRef& ref) const {
    auto object = get_any(ref, object_type<T>());
    if (!object) {
      return unexpected(object.error());
    }
    return std::static_pointer_cast<const T>(*std::move(object));
  }

  /// One copy. Failures as put says.
  [[nodiscard]] virtual ObjectRef put_blob(std::span<const std::byte> bytes, const Scope& scope) = 0;
  /// @error io_error, overloaded  no memory or no descriptor for it
  [[nodiscard]] virtual Expected<std::unique_ptr<BlobWriter>> allocate_blob(std::size_t size_bytes) = 0;
  /// No copy. Errors as get says.
  [[nodiscard]] virtual Expected<Blob> get_blob(const ObjectRef& ref) const = 0;

  /// Blocks until the object is there, put by a process of this node. @param timeout >= 0
  /// @error not_found  released before
  /// @error timeout    not put within `timeout`
  /// @error what refused the put; target_down when the store is out of reach
  [[nodiscard]] virtual Expected<void> wait(const ObjectRef& ref, std::chrono::milliseconds timeout) const = 0;

  /// @error not_found    never put here, or released before
  /// @error target_down  the store is out of reach
  virtual Expected<void> release(const ObjectRef& ref) = 0;
  /// Releases what was put under exactly this scope, by anybody. @return how many
  virtual std::size_t release_scope(const Scope& scope) = 0;
  [[nodiscard]] virtual ObjectStoreCounters counters() const = 0;

 protected:
  struct AnyObject {
    std::shared_ptr<const void> value;
    const ObjectType* type = nullptr;
  };

 private:
  virtual ObjectRef put_any(AnyObject object, const Scope& scope, std::size_t size_bytes) = 0;
  [[nodiscard]] virtual Expected<std::shared_ptr<const void>> get_any(const ObjectRef& ref,
                                                                      const ObjectType& wanted) const = 0;
};

/// The in-process form. `store_id` is the high half of every reference; two stores of a run have different ids.
[[nodiscard]] std::unique_ptr<ObjectStore> make_local_object_store(std::uint64_t store_id = 1);

}  // namespace memopd
