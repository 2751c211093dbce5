// memopd eval and memopd rollout: a model on the tasks of a configuration, as numbers or as trajectories.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/coordinator_actor.hpp"
#include "runtime/base/random.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/validate.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "runtime/telemetry/summary.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"
#include "tools/session/local_session.hpp"

namespace memopd {
namespace {

struct EvalArguments {
  std::string config_path;
  std::vector<std::string> overrides;
  std::string model;
  bool is_json = false;
  // rollout only
  std::string output;
  std::string split = "train";
  std::int32_t num_tasks = 8;
  std::int32_t num_objectives = 0;
  bool is_expert = false;
};

Expected<Config> load(const EvalArguments& arguments, Purpose purpose) {
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.model.empty()) {
    overrides.push_back("student.model=" + arguments.model);
  }
  auto config = load_config(arguments.config_path, overrides);
  if (!config) {
    return config;
  }
  MEMOPD_RETURN_IF_ERROR(validate(*config, purpose));
  return config;
}

void print_table(const EvaluationResult& result) {
  std::printf("%-28s %7s %7s %7s\n", "split", "mean", "low", "high");
  for (const auto& [name, value] : result.summary) {
    if (const auto* interval = std::get_if<Interval>(&value)) {
      std::printf("%-28s %7.3f %7.3f %7.3f\n", name.c_str(), interval->mean, interval->low, interval->high);
    }
  }
  for (const auto& [name, value] : result.metrics) {
    std::printf("%-44s %10.4f\n", name.c_str(), value);
  }
}

void print_json(const EvaluationResult& result) {
  nlohmann::json json;
  for (const auto& [name, value] : result.summary) {
    if (const auto* interval = std::get_if<Interval>(&value)) {
      json["summary"][name] = {{"mean", interval->mean}, {"low", interval->low}, {"high", interval->high}};
    } else {
      json["summary"][name] = std::get<double>(value);
    }
  }
  json["metrics"] = result.metrics;
  std::printf("%s\n", json.dump(1).c_str());
}

int run_eval(const EvalArguments& arguments) {
  auto config = load(arguments, Purpose::eval);
  if (!config) {
    return report_error(config.error().message, kExitUsage);
  }
  const RoleSelection selection;
  if (auto checked = check_inputs(*config, selection); !checked) {
    return report_error(checked.error().message, kExitUsage);
  }
  auto session = LocalSession::start(*config, selection);
  if (!session) {
    return report_error(session.error().message, kExitRunFailed);
  }
  auto result = (*session)->evaluate({"student", "", 0, false});
  if (!result) {
    return report_error(result.error().message, kExitRunFailed);
  }
  if (arguments.is_json) {
    print_json(*result);
  } else {
    print_table(*result);
  }
  return kExitOk;
}

Expected<std::vector<RunTask>> rollout_tasks(const EvalArguments& arguments, const Config& config,
                                             const TaskSource& source) {
  auto tasks = source.tasks({arguments.split, config.run.seed, 0, arguments.num_tasks, arguments.num_objectives});
  if (!tasks) {
    return unexpected(tasks.error());
  }
  std::vector<RunTask> result;
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(tasks->size()); ++index) {
    RunTask task;
    task.trajectory_id = {arguments.split, 0, index, 0};
    task.task = std::move((*tasks)[static_cast<std::size_t>(index)]);
    task.sampling = {config.sampling.temperature,
                     config.sampling.top_p,
                     config.sampling.top_k,
                     config.sampling.min_p,
                     config.sampling.max_response_tokens,
                     0};
    task.student = arguments.is_expert ? "expert" : "student";
    task.seed = trajectory_seed(config.run.seed, task.trajectory_id);
    task.is_training = false;
    result.push_back(std::move(task));
  }
  return result;
}

int run_rollout(const EvalArguments& arguments) {
  auto config = load(arguments, Purpose::rollout);
  if (!config) {
    return report_error(config.error().message, kExitUsage);
  }
  RoleSelection selection;
  selection.with_expert = arguments.is_expert;
  selection.run_directory = arguments.output;
  if (auto checked = check_inputs(*config, selection); !checked) {
    return report_error(checked.error().message, kExitUsage);
  }
  auto source = open_task_source(config->env.front());
  auto tasks = source ? rollout_tasks(arguments, *config, **source) : unexpected(source.error());
  if (!tasks) {
    return report_error(tasks.error().message, kExitUsage);
  }
  const std::filesystem::path output = arguments.output;
  auto directory = RunDirectory::create(output.parent_path(), output.filename().string());
  auto manifest =
      make_manifest(output.filename().string(), {"memopd", "rollout"}, config->run.seed, {arguments.config_path});
  if (!directory || !manifest) {
    return report_error(directory ? manifest.error().message : directory.error().message, kExitUsage);
  }
  if (auto written = directory->write_manifest(*manifest); !written) {
    return report_error(written.error().message, kExitRunFailed);
  }
  auto session = LocalSession::start(*config, selection);
  if (!session) {
    return report_error(session.error().message, kExitRunFailed);
  }
  auto done = (*session)->run(*std::move(tasks));
  if (!done) {
    return report_error(done.error().message, kExitRunFailed);
  }
  for (const auto& [name, value] : rollout_metrics(done->trajectories)) {
    std::printf("%-44s %10.4f\n", name.c_str(), value);
  }
  std::printf("%s\n", directory->trajectories().c_str());
  return kExitOk;
}

}  // namespace

void add_eval_commands(CLI::App& app, const ChooseCommand& choose) {
  auto arguments = std::make_shared<EvalArguments>();
  const auto add_common = [&](CLI::App* command) {
    command->add_option("config", arguments->config_path, "TOML file")->required();
    command->add_option("--set", arguments->overrides, "Override a setting: table.key=value")->allow_extra_args(false);
    command->add_option("--model", arguments->model, "Hugging Face folder; the same as --set student.model=..");
  };
  CLI::App* eval = app.add_subcommand("eval", "F1 and EM of a model on every split of [eval]");
  add_common(eval);
  eval->add_flag("--json", arguments->is_json, "Print JSON");
  eval->footer("Example: memopd eval configs/quickstart.toml --model envs/atlas/teacher");
  choose(eval, [arguments] { return run_eval(*arguments); });

  CLI::App* rollout = app.add_subcommand("rollout", "Trajectories of a model as ledger and as text");
  add_common(rollout);
  rollout->add_option("--output", arguments->output, "Run folder to make")->required();
  rollout->add_option("--split", arguments->split, "Split of the tasks")->capture_default_str();
  rollout->add_option("--num-tasks", arguments->num_tasks, "Tasks")->capture_default_str()->check(CLI::PositiveNumber);
  rollout->add_option("--objectives", arguments->num_objectives, "Objectives per task; 0 = the environment's choice");
  rollout->add_flag("--expert", arguments->is_expert, "Let the environment's scripted expert answer instead");
  rollout->footer(
      "Example: memopd rollout configs/quickstart.toml --model envs/atlas/teacher --output runs/look --split val");
  choose(rollout, [arguments] { return run_rollout(*arguments); });
}

}  // namespace memopd
