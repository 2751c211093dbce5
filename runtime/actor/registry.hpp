// The classes that can be spawned by name.
//
//   MEMOPD_REGISTER_ACTOR("counter", Counter)               Counter()
//   MEMOPD_REGISTER_ACTOR("student", Student, StudentInit)  Student(const StudentInit&)
//
// At namespace scope of a .cpp file. Libraries of actors are OBJECT libraries: a static one drops registrations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

class Actor;

namespace detail {

struct ActorClass {
  std::string name;
  const MessageType* init_type = nullptr;  ///< null: constructed without a message
  std::function<std::unique_ptr<Actor>(const void* init)> make;
};

/// Two classes under one name are a bug (MEMOPD_CHECK). @return true
bool register_actor_class(ActorClass actor_class);
/// @error not_found  shows the nearest registered name
[[nodiscard]] Expected<const ActorClass*> find_actor_class(std::string_view name);

template <class T>
bool register_actor(std::string name) {
  return register_actor_class({std::move(name), nullptr, [](const void*) { return std::make_unique<T>(); }});
}
template <class T, Message Init>
bool register_actor(std::string name) {
  return register_actor_class({std::move(name), &message_type<Init>(),
                               [](const void* init) { return std::make_unique<T>(*static_cast<const Init*>(init)); }});
}

/// "; did you mean \"counter\"" if one of `names` is near `name`, else the list of all.
[[nodiscard]] std::string nearest_name_hint(std::string_view name, const std::vector<std::string>& names);

}  // namespace detail

/// Sorted.
[[nodiscard]] std::vector<std::string> registered_actor_names();

}  // namespace memopd

#define MEMOPD_CONCAT_INNER(a, b) a##b
#define MEMOPD_CONCAT(a, b) MEMOPD_CONCAT_INNER(a, b)
#define MEMOPD_REGISTER_ACTOR(name, ...)                                                      \
  [[maybe_unused]] static const bool MEMOPD_CONCAT(memopd_actor_registration_, __COUNTER__) = \
      ::memopd::detail::register_actor<__VA_ARGS__>(name);
