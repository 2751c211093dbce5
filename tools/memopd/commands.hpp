// The subcommands of `memopd`. Each adds itself to the command line and says what runs when it is chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace memopd {

/// Called with what to run for a chosen subcommand; it returns an exit code.
using ChooseCommand = std::function<void(CLI::App*, std::function<int()>)>;

void add_sft_command(CLI::App& app, const ChooseCommand& choose);
void add_eval_commands(CLI::App& app, const ChooseCommand& choose);       ///< eval, rollout
void add_retrieve_commands(CLI::App& app, const ChooseCommand& choose);   ///< retrieve serve|query
void add_tokenizer_commands(CLI::App& app, const ChooseCommand& choose);  ///< tokenizer encode|decode|compare|train
void add_data_commands(CLI::App& app, const ChooseCommand& choose);       ///< data atlas
void add_bench_commands(CLI::App& app,
                        const ChooseCommand& choose);  ///< bench alignpack|layouts|deterministic|tokenizer
void add_layouts_command(CLI::App& bench, const ChooseCommand& choose);    ///< of bench
void add_checkpoint_commands(CLI::App& app, const ChooseCommand& choose);  ///< checkpoint show
void add_ledger_commands(CLI::App& app, const ChooseCommand& choose);      ///< ledger show|stats|verify

/// In a process that a bench started as agent or worker: serves, and never returns. Else: returns at once.
void serve_if_child(int argc, char** argv);

}  // namespace memopd
