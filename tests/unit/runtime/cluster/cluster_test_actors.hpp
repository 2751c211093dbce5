// Messages of the actors that tests of processes host; "resident" handles them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/teacher_scores.hpp"
#include "runtime/wire/data_codec.hpp"
#include "runtime/wire/message.hpp"

namespace memopd::testing {

struct Add {
  std::int64_t amount = 0;
};
MEMOPD_MESSAGE(Add, 1, amount)
struct Total {
  std::int64_t value = 0;
  std::int64_t incarnation = 0;
};
MEMOPD_MESSAGE(Total, 1, value, incarnation)
/// Where the actor lives.
struct Where {};
MEMOPD_MESSAGE(Where, 1)
MEMOPD_IDEMPOTENT(Where)
struct Place {
  std::int64_t pid = 0;
  std::int64_t incarnation = 0;
};
MEMOPD_MESSAGE(Place, 1, pid, incarnation)
/// Answered after `delay_ms`, from an idempotent or a plain message.
struct Slow {
  std::int64_t delay_ms = 0;
};
MEMOPD_MESSAGE(Slow, 1, delay_ms)
struct SlowAgain {
  std::int64_t delay_ms = 0;
};
MEMOPD_MESSAGE(SlowAgain, 1, delay_ms)
MEMOPD_IDEMPOTENT(SlowAgain)
struct Throw {
  std::string what;
};
MEMOPD_MESSAGE(Throw, 1, what)
struct Floats {
  std::vector<double> doubles;
  std::vector<float> floats;
};
MEMOPD_MESSAGE(Floats, 1, doubles, floats)
/// A payload of `size` bytes as an argument.
struct Bytes {
  std::vector<std::byte> bytes;
};
MEMOPD_MESSAGE(Bytes, 1, bytes)
/// Asks the group `target` to add, and answers its answer.
struct Relay {
  std::string target;
  std::int64_t amount = 0;
};
MEMOPD_MESSAGE(Relay, 1, target, amount)
/// Puts a PackedBatch of `length` tokens; answers its reference.
struct PutPack {
  std::int32_t length = 0;
};
MEMOPD_MESSAGE(PutPack, 1, length)
/// Gets a PackedBatch; answers its number of tokens.
struct ReadPack {
  ObjectRef ref;
};
MEMOPD_MESSAGE(ReadPack, 1, ref)
struct PackRef {
  ObjectRef ref;
};
MEMOPD_MESSAGE(PackRef, 1, ref)

}  // namespace memopd::testing
