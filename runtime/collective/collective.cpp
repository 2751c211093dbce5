#include "runtime/collective/collective.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/collective/detail/collective_call.hpp"

namespace memopd {
namespace {

/// What one rank brings to an operation. All ranks must agree on everything but the data.
struct Call {
  std::string_view name;
  std::size_t count = 0;
  int root = -1;
  const void* input = nullptr;

  [[nodiscard]] std::string describe() const { return detail::describe_call(name, count, root); }
  [[nodiscard]] bool agrees_with(const Call& other) const {
    return name == other.name && count == other.count && root == other.root;
  }
};

/// Shared by all ranks. An operation is: arrive (with a deadline), work on what all brought, leave together.
/// After everyone has arrived nobody can time out any more, so the data of a rank is read only while it waits here.
class LocalGroup {
 public:
  explicit LocalGroup(int world_size) : calls_(static_cast<std::size_t>(world_size)) {}

  [[nodiscard]] int world_size() const { return static_cast<int>(calls_.size()); }

  Expected<void> arrive(int rank, const Call& call, std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    if (failure_) {
      return unexpected(*failure_);
    }
    calls_[static_cast<std::size_t>(rank)] = call;
    if (++num_arrived_ == world_size()) {
      check_agreement();
      open_gate();
      return outcome(gate_failure_);
    }
    const std::uint64_t gate = gate_;
    const auto is_over = [&] { return gate_ != gate || failure_.has_value(); };
    if (!changed_.wait_for(lock, std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24 * 365)),
                           is_over)) {
      fail_locked({ErrorCode::timeout, call.describe() + ": no arrival of " + missing() + " within " +
                                           std::to_string(deadline.count()) + " ms"});
    }
    // Once the gate is open the others rely on this rank, so an abort that comes after it must not turn it back.
    return outcome(gate_ != gate ? gate_failure_ : failure_);
  }

  /// Waits for the ranks that are at work; they all come.
  void meet() {
    std::unique_lock lock(mutex_);
    if (++num_met_ == world_size()) {
      num_met_ = 0;
      ++meeting_;
      changed_.notify_all();
      return;
    }
    const std::uint64_t meeting = meeting_;
    changed_.wait(lock, [&] { return meeting_ != meeting; });
  }

  void leave(int rank) {
    meet();
    const std::lock_guard lock(mutex_);
    calls_[static_cast<std::size_t>(rank)].reset();
  }

  void abort(std::string reason) {
    const std::lock_guard lock(mutex_);
    fail_locked({ErrorCode::target_down, "collective aborted: " + std::move(reason)});
  }

  [[nodiscard]] const void* input(int rank) const { return calls_[static_cast<std::size_t>(rank)]->input; }
  /// Room for the result; resized by one rank while the others wait.
  std::vector<std::byte> result;

 private:
  static Expected<void> outcome(const std::optional<Error>& failure) {
    return failure ? Expected<void>(unexpected(*failure)) : Expected<void>();
  }

  void open_gate() {
    gate_failure_ = failure_;
    num_arrived_ = 0;
    ++gate_;
    changed_.notify_all();
  }

  void check_agreement() {
    for (std::size_t rank = 1; rank < calls_.size(); ++rank) {
      if (!calls_[rank]->agrees_with(*calls_[0])) {
        fail_locked({ErrorCode::shape_mismatch, "rank " + std::to_string(rank) + " called " + calls_[rank]->describe() +
                                                    ", rank 0 called " + calls_[0]->describe()});
        return;
      }
    }
  }

  void fail_locked(Error error) {
    if (!failure_) {
      failure_ = std::move(error);
    }
    changed_.notify_all();
  }

  [[nodiscard]] std::string missing() const {
    std::string names;
    for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
      if (!calls_[rank]) {
        names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
      }
    }
    return names;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Call>>
      calls_;  // a rank's own entry is written under the lock, read between arrive and leave
  int num_arrived_ = 0;
  std::uint64_t gate_ = 0;
  int num_met_ = 0;
  std::uint64_t meeting_ = 0;
  std::optional<Error> failure_;       // the first one; ends the group
  std::optional<Error> gate_failure_;  // of the gate opened last
};

/// Elements [begin, end) of the sum over ranks, in rank order.
template <class T>
void sum_slice(const LocalGroup& group, std::size_t begin, std::size_t end, T* out) {
  std::copy(static_cast<const T*>(group.input(0)) + begin, static_cast<const T*>(group.input(0)) + end, out);
  for (int rank = 1; rank < group.world_size(); ++rank) {
    const T* const values = static_cast<const T*>(group.input(rank)) + begin;
    for (std::size_t i = 0; i < end - begin; ++i) {
      out[i] += values[i];
    }
  }
}

class LocalCollective final : public Collective {
 public:
  LocalCollective(std::shared_ptr<LocalGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int world_size() const override { return group_->world_size(); }

  Expected<void> all_reduce_sum(std::span<float> values, std::chrono::milliseconds deadline) override {
    return all_reduce("all_reduce_sum<float>", values, deadline);
  }
  Expected<void> all_reduce_sum(std::span<double> values, std::chrono::milliseconds deadline) override {
    return all_reduce("all_reduce_sum<double>", values, deadline);
  }

  Expected<void> reduce_scatter_sum(std::span<const float> values, std::span<float> shard,
                                    std::chrono::milliseconds deadline) override {
    return reduce_scatter("reduce_scatter_sum<float>", values, shard, deadline);
  }
  Expected<void> reduce_scatter_sum(std::span<const double> values, std::span<double> shard,
                                    std::chrono::milliseconds deadline) override {
    return reduce_scatter("reduce_scatter_sum<double>", values, shard, deadline);
  }

  Expected<void> all_gather(std::span<const std::byte> shard, std::span<std::byte> all,
                            std::chrono::milliseconds deadline) override {
    MEMOPD_RETURN_IF_ERROR(detail::check_shards("all_gather", all.size(), shard.size(), world_size()));
    MEMOPD_RETURN_IF_ERROR(group_->arrive(rank_, {"all_gather", all.size(), -1, shard.data()}, deadline));
    for (int rank = 0; rank < world_size() && !shard.empty(); ++rank) {
      std::byte* const part = all.data() + static_cast<std::size_t>(rank) * shard.size();
      if (part != group_->input(rank)) {
        std::memcpy(part, group_->input(rank), shard.size());
      }
    }
    group_->leave(rank_);
    return {};
  }

  Expected<void> broadcast(std::span<std::byte> bytes, int root, std::chrono::milliseconds deadline) override {
    MEMOPD_RETURN_IF_ERROR(detail::check_root(root, world_size()));
    MEMOPD_RETURN_IF_ERROR(group_->arrive(rank_, {"broadcast", bytes.size(), root, bytes.data()}, deadline));
    if (rank_ != root && !bytes.empty()) {
      std::memcpy(bytes.data(), group_->input(root), bytes.size());
    }
    group_->leave(rank_);
    return {};
  }

  Expected<void> barrier(std::chrono::milliseconds deadline) override {
    MEMOPD_RETURN_IF_ERROR(group_->arrive(rank_, {"barrier", 0, -1, nullptr}, deadline));
    group_->leave(rank_);
    return {};
  }

  void abort(std::string reason) override { group_->abort(std::move(reason)); }

 private:
  template <class T>
  Expected<void> reduce_scatter(std::string_view name, std::span<const T> values, std::span<T> shard,
                                std::chrono::milliseconds deadline) {
    MEMOPD_RETURN_IF_ERROR(detail::check_shards(name, values.size(), shard.size(), world_size()));
    MEMOPD_RETURN_IF_ERROR(group_->arrive(rank_, {name, values.size(), -1, values.data()}, deadline));
    const std::size_t begin = static_cast<std::size_t>(rank_) * shard.size();
    std::vector<T> sum(shard.size());  // the shard may lie inside the values, which others still read
    sum_slice(*group_, begin, begin + shard.size(), sum.data());
    group_->leave(rank_);
    std::copy(sum.begin(), sum.end(), shard.begin());
    return {};
  }

  template <class T>
  Expected<void> all_reduce(std::string_view name, std::span<T> values, std::chrono::milliseconds deadline) {
    MEMOPD_RETURN_IF_ERROR(group_->arrive(rank_, {name, values.size(), -1, values.data()}, deadline));
    const auto world = static_cast<std::size_t>(world_size());
    const auto rank = static_cast<std::size_t>(rank_);
    if (rank_ == 0 && group_->result.size() < values.size_bytes()) {
      group_->result.resize(values.size_bytes());
    }
    group_->meet();
    T* const result = reinterpret_cast<T*>(group_->result.data());
    const std::size_t begin = values.size() * rank / world;
    const std::size_t end = values.size() * (rank + 1) / world;
    sum_slice(*group_, begin, end, result + begin);
    group_->meet();
    std::copy(result, result + values.size(), values.begin());
    group_->leave(rank_);
    return {};
  }

  std::shared_ptr<LocalGroup> group_;
  int rank_;
};

}  // namespace

std::vector<std::shared_ptr<Collective>> make_local_collective(int world_size) {
  MEMOPD_CHECK(world_size >= 1, "a group has at least one rank");
  const auto group = std::make_shared<LocalGroup>(world_size);
  std::vector<std::shared_ptr<Collective>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.push_back(std::make_shared<LocalCollective>(group, rank));
  }
  return ranks;
}

}  // namespace memopd
