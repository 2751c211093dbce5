// LocalObjectStore: objects as shared_ptr in one process; alone, or for what a shared store cannot write as bytes.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "runtime/objects/object_store.hpp"

namespace memopd::detail {

/// The type under which a store keeps Blob.
[[nodiscard]] const ObjectType& blob_type();

/// bad_schema: the object has the type `found`.
[[nodiscard]] Error wrong_type(const ObjectRef& ref, const Scope& scope, std::string_view found,
                               std::string_view wanted);

class LocalObjectStore final : public ObjectStore {
 public:
  /// @param after  numbers start behind it
  explicit LocalObjectStore(std::uint64_t store_id, std::uint64_t after = 0)
      : store_id_(store_id), before_first_(after), last_(after) {}

  [[nodiscard]] ObjectRef put_blob(std::span<const std::byte> bytes, const Scope& scope) override;
  [[nodiscard]] Expected<std::unique_ptr<BlobWriter>> allocate_blob(std::size_t size_bytes) override;
  [[nodiscard]] Expected<Blob> get_blob(const ObjectRef& ref) const override;
  [[nodiscard]] Expected<void> wait(const ObjectRef& ref, std::chrono::milliseconds timeout) const override;
  Expected<void> release(const ObjectRef& ref) override;
  std::size_t release_scope(const Scope& scope) override;
  [[nodiscard]] ObjectStoreCounters counters() const override;

  ObjectRef put_any(AnyObject object, const Scope& scope, std::size_t size_bytes) override;
  [[nodiscard]] Expected<std::shared_ptr<const void>> get_any(const ObjectRef& ref,
                                                              const ObjectType& wanted) const override;

 private:
  struct Stored {
    AnyObject object;
    Scope scope;
    std::size_t size_bytes = 0;
  };
  using Objects = std::map<ObjectRef, Stored>;

  void erase(Objects::iterator found);
  [[nodiscard]] bool was_here(const ObjectRef& ref) const;
  [[nodiscard]] Error lost(const ObjectRef& ref) const;

  const std::uint64_t store_id_;
  const std::uint64_t before_first_;
  mutable std::mutex mutex_;
  mutable std::condition_variable added_;
  Objects objects_;
  std::set<std::pair<Scope, ObjectRef>> by_scope_;
  std::uint64_t last_;
  ObjectStoreCounters counters_;
};

}  // namespace memopd::detail
