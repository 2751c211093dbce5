// ObjectExchange: objects of the table offered to other nodes and fetched from them through Bulk.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/objects/detail/object_table.hpp"

namespace memopd::detail {

/// Wakes the server's thread from anywhere; outlives it.
class Wake {
 public:
  Wake();
  [[nodiscard]] int descriptor() const { return event_.get(); }
  void signal() const;
  void drain() const;

 private:
  Descriptor event_;
};

/// Thread-safe. `bulk` outlives this; a pull may end after it.
class ObjectExchange {
 public:
  using Done = std::function<void(Expected<void>)>;

  ObjectExchange(std::shared_ptr<ObjectTable> table, std::shared_ptr<const Wake> wake, Bulk* bulk);

  [[nodiscard]] Expected<BulkTicket> offer(const ObjectRef& ref);
  void pull(const ObjectRef& ref, const BulkTicket& ticket, const Scope& scope, const std::string& type, Done done);
  /// Ends a pull of it with `refused`; nothing if there is none.
  void abort(const ObjectRef& ref);

 private:
  struct Running;

  const std::shared_ptr<ObjectTable> table_;
  const std::shared_ptr<const Wake> wake_;
  Bulk* const bulk_;
  const std::shared_ptr<Running> running_;
};

}  // namespace memopd::detail
