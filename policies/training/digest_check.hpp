// Whether engine, teacher and learner were fed the same invocation (AP-6), and who was not.
#pragma once

#include <string>

#include "runtime/data/invocation.hpp"

namespace memopd {

/// Digests of one invocation, each computed from what was really fed; all zero = not computed.
struct FedDigests {
  Digest engine{};
  Digest teacher{};
  Digest learner{};
};

/// Whether there is anything to compare: the learner's digest and at least one other.
[[nodiscard]] bool is_comparable(const FedDigests& digests);

/// Who disagrees with whom, with the digests in hexadecimal; empty when all that were computed are equal.
[[nodiscard]] std::string disagreement(const FedDigests& digests);

}  // namespace memopd
