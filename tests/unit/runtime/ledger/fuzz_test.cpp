// Damaged segments: read up to the damage, or an error that names it.
#include <catch2/catch.hpp>

#include "runtime/ledger/read_ledger.hpp"
#include "tests/support/fuzz.hpp"
#include "tests/unit/runtime/ledger/ledger_example.hpp"

namespace memopd::testing {
namespace {

TEST_CASE("damaged ledgers, for a minute", "[.fuzz]") {
  LedgerFolder folder;
  {
    auto writer = LedgerWriter::create(folder.path());
    REQUIRE(writer);
    for (std::int32_t index = 0; index < 8; ++index) {
      REQUIRE((*writer)->append(invocation(index, std::vector<std::int32_t>(60, 7), {1, 2, 3})));
    }
    REQUIRE((*writer)->sync());
  }
  std::ifstream in(folder.segment(0), std::ios::binary);
  const std::string valid((std::istreambuf_iterator<char>(in)), {});
  const auto count = fuzz("ledgers", [&](SplitMix& random) {
    const std::string bytes = damage(valid, random);
    std::ofstream(folder.segment(0), std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    std::int64_t num_records = 0;
    const auto extent = for_each_record(folder.path(), [&](LedgerRecord) -> Expected<void> {
      ++num_records;
      return {};
    });
    if (num_records > 8 && extent) {
      FAIL("more records than were written");
    }
    if (!extent && extent.error().message.empty()) {
      FAIL("an error without words");
    }
  });
  CHECK(count > 100);
}

}  // namespace
}  // namespace memopd::testing
