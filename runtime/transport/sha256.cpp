#include "runtime/transport/sha256.hpp"

#include <openssl/evp.h>

#include "runtime/base/check.hpp"

namespace memopd {

struct Sha256::Context {
  Context() : digest(EVP_MD_CTX_new()) {}
  ~Context() { EVP_MD_CTX_free(digest); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  EVP_MD_CTX* const digest;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  MEMOPD_CHECK(context_->digest != nullptr && EVP_DigestInit_ex(context_->digest, EVP_sha256(), nullptr) == 1,
               "libcrypto has no SHA-256");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::append(std::span<const std::byte> bytes) {
  MEMOPD_CHECK(EVP_DigestUpdate(context_->digest, bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  MEMOPD_CHECK(EVP_DigestFinal_ex(context_->digest, digest.data(), nullptr) == 1, "SHA-256 failed");
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.append(bytes);
  return hash.finish();
}

}  // namespace memopd
