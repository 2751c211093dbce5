#include "runtime/transport/identity.hpp"

#include <sys/random.h>

#include <cerrno>

#include "runtime/base/check.hpp"

namespace memopd {
namespace {

std::string build_text(const ProcessIdentity& identity) {
  return to_string(identity) + " has protocol " + std::to_string(identity.protocol) + ", build " + identity.build_id +
         ", schema " + identity.schema_hash;
}

}  // namespace

void fill_random(std::span<std::uint8_t> bytes) {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::getrandom(bytes.data() + filled, bytes.size() - filled, 0);
    MEMOPD_CHECK(count > 0 || errno == EINTR, "getrandom failed");
    filled += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::string to_string(const ProcessIdentity& identity) {
  return identity.role + " (instance " + to_string(identity.instance) + ", incarnation " +
         std::to_string(identity.incarnation) + ")";
}

Expected<void> check_compatible(const ProcessIdentity& self, const ProcessIdentity& peer) {
  if (self.run != peer.run) {
    return unexpected(ErrorCode::refused, to_string(peer) + " belongs to run " + to_string(peer.run) + ", " +
                                              to_string(self) + " to run " + to_string(self.run));
  }
  if (self.protocol != peer.protocol || self.build_id != peer.build_id || self.schema_hash != peer.schema_hash) {
    return unexpected(ErrorCode::bad_schema, build_text(peer) + "; " + build_text(self));
  }
  return {};
}

}  // namespace memopd
