#include "runtime/collective/object_collective.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/check.hpp"
#include "runtime/collective/detail/collective_call.hpp"

namespace memopd {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Bytes = std::span<const std::byte>;
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;

template <class T>
constexpr const char* kNameOf = "";
template <>
constexpr const char* kNameOf<float> = "<float>";
template <>
constexpr const char* kNameOf<double> = "<double>";

/// sum[i] += the elements in `bytes`, which may lie at any address.
template <class T>
void add(std::span<T> sum, Bytes bytes) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    T summand;
    std::memcpy(&summand, bytes.data() + i * sizeof(T), sizeof(T));
    sum[i] += summand;
  }
}

class ObjectCollective final : public Collective {
 public:
  ObjectCollective(ObjectStore& objects, std::shared_ptr<RankMeeting> meeting, const RankGroupOptions& options)
      : objects_(objects), meeting_(std::move(meeting)), options_(options) {}
  ObjectCollective(const ObjectCollective&) = delete;
  ObjectCollective& operator=(const ObjectCollective&) = delete;
  ~ObjectCollective() override { release(before_); }

  [[nodiscard]] int rank() const override { return options_.rank; }
  [[nodiscard]] int world_size() const override { return options_.num_ranks; }

  Expected<void> all_reduce_sum(std::span<float> values, Milliseconds deadline) override {
    return all_reduce(values, deadline);
  }
  Expected<void> all_reduce_sum(std::span<double> values, Milliseconds deadline) override {
    return all_reduce(values, deadline);
  }
  Expected<void> reduce_scatter_sum(std::span<const float> values, std::span<float> shard,
                                    Milliseconds deadline) override {
    return reduce_scatter(values, shard, deadline);
  }
  Expected<void> reduce_scatter_sum(std::span<const double> values, std::span<double> shard,
                                    Milliseconds deadline) override {
    return reduce_scatter(values, shard, deadline);
  }
  Expected<void> all_gather(Bytes shard, std::span<std::byte> all, Milliseconds deadline) override;
  Expected<void> broadcast(std::span<std::byte> bytes, int root, Milliseconds deadline) override;
  Expected<void> barrier(Milliseconds deadline) override {
    auto met = meet(detail::describe_call("barrier", 0), {}, deadline);
    return met ? Expected<void>() : Expected<void>(unexpected(met.error()));
  }
  void abort(std::string reason) override {
    fail({ErrorCode::target_down, "collective aborted: " + reason});
    meeting_->abort(options_.generation, reason);
  }

 private:
  /// Elements of `element_bytes` that one piece holds, of something each rank has `parts` times.
  [[nodiscard]] std::size_t piece_of(std::size_t element_bytes, std::size_t parts = 1) const {
    return std::max<std::size_t>(1, options_.max_piece_bytes / (element_bytes * parts));
  }
  [[nodiscard]] std::size_t num_ranks() const { return static_cast<std::size_t>(options_.num_ranks); }
  [[nodiscard]] std::size_t own() const { return static_cast<std::size_t>(options_.rank); }

  template <class T>
  Expected<void> all_reduce(std::span<T> values, Milliseconds deadline);
  template <class T>
  Expected<void> all_reduce_small(std::span<T> values, const std::string& operation, Milliseconds deadline);
  template <class T>
  Expected<void> all_reduce_piece(std::span<T> piece, const std::string& operation, Milliseconds deadline);
  template <class T>
  Expected<void> reduce_scatter(std::span<const T> values, std::span<T> shard, Milliseconds deadline);
  template <class T>
  Expected<void> sum_parts(const RanksMet& met, std::span<const T> mine, std::span<T> sum);

  Expected<RanksMet> meet(const std::string& operation, std::vector<ObjectRef> objects, Milliseconds deadline);
  [[nodiscard]] ObjectRef put(Bytes bytes) {
    return objects_.put_blob(bytes, scope_of_generation(options_.generation));
  }
  /// The bytes that `rank` brought as its object `index`.
  [[nodiscard]] Expected<Blob> get(const RanksMet& met, std::size_t rank, std::size_t index, std::size_t size_bytes);
  void release(const std::vector<ObjectRef>& objects) {
    for (const ObjectRef& object : objects) {
      (void)(object == ObjectRef{} ? Expected<void>() : objects_.release(object));
    }
  }
  void fail(Error error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_ = std::move(error);
    }
  }
  [[nodiscard]] std::optional<Error> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  ObjectStore& objects_;
  std::shared_ptr<RankMeeting> meeting_;
  RankGroupOptions options_;
  std::int64_t next_meeting_ = 0;
  std::vector<ObjectRef> before_;  // what this rank brought to the last meeting; others may be reading it
  mutable std::mutex mutex_;
  std::optional<Error> failure_;  // the first one; ends the group for this rank
};

Expected<RanksMet> ObjectCollective::meet(const std::string& operation, std::vector<ObjectRef> objects,
                                          Milliseconds deadline) {
  if (const auto failed = failure()) {
    release(objects);
    return unexpected(*failed);
  }
  auto met = meeting_->meet(
      {options_.generation, options_.rank, options_.num_ranks, next_meeting_++, operation, objects, deadline.count()});
  // Whoever has come to this meeting has read what was brought to the one before.
  release(std::exchange(before_, std::move(objects)));
  if (met && met->objects.size() != num_ranks()) {
    met = unexpected(ErrorCode::shape_mismatch, operation + ": " + std::to_string(met->objects.size()) +
                                                    " ranks met, the group has " + std::to_string(num_ranks()));
  }
  if (!met) {
    fail(met.error());
  }
  return met;
}

Expected<Blob> ObjectCollective::get(const RanksMet& met, std::size_t rank, std::size_t index, std::size_t size_bytes) {
  const auto& brought = met.objects[rank];
  Expected<Blob> blob = index < brought.size()
                            ? objects_.get_blob(brought[index])
                            : Expected<Blob>(unexpected(ErrorCode::not_found, "nothing was brought"));
  if (blob && blob->bytes.size() != size_bytes) {
    blob = unexpected(ErrorCode::shape_mismatch,
                      std::to_string(blob->bytes.size()) + " bytes instead of " + std::to_string(size_bytes));
  }
  if (!blob) {
    blob = unexpected(blob.error().code, "collective: what rank " + std::to_string(rank) +
                                             " brought cannot be had: " + blob.error().message);
    fail(blob.error());
    meeting_->abort(options_.generation, blob.error().message);  // the others would wait for this rank
  }
  return blob;
}

/// The sum over ranks in rank order (OC-1), of what each brought for this one.
template <class T>
Expected<void> ObjectCollective::sum_parts(const RanksMet& met, std::span<const T> mine, std::span<T> sum) {
  for (std::size_t rank = 0; rank < num_ranks(); ++rank) {
    Expected<Blob> blob = Blob{nullptr, std::as_bytes(mine)};
    if (rank != own()) {
      blob = get(met, rank, met.objects[rank].size() == 1 ? 0 : own(), sum.size_bytes());
      MEMOPD_RETURN_IF_ERROR(blob);
    }
    if (rank == 0) {
      std::memcpy(sum.data(), blob->bytes.data(), sum.size_bytes());
    } else {
      add(sum, blob->bytes);
    }
  }
  return {};
}

template <class T>
Expected<void> ObjectCollective::all_reduce(std::span<T> values, Milliseconds deadline) {
  const std::string operation = detail::describe_call(std::string("all_reduce_sum") + kNameOf<T>, values.size());
  if (values.size_bytes() <= std::min(kSmallBytes, options_.max_piece_bytes)) {
    return all_reduce_small(values, operation, deadline);
  }
  const std::size_t piece = piece_of(sizeof(T));
  for (std::size_t begin = 0; begin < values.size(); begin += piece) {
    MEMOPD_RETURN_IF_ERROR(
        all_reduce_piece(values.subspan(begin, std::min(piece, values.size() - begin)), operation, deadline));
  }
  return {};
}

template <class T>
Expected<void> ObjectCollective::all_reduce_small(std::span<T> values, const std::string& operation,
                                                  Milliseconds deadline) {
  std::vector<ObjectRef> mine;
  if (!values.empty() && num_ranks() > 1) {
    mine.push_back(put(std::as_bytes(values)));
  }
  const auto met = meet(operation, std::move(mine), deadline);
  MEMOPD_RETURN_IF_ERROR(met);
  if (values.empty()) {
    return {};
  }
  std::vector<T> sum(values.size());
  MEMOPD_RETURN_IF_ERROR(sum_parts<T>(*met, values, sum));
  std::copy(sum.begin(), sum.end(), values.begin());
  return {};
}

template <class T>
Expected<void> ObjectCollective::all_reduce_piece(std::span<T> piece, const std::string& operation,
                                                  Milliseconds deadline) {
  const auto slice = [&](std::size_t rank) {
    const std::size_t begin = piece.size() * rank / num_ranks();
    return piece.subspan(begin, piece.size() * (rank + 1) / num_ranks() - begin);
  };
  std::vector<ObjectRef> parts(num_ranks());
  for (std::size_t rank = 0; rank < num_ranks(); ++rank) {
    if (rank != own() && !slice(rank).empty()) {
      parts[rank] = put(std::as_bytes(slice(rank)));
    }
  }
  const auto brought = meet(operation, std::move(parts), deadline);
  MEMOPD_RETURN_IF_ERROR(brought);
  std::vector<T> sum(slice(own()).size());
  std::vector<ObjectRef> result;
  if (!sum.empty()) {
    MEMOPD_RETURN_IF_ERROR(sum_parts<T>(*brought, slice(own()), sum));
    result.push_back(put(std::as_bytes(std::span(sum))));
  }
  const auto summed = meet(operation, std::move(result), deadline);
  MEMOPD_RETURN_IF_ERROR(summed);
  for (std::size_t rank = 0; rank < num_ranks(); ++rank) {
    const std::span<T> target = slice(rank);
    if (rank == own()) {
      std::copy(sum.begin(), sum.end(), target.begin());
    } else if (!target.empty()) {
      const auto blob = get(*summed, rank, 0, target.size_bytes());
      MEMOPD_RETURN_IF_ERROR(blob);
      std::memcpy(target.data(), blob->bytes.data(), target.size_bytes());
    }
  }
  return {};
}

template <class T>
Expected<void> ObjectCollective::reduce_scatter(std::span<const T> values, std::span<T> shard, Milliseconds deadline) {
  const std::string name = std::string("reduce_scatter_sum") + kNameOf<T>;
  MEMOPD_RETURN_IF_ERROR(detail::check_shards(name, values.size(), shard.size(), options_.num_ranks));
  const std::string operation = detail::describe_call(name, values.size());
  const std::size_t piece = piece_of(sizeof(T), num_ranks());
  std::size_t begin = 0;
  do {
    const std::size_t count = std::min(piece, shard.size() - begin);
    const auto part = [&](std::size_t rank) { return values.subspan(rank * shard.size() + begin, count); };
    std::vector<ObjectRef> parts(num_ranks());
    for (std::size_t rank = 0; rank < num_ranks(); ++rank) {
      if (rank != own() && count > 0) {
        parts[rank] = put(std::as_bytes(part(rank)));
      }
    }
    const auto met = meet(operation, std::move(parts), deadline);
    MEMOPD_RETURN_IF_ERROR(met);
    if (count > 0) {
      std::vector<T> sum(count);
      MEMOPD_RETURN_IF_ERROR(sum_parts<T>(*met, part(own()), sum));
      std::copy(sum.begin(), sum.end(), shard.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    begin += count;
  } while (begin < shard.size());
  return {};
}

Expected<void> ObjectCollective::all_gather(Bytes shard, std::span<std::byte> all, Milliseconds deadline) {
  MEMOPD_RETURN_IF_ERROR(detail::check_shards("all_gather", all.size(), shard.size(), options_.num_ranks));
  const std::string operation = detail::describe_call("all_gather", all.size());
  const std::size_t piece = piece_of(1, num_ranks());
  std::size_t begin = 0;
  do {
    const std::size_t count = std::min(piece, shard.size() - begin);
    std::vector<ObjectRef> mine;
    if (count > 0 && num_ranks() > 1) {
      mine.push_back(put(shard.subspan(begin, count)));
    }
    const auto met = meet(operation, std::move(mine), deadline);
    MEMOPD_RETURN_IF_ERROR(met);
    for (std::size_t rank = 0; rank < num_ranks() && count > 0; ++rank) {
      std::byte* const target = all.data() + rank * shard.size() + begin;
      if (rank == own()) {
        std::memmove(target, shard.data() + begin, count);
        continue;
      }
      const auto blob = get(*met, rank, 0, count);
      MEMOPD_RETURN_IF_ERROR(blob);
      std::memcpy(target, blob->bytes.data(), count);
    }
    begin += count;
  } while (begin < shard.size());
  return {};
}

Expected<void> ObjectCollective::broadcast(std::span<std::byte> bytes, int root, Milliseconds deadline) {
  MEMOPD_RETURN_IF_ERROR(detail::check_root(root, options_.num_ranks));
  const std::string operation = detail::describe_call("broadcast", bytes.size(), root);
  const std::size_t piece = piece_of(1);
  std::size_t begin = 0;
  do {
    const std::span<std::byte> part = bytes.subspan(begin, std::min(piece, bytes.size() - begin));
    std::vector<ObjectRef> mine;
    if (root == options_.rank && !part.empty()) {
      mine.push_back(put(part));
    }
    const auto met = meet(operation, std::move(mine), deadline);
    MEMOPD_RETURN_IF_ERROR(met);
    if (root != options_.rank && !part.empty()) {
      const auto blob = get(*met, static_cast<std::size_t>(root), 0, part.size());
      MEMOPD_RETURN_IF_ERROR(blob);
      std::memcpy(part.data(), blob->bytes.data(), part.size());
    }
    begin += part.size();
  } while (begin < bytes.size());
  return {};
}

}  // namespace

Scope scope_of_generation(std::int64_t generation) {
  return {ScopeKind::manual, -1 - generation};  // 0 and above are other people's
}

std::shared_ptr<Collective> make_object_collective(ObjectStore& objects, std::shared_ptr<RankMeeting> meeting,
                                                   const RankGroupOptions& options) {
  MEMOPD_CHECK(options.rank >= 0 && options.rank < options.num_ranks && options.max_piece_bytes > 0,
               "a rank is one of its group");
  return std::make_shared<ObjectCollective>(objects, std::move(meeting), options);
}

}  // namespace memopd
