// What object tests share: a server in a folder of its own, a child process. The limit of 30 s is there for hangs only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/objects/object_server.hpp"
#include "runtime/objects/shared_object_store.hpp"

namespace memopd::testing {

/// A server and the stores of its node. The folder is removed at the end.
class ObjectNode {
 public:
  explicit ObjectNode(std::uint64_t max_bytes = 0, Bulk* bulk = nullptr, std::int32_t max_connections = 1024,
                      std::function<void(const ObjectRef&)> on_missing = nullptr);
  ~ObjectNode();
  ObjectNode(const ObjectNode&) = delete;
  ObjectNode& operator=(const ObjectNode&) = delete;

  [[nodiscard]] std::unique_ptr<ObjectStore> connect(std::uint64_t store_id) const;
  [[nodiscard]] ObjectServer& server() { return *server_; }
  void end_server() { server_.reset(); }
  [[nodiscard]] std::filesystem::path socket() const { return folder_ / "objects"; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<ObjectServer> server_;
};

/// object_test_child; killed by its pid at the end.
class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  /// Sends a line and reads one.
  [[nodiscard]] std::string ask(const std::string& line);
  [[nodiscard]] ObjectRef ask_ref(const std::string& line);
  [[nodiscard]] std::string read_line();
  /// kill -9 and wait for its end.
  void kill();

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
};

/// Descriptors that this process has open now.
[[nodiscard]] std::size_t num_descriptors();
/// Calls `done` until it is true; fails the test after 30 s.
void wait_until(const std::function<bool()>& done, const std::string& what);
/// Those of objects, of all servers in this process.
[[nodiscard]] std::size_t num_memory_files();

}  // namespace memopd::testing
