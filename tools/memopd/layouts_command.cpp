// memopd bench layouts: how well a model predicts the expert's responses in call-local states and in flat histories.
//
// A control that scores flat histories is fair only with a teacher that is competent in them; this shows whether it is.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "actors/coordinator_actor.hpp"
#include "policies/training/log_prob_scorer.hpp"
#include "runtime/alignpack/align_pack.hpp"
#include "runtime/alignpack/history_pack.hpp"
#include "runtime/base/random.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/validate.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"
#include "tools/session/local_session.hpp"

namespace memopd {
namespace {

struct LayoutsArguments {
  std::string config_path;
  std::vector<std::string> overrides;
  std::int32_t num_tasks = 100;
  bool is_json = false;
};

/// Of the expert's response tokens in one layout.
struct Fit {
  double nats = 0;       ///< mean -log p
  double sure_frac = 0;  ///< p > 1/2: certainly the first choice
};

Expected<Fit> fit_of(const LogProbScorer& scorer, const std::vector<PackedBatch>& packs) {
  Fit fit;
  double count = 0;
  for (const PackedBatch& pack : packs) {
    auto log_probs = scorer.log_probs(pack, 1.0);
    if (!log_probs) {
      return unexpected(log_probs.error());
    }
    for (const double log_prob : *log_probs) {
      fit.nats -= log_prob;
      fit.sure_frac += log_prob > -std::log(2.0) ? 1 : 0;
      count += 1;
    }
  }
  return Fit{fit.nats / count, fit.sure_frac / count};
}

Expected<std::shared_ptr<const StepBatch>> expert_trajectories(const Config& config, LocalSession& session,
                                                               std::int32_t num_tasks) {
  auto source = open_task_source(config.env.front());
  if (!source) {
    return unexpected(source.error());
  }
  auto tasks = (*source)->tasks({"val", config.run.seed, 0, num_tasks, config.env.front().num_objectives});
  if (!tasks) {
    return unexpected(tasks.error());
  }
  std::vector<RunTask> requests;
  std::vector<TrajectoryId> ids;
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(tasks->size()); ++index) {
    RunTask request;
    request.trajectory_id = {"val", 0, index, 0};
    request.task = std::move((*tasks)[static_cast<std::size_t>(index)]);
    request.student = "expert";
    request.seed = trajectory_seed(config.run.seed, request.trajectory_id);
    ids.push_back(request.trajectory_id);
    requests.push_back(std::move(request));
  }
  if (auto done = session.run(std::move(requests)); !done) {
    return unexpected(done.error());
  }
  return session.close_step(0, std::move(ids));
}

struct Layouts {
  double f1 = 0;
  Fit local;
  Fit flat;
};

Expected<Layouts> measure(const Config& config, std::int32_t num_tasks) {
  RoleSelection selection;
  selection.with_expert = true;
  MEMOPD_RETURN_IF_ERROR(check_inputs(config, selection));
  auto session = LocalSession::start(config, selection);
  if (!session) {
    return unexpected(session.error());
  }
  auto evaluated = (*session)->evaluate({"student", "", 0, false});
  if (!evaluated) {
    return unexpected(evaluated.error());
  }
  auto batch = expert_trajectories(config, **session, num_tasks);
  if (!batch) {
    return unexpected(batch.error());
  }
  auto scorer = LogProbScorer::load(config.student.model, 0);
  if (!scorer) {
    return unexpected(scorer.error());
  }
  const AlignPackOptions options{config.pack.max_tokens, true, 1};
  std::vector<const Trajectory*> trajectories;
  for (const Trajectory& trajectory : (*batch)->trajectories) {
    trajectories.push_back(&trajectory);
  }
  auto local = align_pack((*batch)->trajectories, options);
  auto flat = pack_histories(trajectories, HistoryState::persistent_history, options);
  if (!local || !flat) {
    return unexpected(local ? flat.error() : local.error());
  }
  auto local_fit = fit_of(**scorer, *local);
  auto flat_fit = fit_of(**scorer, *flat);
  if (!local_fit || !flat_fit) {
    return unexpected(local_fit ? flat_fit.error() : local_fit.error());
  }
  const std::string split = "eval/" + config.eval.splits.front().name + "/f1";
  return Layouts{evaluated->metrics.at(split), *local_fit, *flat_fit};
}

int run_layouts(const LayoutsArguments& arguments) {
  auto config = load_config(arguments.config_path, arguments.overrides);
  if (!config) {
    return report_error(config.error().message, kExitUsage);
  }
  if (auto valid = validate(*config, Purpose::eval); !valid) {
    return report_error(valid.error().message, kExitUsage);
  }
  auto layouts = measure(*config, arguments.num_tasks);
  if (!layouts) {
    return report_error(layouts.error().message, kExitRunFailed);
  }
  if (arguments.is_json) {
    const nlohmann::ordered_json json = {{"f1", layouts->f1},
                                         {"local_nats", layouts->local.nats},
                                         {"local_sure_frac", layouts->local.sure_frac},
                                         {"flat_nats", layouts->flat.nats},
                                         {"flat_sure_frac", layouts->flat.sure_frac}};
    std::printf("%s\n", json.dump().c_str());
  } else {
    fmt::print("{:<12} {:>8} {:>12}\n", "layout", "nats", "p > 1/2");
    fmt::print("{:<12} {:>8.4f} {:>12.3f}\n", "call-local", layouts->local.nats, layouts->local.sure_frac);
    fmt::print("{:<12} {:>8.4f} {:>12.3f}\n", "flat", layouts->flat.nats, layouts->flat.sure_frac);
    fmt::print("F1 {:.3f}\n", layouts->f1);
  }
  return kExitOk;
}

}  // namespace

void add_layouts_command(CLI::App& bench, const ChooseCommand& choose) {
  auto arguments = std::make_shared<LayoutsArguments>();
  CLI::App* layouts = bench.add_subcommand("layouts", "A model's fit to the expert, call-local and in flat histories");
  layouts->add_option("config", arguments->config_path, "TOML file; student.model is measured")->required();
  layouts->add_option("--set", arguments->overrides, "Override a setting: table.key=value")
      ->take_all()
      ->allow_extra_args(false);
  layouts->add_option("--tasks", arguments->num_tasks, "Tasks of the expert")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  layouts->add_flag("--json", arguments->is_json, "Print JSON");
  layouts->footer("Example: memopd bench layouts configs/matched_control.toml --set student.model=envs/atlas/teacher");
  choose(layouts, [arguments] { return run_layouts(*arguments); });
}

}  // namespace memopd
