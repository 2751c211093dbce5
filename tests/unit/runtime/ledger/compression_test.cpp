#include "runtime/ledger/compression.hpp"

#include <catch2/catch.hpp>

using namespace memopd;
using namespace memopd::detail;
using bytes = std::vector<std::byte>;

TEST_CASE("what compresses comes back, across the decompressor's own chunks", "[ledger]") {
  Compressor compressor;
  for (const std::size_t size : {100U, 200000U, 1000000U}) {
    bytes body(size, std::byte{7});
    body[size / 2] = std::byte{9};
    const bytes frame = compressor.compress(body);
    REQUIRE_FALSE(frame.empty());
    CHECK(frame.size() < body.size());
    const auto plain = decompress(frame);
    REQUIRE(plain);
    CHECK(*plain == body);
  }
}

TEST_CASE("what does not get smaller is left alone", "[ledger]") {
  Compressor compressor;
  CHECK(compressor.compress(bytes{}).empty());
  CHECK(compressor.compress(bytes{std::byte{1}, std::byte{2}, std::byte{3}}).empty());
}

TEST_CASE("a frame that is cut, followed by more or no frame is an error", "[ledger][error]") {
  Compressor compressor;
  const bytes frame = compressor.compress(bytes(1000, std::byte{7}));
  REQUIRE_FALSE(frame.empty());
  for (std::size_t size = 0; size < frame.size(); ++size) {
    INFO("cut to " << size << " of " << frame.size());
    const auto cut = decompress(std::span(frame).first(size));
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code == ErrorCode::parse_error);
  }
  bytes longer = frame;
  longer.push_back(std::byte{0});
  CHECK_FALSE(decompress(longer));
  CHECK_FALSE(decompress(bytes(20, std::byte{1})));
}
