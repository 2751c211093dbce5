#include "runtime/wire/message.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

struct Ping {};
MEMOPD_MESSAGE(Ping, 1)

struct Add {
  std::int64_t amount = 0;
};
MEMOPD_MESSAGE(Add, 3, amount)

namespace other {
struct Add {
  std::int64_t amount = 0;
};
MEMOPD_MESSAGE(Add, 3, amount)
}  // namespace other

TEST_CASE("a message carries its name and version", "[wire]") {
  CHECK(to_string(message_type<Add>().name) == "Add v3");
  CHECK(to_string(message_type<Ping>().name) == "Ping v1");
  CHECK(Message<Add>);
  CHECK_FALSE(Message<std::string>);
}

TEST_CASE("a message without fields is an empty map", "[wire]") {
  CHECK(encode(Ping{}) == std::vector<std::byte>{std::byte{0x80}});
  CHECK(decode<Ping>(encode(Ping{})));
}

TEST_CASE("the same name of another C++ type is another message", "[wire]") {
  CHECK(message_type<Add>() == message_type<Add>());
  CHECK_FALSE(message_type<Add>() == message_type<other::Add>());
}

TEST_CASE("a message type encodes and decodes without its template", "[wire]") {
  const MessageType& type = message_type<Add>();
  const Add add{42};

  const auto decoded = type.decode(type.encode(&add));

  REQUIRE(decoded);
  CHECK(static_cast<const Add*>(decoded->get())->amount == 42);
}

}  // namespace
}  // namespace memopd
