#include "runtime/actor/actor_ref.hpp"

#include "runtime/actor/detail/address.hpp"
#include "runtime/base/check.hpp"

namespace memopd {
namespace {

/// Stands in for an actor that could not be spawned: has ended before it began, so its executor is never asked for anything.
class NoExecutor final : public detail::Executor {
 public:
  [[nodiscard]] std::chrono::nanoseconds now() const override { return {}; }
  void enqueue(const std::shared_ptr<detail::Address>&, detail::Envelope, std::chrono::nanoseconds) override {}
  Expected<void> carry(const std::string&, const std::shared_ptr<detail::Address>&, detail::Envelope) override {
    return {};
  }
  void carry_answer(const std::string&, std::shared_ptr<detail::AnswerSink> to, std::uint64_t id,
                    detail::Answer answer) override {
    to->deliver(id, std::move(answer));
  }
  void actor_ended(const Down&) override {}
};

}  // namespace

const std::string& ActorRef::name() const {
  static const std::string nobody = "nobody";
  return address_ ? address_->info().name : nobody;
}

bool ActorRef::is_alive() const { return address_ && address_->is_alive(); }
bool ActorRef::is_expected() const { return address_ && address_->is_expected(); }

const ActorRef& ActorGroup::operator[](std::size_t rank) const {
  MEMOPD_CHECK(rank < members_.size(),
               "rank " + std::to_string(rank) + " of group " + name_ + " of " + std::to_string(members_.size()));
  return members_[rank];
}

ActorRef SpawnedGroup::operator[](std::size_t rank) const {
  if (has_value()) {
    return value()[rank];
  }
  static NoExecutor no_executor;
  detail::AddressInfo info;
  info.name = "unspawned/" + std::to_string(rank);
  const auto address = std::make_shared<detail::Address>(std::move(info), no_executor);
  address->set_ended(true, "spawn failed: " + error().message);
  return ActorRef(address);
}

}  // namespace memopd
