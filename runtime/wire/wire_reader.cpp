#include "runtime/wire/wire_reader.hpp"

#include <bit>
#include <utility>

namespace memopd {

std::string_view WireReader::name_of(Kind kind) {
  switch (kind) {
    case Kind::nil:
      return "nil";
    case Kind::boolean:
      return "boolean";
    case Kind::integer:
      return "integer";
    case Kind::real32:
      return "float32";
    case Kind::real64:
      return "float64";
    case Kind::string:
      return "string";
    case Kind::binary:
      return "binary";
    case Kind::array:
      return "array";
    case Kind::map:
      return "map";
    case Kind::extension:
      return "extension";
  }
  return "unknown";
}

bool WireReader::fail(ErrorCode code, std::string message) {
  if (!failed_) {
    failed_ = true;
    error_ = {code, std::move(message)};
  }
  return false;
}

void WireReader::add_context(std::string_view name) { path_.insert(0, name); }

Error WireReader::error() const {
  Error error = error_;
  if (!path_.empty()) {
    error.message = path_.substr(path_.front() == '.' ? 1 : 0) + ": " + error.message;
  }
  return error;
}

bool WireReader::wrong_kind(std::string_view wanted, Kind found) {
  return fail(ErrorCode::bad_schema, "expected " + std::string(wanted) + ", found " + std::string(name_of(found)));
}

bool WireReader::take(std::size_t length, std::span<const std::byte>& bytes) {
  if (failed_) {
    return false;
  }
  if (length > left()) {
    return fail(ErrorCode::parse_error,
                "truncated: " + std::to_string(length) + " bytes claimed, " + std::to_string(left()) + " left");
  }
  bytes = bytes_.subspan(position_, length);
  position_ += length;
  return true;
}

bool WireReader::take_big_endian(std::size_t width, std::uint64_t& value) {
  std::span<const std::byte> bytes;
  if (!take(width, bytes)) {
    return false;
  }
  value = 0;
  for (const std::byte byte : bytes) {
    value = value << 8 | static_cast<std::uint64_t>(byte);
  }
  return true;
}

bool WireReader::read_length(Header& header, Kind kind, std::size_t width) {
  header.kind = kind;
  std::uint64_t length = 0;
  const bool ok = take_big_endian(width, length);
  header.length = length;
  return ok;
}

bool WireReader::read_signed(Header& header, std::size_t width) {
  header.kind = Kind::integer;
  if (!take_big_endian(width, header.bits)) {
    return false;
  }
  const std::size_t unused = 64 - 8 * width;
  header.bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(header.bits << unused) >> unused);
  header.is_negative = static_cast<std::int64_t>(header.bits) < 0;
  return true;
}

bool WireReader::read_scalar_header(std::uint8_t marker, Header& header) {
  switch (marker) {
    case 0xc0:
      header.kind = Kind::nil;
      return true;
    case 0xc2:
    case 0xc3:
      header.kind = Kind::boolean;
      header.bits = marker & 1U;
      return true;
    case 0xca:
      header.kind = Kind::real32;
      return take_big_endian(4, header.bits);
    case 0xcb:
      header.kind = Kind::real64;
      return take_big_endian(8, header.bits);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
      header.kind = Kind::integer;
      return take_big_endian(std::size_t{1} << (marker - 0xcc), header.bits);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      return read_signed(header, std::size_t{1} << (marker - 0xd0));
    default:
      return fail(ErrorCode::parse_error, "byte 0xc1 is not msgpack");
  }
}

bool WireReader::read_sized_header(std::uint8_t marker, Header& header) {
  switch (marker) {
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return read_length(header, Kind::binary, std::size_t{1} << (marker - 0xc4));
    case 0xc7:
    case 0xc8:
    case 0xc9: {
      const bool ok = read_length(header, Kind::extension, std::size_t{1} << (marker - 0xc7));
      ++header.length;  // the extension's type byte
      return ok;
    }
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
      header.kind = Kind::extension;
      header.length = (std::size_t{1} << (marker - 0xd4)) + 1;
      return true;
    case 0xd9:
    case 0xda:
    case 0xdb:
      return read_length(header, Kind::string, std::size_t{1} << (marker - 0xd9));
    case 0xdc:
    case 0xdd:
      return read_length(header, Kind::array, std::size_t{2} << (marker - 0xdc));
    case 0xde:
    case 0xdf:
      return read_length(header, Kind::map, std::size_t{2} << (marker - 0xde));
    default:
      return read_scalar_header(marker, header);
  }
}

bool WireReader::read_header(Header& header) {
  std::uint64_t first = 0;
  if (!take_big_endian(1, first)) {
    return false;
  }
  header = {};
  const auto marker = static_cast<std::uint8_t>(first);
  if (marker < 0x80 || marker >= 0xe0) {
    header.kind = Kind::integer;
    header.is_negative = marker >= 0xe0;
    header.bits = header.is_negative ? first | ~std::uint64_t{0xff} : first;
  } else if (marker < 0xc0) {
    header.kind = marker < 0x90 ? Kind::map : marker < 0xa0 ? Kind::array : Kind::string;
    header.length = marker & (marker < 0xa0 ? 0x0fU : 0x1fU);
  } else if (!read_sized_header(marker, header)) {
    return false;
  }
  // Elements take at least a byte each, so no count can exceed what is left.
  const std::size_t bytes_each = header.kind == Kind::map ? 2 : 1;
  if (header.length > left() / bytes_each) {
    return fail(ErrorCode::parse_error, "truncated: " + std::string(name_of(header.kind)) + " of " +
                                            std::to_string(header.length) + " claimed, " + std::to_string(left()) +
                                            " bytes left");
  }
  return true;
}

bool WireReader::take_nil() {
  if (failed_ || left() == 0 || bytes_[position_] != std::byte{0xc0}) {
    return false;
  }
  ++position_;
  return true;
}

bool WireReader::read_bool(bool& value) {
  Header header;
  if (!read_header(header)) {
    return false;
  }
  value = header.bits != 0;
  return header.kind == Kind::boolean || wrong_kind("boolean", header.kind);
}

bool WireReader::read_int(std::int64_t& value) {
  Header header;
  if (!read_header(header)) {
    return false;
  }
  if (header.kind != Kind::integer) {
    return wrong_kind("integer", header.kind);
  }
  value = static_cast<std::int64_t>(header.bits);
  return header.is_negative || value >= 0 ||
         fail(ErrorCode::bad_schema, std::to_string(header.bits) + " is out of range");
}

bool WireReader::read_uint(std::uint64_t& value) {
  Header header;
  if (!read_header(header)) {
    return false;
  }
  if (header.kind != Kind::integer) {
    return wrong_kind("integer", header.kind);
  }
  value = header.bits;
  return !header.is_negative ||
         fail(ErrorCode::bad_schema, std::to_string(static_cast<std::int64_t>(header.bits)) + " is out of range");
}

bool WireReader::read_float(float& value) {
  const std::size_t start = position_;
  Header header;
  if (!read_header(header)) {
    return false;
  }
  if (header.kind == Kind::real32) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(header.bits));
    return true;
  }
  position_ = start;
  double wide = 0;
  const bool ok = read_double(wide);
  value = static_cast<float>(wide);
  return ok;
}

bool WireReader::read_double(double& value) {
  Header header;
  if (!read_header(header)) {
    return false;
  }
  switch (header.kind) {
    case Kind::real64:
      value = std::bit_cast<double>(header.bits);
      return true;
    case Kind::real32:
      value = std::bit_cast<float>(static_cast<std::uint32_t>(header.bits));
      return true;
    case Kind::integer:
      value = header.is_negative ? static_cast<double>(static_cast<std::int64_t>(header.bits))
                                 : static_cast<double>(header.bits);
      return true;
    default:
      return wrong_kind("number", header.kind);
  }
}

bool WireReader::read_string(std::string_view& text) {
  Header header;
  if (!read_header(header)) {
    return false;
  }
  std::span<const std::byte> bytes;
  if (header.kind != Kind::string) {
    return wrong_kind("string", header.kind);
  }
  const bool ok = take(header.length, bytes);
  text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  return ok;
}

bool WireReader::read_binary(std::span<const std::byte>& bytes) {
  Header header;
  if (!read_header(header)) {
    return false;
  }
  return header.kind == Kind::binary ? take(header.length, bytes) : wrong_kind("binary", header.kind);
}

bool WireReader::read_array(std::size_t& count) {
  Header header;
  if (!read_header(header)) {
    return false;
  }
  count = header.length;
  return header.kind == Kind::array || wrong_kind("array", header.kind);
}

bool WireReader::read_map(std::size_t& count) {
  Header header;
  if (!read_header(header)) {
    return false;
  }
  count = header.length;
  return header.kind == Kind::map || wrong_kind("map", header.kind);
}

bool WireReader::skip() {
  // Values that must still be passed; a container adds its own. Bounded by the input, as every one takes a byte.
  std::size_t pending = 1;
  while (pending > 0) {
    Header header;
    if (!read_header(header)) {
      return false;
    }
    --pending;
    if (header.kind == Kind::array || header.kind == Kind::map) {
      pending += header.length * (header.kind == Kind::map ? 2 : 1);
      if (pending > left()) {
        return fail(ErrorCode::parse_error, "truncated: " + std::to_string(pending) + " values claimed, " +
                                                std::to_string(left()) + " bytes left");
      }
    } else if (std::span<const std::byte> ignored; !take(header.length, ignored)) {
      return false;
    }
  }
  return true;
}

bool WireReader::expect_end() {
  return !failed_ &&
         (left() == 0 || fail(ErrorCode::parse_error, std::to_string(left()) + " bytes after the end of the value"));
}

}  // namespace memopd
