// An actor that measures the way from its process to others: what `doctor` places on every node.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/data/teacher_scores.hpp"
#include "runtime/wire/data_codec.hpp"
#include "runtime/wire/message.hpp"

namespace memopd {

inline constexpr const char* kPairProbe = "pair_probe";  ///< registered name of the actor

/// Dials the process of the probe that is the one member of `group`, asks it kNumPings times and fetches an object from there.
struct MeasurePair {
  std::string group;
};
MEMOPD_MESSAGE(MeasurePair, 1, group)

struct PairMeasured {
  double round_trip_us = 0;  ///< median
  double mb_per_s = 0;       ///< of the object, 10^6 bytes
};
MEMOPD_MESSAGE(PairMeasured, 1, round_trip_us, mb_per_s)

struct ProbePing {};
MEMOPD_MESSAGE(ProbePing, 1)

/// Puts an object of kProbeBytes; answers its reference.
struct OfferBytes {};
MEMOPD_MESSAGE(OfferBytes, 1)
struct BytesOffered {
  ObjectRef ref;
};
MEMOPD_MESSAGE(BytesOffered, 1, ref)

inline constexpr int kNumPings = 50;
inline constexpr std::size_t kProbeBytes = 16 << 20;

}  // namespace memopd
