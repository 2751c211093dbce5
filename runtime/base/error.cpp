#include "runtime/base/error.hpp"

namespace memopd {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io_error:
      return "io_error";
    case ErrorCode::parse_error:
      return "parse_error";
    case ErrorCode::config_error:
      return "config_error";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::invocation_too_long:
      return "invocation_too_long";
    case ErrorCode::shape_mismatch:
      return "shape_mismatch";
    case ErrorCode::row_count_mismatch:
      return "row_count_mismatch";
    case ErrorCode::tokenizer_mismatch:
      return "tokenizer_mismatch";
    case ErrorCode::digest_mismatch:
      return "digest_mismatch";
    case ErrorCode::non_finite:
      return "non_finite";
    case ErrorCode::env_failed:
      return "env_failed";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::target_down:
      return "target_down";
    case ErrorCode::refused:
      return "refused";
    case ErrorCode::bad_schema:
      return "bad_schema";
    case ErrorCode::overloaded:
      return "overloaded";
    case ErrorCode::already_exists:
      return "already_exists";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace memopd
