// memopd: everything that needs one process.
#include <CLI/CLI.hpp>
#include <map>

#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"

int main(int argc, char** argv) {
  memopd::serve_if_child(argc, argv);
  CLI::App app{"memopd: cold starts, evaluation, rollouts, ledgers, retrieval and data of memory agents"};
  app.require_subcommand(1);
  app.footer("Example: memopd eval configs/quickstart.toml --model runs/quickstart/checkpoints/step-90/policy");

  std::map<CLI::App*, std::function<int()>> commands;
  const memopd::ChooseCommand choose = [&](CLI::App* command, std::function<int()> run) {
    commands.emplace(command, std::move(run));
  };
  memopd::add_sft_command(app, choose);
  memopd::add_eval_commands(app, choose);
  memopd::add_retrieve_commands(app, choose);
  memopd::add_tokenizer_commands(app, choose);
  memopd::add_data_commands(app, choose);
  memopd::add_bench_commands(app, choose);
  memopd::add_ledger_commands(app, choose);
  memopd::add_checkpoint_commands(app, choose);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? memopd::kExitOk : memopd::kExitUsage;
  }
  for (const auto& [command, run] : commands) {
    if (command->parsed()) {
      return run();
    }
  }
  return memopd::kExitUsage;
}
