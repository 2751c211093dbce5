// The agent protocol: how each call's prompt is built from recorded ids, and what a response asks for.
//
//   call 0 : [ q ]                                  -> a_0     q = chat-wrapped instructions + question
//   call j : [ q ][ kept(a_{j-1}) ][ o_{j-1} ]      -> a_j     for "mem1"; other protocols keep other slices
//
// AP-1  kept text is a slice of the recorded response ids, an observation is encoded once and reused by id: nothing is
//       ever decoded and encoded again.
// PT-1  what people, documents and environments wrote is encoded with special tokens off.
// PT-2  the question is never cut; an observation longer than max_observation_tokens is cut, its closing tag kept.
//
// Environments give bare text (Turn::observation); the protocol adds wrapper, hint and truncation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/text/tokenizer.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/data/invocation.hpp"
#include "runtime/data/task.hpp"

namespace memopd {

/// P prompt ids; `spans` are ordered, disjoint, non-empty and cover [0, P).
struct Prompt {
  std::vector<std::int32_t> token_ids;
  std::vector<Span> spans;
  bool observation_was_cut = false;
};

struct ParsedResponse {
  Action action;
  std::string answer;           ///< text of the answer pair; empty unless action.kind is answer
  std::int32_t kept_begin = 0;  ///< [kept_begin, kept_end) of the response ids go into the next prompt
  std::int32_t kept_end = 0;
  bool cut_inside_token = false;  ///< kept text begins inside its first token; the whole token is kept
};

/// Immutable, thread-safe: one instance serves all trajectories.
class Protocol {
 public:
  virtual ~Protocol() = default;

  /// The prompt of call 0.
  [[nodiscard]] virtual Prompt first(const std::string& question) const = 0;

  /// What `response_token_ids` (terminator included) ask for. Any ids are legal; a response without a complete action
  /// is ActionKind::invalid, and so is an aborted one.
  [[nodiscard]] virtual ParsedResponse parse(std::span<const std::int32_t> response_token_ids,
                                             FinishReason finish_reason) const = 0;

  /// The prompt of the call after `last`.
  /// @param first       what first() returned for this trajectory
  /// @param parsed      what parse() returned for `last`
  /// @param observation bare text, any bytes
  /// @param turns_left  calls the agent still has, this one included; >= 1
  /// The caller compares its length with protocol.max_prompt_tokens (`context_limit`).
  [[nodiscard]] virtual Prompt next(const Prompt& first, const Invocation& last, const ParsedResponse& parsed,
                                    const std::string& observation, std::int32_t turns_left) const = 0;

  /// Sampling stops at the token that completes one of these.
  [[nodiscard]] virtual const std::vector<std::string>& stop_strings() const = 0;

  /// Bare text of `documents` by protocol.document and protocol.separator, for an environment that returns them unformatted.
  [[nodiscard]] virtual std::string observation_text(const std::vector<Document>& documents) const = 0;

  /// Bare text that answers an invalid action when protocol.retry_invalid allows another try.
  [[nodiscard]] virtual std::string correction() const = 0;
};

/// @param environment_instructions  EnvironmentInfo::instructions; appended to the protocol's own when
///        config.instructions is "default", unused when the configuration gives its own text
/// @error config_error  unknown protocol or chat template, a template that lacks its placeholder, a
///        max_observation_tokens too small for the wrapper
Expected<std::shared_ptr<const Protocol>> make_protocol(const ProtocolConfig& config,
                                                        std::shared_ptr<const Tokenizer> tokenizer,
                                                        const std::string& environment_instructions);

}  // namespace memopd
