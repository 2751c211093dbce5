// memopd bench alignpack: ratios between layouts; deterministic: between modes; engine and tokenizer: against the packages
// `transformers` and `tokenizers`; all sides in one run.
#include <cstdio>
#include <memory>

#include "policies/model/thread_settings.hpp"
#include "runtime/cluster/head.hpp"
#include "tools/bench/alignpack_bench.hpp"
#include "tools/bench/broadcast_bench.hpp"
#include "tools/bench/deterministic_bench.hpp"
#include "tools/bench/engine_bench.hpp"
#include "tools/bench/opd_bench.hpp"
#include "tools/bench/runtime_bench.hpp"
#include "tools/bench/tokenizer_bench.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

constexpr const char* kQuickstartLengths = "tools/bench/data/quickstart_lengths.tsv";

template <class Options>
struct BenchArguments {
  Options options;
  std::string lengths = kQuickstartLengths;
  bool is_json = false;
};

int run_alignpack(const BenchArguments<AlignPackBenchOptions>& arguments) {
  AlignPackBenchOptions options = arguments.options;
  options.quickstart_lengths = arguments.lengths;
  auto rows = bench_alignpack(options);
  if (!rows) {
    return report_error(rows.error().message, kExitUsage);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*rows) : to_table(*rows)).c_str());
  return kExitOk;
}

int run_deterministic(const BenchArguments<DeterministicBenchOptions>& arguments) {
  set_operation_threads(1);  // as every program of ours does
  DeterministicBenchOptions options = arguments.options;
  options.lengths = arguments.lengths;
  auto bench = bench_deterministic(options);
  if (!bench) {
    return report_error(bench.error().message, kExitUsage);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*bench) : to_table(*bench)).c_str());
  return kExitOk;
}

struct EngineBenchArguments {
  EngineBenchOptions options;
  std::string model;
  std::string source = ".";
  std::string peer_python = ".deps/peers/bin/python";
  bool is_json = false;
};

int run_engine(const EngineBenchArguments& arguments) {
  EngineBenchOptions options = arguments.options;
  options.model = arguments.model;
  options.source = arguments.source;
  options.peer_python = arguments.peer_python;
  set_operation_threads(options.num_threads);
  auto bench = bench_engine(options);
  if (!bench) {
    return report_error(bench.error().message, kExitUsage);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*bench) : to_table(*bench)).c_str());
  return kExitOk;
}

struct OpdBenchArguments {
  OpdBenchOptions options;
  bool is_json = false;
};

int run_opd(const OpdBenchArguments& arguments) {
  auto rows = bench_opd(arguments.options);
  if (!rows) {
    return report_error(rows.error().message, kExitUsage);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*rows) : to_table(*rows)).c_str());
  return kExitOk;
}

struct TokenizerBenchArguments {
  TokenizerBenchOptions options;
  std::string tokenizer = "envs/atlas/teacher";
  std::string source = ".";
  std::string peer_python = ".deps/peers/bin/python";
  bool is_json = false;
};

int run_tokenizer(const TokenizerBenchArguments& arguments) {
  TokenizerBenchOptions options = arguments.options;
  options.tokenizer = arguments.tokenizer;
  options.source = arguments.source;
  options.peer_python = arguments.peer_python;
  auto rows = bench_tokenizer(options);
  if (!rows) {
    return report_error(rows.error().message, kExitUsage);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*rows) : to_table(*rows)).c_str());
  return kExitOk;
}

struct RuntimeBenchArguments {
  RuntimeBenchOptions options;
  bool is_json = false;
};

int run_runtime(const RuntimeBenchArguments& arguments) {
  auto rows = bench_runtime(arguments.options);
  if (!rows) {
    return report_error(rows.error().message, kExitRunFailed);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*rows) : to_table(*rows)).c_str());
  return kExitOk;
}

void add_runtime(CLI::App& bench, const ChooseCommand& choose) {
  auto arguments = std::make_shared<RuntimeBenchArguments>();
  arguments->options.peer_python = ".deps/peers/bin/python";
  CLI::App* runtime =
      bench.add_subcommand("runtime", "Calls, creation, objects and start-up between processes, ours and Ray's");
  runtime->add_flag("--json", arguments->is_json, "Print the rows as JSON");
  runtime->add_option("--calls", arguments->options.num_calls, "Calls of one latency")->capture_default_str();
  runtime->add_option("--repetitions", arguments->options.num_repetitions, "Clusters started, each side")
      ->capture_default_str();
  runtime
      ->add_option("--telemetry-pairs", arguments->options.num_telemetry_pairs,
                   "Clusters with and without reports of processes, by turns")
      ->capture_default_str();
  runtime->add_option("--peer", arguments->options.peer_python, "Python with the package; absent = ours alone")
      ->capture_default_str();
  runtime->footer("Example: tools/bench/peers && memopd bench runtime --json");
  choose(runtime, [arguments] { return run_runtime(*arguments); });
}

struct BroadcastBenchArguments {
  BroadcastBenchOptions options;
  bool is_json = false;
};

int run_broadcast(const BroadcastBenchArguments& arguments) {
  auto rows = bench_broadcast(arguments.options);
  if (!rows) {
    const bool is_usage = rows.error().code == ErrorCode::invalid_argument;
    return report_error(rows.error().message, is_usage ? kExitUsage : kExitRunFailed);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*rows) : to_table(*rows)).c_str());
  return kExitOk;
}

void add_broadcast(CLI::App& bench, const ChooseCommand& choose) {
  auto arguments = std::make_shared<BroadcastBenchArguments>();
  BroadcastBenchOptions& options = arguments->options;
  CLI::App* broadcast = bench.add_subcommand("broadcast", "Objects from node to nodes, beside plain sockets");
  broadcast->add_flag("--json", arguments->is_json, "Print the rows as JSON");
  broadcast->add_option("--sizes", options.sizes_mib, "Sizes in MiB")->delimiter(',')->capture_default_str();
  broadcast->add_option("--nodes", options.max_nodes, "Readers: 1 to this many nodes")->capture_default_str();
  broadcast->add_option("--hosts", options.hosts, "Hosts of the readers, by ssh; none = all on this one")
      ->delimiter(',');
  broadcast->add_option("--repetitions", options.num_repetitions, "Broadcasts of each kind")->capture_default_str();
  broadcast->footer("Example: memopd bench broadcast --json");
  choose(broadcast, [arguments] { return run_broadcast(*arguments); });
}

void add_alignpack(CLI::App& bench, const ChooseCommand& choose) {
  auto arguments = std::make_shared<BenchArguments<AlignPackBenchOptions>>();
  CLI::App* alignpack =
      bench.add_subcommand("alignpack", "Padded, packed and prefix-shared layouts, forward and backward");
  alignpack->add_flag("--json", arguments->is_json, "Print the rows as JSON");
  alignpack->add_option("--repetitions", arguments->options.num_repetitions, "Timed repetitions")
      ->capture_default_str();
  alignpack->add_option("--threads", arguments->options.num_threads, "Threads of one operation")->capture_default_str();
  alignpack->add_option("--lengths", arguments->lengths, "Recorded call lengths of the row quickstart")
      ->capture_default_str();
  alignpack->footer("Example: memopd bench alignpack --json");
  choose(alignpack, [arguments] { return run_alignpack(*arguments); });
}

void add_deterministic(CLI::App& bench, const ChooseCommand& choose) {
  auto arguments = std::make_shared<BenchArguments<DeterministicBenchOptions>>();
  CLI::App* deterministic =
      bench.add_subcommand("deterministic", "Generation and scoring with and without run.deterministic");
  deterministic->add_flag("--json", arguments->is_json, "Print the rows as JSON");
  deterministic->add_option("--repetitions", arguments->options.num_repetitions, "Timed repetitions")
      ->capture_default_str();
  deterministic->add_option("--slots", arguments->options.num_slots, "Sequences decoded at a time, one row each")
      ->capture_default_str();
  deterministic->add_option("--lengths", arguments->lengths, "Recorded call lengths")->capture_default_str();
  deterministic->footer("Example: memopd bench deterministic --json");
  choose(deterministic, [arguments] { return run_deterministic(*arguments); });
}

void add_engine(CLI::App& bench, const ChooseCommand& choose) {
  auto arguments = std::make_shared<EngineBenchArguments>();
  EngineBenchOptions& options = arguments->options;
  CLI::App* engine = bench.add_subcommand("engine", "Response tokens a second, ours and transformers' generate");
  engine->add_flag("--json", arguments->is_json, "Print the row as JSON");
  engine->add_option("--model", arguments->model,
                     "Hugging Face folder; absent = the quickstart's shape, random weights");
  engine->add_option("--trajectories", options.num_trajectories, "Of the workload, at most 8")->capture_default_str();
  engine->add_option("--threads", options.num_threads, "Threads of one operation, both sides")->capture_default_str();
  engine->add_option("--slots", options.max_sequences, "Sequences decoded at a time, ours")->capture_default_str();
  engine->add_option("--prefix-cache-tokens", options.prefix_cache_tokens, "As student.prefix_cache_tokens")
      ->capture_default_str();
  engine->add_option("--peer-batches", options.peer_batches, "Batch sizes, of which the best counts")
      ->capture_default_str();
  engine->add_option("--source", arguments->source, "Root of the source tree")->capture_default_str();
  engine->add_option("--peer", arguments->peer_python, "Python with the package; absent = ours alone")
      ->capture_default_str();
  engine->footer("Example: tools/bench/peers engine && memopd bench engine --model .deps/data/smollm2 --json");
  choose(engine, [arguments] { return run_engine(*arguments); });
}

void add_opd(CLI::App& bench, const ChooseCommand& choose) {
  auto arguments = std::make_shared<OpdBenchArguments>();
  OpdBenchOptions& options = arguments->options;
  CLI::App* opd =
      bench.add_subcommand("opd", "The fused head and its divergences, beside tensor operations with autograd");
  opd->add_flag("--json", arguments->is_json, "Print the rows as JSON");
  opd->add_option("--vocab", options.vocab_size, "Rows of both heads")->capture_default_str();
  opd->add_option("--student-width", options.student_width, "Columns of the student's head")->capture_default_str();
  opd->add_option("--teacher-width", options.teacher_width, "Columns of the teacher's head")->capture_default_str();
  opd->add_option("--rows", options.num_rows, "Response rows")->capture_default_str();
  opd->add_option("--chunk-rows", options.chunk_rows, "As opd.chunk_rows")->capture_default_str();
  opd->add_option("--repetitions", options.num_repetitions, "Timed repetitions")->capture_default_str();
  opd->add_option("--threads", options.num_threads, "Threads of one operation, both sides")->capture_default_str();
  opd->footer("Example: memopd bench opd --json");
  choose(opd, [arguments] { return run_opd(*arguments); });
}

void add_tokenizer(CLI::App& bench, const ChooseCommand& choose) {
  auto arguments = std::make_shared<TokenizerBenchArguments>();
  CLI::App* tokenizer = bench.add_subcommand("tokenizer", "MB/s on one thread, ours and the package tokenizers");
  tokenizer->add_flag("--json", arguments->is_json, "Print the rows as JSON");
  tokenizer->add_option("--tokenizer", arguments->tokenizer, "Folder or tokenizer.json")->capture_default_str();
  tokenizer->add_option("--source", arguments->source, "Root of the source tree, whose files are the texts")
      ->capture_default_str();
  tokenizer->add_option("--peer", arguments->peer_python, "Python with the package; absent = ours alone")
      ->capture_default_str();
  tokenizer->add_option("--repetitions", arguments->options.num_repetitions, "Timed repetitions")
      ->capture_default_str();
  tokenizer->footer("Example: tools/bench/peers && memopd bench tokenizer --json");
  choose(tokenizer, [arguments] { return run_tokenizer(*arguments); });
}

}  // namespace

void serve_if_child(int argc, char** argv) { run_as_child(argc, argv); }

void add_bench_commands(CLI::App& app, const ChooseCommand& choose) {
  CLI::App* bench = app.add_subcommand("bench", "Reproducible ratios, both sides in one run");
  bench->require_subcommand(1);
  add_layouts_command(*bench, choose);
  add_alignpack(*bench, choose);
  add_deterministic(*bench, choose);
  add_engine(*bench, choose);
  add_opd(*bench, choose);
  add_tokenizer(*bench, choose);
  add_runtime(*bench, choose);
  add_broadcast(*bench, choose);
}

}  // namespace memopd
