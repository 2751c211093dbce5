// ObjectServer: keeps the objects of a node, in its agent process, and hands them to the processes there (R14).
//
// Objects are sealed memfds that come and go as descriptors over a unix socket in a folder of this user alone; the user
// of every connection is checked too. An object lives until it or its scope is released, whatever becomes of the process
// that put it; a reader's mapping lives on after the release. Between nodes: offer() here, the ticket over control,
// pull() there.
// OS-1  only sealed memfds of the claimed size are kept: what a reader maps never changes.
// OS-2  a connection has one request open, packets are bounded, and whoever breaks that is cut off and counted.
// OS-3  every descriptor that comes is kept or closed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/expected.hpp"
#include "runtime/objects/object_store.hpp"
#include "runtime/transport/bulk.hpp"

namespace memopd {

struct ObjectServerOptions {
  std::filesystem::path socket;         ///< at most 107 bytes; its folder is made with mode 0700 if it is missing
  std::uint64_t max_bytes = 0;          ///< of all objects; 0 = no bound
  std::int32_t max_connections = 1024;  ///< >= 1
  Bulk* bulk = nullptr;                 ///< for offer and pull; outlives the server
  /// Somebody here looks for an object of a store that never put anything here: end it with pull or fail. Once a reference
  /// until then. Without it such objects are not found. On the server's thread; must not block.
  std::function<void(const ObjectRef&)> on_missing = nullptr;
  /// A process here released an object, or a scope; for the other nodes. On the server's thread; must not block.
  std::function<void(const std::optional<ObjectRef>&, const std::optional<Scope>&)> on_released = nullptr;
};

struct ObjectServerCounters {
  ObjectStoreCounters objects;
  std::int64_t num_connections = 0;          ///< now
  std::int64_t num_refused_connections = 0;  ///< another user, or too many
  std::int64_t num_malformed = 0;            ///< connections cut for what they sent
  std::int64_t num_refused_puts = 0;
  std::int64_t num_waiting = 0;  ///< now: readers whose object is not here yet
};

/// Thread-safe. One thread of its own. Destroying it ends the connections; readers keep what they have mapped.
class ObjectServer {
 public:
  /// On any thread, also before pull returns; must not block.
  using Done = std::function<void(Expected<void>)>;

  virtual ~ObjectServer() = default;

  /// Raises the limit of descriptors as far as the system allows: each object takes one.
  /// @error invalid_argument  an option out of range
  /// @error already_exists    a server answers at this socket
  /// @error refused           the folder lets other users in
  /// @error io_error
  [[nodiscard]] static Expected<std::unique_ptr<ObjectServer>> start(ObjectServerOptions options);

  /// Publishes an object for other nodes until its release; again = the same ticket. O(bytes) the first time: hashed on
  /// this thread.
  /// @error not_found    as get says
  /// @error unsupported  without bulk
  [[nodiscard]] virtual Expected<BulkTicket> offer(const ObjectRef& ref) = 0;
  /// What a puller has to know of it.
  struct Description {
    Scope scope;
    std::string type;
  };
  [[nodiscard]] virtual Expected<Description> describe(const ObjectRef& ref) const = 0;
  /// Fetches an object from another node and keeps it here. One that is here already is done at once; `done` is called once.
  /// Whoever waits for what on_missing asked for gets the error as well.
  ///   overloaded   above max_bytes, or no descriptor left
  ///   not_found    withdrawn there, or released here meanwhile
  ///   unsupported  without bulk
  ///   as Bulk::fetch says
  virtual void pull(const ObjectRef& ref, const BulkTicket& ticket, const Scope& scope, const std::string& type,
                    Done done) = 0;

  /// What on_missing asked for cannot be had: whoever waits for it gets `error`, a pull that runs is aborted. Asked for
  /// again, it is looked for again.
  virtual void fail(const ObjectRef& ref, const Error& error) = 0;

  virtual void release(const ObjectRef& ref) = 0;
  virtual std::size_t release_scope(const Scope& scope) = 0;
  [[nodiscard]] virtual ObjectServerCounters counters() const = 0;
};

}  // namespace memopd
