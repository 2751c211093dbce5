#include "actors/roles.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "actors/checkpoint_keeper.hpp"
#include "actors/coordinator_actor.hpp"
#include "actors/learner_actor.hpp"
#include "actors/messages.hpp"
#include "actors/retriever_actor.hpp"
#include "actors/role_setup.hpp"
#include "policies/model/model_config.hpp"
#include "policies/text/protocol.hpp"
#include "runtime/config/load.hpp"

namespace memopd {
namespace {

struct RoleToSpawn {
  std::string actor;
  std::string group;
  SpawnOptions options;
  RoleInit init;
};

// Who computes or waits for a disk longer than a cooperative handler may gets a thread of its own (R8): models, the ledger
// with its syncs, the index.
bool needs_own_thread(const std::string& actor) {
  return actor == "student" || actor == "teacher" || actor == "learner" || actor == "align_pack" ||
         actor == "retriever";
}

/// Where [[role]] wants the actors of a group.
void place(const Config& config, const std::string& group, SpawnOptions& options) {
  for (const RoleConfig& role : config.role) {
    if (role.name == group) {
      options.process = role.process;
      options.cpus = role.cpus;
      options.memory_gib = role.memory_gib;
      options.labels = role.labels;
      options.spread = role.placement == "spread";
      options.max_restarts = role.max_restarts;
      options.restart_window_s = role.restart_window_s;
      options.restart_backoff_ms = role.restart_backoff_ms;
    }
  }
}

bool lives_elsewhere(const Config& config, const std::string& group) {
  return std::any_of(config.role.begin(), config.role.end(),
                     [&](const RoleConfig& role) { return role.name == group; });
}

std::vector<RoleToSpawn> roles_to_spawn(const Config& config, const RoleSelection& selection, const RoleInit& base,
                                        ObjectRef collective) {
  std::vector<RoleToSpawn> roles;
  const auto add = [&](std::string actor, std::string group, std::int32_t count, std::string model = {}) {
    RoleToSpawn role{std::move(actor), std::move(group), {}, base};
    role.options.count = count;
    role.init.model = std::move(model);
    role.options.blocking = needs_own_thread(role.actor);
    place(config, role.group, role.options);
    roles.push_back(std::move(role));
  };
  add("retriever", "retriever", 1);
  if (selection.with_student) {
    add("student", "student", config.student.num_actors, config.student.model);
  }
  if (selection.with_expert) {
    add("expert", "expert", 1);
  }
  if (selection.with_teacher_policy) {
    add("student", "teacher_policy", 1, config.teacher.model);
  }
  if (selection.with_teacher) {
    add("teacher", "teacher", config.teacher.num_actors, config.teacher.model);
  }
  add("align_pack", "align_pack", 1);
  add(selection.env_class, "env", config.env.front().num_actors);
  if (selection.with_learner) {
    if (has_rank_processes(config)) {
      add("rank_meeting", "rank_meeting", 1);
    }
    add("learner", "learner", config.learner.num_ranks);
    roles.back().init.collective = collective;
  }
  add("coordinator", "coordinator", 1);
  roles.back().init.collective = collective;
  return roles;
}

class Problems {
 public:
  void add(const Error& error) { text_ += (text_.empty() ? "" : "\n") + error.message; }
  template <class T>
  bool check(const Expected<T>& result) {
    if (!result) {
      add(result.error());
    }
    return result.has_value();
  }
  [[nodiscard]] Expected<void> result() const {
    return text_.empty() ? Expected<void>() : Expected<void>(unexpected(ErrorCode::config_error, text_));
  }

 private:
  std::string text_;
};

void check_environment(const Config& config, const RoleSelection& selection, Problems& problems) {
  const EnvConfig& env = config.env.front();
  auto environment = make_environment(env.name, environment_options(env));
  if (!problems.check(environment)) {
    return;
  }
  problems.check(open_task_source(env));
  problems.check(open_index(config.retriever, env));
  if (selection.with_expert) {
    problems.check(make_expert(env.name, environment_options(env)));
  }
}

void check_models(const Config& config, const RoleSelection& selection, Problems& problems) {
  RoleInit init;
  init.tokenizer = tokenizer_folder(config, selection);
  auto tokenizer = load_role_tokenizer(init);
  if (problems.check(tokenizer)) {
    problems.check(make_protocol(config.protocol, *tokenizer, {}));
  }
  if (selection.with_student && problems.check(load_model_config(config.student.model)) && tokenizer) {
    const auto model = load_model_config(config.student.model);
    if (model->vocab_size < (*tokenizer)->vocab_size()) {
      problems.add({ErrorCode::tokenizer_mismatch,
                    "student " + config.student.model + ": " + std::to_string(model->vocab_size) +
                        " embedding rows for a tokenizer of " + std::to_string((*tokenizer)->vocab_size()) + " ids"});
    }
  }
  if (!selection.with_teacher && !selection.with_teacher_policy) {
    return;
  }
  problems.check(load_model_config(config.teacher.model));
  init.tokenizer = config.teacher.model;
  auto teacher_tokenizer = load_role_tokenizer(init);
  if (problems.check(teacher_tokenizer) && tokenizer) {
    problems.check(check_compatible(**tokenizer, **teacher_tokenizer, (*tokenizer)->vocab_size()));
  }
}

}  // namespace

RoleSelection launch_roles(const Config& config, const std::string& run_directory) {
  RoleSelection selection;
  selection.with_teacher = config.opd.coef > 0;
  selection.with_teacher_policy = config.eval.teacher;
  selection.with_learner = true;
  selection.run_directory = run_directory;
  return selection;
}

RoleSelection resume_roles(const Config& config, const RunDirectory& directory) {
  RoleSelection selection = launch_roles(config, directory.path().string());
  selection.is_resumed = true;
  const CheckpointKeeper checkpoints(directory.checkpoints(), config.checkpoint.keep);
  if (const auto newest = checkpoints.newest()) {
    selection.checkpoint = checkpoints.path(*newest).string();
  }
  if (const auto summary = load_summary(directory.path() / "summary.json")) {
    selection.interrupted_at = static_cast<std::int32_t>(summary->steps);
  }
  return selection;
}

std::string tokenizer_folder(const Config& config, const RoleSelection& selection) {
  if (!selection.tokenizer.empty()) {
    return selection.tokenizer;
  }
  return config.student.tokenizer.empty() ? config.student.model : config.student.tokenizer;
}

Expected<ActorRef> spawn_roles(Cluster& cluster, const Config& config, const RoleSelection& selection) {
  RoleInit base;
  base.config_text = dump_config(config);
  base.run_directory = selection.run_directory;
  base.tokenizer = tokenizer_folder(config, selection);
  base.is_resumed = selection.is_resumed;
  base.checkpoint = selection.checkpoint;
  base.interrupted_at = selection.interrupted_at;
  ObjectRef collective;
  if (selection.with_learner && !lives_elsewhere(config, "learner")) {
    auto group = std::make_shared<const CollectiveGroup>(make_local_collective(config.learner.num_ranks));
    collective = cluster.objects().put(group, Scope{});
  }
  ActorRef coordinator;
  for (RoleToSpawn& role : roles_to_spawn(config, selection, base, collective)) {
    auto group = role.actor == "rank_meeting"
                     ? cluster.spawn(role.actor, role.options, role.group)
                     : cluster.spawn(role.actor, role.options, role.group, std::move(role.init));
    if (!group) {
      return unexpected(group.error());
    }
    coordinator = (*group)[0];
  }
  return coordinator;
}

Expected<void> check_inputs(const Config& config, const RoleSelection& selection) {
  Problems problems;
  check_environment(config, selection, problems);
  check_models(config, selection, problems);
  return problems.result();
}

}  // namespace memopd
