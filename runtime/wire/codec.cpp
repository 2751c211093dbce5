#include "runtime/wire/codec.hpp"

#include "runtime/wire/message.hpp"

namespace memopd {
namespace detail {

bool read_ranged_int(WireReader& reader, std::int64_t low, std::int64_t high, std::int64_t& value) {
  if (!reader.read_int(value)) {
    return false;
  }
  return (value >= low && value <= high) ||
         reader.fail(ErrorCode::bad_schema, std::to_string(value) + " is out of range, allowed " + std::to_string(low) +
                                                " to " + std::to_string(high));
}

bool read_ranged_uint(WireReader& reader, std::uint64_t high, std::uint64_t& value) {
  if (!reader.read_uint(value)) {
    return false;
  }
  return value <= high || reader.fail(ErrorCode::bad_schema,
                                      std::to_string(value) + " is out of range, allowed 0 to " + std::to_string(high));
}

bool read_bin(WireReader& reader, std::size_t element_bytes, std::size_t expected_elements,
              std::span<const std::byte>& bytes) {
  if (!reader.read_binary(bytes)) {
    return false;
  }
  if (bytes.size() % element_bytes != 0) {
    return reader.fail(ErrorCode::bad_schema, "binary of " + std::to_string(bytes.size()) +
                                                  " bytes does not hold whole elements of " +
                                                  std::to_string(element_bytes) + " bytes");
  }
  const std::size_t elements = bytes.size() / element_bytes;
  return expected_elements == kAnyCount || elements == expected_elements ||
         reader.fail(ErrorCode::bad_schema,
                     "expected " + std::to_string(expected_elements) + " elements, found " + std::to_string(elements));
}

bool read_exact_array(WireReader& reader, std::size_t expected) {
  std::size_t count = 0;
  if (!reader.read_array(count)) {
    return false;
  }
  return count == expected || reader.fail(ErrorCode::bad_schema, "expected " + std::to_string(expected) +
                                                                     " elements, found " + std::to_string(count));
}

}  // namespace detail

std::string to_string(const MessageName& name) { return std::string(name.name) + " v" + std::to_string(name.version); }

Expected<Payload> decode_message(const EncodedMessage& message, const MessageType& as) {
  if (message.name != as.name.name || message.version != as.name.version) {
    return unexpected(ErrorCode::bad_schema, "expected " + to_string(as.name) + ", found " + message.name + " v" +
                                                 std::to_string(message.version));
  }
  if (as.decode == nullptr) {
    return Payload{nullptr, &as};
  }
  auto value = as.decode(message.body);
  if (!value) {
    return unexpected(value.error().code, to_string(as.name) + ": " + value.error().message);
  }
  return Payload{*std::move(value), &as};
}

const MessageType& void_message_type() {
  static const MessageType type{{"void", 0}, &typeid(void), nullptr, nullptr, nullptr};
  return type;
}

}  // namespace memopd
