#include "policies/training/copy_rows.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace memopd {

TEST_CASE("every predicted id of a copying row follows from two ids before it in the source", "[copy_rows]") {
  for (std::int32_t step = 0; step < 20; ++step) {
    for (const CopyRow& row : copy_rows(500, 6, 3, step)) {
      std::vector<std::int32_t> ids = row.invocation.prompt_token_ids;
      const std::size_t num_prompt = ids.size();
      ids.insert(ids.end(), row.invocation.response_token_ids.begin(), row.invocation.response_token_ids.end());
      REQUIRE(row.is_predicted.size() == row.invocation.response_token_ids.size());
      CHECK(row.is_predicted.front() == 1);
      for (std::size_t r = 0; r < row.is_predicted.size(); ++r) {
        if (row.is_predicted[r] == 0) {
          continue;
        }
        const auto end = ids.begin() + static_cast<std::ptrdiff_t>(num_prompt + r + 1);
        // The last three ids occur before, in the same order.
        CHECK(std::search(ids.begin(), end - 1, end - 3, end) != end - 1);
      }
    }
  }
}

TEST_CASE("copying rows are the same for the same seed and step only", "[copy_rows][RL-6]") {
  const auto ids = [](std::uint64_t seed, std::int32_t step) {
    return copy_rows(500, 4, seed, step)[3].invocation.response_token_ids;
  };
  CHECK(ids(1, 0) == ids(1, 0));
  CHECK(ids(1, 0) != ids(1, 1));
  CHECK(ids(1, 0) != ids(2, 0));
}

}  // namespace memopd
