// What the actors of every role do when they start: read the resolved configuration and the tokenizer.
#pragma once

#include <memory>

#include "actors/messages.hpp"
#include "envs/registry.hpp"
#include "policies/text/tokenizer.hpp"
#include "runtime/actor/cluster.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// The configuration in `init`. @error config_error  never for a text that dump_config printed
Expected<Config> load_role_config(const RoleInit& init);

/// The tokenizer that `init` names. @error what Tokenizer::load says
Expected<std::shared_ptr<const Tokenizer>> load_role_tokenizer(const RoleInit& init);

/// What an environment is made with.
EnvOptions environment_options(const EnvConfig& config);

/// The align_pack actor that keeps the records of trajectory `id`: by hash of the id, so that every attempt meets its own.
/// The group "align_pack" must exist.
ActorRef align_pack_for(Cluster& cluster, const TrajectoryId& id);

}  // namespace memopd
