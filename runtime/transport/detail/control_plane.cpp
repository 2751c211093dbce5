#include "runtime/transport/detail/control_plane.hpp"

#include <utility>

#include "runtime/transport/detail/bind_endpoints.hpp"
#include "runtime/transport/detail/link_options.hpp"

namespace memopd::detail {

ControlPlane::ControlPlane(EventLoop& loop, const ZmqContext& context, const TransportOptions& options,
                           const TransportHandlers& handlers, RefusalLog& refusals)
    : loop_(loop),
      context_(context),
      options_(options),
      handlers_(handlers),
      member_key_(decode_z85_key(options.key.public_key())),
      sessions_(loop, options, handlers, refusals),
      zap_(loop, context, [this](const ZapRequest& request) { return is_member(request); }),
      server_(loop, context, options, sessions_, refusals,
              [this](const InstanceId& instance) { return yields_to_own_dial(instance); }) {}

bool ControlPlane::is_member(const ZapRequest& request) const {
  return request.mechanism == "CURVE" && request.credentials.size() == 1 &&
         equal_secrets(request.credentials.front(), member_key_);
}

Expected<std::vector<std::string>> ControlPlane::listen() {
  return bind_endpoints(server_.socket(), options_.listen, to_string(options_.self.instance) + ".control");
}

void ControlPlane::dial(DialRequest request) {
  if (request.expected) {
    if (sessions_.contains(*request.expected)) {
      return;
    }
    for (const auto& [id, link] : links_) {
      if (link->is_dialling() && link->request().expected == request.expected) {
        return;
      }
    }
  }
  const std::uint64_t id = ++last_link_;
  const auto link =
      std::make_shared<ControlLink>(ControlLink::Dependencies{loop_, context_, options_, sessions_}, request,
                                    [this, id, request](const std::optional<Error>& error) {
                                      loop_.post([this, id] { links_.erase(id); });  // not from within itself
                                      if (error && handlers_.on_dial_failed) {
                                        handlers_.on_dial_failed(request, *error);
                                      }
                                    });
  links_.emplace(id, link);
  link->start();
}

bool ControlPlane::yields_to_own_dial(const InstanceId& instance) {
  for (const auto& [id, link] : links_) {
    if (link->is_dialling() && link->request().expected == instance) {
      if (options_.self.instance < instance) {
        return true;
      }
      link->give_up();
    }
  }
  return false;
}

}  // namespace memopd::detail
