// memopd checkpoint show.
#include <cstdio>
#include <memory>

#include "tools/memopd/checkpoint_view.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

struct CheckpointArguments {
  std::string folder;
  bool is_json = false;
};

int run_show(const CheckpointArguments& arguments) {
  const auto view = view_checkpoint(arguments.folder);
  if (!view) {
    return report_error(view.error().message, kExitUsage);
  }
  std::printf("%s\n", (arguments.is_json ? to_json(*view) : to_text(*view)).c_str());
  return kExitOk;
}

}  // namespace

void add_checkpoint_commands(CLI::App& app, const ChooseCommand& choose) {
  auto arguments = std::make_shared<CheckpointArguments>();
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Checkpoints and models as files");
  checkpoint->require_subcommand(1);
  CLI::App* show =
      checkpoint->add_subcommand("show", "Versions, shape of the models, every tensor with type and shape");
  show->add_option("folder", arguments->folder, "Checkpoint or Hugging Face folder")->required();
  show->add_flag("--json", arguments->is_json, "Print JSON");
  show->footer("Example: memopd checkpoint show runs/quickstart/checkpoints/step-70");
  choose(show, [arguments] { return run_show(*arguments); });
}

}  // namespace memopd
