// Collective: operations in which every rank of a group takes part. Sums run in rank order, so results are deterministic.
//
// Between threads of a process: make_local_collective; between processes: object_collective.hpp. Both give the same bits.
// Every rank calls the same operations in the same order with the same sizes; one Collective belongs to one rank and one
// thread. The first failure (a missing rank, a mismatch, an abort) ends the group: every waiting and later call
// of every rank returns that first error.
//   timeout         not all ranks arrived before the deadline; names the operation and the missing ranks
//   shape_mismatch  ranks disagree about operation, size or root; names both
//   target_down     abort() was called; carries its reason
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/expected.hpp"

namespace memopd {

class Collective {
 public:
  static constexpr std::chrono::milliseconds kDefaultDeadline = std::chrono::minutes(10);

  virtual ~Collective() = default;
  [[nodiscard]] virtual int rank() const = 0;        ///< 0-based
  [[nodiscard]] virtual int world_size() const = 0;  ///< >= 1

  /// Every rank gets values[0][i] + values[1][i] + .. in that order, in place.
  virtual Expected<void> all_reduce_sum(std::span<float> values,
                                        std::chrono::milliseconds deadline = kDefaultDeadline) = 0;
  virtual Expected<void> all_reduce_sum(std::span<double> values,
                                        std::chrono::milliseconds deadline = kDefaultDeadline) = 0;
  /// Rank r gets in `shard` elements [r * n, (r + 1) * n) of the sum; values.size() == world_size * n, n = shard.size().
  /// `shard` may be this rank's part of `values`, else they do not overlap.
  /// @error invalid_argument  sizes that do not fit
  virtual Expected<void> reduce_scatter_sum(std::span<const float> values, std::span<float> shard,
                                            std::chrono::milliseconds deadline = kDefaultDeadline) = 0;
  virtual Expected<void> reduce_scatter_sum(std::span<const double> values, std::span<double> shard,
                                            std::chrono::milliseconds deadline = kDefaultDeadline) = 0;
  /// The inverse: every rank gets in `all` the shards of ranks 0, 1, .. one after the other. `shard` may be this rank's
  /// part of `all`, else they do not overlap.
  /// @error invalid_argument  sizes that do not fit
  virtual Expected<void> all_gather(std::span<const std::byte> shard, std::span<std::byte> all,
                                    std::chrono::milliseconds deadline = kDefaultDeadline) = 0;
  /// Every rank gets the bytes of `root` (0 <= root < world_size, else invalid_argument).
  virtual Expected<void> broadcast(std::span<std::byte> bytes, int root,
                                   std::chrono::milliseconds deadline = kDefaultDeadline) = 0;
  /// Returns when every rank has called it.
  virtual Expected<void> barrier(std::chrono::milliseconds deadline = kDefaultDeadline) = 0;
  /// Ends the group; wakes every rank. Thread-safe.
  virtual void abort(std::string reason) = 0;
};

/// A group whose ranks are threads of this process; element r is rank r. `world_size` >= 1 (MEMOPD_CHECK).
[[nodiscard]] std::vector<std::shared_ptr<Collective>> make_local_collective(int world_size);

}  // namespace memopd
