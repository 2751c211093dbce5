#include "runtime/transport/link_frame.hpp"

#include <catch2/catch.hpp>

#include "runtime/base/random.hpp"
#include "runtime/transport/sha256.hpp"
#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

using testing::bytes_of;
using testing::text_of;

TEST_CASE("a link frame carries run, incarnation, sequence and its body", "[transport][R6]") {
  const RunId run = make_random_id<RunId>();
  auto frame = encode_link_frame({LinkFrameKind::goodbye, run, 7, 0}, bytes_of("body"));
  stamp_sequence(frame, 9);

  const auto view = parse_link_frame(frame);

  REQUIRE(view);
  CHECK(frame.size() == kLinkHeaderBytes + 4);
  CHECK(view->header.kind == LinkFrameKind::goodbye);
  CHECK(view->header.run == run);
  CHECK(view->header.incarnation == 7);
  CHECK(view->header.sequence == 9);
  CHECK(text_of(view->body) == "body");
}

TEST_CASE("every truncation of a link header and every damaged byte before the run is refused", "[transport][error]") {
  const auto frame = encode_link_frame({LinkFrameKind::data, {}, 1, 1}, {});
  for (std::size_t length = 0; length < kLinkHeaderBytes; ++length) {
    REQUIRE_FALSE(parse_link_frame(std::span(frame).first(length)));
  }
  for (std::size_t at = 0; at < 8; ++at) {
    auto damaged = frame;
    damaged[at] ^= std::byte{0x80};
    REQUIRE_FALSE(parse_link_frame(damaged));
  }
  auto larger = encode_link_frame({}, testing::Bytes(kMaxControlFrameBytes));
  REQUIRE(parse_link_frame(larger));
  larger.push_back({});
  CHECK_FALSE(parse_link_frame(larger));
}

TEST_CASE("random 128-bit ids differ and print as 32 hexadecimal digits", "[transport][R13]") {
  const auto a = make_random_id<InstanceId>();
  CHECK(a != make_random_id<InstanceId>());
  CHECK(to_string(a).size() == 32);
  CHECK(to_string(InstanceId{{0x01, 0xAF}}).substr(0, 4) == "01af");
}

TEST_CASE("SHA-256 gives the digest of FIPS 180-4, in one piece or several", "[transport]") {
  const std::string expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";  // of "abc"
  Sha256 pieces;
  pieces.append(bytes_of("a"));
  pieces.append(bytes_of("bc"));

  CHECK(to_hex(sha256(bytes_of("abc"))) == expected);
  CHECK(to_hex(pieces.finish()) == expected);
}

}  // namespace
}  // namespace memopd
