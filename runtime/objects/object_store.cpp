#include "runtime/objects/object_store.hpp"

#include <cstdio>
#include <map>
#include <mutex>
#include <set>

#include "runtime/base/check.hpp"

namespace memopd {
namespace {

class LocalObjectStore final : public ObjectStore {
 public:
  explicit LocalObjectStore(std::uint64_t store_id) : store_id_(store_id) {}

  Expected<void> release(const ObjectRef& ref) override {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(ref);
    if (found == objects_.end()) {
      return unexpected(lost(ref));
    }
    by_scope_.erase({found->second.scope, ref});
    erase(found);
    return {};
  }

  std::size_t release_scope(const Scope& scope) override {
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

  [[nodiscard]] ObjectStoreCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  struct Stored {
    AnyObject object;
    Scope scope;
    std::size_t size_bytes = 0;
  };
  using Objects = std::map<ObjectRef, Stored>;

  ObjectRef put_any(AnyObject object, const Scope& scope, std::size_t size_bytes) override {
    MEMOPD_CHECK(object.value != nullptr, "put of a null object");
    const std::lock_guard lock(mutex_);
    const ObjectRef ref{store_id_, ++last_};
    objects_.emplace(ref, Stored{std::move(object), scope, size_bytes});
    by_scope_.emplace(scope, ref);
    ++counters_.num_put;
    ++counters_.num_objects;
    counters_.size_bytes += static_cast<std::int64_t>(size_bytes);
    return ref;
  }

  [[nodiscard]] Expected<std::shared_ptr<const void>> get_any(const ObjectRef& ref,
                                                              const std::type_info& wanted) const override {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(ref);
    if (found == objects_.end()) {
      return unexpected(lost(ref));
    }
    const AnyObject& object = found->second.object;
    if (*object.type != wanted) {
      return unexpected(ErrorCode::bad_schema, "object " + to_string(ref) + " of " + to_string(found->second.scope) +
                                                   " holds another type than asked for: " + object.type->name() +
                                                   ", asked for " + wanted.name());
    }
    return object.value;
  }

  void erase(Objects::iterator found) {
    ++counters_.num_released;
    --counters_.num_objects;
    counters_.size_bytes -= static_cast<std::int64_t>(found->second.size_bytes);
    objects_.erase(found);
  }

  [[nodiscard]] Error lost(const ObjectRef& ref) const {
    const bool was_here = ref.high == store_id_ && ref.low >= 1 && ref.low <= last_;
    return {ErrorCode::not_found,
            "object " + to_string(ref) + (was_here ? " was released" : " was never put into this store")};
  }

  const std::uint64_t store_id_;
  mutable std::mutex mutex_;
  Objects objects_;
  std::set<std::pair<Scope, ObjectRef>> by_scope_;
  std::uint64_t last_ = 0;
  ObjectStoreCounters counters_;
};

}  // namespace

std::string to_string(const ObjectRef& ref) {
  char text[40];
  std::snprintf(text, sizeof text, "%016llx-%016llx", static_cast<unsigned long long>(ref.high),
                static_cast<unsigned long long>(ref.low));
  return text;
}

std::string to_string(const Scope& scope) {
  const char* const kind = scope.kind == ScopeKind::step      ? "step "
                           : scope.kind == ScopeKind::version ? "version "
                                                              : "manual ";
  return kind + std::to_string(scope.id);
}

std::unique_ptr<ObjectStore> make_local_object_store(std::uint64_t store_id) {
  return std::make_unique<LocalObjectStore>(store_id);
}

}  // namespace memopd
