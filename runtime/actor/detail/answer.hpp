// Answer: what every ask gets exactly once, without its template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/base/expected.hpp"
#include "runtime/wire/message.hpp"

namespace memopd::detail {

struct Answer {
  Payload payload;  ///< valid unless `error` or `encoded` is set
  std::optional<Error> error;
  std::shared_ptr<const EncodedMessage> encoded = nullptr;  ///< from another process
};

/// bad_schema: "asked for Total v1, was answered with Reply v2"
[[nodiscard]] Error answer_type_error(const MessageType& wanted, const MessageType* found);

template <class R>
[[nodiscard]] const MessageType& answer_type() {
  if constexpr (std::is_void_v<R>) {
    return void_message_type();
  } else {
    static_assert(Message<R>, "an answer is a MEMOPD_MESSAGE type or void");
    return message_type<R>();
  }
}

template <class R>
[[nodiscard]] Answer to_answer(Expected<R> result) {
  if (!result) {
    return {{}, result.error(), nullptr};
  }
  if constexpr (std::is_void_v<R>) {
    return {{nullptr, &void_message_type()}, std::nullopt, nullptr};
  } else {
    return {make_payload<R>(*std::move(result)), std::nullopt, nullptr};
  }
}

/// Moves the value out if nobody else holds it.
template <class R>
[[nodiscard]] Expected<R> from_answer(Answer answer) {
  if (answer.error) {
    return unexpected(*std::move(answer.error));
  }
  if (answer.encoded) {
    auto decoded = decode_message(*answer.encoded, answer_type<R>());
    if (!decoded) {
      return unexpected(decoded.error());
    }
    answer.payload = *std::move(decoded);
  }
  if (answer.payload.type == nullptr || !(*answer.payload.type == answer_type<R>())) {
    return unexpected(answer_type_error(answer_type<R>(), answer.payload.type));
  }
  if constexpr (std::is_void_v<R>) {
    return {};
  } else {
    auto* const value = static_cast<R*>(answer.payload.value.get());
    return answer.payload.value.use_count() == 1 ? Expected<R>(std::move(*value)) : Expected<R>(*value);
  }
}

}  // namespace memopd::detail
