#include "runtime/ledger/written_keys.hpp"

#include <xxhash.h>

#include <array>
#include <cstddef>

#include "runtime/ledger/record_format.hpp"

namespace memopd::detail {
namespace {

Fingerprint fingerprint_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

}  // namespace

Fingerprint fingerprint(const Invocation& invocation) {
  const auto prompt = fingerprint_bytes(std::as_bytes(std::span(invocation.prompt_token_ids)));
  const auto response = fingerprint_bytes(std::as_bytes(std::span(invocation.response_token_ids)));
  const std::array<std::uint64_t, 4> both = {prompt.first, prompt.second, response.first, response.second};
  return fingerprint_bytes(std::as_bytes(std::span(both)));
}

Fingerprint fingerprint(const TrajectoryRecord& record) {
  TrajectoryRecord content = record;
  content.trajectory.metrics.clear();
  return fingerprint_bytes(encode(content));
}

WrittenKeys::Found WrittenKeys::find(const RecordKey& key, Fingerprint print) const {
  if (is_forgotten(key.id.step)) {
    return {State::stale, {}};
  }
  const auto step = by_step_.find(key.id.step);
  if (step == by_step_.end()) {
    return {};
  }
  const auto known = step->second.find(key.id);
  if (known == step->second.end()) {
    return {};
  }
  const auto there = known->second.prints.find({key.attempt, key.invocation_index});
  if (there == known->second.prints.end()) {
    return {known->second.is_closed ? State::stale : State::is_new, {}};
  }
  return {there->second == print ? State::repeated : State::differs, there->second};
}

void WrittenKeys::add(const RecordKey& key, Fingerprint print) {
  by_step_[key.id.step][key.id].prints[{key.attempt, key.invocation_index}] = print;
}

bool WrittenKeys::is_closed(const TrajectoryId& id) const {
  const auto step = by_step_.find(id.step);
  if (step == by_step_.end()) {
    return false;
  }
  const auto known = step->second.find(id);
  return known != step->second.end() && known->second.is_closed;
}

void WrittenKeys::close(const TrajectoryId& id) {
  if (!is_forgotten(id.step)) {
    by_step_[id.step][id].is_closed = true;
  }
}

void WrittenKeys::close_step(std::int32_t step, std::span<const TrajectoryId> trained) {
  for (const TrajectoryId& id : trained) {
    close(id);
  }
  last_closed_step_ = step;
  while (!by_step_.empty() && is_forgotten(by_step_.begin()->first)) {
    by_step_.erase(by_step_.begin());
  }
}

void WrittenKeys::roll_back(std::int32_t to_step) {
  by_step_.clear();
  last_closed_step_ = to_step > 0 ? std::optional(to_step - 1) : std::nullopt;
}

bool WrittenKeys::is_forgotten(std::int32_t step) const {
  return last_closed_step_ && step < *last_closed_step_ - remembered_steps_;
}

}  // namespace memopd::detail
