#include "actors/role_setup.hpp"

#include "runtime/base/random.hpp"
#include "runtime/config/load.hpp"

namespace memopd {

Expected<Config> load_role_config(const RoleInit& init) {
  return parse_config(init.config_text, "role configuration", {});
}

Expected<std::shared_ptr<const Tokenizer>> load_role_tokenizer(const RoleInit& init) {
  auto tokenizer = Tokenizer::load(init.tokenizer);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  return std::make_shared<const Tokenizer>(*std::move(tokenizer));
}

EnvOptions environment_options(const EnvConfig& config) {
  EnvOptions options;
  options.options = config.options;
  options.scorer = config.scorer;
  return options;
}

ActorRef align_pack_for(Cluster& cluster, const TrajectoryId& id) {
  auto group = cluster.find("align_pack");
  MEMOPD_CHECK(group, "the group align_pack is spawned before env");
  return (*group)[static_cast<std::size_t>(trajectory_seed(0, id) % group->size())];
}

}  // namespace memopd
