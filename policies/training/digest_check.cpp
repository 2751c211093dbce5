#include "policies/training/digest_check.hpp"

#include <cstdio>
#include <string_view>
#include <vector>

namespace memopd {
namespace {

bool is_computed(const Digest& digest) { return digest != Digest{}; }

std::string hexadecimal(const Digest& digest) {
  std::string text(33, '\0');
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(digest[0]),
                static_cast<unsigned long long>(digest[1]));
  text.pop_back();
  return text;
}

/// Those who computed the same digest.
struct Party {
  std::string names;
  Digest digest;
};

std::vector<Party> parties_of(const FedDigests& digests) {
  std::vector<Party> parties;
  const auto add = [&](std::string_view name, const Digest& digest) {
    if (!is_computed(digest)) {
      return;
    }
    for (Party& party : parties) {
      if (party.digest == digest) {
        party.names.append(" and ").append(name);
        return;
      }
    }
    parties.push_back({std::string(name), digest});
  };
  add("engine", digests.engine);
  add("teacher", digests.teacher);
  add("learner", digests.learner);
  return parties;
}

}  // namespace

bool is_comparable(const FedDigests& digests) {
  return is_computed(digests.learner) && (is_computed(digests.engine) || is_computed(digests.teacher));
}

std::string disagreement(const FedDigests& digests) {
  const std::vector<Party> parties = parties_of(digests);
  if (parties.size() < 2) {
    return {};
  }
  std::string text;
  for (const Party& party : parties) {
    text.append(text.empty() ? "" : ", ").append(party.names).append(" fed ").append(hexadecimal(party.digest));
  }
  return text;
}

}  // namespace memopd
