// WireWriter: appends msgpack values to a byte vector. The smallest form of every integer and length is chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace memopd {

/// Not thread-safe. Lengths above 2^32-1 are a bug of the caller (MEMOPD_CHECK).
class WireWriter {
 public:
  void write_nil();
  void write_bool(bool value);
  void write_int(std::int64_t value);
  void write_uint(std::uint64_t value);
  void write_float(float value);    ///< the bits, no conversion
  void write_double(double value);  ///< the bits, no conversion
  void write_string(std::string_view text);
  void write_binary(std::span<const std::byte> bytes);
  void begin_array(std::size_t count);  ///< `count` values follow
  void begin_map(std::size_t count);    ///< `count` pairs of key and value follow

  [[nodiscard]] const std::vector<std::byte>& bytes() const& { return bytes_; }
  [[nodiscard]] std::vector<std::byte> bytes() && { return std::move(bytes_); }

 private:
  void put(std::uint8_t byte) { bytes_.push_back(static_cast<std::byte>(byte)); }
  template <class T>
  void put_big_endian(T value);
  /// Header of `length` with the 8-, 16- and 32-bit markers; 0 = no such form.
  void put_length(std::size_t length, std::uint8_t marker8, std::uint8_t marker16, std::uint8_t marker32);

  std::vector<std::byte> bytes_;
};

}  // namespace memopd
