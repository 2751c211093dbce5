// What every form of a Collective checks and says of an operation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/expected.hpp"

namespace memopd::detail {

/// "broadcast of 8 from root 0"; ranks that say the same call the same operation. `root` < 0: it has none.
inline std::string describe_call(std::string_view name, std::size_t count, int root = -1) {
  return std::string(name) + " of " + std::to_string(count) + (root < 0 ? "" : " from root " + std::to_string(root));
}

/// @error invalid_argument  `num_values` are not `num_ranks` shards of `shard_size`
inline Expected<void> check_shards(std::string_view name, std::size_t num_values, std::size_t shard_size,
                                   int num_ranks) {
  if (num_values != static_cast<std::size_t>(num_ranks) * shard_size) {
    return unexpected(ErrorCode::invalid_argument, std::string(name) + ": " + std::to_string(num_values) +
                                                       " values do not fit " + std::to_string(num_ranks) +
                                                       " shards of " + std::to_string(shard_size));
  }
  return {};
}

/// @error invalid_argument  no rank of that number
inline Expected<void> check_root(int root, int num_ranks) {
  if (root < 0 || root >= num_ranks) {
    return unexpected(ErrorCode::invalid_argument,
                      "broadcast: root " + std::to_string(root) + ", allowed 0 to " + std::to_string(num_ranks - 1));
  }
  return {};
}

}  // namespace memopd::detail
