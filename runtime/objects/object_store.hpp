// ObjectStore: large immutable payloads by reference. Packs, scores, weights and step batches travel as an ObjectRef.
//
// Lifetime is by scope, never by counting references across processes: an object lives until its scope or itself is
// released, or the run ends. A reader that holds the shared_ptr keeps the bytes beyond that.
// Unknown or released = not_found with the reference and which of the two; another type than asked for = bad_schema.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "runtime/base/expected.hpp"
#include "runtime/data/teacher_scores.hpp"

namespace memopd {

enum class ScopeKind : std::uint8_t { step, version, manual };

/// What ends the life of an object: the end of a step, of a policy_version, or a call.
struct Scope {
  ScopeKind kind = ScopeKind::manual;
  std::int64_t id = 0;

  friend auto operator<=>(const Scope&, const Scope&) = default;
};

struct ObjectStoreCounters {
  std::int64_t num_objects = 0;   ///< now
  std::int64_t size_bytes = 0;    ///< now, as told by put
  std::int64_t num_put = 0;       ///< ever
  std::int64_t num_released = 0;  ///< ever
};

/// "00000000000000a1-0000000000000007"
[[nodiscard]] std::string to_string(const ObjectRef& ref);
/// "step 12", "version 3", "manual 0"
[[nodiscard]] std::string to_string(const Scope& scope);

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// @param object      not null (MEMOPD_CHECK); nobody writes to it any more
  /// @param size_bytes  what the counters show; >= 0
  template <class T>
  ObjectRef put(std::shared_ptr<const T> object, Scope scope, std::size_t size_bytes = 0) {
    return put_any({std::move(object), &typeid(T)}, scope, size_bytes);
  }
  template <class T>
  ObjectRef put(std::shared_ptr<T> object, Scope scope, std::size_t size_bytes = 0) {
    return put<std::remove_const_t<T>>(std::shared_ptr<const std::remove_const_t<T>>(std::move(object)), scope,
                                       size_bytes);
  }

  /// O(log objects), no copy.
  /// @error not_found   never put here, or released
  /// @error bad_schema  put as another type
  template <class T>
  [[nodiscard]] Expected<std::shared_ptr<const T>> get(const ObjectRef& ref) const {
    auto object = get_any(ref, typeid(T));
    if (!object) {
      return unexpected(object.error());
    }
    return std::static_pointer_cast<const T>(*std::move(object));
  }

  /// @error not_found  never put here, or released before
  virtual Expected<void> release(const ObjectRef& ref) = 0;
  /// Releases what was put under exactly this scope. @return how many
  virtual std::size_t release_scope(const Scope& scope) = 0;
  [[nodiscard]] virtual ObjectStoreCounters counters() const = 0;

 protected:
  struct AnyObject {
    std::shared_ptr<const void> value;
    const std::type_info* type = nullptr;
  };

 private:
  virtual ObjectRef put_any(AnyObject object, const Scope& scope, std::size_t size_bytes) = 0;
  [[nodiscard]] virtual Expected<std::shared_ptr<const void>> get_any(const ObjectRef& ref,
                                                                      const std::type_info& wanted) const = 0;
};

/// The in-process form. `store_id` is the high half of every reference; two stores of a run have different ids.
[[nodiscard]] std::unique_ptr<ObjectStore> make_local_object_store(std::uint64_t store_id = 1);

}  // namespace memopd
