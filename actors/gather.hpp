// gather: one continuation for the answers of many.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/actor/later.hpp"

namespace memopd {

/// Calls `then(Expected<std::vector<R>>)` once: with all values in order, or with the first error that arrives.
template <class R, class F>
void gather(std::vector<Later<R>> answers, F then) {
  struct State {
    std::vector<std::optional<R>> values;
    std::size_t num_open = 0;
    std::optional<F> then;
  };
  auto state = std::make_shared<State>();
  state->values.resize(answers.size());
  state->num_open = answers.size();
  state->then.emplace(std::move(then));
  for (std::size_t index = 0; index < answers.size(); ++index) {
    answers[index].then([state, index](Expected<R> answer) {
      if (!state->then) {
        return;
      }
      if (!answer) {
        (*std::exchange(state->then, std::nullopt))(Expected<std::vector<R>>(unexpected(answer.error())));
        return;
      }
      state->values[index] = *std::move(answer);
      if (--state->num_open > 0) {
        return;
      }
      std::vector<R> values;
      for (auto& value : state->values) {
        values.push_back(*std::move(value));
      }
      (*std::exchange(state->then, std::nullopt))(Expected<std::vector<R>>(std::move(values)));
    });
  }
}

}  // namespace memopd
