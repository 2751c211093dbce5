#include "runtime/wire/wire_writer.hpp"

#include <bit>
#include <limits>

#include "runtime/base/check.hpp"

namespace memopd {

template <class T>
void WireWriter::put_big_endian(T value) {
  for (std::size_t i = sizeof(T); i-- > 0;) {
    put(static_cast<std::uint8_t>(value >> (8 * i)));
  }
}

void WireWriter::write_nil() { put(0xc0); }
void WireWriter::write_bool(bool value) { put(value ? 0xc3 : 0xc2); }

void WireWriter::write_uint(std::uint64_t value) {
  if (value < 0x80) {
    put(static_cast<std::uint8_t>(value));
  } else if (value <= 0xff) {
    put(0xcc);
    put(static_cast<std::uint8_t>(value));
  } else if (value <= 0xffff) {
    put(0xcd);
    put_big_endian(static_cast<std::uint16_t>(value));
  } else if (value <= 0xffffffff) {
    put(0xce);
    put_big_endian(static_cast<std::uint32_t>(value));
  } else {
    put(0xcf);
    put_big_endian(value);
  }
}

void WireWriter::write_int(std::int64_t value) {
  if (value >= 0) {
    write_uint(static_cast<std::uint64_t>(value));
  } else if (value >= -32) {
    put(static_cast<std::uint8_t>(value));
  } else if (value >= std::numeric_limits<std::int8_t>::min()) {
    put(0xd0);
    put(static_cast<std::uint8_t>(value));
  } else if (value >= std::numeric_limits<std::int16_t>::min()) {
    put(0xd1);
    put_big_endian(static_cast<std::uint16_t>(value));
  } else if (value >= std::numeric_limits<std::int32_t>::min()) {
    put(0xd2);
    put_big_endian(static_cast<std::uint32_t>(value));
  } else {
    put(0xd3);
    put_big_endian(static_cast<std::uint64_t>(value));
  }
}

void WireWriter::write_float(float value) {
  put(0xca);
  put_big_endian(std::bit_cast<std::uint32_t>(value));
}

void WireWriter::write_double(double value) {
  put(0xcb);
  put_big_endian(std::bit_cast<std::uint64_t>(value));
}

void WireWriter::put_length(std::size_t length, std::uint8_t marker8, std::uint8_t marker16, std::uint8_t marker32) {
  MEMOPD_CHECK(length <= 0xffffffff, "msgpack lengths are 32 bits");
  if (marker8 != 0 && length <= 0xff) {
    put(marker8);
    put(static_cast<std::uint8_t>(length));
  } else if (length <= 0xffff) {
    put(marker16);
    put_big_endian(static_cast<std::uint16_t>(length));
  } else {
    put(marker32);
    put_big_endian(static_cast<std::uint32_t>(length));
  }
}

void WireWriter::write_string(std::string_view text) {
  if (text.size() < 32) {
    put(static_cast<std::uint8_t>(0xa0 | text.size()));
  } else {
    put_length(text.size(), 0xd9, 0xda, 0xdb);
  }
  const auto bytes = std::as_bytes(std::span(text));
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void WireWriter::write_binary(std::span<const std::byte> bytes) {
  put_length(bytes.size(), 0xc4, 0xc5, 0xc6);
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void WireWriter::begin_array(std::size_t count) {
  if (count < 16) {
    put(static_cast<std::uint8_t>(0x90 | count));
  } else {
    put_length(count, 0, 0xdc, 0xdd);
  }
}

void WireWriter::begin_map(std::size_t count) {
  if (count < 16) {
    put(static_cast<std::uint8_t>(0x80 | count));
  } else {
    put_length(count, 0, 0xde, 0xdf);
  }
}

}  // namespace memopd
