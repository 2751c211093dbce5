// MEMOPD_FIELDS: names the fields of a struct once, so that codecs, size counts and printers can walk over them.
//
//   struct Point { int x = 0; int y = 0; };
//   MEMOPD_FIELDS(Point, x, y)          // in the namespace of Point, after it
//
// A field list may be empty and may hold at most 64 names. MEMOPD_ENUM(Kind, last) does the same for an enumeration
// whose enumerators run from 0 to `last` without holes: anything else from a peer is refused.
#pragma once

#include <string_view>
#include <type_traits>

// Recursive expansion over at most 256 arguments; works for none (C++20 __VA_OPT__).
#define MEMOPD_PARENS ()
#define MEMOPD_EXPAND(...) MEMOPD_EXPAND3(MEMOPD_EXPAND3(MEMOPD_EXPAND3(MEMOPD_EXPAND3(__VA_ARGS__))))
#define MEMOPD_EXPAND3(...) MEMOPD_EXPAND2(MEMOPD_EXPAND2(MEMOPD_EXPAND2(MEMOPD_EXPAND2(__VA_ARGS__))))
#define MEMOPD_EXPAND2(...) MEMOPD_EXPAND1(MEMOPD_EXPAND1(MEMOPD_EXPAND1(MEMOPD_EXPAND1(__VA_ARGS__))))
#define MEMOPD_EXPAND1(...) __VA_ARGS__
#define MEMOPD_FOR_EACH(macro, ...) __VA_OPT__(MEMOPD_EXPAND(MEMOPD_FOR_EACH_STEP(macro, __VA_ARGS__)))
#define MEMOPD_FOR_EACH_STEP(macro, first, ...) \
  macro(first) __VA_OPT__(MEMOPD_FOR_EACH_AGAIN MEMOPD_PARENS(macro, __VA_ARGS__))
#define MEMOPD_FOR_EACH_AGAIN() MEMOPD_FOR_EACH_STEP

#define MEMOPD_COUNT_FIELD(field) +1
#define MEMOPD_VISIT_FIELD(field) memopd_visitor(::std::string_view(#field), memopd_self.field);

/// Calls `visitor(name, field)` for each field in order, by argument-dependent lookup of memopd_visit_fields.
#define MEMOPD_FIELDS(Type, ...)                                                                                \
  template <class MemopdSelf, class MemopdVisitor>                                                              \
  requires ::std::is_same_v<::std::remove_const_t<MemopdSelf>, Type>                                            \
  constexpr void memopd_visit_fields([[maybe_unused]] MemopdSelf& memopd_self,                                  \
                                     [[maybe_unused]] MemopdVisitor&& memopd_visitor) {                         \
    static_assert(0 MEMOPD_FOR_EACH(MEMOPD_COUNT_FIELD __VA_OPT__(, ) __VA_ARGS__) <= 64, "at most 64 fields"); \
    MEMOPD_FOR_EACH(MEMOPD_VISIT_FIELD __VA_OPT__(, ) __VA_ARGS__)                                              \
  }

#define MEMOPD_ENUM(Type, last) \
  [[maybe_unused]] constexpr Type memopd_last_enumerator(Type) { return Type::last; }

namespace memopd {

namespace detail {
struct AnyVisitor {
  template <class Field>
  constexpr void operator()(std::string_view, Field&) const {}
};
}  // namespace detail

/// A struct with MEMOPD_FIELDS (or MEMOPD_MESSAGE).
template <class T>
concept HasFields = requires(T& value) {
  memopd_visit_fields(value, detail::AnyVisitor{});
};

/// An enumeration with MEMOPD_ENUM.
template <class T>
concept HasEnumRange = std::is_enum_v<T> && requires(T value) {
  memopd_last_enumerator(value);
};

}  // namespace memopd
