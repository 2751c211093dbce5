// Which actors a run consists of, spawned from its configuration in the order they need one another.
#pragma once

#include <string>

#include "runtime/actor/cluster.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/telemetry/run_directory.hpp"

namespace memopd {

/// The parts a command wants; the config says how many of each.
struct RoleSelection {
  bool with_student = true;
  bool with_expert = false;          ///< a group "expert" that answers like a student
  bool with_teacher = false;         ///< the scorer
  bool with_teacher_policy = false;  ///< the teacher as a sampling policy, for its evaluation
  bool with_learner = false;
  std::string env_class = "env";    ///< actor class of the env actors
  std::string run_directory;        ///< "" = nothing is written
  std::string tokenizer;            ///< folder; "" = student.tokenizer, else student.model
  bool is_resumed = false;          ///< the run directory holds an earlier part of the run
  std::string checkpoint;           ///< of it, to go on from; "" = begin anew
  std::int32_t interrupted_at = 0;  ///< steps that were trained when it ended
};

/// A launch: student, teacher (if opd.coef > 0), learner, and the teacher's evaluation if asked for.
[[nodiscard]] RoleSelection launch_roles(const Config& config, const std::string& run_directory);

/// A launch that goes on with the run in `directory`, from its newest checkpoint.
[[nodiscard]] RoleSelection resume_roles(const Config& config, const RunDirectory& directory);

/// The folder that `selection` and `config` take the tokenizer from.
[[nodiscard]] std::string tokenizer_folder(const Config& config, const RoleSelection& selection);

/// Spawns the selected roles; @return the coordinator.
/// @error what spawn says. A role that fails to load ends and shows up in Cluster::first_failure().
Expected<ActorRef> spawn_roles(Cluster& cluster, const Config& config, const RoleSelection& selection);

/// Opens everything that `selection` would open, without starting anything: models, tokenizers (and that student and
/// teacher agree on the ids they share), environment options, task file, corpus and index.
/// @error the first problem of each part, all in one message
Expected<void> check_inputs(const Config& config, const RoleSelection& selection);

}  // namespace memopd
