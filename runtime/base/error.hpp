// The errors that code can react to, and the sentence a person reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memopd {

/// Fixed codes; one exists only if a caller can react to it. The message carries the rest.
enum class ErrorCode : std::uint16_t {
  invalid_argument,     ///< a value outside the stated range
  not_found,            ///< a file, name, id or key that does not exist
  io_error,             ///< the operating system refused
  parse_error,          ///< bytes that are not what they claim to be
  config_error,         ///< one or more problems in a configuration; all are in the message
  unsupported,          ///< well-formed, but not something this build can do
  invocation_too_long,  ///< an invocation exceeds the pack budget or the model's context
  shape_mismatch,       ///< a tensor with another shape or type than the model's
  row_count_mismatch,   ///< teacher rows that do not match response rows
  tokenizer_mismatch,   ///< two models disagree about the string of a shared id
  digest_mismatch,      ///< the same invocation was fed differently in two places
  non_finite,           ///< NaN or infinity where a number was needed
  env_failed,           ///< an environment or its tool returned an error or threw
  timeout,              ///< no answer before the deadline
  target_down,          ///< the actor asked has ended or is unknown
  refused,              ///< the receiver does not accept this request now
  bad_schema,           ///< a message of unknown type or version, or with missing keys
  overloaded,           ///< a bounded mailbox or window is full
  already_exists,       ///< would overwrite something that must not be lost
  internal,             ///< a third-party exception that should not happen
};

[[nodiscard]] std::string_view to_string(ErrorCode code);

/// A code and one line: object, found, allowed; lower case, no full stop.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

}  // namespace memopd
