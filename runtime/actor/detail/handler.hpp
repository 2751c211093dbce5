// make_handler: from a typed method to the one shape that the dispatch table holds.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/actor/detail/answer.hpp"
#include "runtime/actor/later.hpp"
#include "runtime/wire/message.hpp"

namespace memopd::detail {

/// Where the answer of one call goes; every path calls it at most once.
using Reply = Callback<Answer>;
using Handler = std::function<void(const std::shared_ptr<void>& message, Reply reply)>;

template <class T>
inline constexpr bool is_expected = false;
template <class T>
inline constexpr bool is_expected<Expected<T>> = true;

template <class R, Message M, class Call>
[[nodiscard]] Handler make_handler(Call call) {
  static_assert(std::is_void_v<R> || is_expected<R> || is_later<R>, "a handler returns Expected<X>, Later<X> or void");
  return [call = std::move(call)](const std::shared_ptr<void>& message, Reply reply) {
    const M& request = *static_cast<const M*>(message.get());
    if constexpr (std::is_void_v<R>) {
      call(request);
      reply(to_answer<void>({}));
    } else if constexpr (is_expected<R>) {
      reply(to_answer<typename R::value_type>(call(request)));
    } else {
      using Value = typename R::value_type;
      const R later = call(request);
      if (!later.state()) {
        reply({{}, Error{ErrorCode::refused, "the handler returned a Later that was moved from"}});
        return;
      }
      // The message stays alive with its answer, so that continuations may refer to it.
      later.state()->attach([reply = std::move(reply), message](Expected<Value> result) mutable {
        reply(to_answer<Value>(std::move(result)));
      });
    }
  };
}

}  // namespace memopd::detail
