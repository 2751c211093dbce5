// RunKey: the CURVE key pair of a run. It is the run's only secret: who holds it is a member, nobody else is heard (SE-1).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/expected.hpp"

namespace memopd {

/// Both halves in Z85, 40 characters each. Never in argv or the environment: a file of mode 0600, or text through a pipe.
class RunKey {
 public:
  /// @error unsupported  a ZeroMQ without CURVE
  [[nodiscard]] static Expected<RunKey> generate();
  /// One line as text() writes it.
  /// @error parse_error  anything else, or a public half that does not belong to the secret one; shows no secret
  [[nodiscard]] static Expected<RunKey> parse(std::string_view text);
  /// @error not_found, io_error, parse_error
  /// @error refused  not a regular file of this user with mode 0600 (or 0400); shows what it is
  [[nodiscard]] static Expected<RunKey> read(const std::filesystem::path& file);

  /// Creates `file` with mode 0600.
  /// @error already_exists, io_error
  Expected<void> write(const std::filesystem::path& file) const;
  /// `memopd-run-key 1 <public> <secret>` and a newline, to hand over through a pipe.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] const std::string& public_key() const { return public_key_; }
  [[nodiscard]] const std::string& secret_key() const { return secret_key_; }

 private:
  RunKey(std::string public_key, std::string secret_key)
      : public_key_(std::move(public_key)), secret_key_(std::move(secret_key)) {}

  std::string public_key_;
  std::string secret_key_;
};

}  // namespace memopd
