// Damaged configurations: every result is a configuration that dumps and loads again, or an error with lines to read.
#include <catch2/catch.hpp>

#include "runtime/config/load.hpp"
#include "runtime/config/validate.hpp"
#include "tests/support/fuzz.hpp"

namespace memopd::testing {
namespace {

TEST_CASE("damaged configurations, for a minute", "[.fuzz]") {
  Config config;
  config.env.emplace_back();
  config.eval.splits.emplace_back();
  config.role.push_back({.name = "env"});
  config.node.push_back({.name = "a"});
  const std::string valid = dump_config(config);
  REQUIRE(parse_config(valid, "valid"));
  const auto count = fuzz("configurations", [&](SplitMix& random) {
    const std::string text = damage(valid, random);
    const auto loaded = parse_config(text, "damaged");
    if (loaded) {
      (void)validate(*loaded, Purpose::launch);
      const auto again = parse_config(dump_config(*loaded), "dump");
      if (!again || !(*again == *loaded)) {
        FAIL("a dump that does not load as it was, from:\n" << text);
      }
    } else if (loaded.error().message.empty()) {
      FAIL("an error without words, from:\n" << text);
    }
  });
  CHECK(count > 100);
}

}  // namespace
}  // namespace memopd::testing
