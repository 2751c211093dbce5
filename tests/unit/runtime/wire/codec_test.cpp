#include "runtime/wire/codec.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <msgpack.hpp>

#include "runtime/wire/message.hpp"

namespace memopd {
namespace {

enum class Color : std::uint8_t { red, green, blue };
MEMOPD_ENUM(Color, blue)

struct Inner {
  std::int32_t id = 0;
  std::optional<std::string> note;

  friend bool operator==(const Inner&, const Inner&) = default;
};
MEMOPD_FIELDS(Inner, id, note)

struct Everything {
  bool flag = false;
  std::int8_t small = 0;
  std::int64_t large = 0;
  std::uint64_t huge = 0;
  double real = 0;
  Color color = Color::red;
  std::string text;
  std::vector<std::int32_t> ids;
  std::vector<Inner> inners;
  std::map<std::string, double> metrics;
  std::array<std::uint64_t, 2> digest{};
  std::vector<std::byte> bytes;

  friend bool operator==(const Everything&, const Everything&) = default;
};
MEMOPD_FIELDS(Everything, flag, small, large, huge, real, color, text, ids, inners, metrics, digest, bytes)

struct Floats {
  float single = 0;
  double wide = 0;
  std::vector<float> singles;
  std::vector<double> wides;
};
MEMOPD_FIELDS(Floats, single, wide, singles, wides)

Everything example() {
  Everything value;
  value.flag = true;
  value.small = -128;
  value.large = std::numeric_limits<std::int64_t>::min();
  value.huge = std::numeric_limits<std::uint64_t>::max();
  value.real = -0.1;
  value.color = Color::blue;
  value.text = std::string(300, 'x') + "\xC3\xA9";
  value.ids = {0, 1, 127, 128, 255, 256, 65535, 65536, 2147483647, -1, -32, -33, -129, -32769, -2147483647 - 1};
  value.inners = {{7, "seven"}, {8, std::nullopt}};
  value.metrics = {{"em", 1.0}, {"f1", 0.25}};
  value.digest = {1, std::numeric_limits<std::uint64_t>::max()};
  value.bytes = {std::byte{0}, std::byte{255}};
  return value;
}

std::vector<std::byte> pack(const std::function<void(msgpack::packer<msgpack::sbuffer>&)>& write) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer(buffer);
  write(packer);
  const auto bytes = std::as_bytes(std::span(buffer.data(), buffer.size()));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("decode returns what encode was given, field by field", "[wire]") {
  const Everything value = example();

  const auto decoded = decode<Everything>(encode(value));

  REQUIRE(decoded);
  CHECK(*decoded == value);
}

TEST_CASE("NaN payloads, infinities and denormals survive bit for bit", "[wire]") {
  const float quiet = std::bit_cast<float>(0x7fc12345U);
  const float signalling = std::bit_cast<float>(0x7f812345U);
  const double signalling_wide = std::bit_cast<double>(0xfff0000000000123ULL);
  const Floats value{quiet,
                     signalling_wide,
                     {signalling, -std::numeric_limits<float>::infinity(), 1e-45F, -0.0F},
                     {std::numeric_limits<double>::infinity(), 1e-310, signalling_wide}};

  const auto decoded = decode<Floats>(encode(value));

  REQUIRE(decoded);
  CHECK(std::bit_cast<std::uint32_t>(decoded->single) == 0x7fc12345U);
  CHECK(std::bit_cast<std::uint64_t>(decoded->wide) == 0xfff0000000000123ULL);
  REQUIRE(decoded->singles.size() == 4);
  CHECK(std::memcmp(decoded->singles.data(), value.singles.data(), 16) == 0);
  REQUIRE(decoded->wides.size() == 3);
  CHECK(std::memcmp(decoded->wides.data(), value.wides.data(), 24) == 0);
}

TEST_CASE("another msgpack implementation reads the same values", "[wire]") {
  const auto bytes = encode(example());

  const auto handle = msgpack::unpack(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto map = handle.get().as<std::map<std::string, msgpack::object>>();

  CHECK(map.size() == 12);
  CHECK(map.at("small").as<int>() == -128);
  CHECK(map.at("large").as<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
  CHECK(map.at("huge").as<std::uint64_t>() == std::numeric_limits<std::uint64_t>::max());
  CHECK(map.at("real").as<double>() == -0.1);
  CHECK(map.at("text").as<std::string>() == example().text);
  CHECK(map.at("ids").as<std::vector<std::int32_t>>() == example().ids);
  CHECK(map.at("bytes").type == msgpack::type::BIN);
  CHECK(map.at("inners").via.array.ptr[1].as<std::map<std::string, msgpack::object>>().at("note").is_nil());
}

TEST_CASE("values written by another msgpack implementation are read, in any key order", "[wire]") {
  const auto bytes = pack([](auto& p) {
    p.pack_map(3);
    p.pack("note"), p.pack("text");
    p.pack("unknown"), p.pack(std::map<std::string, std::vector<std::vector<int>>>{{"deep", {{1, 2}, {}, {3}}}});
    p.pack("id"), p.pack_fix_int64(5);
  });

  const auto decoded = decode<Inner>(bytes);

  REQUIRE(decoded);
  CHECK(*decoded == Inner{5, "text"});
}

TEST_CASE("numbers of other kinds are accepted where a real number is meant", "[wire]") {
  const auto bytes = pack([](auto& p) {
    p.pack_map(4);
    p.pack("single"), p.pack(0.5);
    p.pack("wide"), p.pack(-3);
    p.pack("singles"), p.pack_bin(0);
    p.pack("wides"), p.pack_bin(0);
  });

  const auto decoded = decode<Floats>(bytes);

  REQUIRE(decoded);
  CHECK(decoded->single == 0.5F);
  CHECK(decoded->wide == -3.0);
}

TEST_CASE("a missing key is named, a missing optional is empty", "[wire][error]") {
  const auto no_note = decode<Inner>(pack([](auto& p) { p.pack_map(1), p.pack("id"), p.pack(1); }));
  const auto no_id = decode<Inner>(pack([](auto& p) { p.pack_map(0); }));

  REQUIRE(no_note);
  CHECK_FALSE(no_note->note.has_value());
  REQUIRE_FALSE(no_id);
  CHECK(no_id.error().code == ErrorCode::bad_schema);
  CHECK(no_id.error().message == "missing key \"id\"");
}

TEST_CASE("a value of another type or out of range is named with its path", "[wire][error]") {
  struct Case {
    std::function<void(msgpack::packer<msgpack::sbuffer>&)> write;
    std::string message;
  };
  const std::vector<Case> cases{
      {[](auto& p) { p.pack("small"), p.pack("text"); }, "small: expected integer, found string"},
      {[](auto& p) { p.pack("small"), p.pack(128); }, "small: 128 is out of range, allowed -128 to 127"},
      {[](auto& p) { p.pack("large"), p.pack(18446744073709551615ULL); },
       "large: 18446744073709551615 is out of range"},
      {[](auto& p) { p.pack("huge"), p.pack(-5); }, "huge: -5 is out of range"},
      {[](auto& p) { p.pack("color"), p.pack(3); }, "color: 3 is out of range, allowed 0 to 2"},
      {[](auto& p) { p.pack("digest"), p.pack(std::vector<int>{1}); }, "digest: expected 2 elements, found 1"},
      {[](auto& p) {
         p.pack("metrics"), p.pack(std::map<std::string, std::string>{{"em", "x"}});
       },
       "metrics[\"em\"]: expected number, found string"},
      {[](auto& p) {
         p.pack("inners"), p.pack_array(2), p.pack(std::map<std::string, int>{{"id", 1}}), p.pack(true);
       },
       "inners[1]: expected map, found boolean"},
  };
  for (const Case& c : cases) {
    const auto decoded = decode<Everything>(pack([&](auto& p) { p.pack_map(1), c.write(p); }));
    REQUIRE_FALSE(decoded);
    CHECK(decoded.error().message == c.message);
    CHECK(decoded.error().code == ErrorCode::bad_schema);
  }
}

TEST_CASE("a bin that does not hold whole elements is refused", "[wire][error]") {
  const auto decoded =
      decode<Floats>(pack([](auto& p) { p.pack_map(1), p.pack("singles"), p.pack_bin(3), p.pack_bin_body("abc", 3); }));

  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().message == "singles: binary of 3 bytes does not hold whole elements of 4 bytes");
}

TEST_CASE("a key that comes twice and bytes behind the end are refused", "[wire][error]") {
  auto twice = pack([](auto& p) { p.pack_map(2), p.pack("id"), p.pack(1), p.pack("id"), p.pack(2); });
  auto trailing = encode(Inner{1, std::nullopt});
  trailing.push_back(std::byte{0});

  CHECK(decode<Inner>(twice).error().message == "key \"id\" appears twice");
  CHECK(decode<Inner>(trailing).error().message == "1 bytes after the end of the value");
}

TEST_CASE("memory_bytes counts what stands behind vectors and strings", "[wire]") {
  Floats value;
  const std::size_t empty = memory_bytes(value);
  value.singles.resize(1000);

  CHECK(memory_bytes(value) == empty + 4000);
}

}  // namespace
}  // namespace memopd
