// memopd data atlas: the corpus and tasks of the atlas environment as files.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/coordinator_actor.hpp"
#include "actors/role_setup.hpp"
#include "envs/retrieval/corpus.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

struct DataArguments {
  std::string output;
  std::vector<std::string> splits = {"train", "val", "test"};
  std::vector<std::int32_t> objectives = {2, 4};
  std::int32_t num_tasks = 200;
  std::uint64_t seed = 0;
};

std::string task_lines(const std::vector<Task>& tasks) {
  std::string text;
  for (const Task& task : tasks) {
    nlohmann::json line = {{"id", task.id},
                           {"data_source", task.data_source},
                           {"prompt", {{{"role", "user"}, {"content", task.text}}}},
                           {"reward_model", {{"ground_truth", {{"target", task.targets}}}}}};
    text += line.dump() + "\n";
  }
  return text;
}

Expected<void> write_atlas(const DataArguments& arguments) {
  EnvConfig env;
  env.name = "atlas";
  auto documents = environment_corpus(env.name, environment_options(env));
  if (!documents) {
    return unexpected(documents.error());
  }
  std::error_code error;
  std::filesystem::create_directories(arguments.output, error);
  if (error) {
    return unexpected(ErrorCode::io_error, arguments.output + ": " + error.message());
  }
  const std::filesystem::path folder = arguments.output;
  MEMOPD_RETURN_IF_ERROR(save_corpus(folder / "corpus.jsonl", *documents));
  std::printf("%s: %zu documents\n", (folder / "corpus.jsonl").c_str(), documents->size());
  auto source = open_task_source(env);
  if (!source) {
    return unexpected(source.error());
  }
  for (const std::string& split : arguments.splits) {
    for (const std::int32_t objectives : arguments.objectives) {
      auto tasks = (*source)->tasks({split, arguments.seed, 0, arguments.num_tasks, objectives});
      if (!tasks) {
        return unexpected(tasks.error());
      }
      const auto path = folder / ("tasks_" + split + "_k" + std::to_string(objectives) + ".jsonl");
      MEMOPD_RETURN_IF_ERROR(write_file_atomic(path, task_lines(*tasks)));
      std::printf("%s: %zu tasks\n", path.c_str(), tasks->size());
    }
  }
  return {};
}

}  // namespace

void add_data_commands(CLI::App& app, const ChooseCommand& choose) {
  auto arguments = std::make_shared<DataArguments>();
  CLI::App* data = app.add_subcommand("data", "Data sets");
  data->require_subcommand(1);
  CLI::App* atlas = data->add_subcommand("atlas", "Write the atlas corpus and tasks");
  atlas->add_option("output", arguments->output, "Folder")->required();
  atlas->add_option("--splits", arguments->splits, "train, val, test")->capture_default_str();
  atlas->add_option("--objectives", arguments->objectives, "K of the tasks")->capture_default_str();
  atlas->add_option("--num-tasks", arguments->num_tasks, "Tasks per file")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  atlas->add_option("--seed", arguments->seed, "Seed")->capture_default_str();
  atlas->footer("Example: memopd data atlas atlas_data --objectives 2 4 8");
  choose(atlas, [arguments] {
    auto written = write_atlas(*arguments);
    return written ? kExitOk : report_error(written.error().message, kExitUsage);
  });
}

}  // namespace memopd
