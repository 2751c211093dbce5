// ObjectType: what an object store needs to know of T without its template, the codec included if T has fields.
//
// A store that spans processes writes a T with MEMOPD_FIELDS as bytes; a T without stays in the process that put it.
// The fields must be visible wherever put<T> or get<T> is called: those of runtime/data are, since this header shows them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "runtime/base/expected.hpp"
#include "runtime/wire/data_codec.hpp"

namespace memopd {

struct ObjectType {
  const std::type_info* type = nullptr;
  std::string_view name;  ///< the same in every process of a build; at most kMaxTypeNameBytes between processes
  std::vector<std::byte> (*encode)(const void* object) = nullptr;                               ///< null without fields
  Expected<std::shared_ptr<const void>> (*decode)(std::span<const std::byte> bytes) = nullptr;  ///< null without fields

  [[nodiscard]] bool has_codec() const { return encode != nullptr; }
};

inline constexpr std::size_t kMaxTypeNameBytes = 512;

namespace detail {

template <class T>
std::vector<std::byte> encode_object(const void* object) {
  return encode(*static_cast<const T*>(object));
}

template <class T>
Expected<std::shared_ptr<const void>> decode_object(std::span<const std::byte> bytes) {
  auto object = decode<T>(bytes);
  if (!object) {
    return unexpected(object.error());
  }
  return std::shared_ptr<const void>(std::make_shared<const T>(*std::move(object)));
}

// The large ones are compiled once, in object_type.cpp.
#define MEMOPD_OBJECT_CODEC(prefix, Type)                                  \
  prefix template std::vector<std::byte> encode_object<Type>(const void*); \
  prefix template Expected<std::shared_ptr<const void>> decode_object<Type>(std::span<const std::byte>);
#define MEMOPD_OBJECT_CODECS(prefix)         \
  MEMOPD_OBJECT_CODEC(prefix, PackedBatch)   \
  MEMOPD_OBJECT_CODEC(prefix, TeacherScores) \
  MEMOPD_OBJECT_CODEC(prefix, StepBatch)     \
  MEMOPD_OBJECT_CODEC(prefix, WeightSet)
MEMOPD_OBJECT_CODECS(extern)

}  // namespace detail

template <class T>
[[nodiscard]] const ObjectType& object_type() {
  static const ObjectType type = [] {
    ObjectType made{&typeid(T), typeid(T).name()};
    if constexpr (HasFields<T>) {
      made.encode = &detail::encode_object<T>;
      made.decode = &detail::decode_object<T>;
    }
    return made;
  }();
  return type;
}

}  // namespace memopd
