#include "runtime/actor/actor.hpp"

#include "runtime/actor/detail/actor_cell.hpp"
#include "runtime/base/check.hpp"

namespace memopd {

Actor::Actor() : cell_(detail::current_cell()) {
  MEMOPD_CHECK(cell_ != nullptr, "actors are constructed by Cluster::spawn");
}

Actor::~Actor() = default;

void Actor::watch(const ActorRef& target, std::function<void(const Down&)> on_down) {
  cell_->watch(target, std::move(on_down));
}

void Actor::fail(Error cause) { cell_->fail(std::move(cause)); }
void Actor::stop_self(std::string_view reason) { cell_->address()->request_stop(reason); }

Cluster& Actor::cluster() const { return cell_->core().front(); }
ObjectStore& Actor::objects() const { return cell_->core().front().objects(); }
const ActorRef& Actor::self() const { return cell_->self(); }
int Actor::rank() const { return cell_->address()->info().rank; }
std::int64_t Actor::incarnation() const { return static_cast<std::int64_t>(cell_->address()->incarnation()); }
int Actor::group_size() const { return cell_->address()->info().group_size; }
std::chrono::nanoseconds Actor::now() const { return cell_->core().now(); }

void Actor::add_handler(const MessageType& type, detail::Handler handler) {
  cell_->add_handler(type, std::move(handler));
}

void Actor::ask_any(const ActorRef& target, Payload message, std::chrono::milliseconds deadline,
                    detail::Callback<detail::Answer> on_answer) {
  cell_->ask(target, std::move(message), deadline, std::move(on_answer));
}

Expected<void> Actor::tell_any(const ActorRef& target, Payload message) {
  return cell_->core().send(target, std::move(message), nullptr);
}

void Actor::send_self(std::chrono::milliseconds delay, Payload message) { cell_->send_self(delay, std::move(message)); }

}  // namespace memopd
