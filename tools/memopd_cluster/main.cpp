// memopd-cluster: training runs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "runtime/config/load.hpp"
#include "tools/memopd_cluster/launch.hpp"
#include "tools/memopd_cluster/plan.hpp"
#include "tools/session/console.hpp"

int main(int argc, char** argv) {
  CLI::App app{"memopd-cluster: train memory agents by PPO and on-policy distillation on a cluster of actors"};
  app.require_subcommand(1);
  app.footer("Example: memopd-cluster launch configs/quickstart.toml --set run.seed=3");

  memopd::LaunchArguments arguments;
  arguments.command_line.assign(argv, argv + argc);
  CLI::App* launch = app.add_subcommand("launch", "Run everything a configuration describes");
  launch->add_option("config", arguments.config_path, "TOML file; with --resume the run's own by default");
  launch->add_option("--resume", arguments.resume, "Go on with a run from its newest checkpoint: runs/<name>");
  launch->add_option("--set", arguments.overrides, "Override a setting: table.key=value")
      ->take_all()
      ->allow_extra_args(false);
  launch->add_flag("--dry-run", arguments.is_dry_run, "Check, print the resolved configuration, start nothing");
  launch->footer("Example: memopd-cluster launch configs/quickstart.toml --set run.name=try2 --set ppo.coef=0");

  memopd::PlanArguments plan_arguments;
  CLI::App* plan = app.add_subcommand("plan", "Print what a run would hold on each GPU, and whether it fits");
  plan->add_option("config", plan_arguments.config_path, "TOML file; its models need no more than a config.json")
      ->required();
  plan->add_option("--set", plan_arguments.overrides, "Override a setting: table.key=value")
      ->take_all()
      ->allow_extra_args(false);
  plan->add_option("--gpus", plan_arguments.num_gpus, "GPUs of the host")->check(CLI::PositiveNumber);
  plan->add_option("--gpu-memory-gib", plan_arguments.gpu_memory_gib, "Memory of one")->check(CLI::PositiveNumber);
  plan->add_flag("--shard-optimizer", plan_arguments.shard_optimizer, "Split the optimizer's state over the ranks");
  plan->add_flag("--json", plan_arguments.is_json, "Print JSON");
  plan->footer("Example: memopd-cluster plan configs/memopd_q2_3b.toml --gpus 4 --gpu-memory-gib 80");

  CLI::App* config = app.add_subcommand("config", "Print every setting with default, range and meaning");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? memopd::kExitOk : memopd::kExitUsage;
  }
  if (config->parsed()) {
    std::fputs(memopd::config_reference().c_str(), stdout);
    return memopd::kExitOk;
  }
  return plan->parsed() ? memopd::plan(plan_arguments) : memopd::launch(arguments);
}
