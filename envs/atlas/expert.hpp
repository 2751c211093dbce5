// The scripted policy of the atlas world: it reads the question text and the context text, nothing else.
//
// It searches `entity relation`, keeps what it found in the words of the documents, and answers when all is known:
//   <think> Kenya: capital is Nairobi; Turkana in Kenya</think><search> Kenya language</search>
// A half-solved two-hop question is kept as `S in C`, a solved one as `S: R is V` or `S: in C`.
#pragma once

#include <string>

#include "envs/environment.hpp"
#include "runtime/base/expected.hpp"

namespace memopd::atlas {

/// Stateless and thread-safe.
class AtlasExpert final : public Expert {
 public:
  /// A fact that the observation does not state is kept as `unknown`, so every task ends.
  /// @error invalid_argument  a question of none of the three forms, or a context without think tags
  [[nodiscard]] Expected<std::string> respond(const std::string& question, const std::string& context) const override;
};

}  // namespace memopd::atlas
