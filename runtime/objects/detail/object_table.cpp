#include "runtime/objects/detail/object_table.hpp"

namespace memopd::detail {

Expected<void> ObjectTable::put(const ObjectRef& ref, StoredObject object) {
  auto done = check_sealed(*object.memory, object.size_bytes);
  const std::lock_guard lock(mutex_);
  if (done) {
    done = try_put(ref, object);
  }
  if (!done) {
    const Error error{done.error().code, "object " + to_string(ref) + " was refused: " + done.error().message};
    if (!objects_.contains(ref)) {
      remember(ref, error);
    }
    return unexpected(error);
  }
  return {};
}

void ObjectTable::remember_refused(const ObjectRef& ref, const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!objects_.contains(ref)) {
    remember(ref, error);
  }
}

Expected<void> ObjectTable::try_put(const ObjectRef& ref, StoredObject& object) {
  const auto last = last_put_.find(ref.high);
  if (last != last_put_.end() && ref.low <= last->second) {
    return unexpected(ErrorCode::already_exists, "number " + std::to_string(last->second) +
                                                     " of its store was put before: two stores with one id?");
  }
  if (objects_.contains(ref)) {
    return unexpected(ErrorCode::already_exists, "it came from another node: two stores with one id?");
  }
  if (last == last_put_.end() && last_put_.size() >= kMaxStores) {
    return unexpected(ErrorCode::overloaded, std::to_string(last_put_.size()) + " stores have put objects, at most " +
                                                 std::to_string(kMaxStores) + " may");
  }
  MEMOPD_RETURN_IF_ERROR(check_room(object.size_bytes));
  last_put_[ref.high] = ref.low;
  insert(ref, std::move(object));
  return {};
}

Expected<void> ObjectTable::check_room(std::uint64_t size_bytes) const {
  const std::uint64_t taken = static_cast<std::uint64_t>(counters_.size_bytes) + pulled_bytes_;
  if (max_bytes_ != 0 && (size_bytes > max_bytes_ || taken > max_bytes_ - size_bytes)) {
    return unexpected(ErrorCode::overloaded, std::to_string(size_bytes) + " bytes beside " + std::to_string(taken) +
                                                 " bytes of other objects exceed max_bytes " +
                                                 std::to_string(max_bytes_));
  }
  return {};
}

void ObjectTable::insert(const ObjectRef& ref, StoredObject object) {
  ++counters_.num_put;
  ++counters_.num_objects;
  counters_.size_bytes += static_cast<std::int64_t>(object.size_bytes);
  by_scope_.emplace(object.scope, ref);
  remembered_.erase(ref);
  searches_.erase(ref);
  objects_.emplace(ref, std::move(object));
}

StoredObject ObjectTable::erase(Objects::iterator found) {
  const ObjectRef ref = found->first;
  StoredObject object = std::move(found->second);
  objects_.erase(found);
  ++counters_.num_released;
  --counters_.num_objects;
  counters_.size_bytes -= static_cast<std::int64_t>(object.size_bytes);
  if (!was_here(ref)) {  // it came from another node
    remember(ref, {ErrorCode::not_found, "object " + to_string(ref) + " was released"});
  }
  return object;
}

void ObjectTable::remember(const ObjectRef& ref, Error error) {
  if (remembered_.insert_or_assign(ref, std::move(error)).second) {
    remembered_order_.push_back(ref);
  }
  while (remembered_order_.size() > kMaxRemembered) {
    remembered_.erase(remembered_order_.front());
    remembered_order_.pop_front();
  }
}

bool ObjectTable::was_here(const ObjectRef& ref) const {
  const auto last = last_put_.find(ref.high);
  return last != last_put_.end() && ref.low >= 1 && ref.low <= last->second;
}

Error ObjectTable::lost(const ObjectRef& ref) const {
  if (const auto found = remembered_.find(ref); found != remembered_.end()) {
    return found->second;
  }
  return {ErrorCode::not_found,
          "object " + to_string(ref) + (was_here(ref) ? " was released" : " was never put on this node")};
}

Expected<StoredObject> ObjectTable::get(const ObjectRef& ref) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(ref);
  if (found == objects_.end()) {
    return unexpected(lost(ref));
  }
  return found->second;
}

std::optional<Expected<void>> ObjectTable::presence(const ObjectRef& ref) const {
  const std::lock_guard lock(mutex_);
  if (objects_.contains(ref)) {
    return Expected<void>();
  }
  if (remembered_.contains(ref) || was_here(ref)) {
    return Expected<void>(unexpected(lost(ref)));
  }
  return std::nullopt;
}

bool ObjectTable::knows_store(const ObjectRef& ref) const {
  const std::lock_guard lock(mutex_);
  return last_put_.contains(ref.high);
}

Expected<void> ObjectTable::release(const ObjectRef& ref) {
  StoredObject released;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  for (auto& [attempt, pull] : pulls_) {
    pull.is_released = pull.is_released || pull.ref == ref;
  }
  if (const auto search = searches_.find(ref); search != searches_.end()) {
    search->second.is_released = true;
  }
  const auto found = objects_.find(ref);
  if (found == objects_.end()) {
    return unexpected(lost(ref));
  }
  by_scope_.erase({found->second.scope, ref});
  released = erase(found);
  return {};
}

std::size_t ObjectTable::release_scope(const Scope& scope) {
  std::vector<StoredObject> released;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  for (auto& [attempt, pull] : pulls_) {
    pull.is_released = pull.is_released || pull.scope == scope;
  }
  for (auto& [ref, search] : searches_) {
    search.ended.insert(scope);
  }
  auto entry = by_scope_.lower_bound({scope, ObjectRef{}});
  while (entry != by_scope_.end() && entry->first == scope) {
    released.push_back(erase(objects_.find(entry->second)));
    entry = by_scope_.erase(entry);
  }
  return released.size();
}

void ObjectTable::close() {
  Objects released;  // let go outside the lock
  const std::lock_guard lock(mutex_);
  for (auto& [attempt, pull] : pulls_) {
    pull.is_released = true;
  }
  released.swap(objects_);
  by_scope_.clear();
}

ObjectStoreCounters ObjectTable::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

bool ObjectTable::begin_search(const ObjectRef& ref) {
  const std::lock_guard lock(mutex_);
  if (objects_.contains(ref)) {
    return false;
  }
  const auto [search, is_new] = searches_.try_emplace(ref);
  if (!is_new && !search->second.failure) {
    return false;
  }
  search->second = {};
  return true;
}

void ObjectTable::fail_search(const ObjectRef& ref, const Error& error) {
  const std::lock_guard lock(mutex_);
  for (auto& [attempt, pull] : pulls_) {
    pull.is_given_up = pull.is_given_up || pull.ref == ref;
  }
  if (const auto search = searches_.find(ref); search != searches_.end()) {
    search->second.failure = error;
  }
}

std::optional<Error> ObjectTable::search_failure(const ObjectRef& ref) const {
  const std::lock_guard lock(mutex_);
  const auto search = searches_.find(ref);
  return search == searches_.end() ? std::nullopt : search->second.failure;
}

void ObjectTable::prune_searches(const std::function<bool(const ObjectRef&)>& is_awaited) {
  const std::lock_guard lock(mutex_);
  std::erase_if(searches_, [&](const auto& entry) { return entry.second.failure && !is_awaited(entry.first); });
}

Expected<void> ObjectTable::check_pull(const ObjectRef& ref, const Scope& scope, std::uint64_t size_bytes) const {
  const auto search = searches_.find(ref);
  if (search != searches_.end() && (search->second.is_released || search->second.ended.contains(scope))) {
    return unexpected(ErrorCode::not_found, "released before it came");
  }
  return check_room(size_bytes);
}

Expected<std::uint64_t> ObjectTable::begin_pull(const ObjectRef& ref, const Scope& scope, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto checked = check_pull(ref, scope, size_bytes); !checked) {
    const Error error{checked.error().code, "object " + to_string(ref) + ": " + checked.error().message};
    if (const auto search = searches_.find(ref); search != searches_.end()) {
      search->second.failure = error;
    }
    return unexpected(error);
  }
  pulled_bytes_ += size_bytes;
  pulls_.emplace(++last_attempt_, Pull{ref, scope, size_bytes});
  return last_attempt_;
}

Expected<void> ObjectTable::end_pull(std::uint64_t attempt, Expected<StoredObject> object) {
  const std::lock_guard lock(mutex_);
  const auto ended = pulls_.extract(attempt);
  const Pull& pull = ended.mapped();
  pulled_bytes_ -= pull.size_bytes;
  if (object && pull.is_released) {
    object = unexpected(ErrorCode::not_found, "object " + to_string(pull.ref) + " was released on its way here");
  }
  if (!object) {
    if (const auto search = searches_.find(pull.ref); search != searches_.end() && !pull.is_given_up) {
      search->second.failure = object.error();
    }
    return unexpected(object.error());
  }
  if (!objects_.contains(pull.ref)) {
    insert(pull.ref, *std::move(object));
  }
  return {};
}

Expected<BulkTicket> ObjectTable::set_offer(const ObjectRef& ref, BulkTicket ticket,
                                            std::shared_ptr<const void> offer) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(ref);
  if (found == objects_.end()) {
    return unexpected(lost(ref));
  }
  StoredObject& object = found->second;
  if (!object.ticket) {
    object.ticket = std::move(ticket);
    object.offer = std::move(offer);
  }
  return *object.ticket;
}

}  // namespace memopd::detail
