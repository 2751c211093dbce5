#include "runtime/objects/detail/object_exchange.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include "runtime/base/check.hpp"

namespace memopd::detail {
namespace {

/// An object on its way here.
struct Arrival {
  ObjectRef ref;
  StoredObject object;
  Descriptor memory;
  std::shared_ptr<Mapping> mapping;
  std::uint64_t attempt = 0;
  bool has_ended = false;  // guarded by the mutex of what runs

  /// Unmaps, seals and keeps what was fetched.
  Expected<void> finish(ObjectTable& table, const Expected<void>& fetched) {
    mapping->unmap();  // Bulk may hold the target a little longer; a writable mapping cannot be sealed
    Expected<void> done = fetched;
    if (done) {
      done = seal(memory);
    }
    if (!done) {
      memory.reset();
      return table.end_pull(attempt, unexpected(done.error().code, "object " + to_string(ref) +
                                                                       " from another node: " + done.error().message));
    }
    object.memory = std::make_shared<const Descriptor>(std::move(memory));
    return table.end_pull(attempt, std::move(object));
  }
};

Error no_bulk() { return {ErrorCode::unsupported, "this object server has no bulk transport"}; }

}  // namespace

/// Pulls that can be aborted.
struct ObjectExchange::Running {
  std::mutex mutex;
  std::multimap<ObjectRef, std::pair<std::uint64_t, FetchId>> fetches;  // with the attempt

  void begun(const Arrival& arrival, FetchId fetch) {
    const std::lock_guard lock(mutex);
    if (!arrival.has_ended) {
      fetches.emplace(arrival.ref, std::pair(arrival.attempt, fetch));
    }
  }
  void ended(Arrival& arrival) {
    const std::lock_guard lock(mutex);
    arrival.has_ended = true;
    std::erase_if(fetches, [&](const auto& entry) { return entry.second.first == arrival.attempt; });
  }
  [[nodiscard]] std::vector<FetchId> of(const ObjectRef& ref) {
    const std::lock_guard lock(mutex);
    std::vector<FetchId> found;
    const auto [first, last] = fetches.equal_range(ref);
    for (auto entry = first; entry != last; ++entry) {
      found.push_back(entry->second.second);
    }
    return found;
  }
};

ObjectExchange::ObjectExchange(std::shared_ptr<ObjectTable> table, std::shared_ptr<const Wake> wake, Bulk* bulk)
    : table_(std::move(table)), wake_(std::move(wake)), bulk_(bulk), running_(std::make_shared<Running>()) {}

void ObjectExchange::abort(const ObjectRef& ref) {
  for (const FetchId fetch : running_->of(ref)) {
    bulk_->abort(fetch);
  }
}

Wake::Wake() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Wake::signal() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(event_.get(), &one, sizeof one));  // full = signalled
}

void Wake::drain() const {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_.get(), &count, sizeof count));
}

Expected<BulkTicket> ObjectExchange::offer(const ObjectRef& ref) {
  if (bulk_ == nullptr) {
    return unexpected(no_bulk());
  }
  const auto object = table_->get(ref);
  MEMOPD_RETURN_IF_ERROR(object);
  if (object->ticket) {
    return *object->ticket;
  }
  const auto mapping = map_readable(*object->memory, object->size_bytes);
  MEMOPD_RETURN_IF_ERROR(mapping);
  const BulkTicket ticket = bulk_->publish({*mapping, (*mapping)->bytes()});
  const std::shared_ptr<const void> guard(bulk_, [id = ticket.object](Bulk* bulk) { bulk->withdraw(id); });
  return table_->set_offer(ref, ticket, guard);
}

void ObjectExchange::pull(const ObjectRef& ref, const BulkTicket& ticket, const Scope& scope, const std::string& type,
                          Done done) {
  if (bulk_ == nullptr) {
    table_->fail_search(ref, no_bulk());
    wake_->signal();
    return done(unexpected(no_bulk()));
  }
  if (table_->get(ref)) {
    return done({});
  }
  const auto attempt = table_->begin_pull(ref, scope, ticket.size_bytes);
  if (!attempt) {
    wake_->signal();
    return done(unexpected(attempt.error()));
  }
  const auto arrival = std::make_shared<Arrival>();
  arrival->ref = ref;
  arrival->attempt = *attempt;
  arrival->object = {scope, ticket.size_bytes, type, nullptr};
  auto memory = create_memory(ticket.size_bytes);
  auto mapping = memory ? map_writable(*memory, ticket.size_bytes)
                        : Expected<std::shared_ptr<Mapping>>(unexpected(memory.error()));
  if (!mapping) {
    auto failed = table_->end_pull(*attempt, unexpected(mapping.error()));
    wake_->signal();
    return done(std::move(failed));
  }
  arrival->memory = *std::move(memory);
  arrival->mapping = *std::move(mapping);
  const FetchId fetch = bulk_->fetch(
      ticket, {arrival->mapping, arrival->mapping->bytes()},
      [arrival, running = running_, table = table_, wake = wake_, done = std::move(done)](Expected<void> fetched) {
        running->ended(*arrival);
        auto result = arrival->finish(*table, fetched);
        wake->signal();
        done(std::move(result));
      });
  running_->begun(*arrival, fetch);
}

}  // namespace memopd::detail
