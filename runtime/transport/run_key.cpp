#include "runtime/transport/run_key.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace memopd {
namespace {

constexpr std::string_view kPrefix = "memopd-run-key 1 ";
constexpr std::size_t kKeyLength = 40;
constexpr std::size_t kTextLength = kPrefix.size() + kKeyLength + 1 + kKeyLength + 1;

using KeyText = std::array<char, kKeyLength + 1>;

/// Closes what open() gave.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

Unexpected system_error(const std::filesystem::path& file, const char* what) {
  const int number = errno;
  const ErrorCode code = number == ENOENT   ? ErrorCode::not_found
                         : number == EEXIST ? ErrorCode::already_exists
                         : number == ELOOP  ? ErrorCode::refused
                                            : ErrorCode::io_error;
  return unexpected(code, file.string() + ": " + what + ": " + std::strerror(number));
}

Expected<void> check_private(const std::filesystem::path& file, int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    return system_error(file, "stat");
  }
  const unsigned mode = status.st_mode & 07777U;
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (mode != 0600 && mode != 0400)) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%04o", mode);
    return unexpected(ErrorCode::refused,
                      file.string() + ": mode " + text.data() + ", owner " + std::to_string(status.st_uid) +
                          ": a run key must be a file of mode 0600 of user " + std::to_string(::geteuid()));
  }
  return {};
}

}  // namespace

Expected<RunKey> RunKey::generate() {
  KeyText public_key{};
  KeyText secret_key{};
  if (::zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    return unexpected(ErrorCode::unsupported, "this ZeroMQ was built without CURVE: no run key can be made");
  }
  return RunKey(public_key.data(), secret_key.data());
}

Expected<RunKey> RunKey::parse(std::string_view text) {
  const auto bad = [](const char* what) { return unexpected(ErrorCode::parse_error, std::string("run key: ") + what); };
  if (text.size() != kTextLength || text.substr(0, kPrefix.size()) != kPrefix || text.back() != '\n' ||
      text[kPrefix.size() + kKeyLength] != ' ') {
    return bad("expected one line 'memopd-run-key 1 <public> <secret>'");
  }
  const std::string public_key(text.substr(kPrefix.size(), kKeyLength));
  const std::string secret_key(text.substr(kPrefix.size() + kKeyLength + 1, kKeyLength));
  std::array<std::uint8_t, 32> decoded{};
  if (public_key.find('\0') != std::string::npos || secret_key.find('\0') != std::string::npos ||
      ::zmq_z85_decode(decoded.data(), secret_key.c_str()) == nullptr) {
    return bad("a half is not Z85");
  }
  KeyText derived{};
  if (::zmq_curve_public(derived.data(), secret_key.c_str()) != 0 || public_key != derived.data()) {
    return bad("the public half does not belong to the secret half");
  }
  return RunKey(public_key, secret_key);
}

Expected<RunKey> RunKey::read(const std::filesystem::path& file) {
  const File opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (opened.get() < 0) {
    return system_error(file, "open");
  }
  MEMOPD_RETURN_IF_ERROR(check_private(file, opened.get()));
  std::array<char, kTextLength + 1> text{};
  const ssize_t count = ::read(opened.get(), text.data(), text.size());
  if (count < 0) {
    return system_error(file, "read");
  }
  auto key = parse({text.data(), static_cast<std::size_t>(count)});
  if (!key) {
    return unexpected(key.error().code, file.string() + ": " + key.error().message);
  }
  return key;
}

Expected<void> RunKey::write(const std::filesystem::path& file) const {
  const File created(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (created.get() < 0) {
    return system_error(file, "create");
  }
  const std::string line = text();
  if (::write(created.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      ::fsync(created.get()) != 0) {
    return system_error(file, "write");
  }
  return {};
}

std::string RunKey::text() const { return std::string(kPrefix) + public_key_ + " " + secret_key_ + "\n"; }

}  // namespace memopd
