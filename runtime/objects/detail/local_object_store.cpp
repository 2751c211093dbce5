#include "runtime/objects/detail/local_object_store.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "runtime/base/check.hpp"

namespace memopd::detail {
namespace {

using Bytes = std::vector<std::byte>;

class LocalBlobWriter final : public BlobWriter {
 public:
  LocalBlobWriter(LocalObjectStore& store, std::size_t size_bytes)
      : store_(store), bytes_(std::make_shared<Bytes>(size_bytes)) {}

  [[nodiscard]] std::span<std::byte> bytes() override { return *bytes_; }
  [[nodiscard]] ObjectRef seal_and_put(const Scope& scope) override {
    MEMOPD_CHECK(bytes_ != nullptr, "seal_and_put of a blob that was put before");
    const std::shared_ptr<const Bytes> bytes = std::move(bytes_);
    return store_.put_any({std::make_shared<const Blob>(Blob{bytes, *bytes}), &blob_type()}, scope, bytes->size());
  }

 private:
  LocalObjectStore& store_;
  std::shared_ptr<Bytes> bytes_;
};

}  // namespace

const ObjectType& blob_type() {
  static const ObjectType type{&typeid(Blob), "blob"};
  return type;
}

Error wrong_type(const ObjectRef& ref, const Scope& scope, std::string_view found, std::string_view wanted) {
  return {ErrorCode::bad_schema, "object " + to_string(ref) + " of " + to_string(scope) +
                                     " holds another type than asked for: " + std::string(found) + ", asked for " +
                                     std::string(wanted)};
}

ObjectRef LocalObjectStore::put_blob(std::span<const std::byte> bytes, const Scope& scope) {
  const auto copy = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
  return put_any({std::make_shared<const Blob>(Blob{copy, *copy}), &blob_type()}, scope, bytes.size());
}

Expected<std::unique_ptr<BlobWriter>> LocalObjectStore::allocate_blob(std::size_t size_bytes) try {
  return std::unique_ptr<BlobWriter>(std::make_unique<LocalBlobWriter>(*this, size_bytes));
} catch (const std::exception&) {
  return unexpected(ErrorCode::io_error, "a blob of " + std::to_string(size_bytes) + " bytes: out of memory");
}

Expected<Blob> LocalObjectStore::get_blob(const ObjectRef& ref) const {
  const auto blob = get_any(ref, blob_type());
  MEMOPD_RETURN_IF_ERROR(blob);
  return *std::static_pointer_cast<const Blob>(*blob);
}

Expected<void> LocalObjectStore::wait(const ObjectRef& ref, std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  const bool is_known = added_.wait_for(lock, timeout, [&] { return objects_.contains(ref) || was_here(ref); });
  if (objects_.contains(ref)) {
    return {};
  }
  return is_known ? unexpected(lost(ref))
                  : unexpected(ErrorCode::timeout, "object " + to_string(ref) + " was not put within " +
                                                       std::to_string(timeout.count()) + " ms");
}

Expected<void> LocalObjectStore::release(const ObjectRef& ref) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(ref);
  if (found == objects_.end()) {
    return unexpected(lost(ref));
  }
  by_scope_.erase({found->second.scope, ref});
  erase(found);
  return {};
}

std::size_t LocalObjectStore::release_scope(const Scope& scope) {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  auto entry = by_scope_.lower_bound({scope, ObjectRef{}});
  while (entry != by_scope_.end() && entry->first == scope) {
    erase(objects_.find(entry->second));
    entry = by_scope_.erase(entry);
    ++count;
  }
  return count;
}

ObjectStoreCounters LocalObjectStore::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

ObjectRef LocalObjectStore::put_any(AnyObject object, const Scope& scope, std::size_t size_bytes) {
  MEMOPD_CHECK(object.value != nullptr, "put of a null object");
  const std::lock_guard lock(mutex_);
  const ObjectRef ref{store_id_, ++last_};
  objects_.emplace(ref, Stored{std::move(object), scope, size_bytes});
  by_scope_.emplace(scope, ref);
  ++counters_.num_put;
  ++counters_.num_objects;
  counters_.size_bytes += static_cast<std::int64_t>(size_bytes);
  added_.notify_all();
  return ref;
}

Expected<std::shared_ptr<const void>> LocalObjectStore::get_any(const ObjectRef& ref, const ObjectType& wanted) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(ref);
  if (found == objects_.end()) {
    return unexpected(lost(ref));
  }
  const auto& [object, scope, size_bytes] = found->second;
  if (*object.type->type != *wanted.type) {
    return unexpected(wrong_type(ref, scope, object.type->name, wanted.name));
  }
  return object.value;
}

void LocalObjectStore::erase(Objects::iterator found) {
  ++counters_.num_released;
  --counters_.num_objects;
  counters_.size_bytes -= static_cast<std::int64_t>(found->second.size_bytes);
  objects_.erase(found);
}

bool LocalObjectStore::was_here(const ObjectRef& ref) const {
  return ref.high == store_id_ && ref.low > before_first_ && ref.low <= last_;
}

Error LocalObjectStore::lost(const ObjectRef& ref) const {
  return {ErrorCode::not_found,
          "object " + to_string(ref) + (was_here(ref) ? " was released" : " was never put into this store")};
}

}  // namespace memopd::detail
