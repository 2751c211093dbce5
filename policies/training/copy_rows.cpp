#include "policies/training/copy_rows.hpp"

#include <algorithm>

#include "runtime/base/random.hpp"

namespace memopd {
namespace {

/// Uniform in [low, high].
std::int32_t between(SplitMix& random, std::int32_t low, std::int32_t high) {
  return low + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

CopyRow copy_row(std::int32_t vocab_size, std::int32_t source_size, SplitMix& random) {
  std::vector<std::int32_t> sub_vocabulary(static_cast<std::size_t>(between(random, 5, 59)));
  for (std::int32_t& id : sub_vocabulary) {
    id = between(random, 0, vocab_size - 1);
  }
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source_size));
  for (std::int32_t& id : ids) {
    id = sub_vocabulary[random.below(sub_vocabulary.size())];
  }
  std::vector<std::uint8_t> is_predicted(ids.size(), 0);
  const std::int32_t num_spans = between(random, 2, 5);
  for (std::int32_t span = 0; span < num_spans; ++span) {
    const std::int32_t length = between(random, 3, 8);
    const std::int32_t begin = between(random, 0, source_size - length);
    ids.push_back(between(random, 0, vocab_size - 1));
    is_predicted.push_back(0);
    for (std::int32_t i = 0; i < length; ++i) {
      ids.push_back(ids[static_cast<std::size_t>(begin + i)]);
      is_predicted.push_back(i >= 2 ? 1 : 0);
    }
  }
  const auto first = std::find(is_predicted.begin(), is_predicted.end(), std::uint8_t{1}) - is_predicted.begin();
  CopyRow row;
  row.invocation.prompt_token_ids.assign(ids.begin(), ids.begin() + first);
  row.invocation.response_token_ids.assign(ids.begin() + first, ids.end());
  row.is_predicted.assign(is_predicted.begin() + first, is_predicted.end());
  return row;
}

}  // namespace

std::vector<CopyRow> copy_rows(std::int32_t vocab_size, std::int32_t num_rows, std::uint64_t seed, std::int32_t step) {
  SplitMix random(chain_seed(seed, {hash_name("copy_rows"), static_cast<std::uint64_t>(step)}));
  const std::int32_t source_size = between(random, 10, 30);
  std::vector<CopyRow> rows;
  for (std::int32_t i = 0; i < num_rows; ++i) {
    rows.push_back(copy_row(vocab_size, source_size, random));
    rows.back().invocation.trajectory_id = {"copy", step, i, 0};
  }
  return rows;
}

}  // namespace memopd
