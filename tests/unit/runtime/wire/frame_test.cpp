#include "runtime/wire/frame.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

struct Note {
  std::string text;
};
MEMOPD_MESSAGE(Note, 2, text)

struct Other {
  std::string text;
};
MEMOPD_MESSAGE(Other, 1, text)

TEST_CASE("a frame carries name, version and body of its message", "[wire]") {
  const auto frame = encode_frame(Note{"hello"});
  REQUIRE(frame);

  const auto view = parse_frame(*frame);

  REQUIRE(view);
  CHECK(view->name == "Note");
  CHECK(view->version == 2);
  CHECK(decode_frame<Note>(*frame)->text == "hello");
}

TEST_CASE("a control frame above 1 MiB is refused with the bulk path named", "[wire][error]") {
  const auto largest = encode_frame(Note{std::string(kMaxControlFrameBytes - 64, 'x')});
  const auto too_large = encode_frame(Note{std::string(kMaxControlFrameBytes, 'x')});

  CHECK(largest);
  REQUIRE_FALSE(too_large);
  CHECK(too_large.error().code == ErrorCode::invalid_argument);
  CHECK_THAT(too_large.error().message,
             Catch::Contains("message Note v2 of 1048598 bytes exceeds the control frame limit") &&
                 Catch::Contains("bulk path") && Catch::Contains("ObjectRef"));
}

TEST_CASE("an oversized frame of a peer is refused before it is read", "[wire][error]") {
  const std::vector<std::byte> garbage(kMaxControlFrameBytes + 1);

  CHECK(parse_frame(garbage).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("another frame version shows both sides", "[wire][error][pain:L07]") {
  auto frame = *encode_frame(Note{"x"});
  frame[4] = std::byte{9};

  CHECK(parse_frame(frame).error().message == "frame version 9, this build speaks 1");
  CHECK(parse_frame(frame).error().code == ErrorCode::bad_schema);
}

TEST_CASE("a frame of another message shows both names and versions", "[wire][error][pain:L07]") {
  const auto frame = *encode_frame(Note{"x"});

  const auto decoded = decode_frame<Other>(frame);

  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().code == ErrorCode::bad_schema);
  CHECK(decoded.error().message == "expected message Other v1, found Note v2");
}

TEST_CASE("bytes that are not a frame are refused", "[wire][error]") {
  CHECK(parse_frame({}).error().code == ErrorCode::parse_error);
  CHECK(parse_frame(std::as_bytes(std::span("GET / HTTP/1.1"))).error().message == "not a frame: the magic is missing");
}

}  // namespace
}  // namespace memopd
