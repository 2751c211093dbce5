#include "runtime/objects/shared_object_store.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "runtime/base/check.hpp"
#include "runtime/base/log.hpp"
#include "runtime/objects/detail/local_object_store.hpp"
#include "runtime/objects/detail/store_connection.hpp"

namespace memopd {
namespace {

using detail::Descriptor;
using detail::Mapping;
using std::chrono::milliseconds;

constexpr std::uint64_t kLocalBit = std::uint64_t{1} << 63;  // of numbers whose object stays in its process
constexpr std::size_t kMaxFailures = 256;

StoreRequest request_of(StoreVerb verb, const ObjectRef& ref, const Scope& scope = {}) {
  StoreRequest request;
  request.verb = verb;
  request.ref = ref;
  request.scope = scope;
  return request;
}

bool is_local(const ObjectRef& ref) { return (ref.low & kLocalBit) != 0; }

/// Objects that somebody in this process may still hold. Not thread-safe.
class HeldObjects {
 public:
  void add(const ObjectRef& ref, const Scope& scope, const ObjectType& type, const std::shared_ptr<const void>& value) {
    if (held_.size() >= next_sweep_) {
      std::erase_if(held_, [](const auto& entry) { return entry.second.value.expired(); });
      next_sweep_ = std::max<std::size_t>(64, 2 * held_.size());
    }
    held_.insert_or_assign(ref, Held{value, scope, &type});
  }
  /// Null if nobody holds it.
  [[nodiscard]] Expected<std::shared_ptr<const void>> find(const ObjectRef& ref, const ObjectType& wanted) const {
    const auto found = held_.find(ref);
    std::shared_ptr<const void> value = found == held_.end() ? nullptr : found->second.value.lock();
    if (value && *found->second.type->type != *wanted.type) {
      return unexpected(detail::wrong_type(ref, found->second.scope, found->second.type->name, wanted.name));
    }
    return value;
  }
  void remove(const ObjectRef& ref) { held_.erase(ref); }
  void remove(const Scope& scope) {
    std::erase_if(held_, [&](const auto& entry) { return entry.second.scope == scope; });
  }

 private:
  struct Held {
    std::weak_ptr<const void> value;
    Scope scope;
    const ObjectType* type = nullptr;
  };
  std::map<ObjectRef, Held> held_;
  std::size_t next_sweep_ = 64;
};

class SharedObjectStore final : public ObjectStore {
 public:
  explicit SharedObjectStore(const SharedStoreOptions& options)
      : options_(options), local_(options.store_id, kLocalBit), connection_(options.socket, options.patience) {}

  Expected<void> connect() { return connection_.connect(); }

  [[nodiscard]] ObjectRef put_blob(std::span<const std::byte> bytes, const Scope& scope) override {
    return hand_over(detail::make_sealed(bytes), bytes.size(), detail::blob_type(), scope, nullptr);
  }
  [[nodiscard]] Expected<std::unique_ptr<BlobWriter>> allocate_blob(std::size_t size_bytes) override;
  [[nodiscard]] Expected<Blob> get_blob(const ObjectRef& ref) const override;
  [[nodiscard]] Expected<void> wait(const ObjectRef& ref, milliseconds timeout) const override;
  Expected<void> release(const ObjectRef& ref) override;
  std::size_t release_scope(const Scope& scope) override;
  [[nodiscard]] ObjectStoreCounters counters() const override;

  /// Gives a sealed memfd to the server under the next number.
  ObjectRef hand_over(const Expected<Descriptor>& memory, std::size_t size_bytes, const ObjectType& type,
                      const Scope& scope, const std::shared_ptr<const void>& value);

 private:
  ObjectRef put_any(AnyObject object, const Scope& scope, std::size_t size_bytes) override;
  [[nodiscard]] Expected<std::shared_ptr<const void>> get_any(const ObjectRef& ref,
                                                              const ObjectType& wanted) const override;
  Expected<detail::StoreAnswer> ask(const StoreRequest& request, int descriptor = -1) const {
    return connection_.request(request, descriptor);
  }
  [[nodiscard]] Expected<std::shared_ptr<const void>> fetch(const ObjectRef& ref, const ObjectType& wanted) const;
  [[nodiscard]] Expected<void> wait_on_server(const ObjectRef& ref, milliseconds timeout, bool is_elsewhere) const;
  [[nodiscard]] Expected<void> check_here(const ObjectRef& ref) const;
  void remember_failure(const ObjectRef& ref, const Error& error);

  const SharedStoreOptions options_;
  detail::LocalObjectStore local_;
  mutable detail::StoreConnection connection_;
  std::mutex put_mutex_;  // numbers reach the server in order
  std::uint64_t last_ = 0;
  mutable std::mutex mutex_;
  mutable HeldObjects held_;
  std::deque<std::pair<ObjectRef, Error>> failures_;
};

class SharedBlobWriter final : public BlobWriter {
 public:
  SharedBlobWriter(SharedObjectStore& store, Descriptor memory, std::shared_ptr<Mapping> mapping)
      : store_(store), memory_(std::move(memory)), mapping_(std::move(mapping)) {}

  [[nodiscard]] std::span<std::byte> bytes() override { return mapping_->bytes(); }
  [[nodiscard]] ObjectRef seal_and_put(const Scope& scope) override {
    MEMOPD_CHECK(memory_.is_open(), "seal_and_put of a blob that was put before");
    const std::size_t size_bytes = mapping_->bytes().size();
    mapping_->unmap();
    Expected<Descriptor> memory = std::move(memory_);
    if (const auto sealed = detail::seal(*memory); !sealed) {
      memory = unexpected(sealed.error());
    }
    return store_.hand_over(memory, size_bytes, detail::blob_type(), scope, nullptr);
  }

 private:
  SharedObjectStore& store_;
  Descriptor memory_;
  std::shared_ptr<Mapping> mapping_;
};

Expected<std::unique_ptr<BlobWriter>> SharedObjectStore::allocate_blob(std::size_t size_bytes) {
  auto memory = detail::create_memory(size_bytes);
  MEMOPD_RETURN_IF_ERROR(memory);
  auto mapping = detail::map_writable(*memory, size_bytes);
  MEMOPD_RETURN_IF_ERROR(mapping);
  return std::unique_ptr<BlobWriter>(
      std::make_unique<SharedBlobWriter>(*this, *std::move(memory), *std::move(mapping)));
}

ObjectRef SharedObjectStore::put_any(AnyObject object, const Scope& scope, std::size_t size_bytes) {
  MEMOPD_CHECK(object.value != nullptr, "put of a null object");
  if (!object.type->has_codec()) {
    return local_.put_any(std::move(object), scope, size_bytes);
  }
  const auto bytes = object.type->encode(object.value.get());
  return hand_over(detail::make_sealed(bytes), bytes.size(), *object.type, scope, object.value);
}

ObjectRef SharedObjectStore::hand_over(const Expected<Descriptor>& memory, std::size_t size_bytes,
                                       const ObjectType& type, const Scope& scope,
                                       const std::shared_ptr<const void>& value) {
  const std::lock_guard put_lock(put_mutex_);
  const ObjectRef ref{options_.store_id, ++last_};
  Expected<void> done;
  if (!memory) {
    done = unexpected(memory.error());
  } else if (const auto answer =
                 ask({StoreVerb::put, ref, scope, size_bytes, std::string(type.name), 0, false}, memory->get());
             !answer) {
    done = unexpected(answer.error());
  }
  if (!done) {
    remember_failure(ref, done.error());
  } else if (value) {
    const std::lock_guard lock(mutex_);
    held_.add(ref, scope, type, value);
  }
  return ref;
}

void SharedObjectStore::remember_failure(const ObjectRef& ref, const Error& error) {
  const std::string name = "object " + to_string(ref);
  const bool is_named = error.message.starts_with(name);  // by the server
  const std::string message = is_named ? error.message : name + " could not be put: " + error.message;
  log_error("objects", "put_failed", {{"reason", message}});
  const std::lock_guard lock(mutex_);
  failures_.emplace_back(ref, Error{error.code, message});
  if (failures_.size() > kMaxFailures) {
    failures_.pop_front();
  }
}

Expected<void> SharedObjectStore::check_here(const ObjectRef& ref) const {
  const std::lock_guard lock(mutex_);
  const auto failure = std::find_if(failures_.begin(), failures_.end(), [&](const auto& f) { return f.first == ref; });
  if (failure != failures_.end()) {
    return unexpected(failure->second);
  }
  if (is_local(ref) && ref.high != options_.store_id) {
    return unexpected(ErrorCode::not_found,
                      "object " + to_string(ref) + " stays in the process that put it: its type has no fields");
  }
  return {};
}

Expected<std::shared_ptr<const void>> SharedObjectStore::get_any(const ObjectRef& ref, const ObjectType& wanted) const {
  MEMOPD_RETURN_IF_ERROR(check_here(ref));
  if (is_local(ref)) {
    return local_.get_any(ref, wanted);
  }
  {
    const std::lock_guard lock(mutex_);
    auto held = held_.find(ref, wanted);
    if (!held || *held) {
      return held;
    }
  }
  return fetch(ref, wanted);
}

Expected<std::shared_ptr<const void>> SharedObjectStore::fetch(const ObjectRef& ref, const ObjectType& wanted) const {
  auto answer = ask(request_of(StoreVerb::get, ref));
  if (answer && answer->reply.may_come) {
    MEMOPD_RETURN_IF_ERROR(wait_on_server(ref, options_.remote_patience, true));
    answer = ask(request_of(StoreVerb::get, ref));
    if (answer && answer->reply.error) {
      return unexpected(*answer->reply.error);
    }
  }
  MEMOPD_RETURN_IF_ERROR(answer);
  const StoreReply& reply = answer->reply;
  if (reply.type != wanted.name) {
    return unexpected(detail::wrong_type(ref, reply.scope, reply.type, wanted.name));
  }
  const auto mapping = detail::map_readable(answer->descriptor, reply.size_bytes);
  MEMOPD_RETURN_IF_ERROR(mapping);
  const bool is_blob = *wanted.type == *detail::blob_type().type;
  auto value = is_blob ? Expected<std::shared_ptr<const void>>(std::shared_ptr<const void>(*mapping))
                       : wanted.decode((*mapping)->bytes());
  if (!value) {
    return unexpected(value.error().code, "object " + to_string(ref) + ": " + value.error().message);
  }
  const std::lock_guard lock(mutex_);
  auto held = held_.find(ref, wanted);
  if (held && *held) {
    return held;  // another thread was faster
  }
  held_.add(ref, reply.scope, wanted, *value);
  return value;
}

Expected<Blob> SharedObjectStore::get_blob(const ObjectRef& ref) const {
  const auto value = get_any(ref, detail::blob_type());
  MEMOPD_RETURN_IF_ERROR(value);
  const auto mapping = std::static_pointer_cast<const Mapping>(*value);
  return Blob{mapping, mapping->bytes()};
}

Expected<void> SharedObjectStore::wait(const ObjectRef& ref, milliseconds timeout) const {
  MEMOPD_RETURN_IF_ERROR(check_here(ref));
  if (is_local(ref)) {
    return local_.wait(ref, timeout);
  }
  return wait_on_server(ref, timeout, false);
}

/// Over a connection of its own, so that others need not wait too.
Expected<void> SharedObjectStore::wait_on_server(const ObjectRef& ref, milliseconds timeout, bool is_elsewhere) const {
  detail::StoreConnection own(options_.socket, options_.patience);
  StoreRequest request = request_of(StoreVerb::wait, ref);
  request.timeout_ms = timeout.count();
  request.is_elsewhere = is_elsewhere;
  const auto answer = own.request(request, -1, timeout);
  MEMOPD_RETURN_IF_ERROR(answer);
  return {};
}

Expected<void> SharedObjectStore::release(const ObjectRef& ref) {
  MEMOPD_RETURN_IF_ERROR(check_here(ref));
  if (is_local(ref)) {
    return local_.release(ref);
  }
  {
    const std::lock_guard lock(mutex_);
    held_.remove(ref);
  }
  const auto answer = ask(request_of(StoreVerb::release, ref));
  MEMOPD_RETURN_IF_ERROR(answer);
  return {};
}

std::size_t SharedObjectStore::release_scope(const Scope& scope) {
  const std::size_t num_local = local_.release_scope(scope);
  {
    const std::lock_guard lock(mutex_);
    held_.remove(scope);
  }
  const auto answer = ask(request_of(StoreVerb::release_scope, {}, scope));
  if (!answer) {
    log_error("objects", "release_failed", {{"scope", to_string(scope)}, {"reason", answer.error().message}});
    return num_local;
  }
  return num_local + answer->reply.count;
}

ObjectStoreCounters SharedObjectStore::counters() const {
  ObjectStoreCounters total = local_.counters();
  if (const auto answer = ask(request_of(StoreVerb::counters, {}))) {
    const ObjectStoreCounters& node = answer->reply.counters;
    total.num_objects += node.num_objects;
    total.size_bytes += node.size_bytes;
    total.num_put += node.num_put;
    total.num_released += node.num_released;
  }
  return total;
}

}  // namespace

Expected<std::unique_ptr<ObjectStore>> connect_object_store(const SharedStoreOptions& options) {
  if (options.store_id == 0 || options.patience < milliseconds(1)) {
    return unexpected(ErrorCode::invalid_argument, "store_id " + std::to_string(options.store_id) + ", patience " +
                                                       std::to_string(options.patience.count()) +
                                                       " ms: both are at least 1");
  }
  auto store = std::make_unique<SharedObjectStore>(options);
  MEMOPD_RETURN_IF_ERROR(store->connect());
  return std::unique_ptr<ObjectStore>(std::move(store));
}

}  // namespace memopd
