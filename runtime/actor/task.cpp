#include "runtime/actor/detail/task.hpp"

#include "runtime/actor/detail/actor_cell.hpp"

namespace memopd::detail {

Context current_context() {
  ActorCell* const cell = current_cell();
  return cell == nullptr ? Context{} : Context{cell->address(), true};
}

void defer(Task task) {
  if (ActorCell* const cell = current_cell(); cell != nullptr) {
    cell->defer(std::move(task));
  } else {
    task();
  }
}

void run_in(const Context& context, Task task) {
  if (!context.is_actor) {
    task();
    return;
  }
  const auto address = context.address.lock();
  ActorCell* const cell = current_cell();
  if (address == nullptr) {
    return;
  }
  if (cell != nullptr && cell->address() == address) {
    task();
  } else if (address->is_alive()) {
    Envelope envelope;
    envelope.kind = EnvelopeKind::task;
    envelope.task = std::move(task);
    address->executor().enqueue(address, std::move(envelope), {});
  }
}

void handler_threw(const std::string& what) {
  if (ActorCell* const cell = current_cell(); cell != nullptr) {
    cell->fail({ErrorCode::internal, what});
  }
}

Error answer_type_error(const MessageType& wanted, const MessageType* found) {
  return {ErrorCode::bad_schema, "asked for " + to_string(wanted.name) + ", was answered with " +
                                     (found == nullptr ? std::string("nothing") : to_string(found->name))};
}

}  // namespace memopd::detail
