// Rows that can only be predicted by copying: they teach a fresh decoder to find an earlier occurrence and go on from it.
//
//   [source] [x][span] [x][span] ..   source ids are drawn from a small sub-vocabulary of the row, so that one id is not
//   enough to find the place; a span repeats 3 to 8 consecutive ids of the source; x is any id. A span's first two ids
//   cannot be known; those after them can: they alone are predicted.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/invocation.hpp"

namespace memopd {

/// An invocation whose response starts at the first predicted id, and which response ids count.
struct CopyRow {
  Invocation invocation;
  std::vector<std::uint8_t> is_predicted;  ///< [response ids]
};

/// Rows of optimizer step `step`, the same for the same arguments: source of 10 to 30 ids (one length per step), 2 to 5
/// spans, sub-vocabularies of 5 to 59 ids.
/// @param vocab_size  >= 1; num_rows >= 1
[[nodiscard]] std::vector<CopyRow> copy_rows(std::int32_t vocab_size, std::int32_t num_rows, std::uint64_t seed,
                                             std::int32_t step);

}  // namespace memopd
