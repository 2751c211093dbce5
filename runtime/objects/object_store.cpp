#include "runtime/objects/object_store.hpp"

#include <cstdio>

#include "runtime/objects/detail/local_object_store.hpp"

namespace memopd {

std::string to_string(const ObjectRef& ref) {
  char text[40];
  std::snprintf(text, sizeof text, "%016llx-%016llx", static_cast<unsigned long long>(ref.high),
                static_cast<unsigned long long>(ref.low));
  return text;
}

std::string to_string(const Scope& scope) {
  const char* const kind = scope.kind == ScopeKind::step      ? "step "
                           : scope.kind == ScopeKind::version ? "version "
                                                              : "manual ";
  return kind + std::to_string(scope.id);
}

std::unique_ptr<ObjectStore> make_local_object_store(std::uint64_t store_id) {
  return std::make_unique<detail::LocalObjectStore>(store_id);
}

}  // namespace memopd
