// StoreConnection: requests to the object server of the node, one at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>

#include "runtime/objects/detail/store_packet.hpp"

namespace memopd::detail {

/// What came back: `reply.error` is empty, unless what was asked for may come from another node.
struct StoreAnswer {
  StoreReply reply;
  Descriptor descriptor;
};

/// Thread-safe: requests wait for one another.
class StoreConnection {
 public:
  using Milliseconds = std::chrono::milliseconds;

  /// @param patience  of each request
  StoreConnection(std::filesystem::path socket, Milliseconds patience)
      : path_(std::move(socket)), patience_(patience) {}

  /// Tries again for the patience while nobody is there.
  /// @error target_down  nobody came
  Expected<void> connect();
  /// Sends and waits for the answer. Connects anew when the server has cut the connection or did not answer in time.
  /// @param longer  waits this much beyond the patience
  /// @error target_down  the server is gone
  /// @error timeout      it did not answer; its late answer is never taken for another one
  /// @error overloaded   no descriptor left here for what it sent; it is full
  /// @error what the server answered
  Expected<StoreAnswer> request(const StoreRequest& request, int descriptor = -1,
                                Milliseconds longer = Milliseconds(0));

 private:
  /// Tries for the patience while the server is busy, or absent if `is_expected`. Under the lock.
  Expected<void> open(bool is_expected);
  Expected<StoreAnswer> exchange(const StoreRequest& request, int descriptor, Milliseconds timeout);
  Expected<Packet> receive(Milliseconds timeout);

  const std::filesystem::path path_;
  const Milliseconds patience_;
  std::mutex mutex_;
  Descriptor socket_;
};

}  // namespace memopd::detail
