#include "runtime/actor/registry.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "runtime/actor/actor.hpp"
#include "runtime/base/check.hpp"

namespace memopd {
namespace detail {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, ActorClass, std::less<>> classes;
};

// Never destroyed: registrations run before main, look-ups may run after it.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace

bool register_actor_class(ActorClass actor_class) {
  const std::lock_guard lock(registry().mutex);
  std::string name = actor_class.name;
  const bool is_new = registry().classes.emplace(name, std::move(actor_class)).second;
  MEMOPD_CHECK(is_new, "two actor classes are registered as \"" + name + "\"");
  return true;
}

Expected<const ActorClass*> find_actor_class(std::string_view name) {
  {
    const std::lock_guard lock(registry().mutex);
    if (const auto found = registry().classes.find(name); found != registry().classes.end()) {
      return &found->second;
    }
  }
  return unexpected(ErrorCode::not_found, "no actor class is registered as \"" + std::string(name) + "\"" +
                                              nearest_name_hint(name, registered_actor_names()));
}

std::string nearest_name_hint(std::string_view name, const std::vector<std::string>& names) {
  const auto nearest = std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
  if (nearest == names.end()) {
    return "; there is none";
  }
  // A third of the letters may differ; beyond that a guess would mislead.
  if (edit_distance(name, *nearest) <= 1 + std::max(name.size(), nearest->size()) / 3) {
    return "; did you mean \"" + *nearest + "\"";
  }
  std::string all;
  for (const auto& known : names) {
    all += (all.empty() ? "; known: " : ", ") + known;
  }
  return all;
}

}  // namespace detail

std::vector<std::string> registered_actor_names() {
  const std::lock_guard lock(detail::registry().mutex);
  std::vector<std::string> names;
  for (const auto& [name, actor_class] : detail::registry().classes) {
    names.push_back(name);
  }
  return names;
}

}  // namespace memopd
