// ObjectTable: the objects of a node as its server keeps them: one sealed memfd each, by reference and by scope.
//
// Numbers of one store arrive in order (its connection is one), so the last one tells "released" from "never put".
// What was refused, or came from another node and was released, is remembered for the last kMaxRemembered references.
// Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/objects/detail/sealed_memory.hpp"
#include "runtime/objects/object_store.hpp"
#include "runtime/transport/bulk.hpp"

namespace memopd::detail {

inline constexpr std::size_t kMaxRemembered = 4096;
inline constexpr std::size_t kMaxStores = 65536;  ///< that ever put into one server

struct StoredObject {
  Scope scope;
  std::uint64_t size_bytes = 0;
  std::string type;
  std::shared_ptr<const Descriptor> memory;
  std::optional<BulkTicket> ticket = std::nullopt;  ///< once it is offered
  std::shared_ptr<const void> offer = nullptr;      ///< withdraws the ticket at its end
};

class ObjectTable {
 public:
  /// @param max_bytes  of all objects and running pulls; 0 = no bound
  explicit ObjectTable(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// @error refused         no sealed memfd of that size
  /// @error overloaded      above max_bytes, or too many stores
  /// @error already_exists  this number or a later one of its store was put before
  /// A refusal is what later calls of get say.
  Expected<void> put(const ObjectRef& ref, StoredObject object);
  /// Lets later calls of get say why `ref` is not here, unless it is.
  void remember_refused(const ObjectRef& ref, const Error& error);

  [[nodiscard]] Expected<StoredObject> get(const ObjectRef& ref) const;
  /// nullopt: not put yet. @error as get says
  [[nodiscard]] std::optional<Expected<void>> presence(const ObjectRef& ref) const;

  /// Whether the store of `ref` has put anything here, so that what is not here will not come from elsewhere.
  [[nodiscard]] bool knows_store(const ObjectRef& ref) const;

  Expected<void> release(const ObjectRef& ref);
  std::size_t release_scope(const Scope& scope);
  [[nodiscard]] ObjectStoreCounters counters() const;

  /// Somebody looks for it on other nodes. From then on a release of it is remembered: a pull that begins later fails.
  /// @return whether it is to be asked for: it is neither here nor on its way
  bool begin_search(const ObjectRef& ref);
  /// A pull of it that runs says nothing more.
  void fail_search(const ObjectRef& ref, const Error& error);
  [[nodiscard]] std::optional<Error> search_failure(const ObjectRef& ref) const;
  /// Forgets what failed, but for what is awaited.
  void prune_searches(const std::function<bool(const ObjectRef&)>& is_awaited);

  /// Room for an object on its way from another node. @return names this attempt
  /// @error overloaded
  /// @error not_found  released since begin_search
  /// An error, here as of end_pull, is the failure of the search too.
  Expected<std::uint64_t> begin_pull(const ObjectRef& ref, const Scope& scope, std::uint64_t size_bytes);
  /// Ends the attempt; its room is given back or taken by the object.
  /// @error that of `object`
  /// @error not_found  released while it was on its way
  Expected<void> end_pull(std::uint64_t attempt, Expected<StoredObject> object);
  /// Keeps `offer` until the release. @return the ticket: an earlier one if there is one
  Expected<BulkTicket> set_offer(const ObjectRef& ref, BulkTicket ticket, std::shared_ptr<const void> offer);
  /// Lets go of everything; what is on its way is released.
  void close();

 private:
  struct Search {
    std::optional<Error> failure;
    bool is_released = false;
    std::set<Scope> ended;  // its own is known when the pull begins
  };
  struct Pull {
    ObjectRef ref;
    Scope scope;
    std::uint64_t size_bytes = 0;
    bool is_released = false;
    bool is_given_up = false;
  };
  using Objects = std::map<ObjectRef, StoredObject>;

  Expected<void> try_put(const ObjectRef& ref, StoredObject& object);
  Expected<void> check_room(std::uint64_t size_bytes) const;
  Expected<void> check_pull(const ObjectRef& ref, const Scope& scope, std::uint64_t size_bytes) const;
  void insert(const ObjectRef& ref, StoredObject object);
  StoredObject erase(Objects::iterator found);
  void remember(const ObjectRef& ref, Error error);
  [[nodiscard]] Error lost(const ObjectRef& ref) const;
  [[nodiscard]] bool was_here(const ObjectRef& ref) const;

  const std::uint64_t max_bytes_;
  mutable std::mutex mutex_;
  Objects objects_;
  std::set<std::pair<Scope, ObjectRef>> by_scope_;
  std::map<std::uint64_t, std::uint64_t> last_put_;  // by store
  std::map<ObjectRef, Error> remembered_;
  std::deque<ObjectRef> remembered_order_;
  std::map<ObjectRef, Search> searches_;
  std::map<std::uint64_t, Pull> pulls_;
  std::uint64_t last_attempt_ = 0;
  std::uint64_t pulled_bytes_ = 0;
  ObjectStoreCounters counters_;
};

}  // namespace memopd::detail
