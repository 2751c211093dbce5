// memopd bench alignpack: ratios between layouts, all sides in one run.
#include <cstdio>
#include <memory>

#include "tools/bench/alignpack_bench.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

struct BenchArguments {
  AlignPackBenchOptions options;
  std::string lengths = "tools/bench/data/quickstart_lengths.tsv";
  bool is_json = false;
};

int run_alignpack(const BenchArguments& arguments) {
  AlignPackBenchOptions options = arguments.options;
  options.quickstart_lengths = arguments.lengths;
  auto rows = bench_alignpack(options);
  if (!rows) {
    return report_error(rows.error().message, kExitUsage);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*rows) : to_table(*rows)).c_str());
  return kExitOk;
}

}  // namespace

void add_bench_commands(CLI::App& app, const ChooseCommand& choose) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* bench = app.add_subcommand("bench", "Reproducible ratios, both sides in one run");
  bench->require_subcommand(1);
  add_layouts_command(*bench, choose);
  CLI::App* alignpack =
      bench->add_subcommand("alignpack", "Padded, packed and prefix-shared layouts, forward and backward");
  alignpack->add_flag("--json", arguments->is_json, "Print the rows as JSON");
  alignpack->add_option("--repetitions", arguments->options.num_repetitions, "Timed repetitions")
      ->capture_default_str();
  alignpack->add_option("--threads", arguments->options.num_threads, "Threads of one operation")->capture_default_str();
  alignpack->add_option("--lengths", arguments->lengths, "Recorded call lengths of the row quickstart")
      ->capture_default_str();
  alignpack->footer("Example: memopd bench alignpack --json");
  choose(alignpack, [arguments] { return run_alignpack(*arguments); });
}

}  // namespace memopd
