// memopd ledger show|stats|verify.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "tools/memopd/commands.hpp"
#include "tools/memopd/ledger_show.hpp"
#include "tools/memopd/ledger_stats.hpp"
#include "tools/memopd/ledger_verify.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

struct LedgerArguments {
  std::string run;
  std::string tokenizer;
  bool is_json = false;
  // show
  std::string trajectory;
  std::int32_t step = -1;
  std::int32_t call = -1;
  ShowSelection selection;
  ShowOptions show;
  bool is_plain = false;
  // verify
  VerifyOptions verify;
};

int run_show(const LedgerArguments& arguments) {
  ShowSelection selection = arguments.selection;
  if (!arguments.trajectory.empty()) {
    auto id = parse_trajectory_id(arguments.trajectory);
    if (!id) {
      return report_error(id.error().message, kExitUsage);
    }
    selection.trajectory = *std::move(id);
  }
  selection.step = arguments.step >= 0 ? std::optional(arguments.step) : std::nullopt;
  selection.call = arguments.call >= 0 ? std::optional(arguments.call) : std::nullopt;
  ShowOptions options = arguments.show;
  options.is_json = arguments.is_json;
  options.view.has_colors = !arguments.is_plain && std::getenv("NO_COLOR") == nullptr && isatty(STDOUT_FILENO) == 1;
  auto run = open_ledger_run(arguments.run);
  auto tokenizer = run ? load_run_tokenizer(*run, arguments.tokenizer) : unexpected(run.error());
  if (!tokenizer) {
    return report_error(tokenizer.error().message, kExitUsage);
  }
  const auto shown = show_ledger(*run, *tokenizer, selection, options, std::cout);
  if (!shown) {
    return report_error(shown.error().message, kExitRunFailed);
  }
  return *shown > 0 ? kExitOk : report_error(arguments.run + ": no attempt matches", kExitRunFailed);
}

int run_stats(const LedgerArguments& arguments) {
  auto run = open_ledger_run(arguments.run);
  if (!run) {
    return report_error(run.error().message, kExitUsage);
  }
  const auto stats = ledger_stats(*run);
  if (!stats) {
    return report_error(stats.error().message, kExitRunFailed);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*stats) : to_text(*stats)).c_str());
  return stats->audit.violations.empty() ? kExitOk : kExitRunFailed;
}

int run_verify(const LedgerArguments& arguments) {
  auto run = open_ledger_run(arguments.run);
  auto tokenizer = run ? load_run_tokenizer(*run, arguments.tokenizer) : unexpected(run.error());
  if (!tokenizer) {
    return report_error(tokenizer.error().message, kExitUsage);
  }
  const auto report = verify_ledger(*run, *tokenizer, arguments.verify);
  if (!report) {
    return report_error(report.error().message, kExitRunFailed);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*report) : to_text(*report)).c_str());
  return report->num_verified == report->num_checked ? kExitOk : kExitRunFailed;
}

void add_show(CLI::App& ledger, const std::shared_ptr<LedgerArguments>& arguments, const ChooseCommand& choose) {
  CLI::App* show = ledger.add_subcommand("show", "What every call saw and answered, as text and as ids");
  show->add_option("run", arguments->run, "Run folder")->required();
  show->add_option("--trajectory", arguments->trajectory, "Only this one, as in train.12.3.0");
  show->add_option("--step", arguments->step, "Only those dispatched by this step")->check(CLI::NonNegativeNumber);
  show->add_option("--split", arguments->selection.split, "Only this split");
  show->add_option("--call", arguments->call, "Only this call of each")->check(CLI::NonNegativeNumber);
  show->add_option("--limit", arguments->selection.limit, "Attempts at most")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  show->add_flag("--tokens", arguments->show.view.with_tokens, "Ids, and one line per response token");
  show->add_flag("--divergence", arguments->show.with_divergence, "Divergence from the teacher, computed again");
  show->add_flag("--no-color", arguments->is_plain, "No colours (the default when the output is no terminal)");
  show->add_flag("--json", arguments->is_json, "One JSON object a line and attempt");
  show->add_option("--tokenizer", arguments->tokenizer, "Folder; the run's own unless given");
  show->footer("Example: memopd ledger show runs/quickstart --trajectory train.12.3.0 --tokens --divergence");
  choose(show, [arguments] { return run_show(*arguments); });
}

}  // namespace

void add_ledger_commands(CLI::App& app, const ChooseCommand& choose) {
  auto arguments = std::make_shared<LedgerArguments>();
  CLI::App* ledger = app.add_subcommand("ledger", "The record of every invocation of a run");
  ledger->require_subcommand(1);
  add_show(*ledger, arguments, choose);

  CLI::App* stats = ledger->add_subcommand("stats", "Counts, bytes, and the accounts; exit 1 when they do not balance");
  stats->add_option("run", arguments->run, "Run folder")->required();
  stats->add_flag("--json", arguments->is_json, "Print JSON");
  stats->footer("Example: memopd ledger stats runs/quickstart");
  choose(stats, [arguments] { return run_stats(*arguments); });

  CLI::App* verify = ledger->add_subcommand(
      "verify", "Scores recorded invocations again, alone and packed, with the weights kept; exit 1 on a mismatch");
  verify->add_option("run", arguments->run, "Run folder")->required();
  verify->add_option("--limit", arguments->verify.limit, "Invocations, shared out among the versions; 0 = all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  verify->add_option("--seed", arguments->verify.seed, "Of the choice")->capture_default_str();
  verify->add_flag("--json", arguments->is_json, "Print JSON");
  verify->add_option("--tokenizer", arguments->tokenizer, "Folder; the run's own unless given");
  verify->footer("Example: memopd ledger verify runs/quickstart --limit 500");
  choose(verify, [arguments] { return run_verify(*arguments); });
}

}  // namespace memopd
