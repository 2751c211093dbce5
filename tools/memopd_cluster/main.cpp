// memopd-cluster: training runs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "runtime/config/load.hpp"
#include "tools/memopd_cluster/launch.hpp"
#include "tools/session/console.hpp"

int main(int argc, char** argv) {
  CLI::App app{"memopd-cluster: train memory agents by PPO and on-policy distillation on a cluster of actors"};
  app.require_subcommand(1);
  app.footer("Example: memopd-cluster launch configs/quickstart.toml --set run.seed=3");

  memopd::LaunchArguments arguments;
  arguments.command_line.assign(argv, argv + argc);
  CLI::App* launch = app.add_subcommand("launch", "Run everything a configuration describes");
  launch->add_option("config", arguments.config_path, "TOML file")->required();
  launch->add_option("--set", arguments.overrides, "Override a setting: table.key=value")
      ->take_all()
      ->allow_extra_args(false);
  launch->add_flag("--dry-run", arguments.is_dry_run, "Check, print the resolved configuration, start nothing");
  launch->footer("Example: memopd-cluster launch configs/quickstart.toml --set run.name=try2 --set ppo.coef=0");

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
  return memopd::launch(arguments);
}
