// WireReader: reads msgpack values from bytes that nobody vouches for.
//
// Every read returns false at the first problem and keeps its error; later reads return false too. Counts and lengths are
// compared with the bytes that are left before anything is done with them; skip() needs neither stack nor heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace memopd {

/// A view: the bytes must outlive it and every string_view and span it returns. Not thread-safe.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// True and consumed if the next value is nil; false without an error otherwise.
  bool take_nil();
  bool read_bool(bool& value);
  bool read_int(std::int64_t& value);    ///< any integer form that fits
  bool read_uint(std::uint64_t& value);  ///< any integer form that fits
  bool read_float(float& value);         ///< float32 by its bits; float64 and integers are converted
  bool read_double(double& value);       ///< float64 by its bits; float32 and integers are converted
  bool read_string(std::string_view& text);
  bool read_binary(std::span<const std::byte>& bytes);
  bool read_array(std::size_t& count);  ///< count <= bytes left
  bool read_map(std::size_t& count);    ///< 2 * count <= bytes left
  /// Skips one value of any kind and depth.
  bool skip();
  /// False if bytes are left (parse_error).
  bool expect_end();

  /// Bytes consumed.
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] bool has_failed() const { return failed_; }
  /// Valid after a read returned false.
  [[nodiscard]] Error error() const;
  /// Records the first problem; always returns false.
  bool fail(ErrorCode code, std::string message);
  /// Puts a field name or index in front of the error's path: innermost first.
  void add_context(std::string_view name);

 private:
  enum class Kind : std::uint8_t { nil, boolean, integer, real32, real64, string, binary, array, map, extension };
  /// One decoded header: what follows is `length` bytes or elements.
  struct Header {
    Kind kind = Kind::nil;
    std::uint64_t bits = 0;    ///< integer (two's complement), boolean or floating point bits
    bool is_negative = false;  ///< of an integer
    std::size_t length = 0;
  };
  bool read_header(Header& header);
  bool read_sized_header(std::uint8_t marker, Header& header);
  bool read_scalar_header(std::uint8_t marker, Header& header);
  bool read_length(Header& header, Kind kind, std::size_t width);
  bool read_signed(Header& header, std::size_t width);
  bool take_big_endian(std::size_t width, std::uint64_t& value);
  bool take(std::size_t length, std::span<const std::byte>& bytes);
  bool wrong_kind(std::string_view wanted, Kind found);
  static std::string_view name_of(Kind kind);
  [[nodiscard]] std::size_t left() const { return bytes_.size() - position_; }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  bool failed_ = false;
  Error error_;
  std::string path_;
};

}  // namespace memopd
