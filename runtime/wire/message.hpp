// Messages: plain structs with a name, a version and a list of fields. Nothing else may be sent to an actor.
//
//   struct Add { std::int64_t amount = 0; };     MEMOPD_MESSAGE(Add, 1, amount)
//   struct Ping {};                              MEMOPD_MESSAGE(Ping, 1)
//
// Fields are bool, integers, float, double, std::string, enumerations (MEMOPD_ENUM), structs with fields, std::optional,
// std::vector, std::map<std::string, ..> and std::array of these; see codec.hpp. In one process a message travels as a
// pointer; between processes as a msgpack map under its name and version. A message holds actors by name, never a
// reference to one. Write the macro in the namespace of the struct; a change of meaning is a new version, a new field
// that old peers may lack is a std::optional.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/wire/codec.hpp"
#include "runtime/wire/fields.hpp"

/// Handling a message of this type twice is the same as once: the runtime asks again when the asked actor was restarted.
#define MEMOPD_IDEMPOTENT(Type) \
  [[maybe_unused]] constexpr bool memopd_is_idempotent(const Type*) { return true; }

#define MEMOPD_MESSAGE(Type, version, ...)       \
  MEMOPD_FIELDS(Type __VA_OPT__(, ) __VA_ARGS__) \
  [[maybe_unused]] constexpr ::memopd::MessageName memopd_message_name(const Type*) { return {#Type, (version)}; }

namespace memopd {

struct MessageName {
  std::string_view name;
  std::int32_t version = 0;

  friend bool operator==(const MessageName&, const MessageName&) = default;
};

template <class T>
concept Message = HasFields<T> && requires {
  { memopd_message_name(static_cast<const T*>(nullptr)) } -> std::same_as<MessageName>;
};

/// "Add v1"
[[nodiscard]] std::string to_string(const MessageName& name);

/// What the runtime needs to know of a message type without its template: one static object per type.
struct MessageType {
  MessageName name;
  const std::type_info* type = nullptr;
  std::vector<std::byte> (*encode)(const void* message) = nullptr;
  Expected<std::shared_ptr<void>> (*decode)(std::span<const std::byte> bytes) = nullptr;
  std::size_t (*size_bytes)(const void* message) = nullptr;  ///< in memory, dynamic parts included
  bool is_idempotent = false;                                ///< MEMOPD_IDEMPOTENT

  /// The same name, version and C++ type.
  friend bool operator==(const MessageType& a, const MessageType& b) {
    return &a == &b || (a.name == b.name && *a.type == *b.type);
  }
};

namespace detail {

template <Message T>
std::vector<std::byte> encode_message(const void* message) {
  return encode(*static_cast<const T*>(message));
}

template <Message T>
Expected<std::shared_ptr<void>> decode_message(std::span<const std::byte> bytes) {
  auto message = decode<T>(bytes);
  if (!message) {
    return unexpected(message.error());
  }
  return std::shared_ptr<void>(std::make_shared<T>(*std::move(message)));
}

template <Message T>
std::size_t message_size_bytes(const void* message) {
  return memory_bytes(*static_cast<const T*>(message));
}

}  // namespace detail

namespace detail {

template <class T>
[[nodiscard]] constexpr bool is_idempotent_message() {
  if constexpr (requires { memopd_is_idempotent(static_cast<const T*>(nullptr)); }) {
    return memopd_is_idempotent(static_cast<const T*>(nullptr));
  } else {
    return false;
  }
}

}  // namespace detail

template <Message T>
[[nodiscard]] const MessageType& message_type() {
  static const MessageType type{memopd_message_name(static_cast<const T*>(nullptr)),
                                &typeid(T),
                                &detail::encode_message<T>,
                                &detail::decode_message<T>,
                                &detail::message_size_bytes<T>,
                                detail::is_idempotent_message<T>()};
  return type;
}

/// The type of "no value": what a handler that returns Expected<void> answers.
[[nodiscard]] const MessageType& void_message_type();

/// A message without its template: immutable once sent.
struct Payload {
  std::shared_ptr<void> value;
  const MessageType* type = nullptr;
};

/// A message as it came from another process; whoever knows its type decodes it.
struct EncodedMessage {
  std::string name;
  std::int32_t version = 0;
  std::vector<std::byte> body;
};

/// @error bad_schema   it is another message, or another version of it; shows both
/// @error parse_error, bad_schema  as decode says
[[nodiscard]] Expected<Payload> decode_message(const EncodedMessage& message, const MessageType& as);

template <Message T>
[[nodiscard]] Payload make_payload(T message) {
  return {std::make_shared<T>(std::move(message)), &message_type<T>()};
}

}  // namespace memopd
