// memopd sft: a cold start from an expert's trajectories, made by the ordinary rollout path while the trainer works.
#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <filesystem>

#include "actors/coordinator_actor.hpp"
#include "actors/role_setup.hpp"
#include "policies/model/thread_settings.hpp"
#include "policies/training/sft.hpp"
#include "runtime/base/random.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/validate.hpp"
#include "runtime/telemetry/progress.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/memopd/sft_data.hpp"
#include "tools/session/console.hpp"
#include "tools/session/local_session.hpp"

namespace memopd {
namespace {

using Clock = std::chrono::steady_clock;

class ColdStart {
 public:
  explicit ColdStart(Config config) : config_(std::move(config)), console_(config_.sft.num_steps) {}

  Expected<void> run();

 private:
  Expected<void> prepare();
  Expected<void> warm_up();
  Expected<void> train();
  Expected<bool> probe();
  Expected<void> report();
  [[nodiscard]] double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  Config config_;
  Console console_;
  Clock::time_point began_ = Clock::now();
  std::unique_ptr<SftTrainer> trainer_;
  std::unique_ptr<TaskSource> tasks_;
  std::unique_ptr<LocalSession> session_;
  std::int32_t num_probes_ = 0;
};

Expected<void> ColdStart::run() {
  set_log_sink(console_.sink());
  set_operation_threads(1);
  MEMOPD_RETURN_IF_ERROR(prepare());
  MEMOPD_RETURN_IF_ERROR(warm_up());
  MEMOPD_RETURN_IF_ERROR(train());
  MEMOPD_RETURN_IF_ERROR(trainer_->save(config_.sft.output));
  return report();
}

Expected<void> ColdStart::prepare() {
  auto tokenizer = sft_tokenizer(config_);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  MEMOPD_RETURN_IF_ERROR(tokenizer->save(config_.sft.output));
  MEMOPD_RETURN_IF_ERROR(offer_word_pieces(*tokenizer, config_));
  SftSetup setup;
  setup.sft = config_.sft;
  setup.optimizer = config_.optimizer;
  setup.pack = config_.pack;
  setup.vocab_size = tokenizer->vocab_size();
  if (const auto eos = tokenizer->eos_id()) {
    setup.eos_token_ids = {*eos};
  }
  setup.scored_vocab = tokenizer->vocab_size();
  setup.seed = config_.run.seed;
  auto trainer = SftTrainer::create(setup);
  if (!trainer) {
    return unexpected(trainer.error());
  }
  trainer_ = *std::move(trainer);
  MEMOPD_RETURN_IF_ERROR(trainer_->save(config_.sft.output));

  config_.student.model = config_.sft.output;
  config_.student.tokenizer.clear();
  RoleSelection selection;
  selection.with_expert = true;
  MEMOPD_RETURN_IF_ERROR(check_inputs(config_, selection));
  auto tasks = open_task_source(config_.env.front());
  if (!tasks) {
    return unexpected(tasks.error());
  }
  tasks_ = *std::move(tasks);
  auto session = LocalSession::start(config_, selection);
  if (!session) {
    return unexpected(session.error());
  }
  session_ = *std::move(session);
  return {};
}

Expected<void> ColdStart::warm_up() {
  double loss = 0;
  for (std::int32_t step = 1; step <= config_.sft.copy_warmup_steps; ++step) {
    auto done = trainer_->copy_warmup_step();
    if (!done) {
      return unexpected(done.error());
    }
    loss = step == 1 ? done->loss : 0.95 * loss + 0.05 * done->loss;
    if (step % 100 == 0 || step == config_.sft.copy_warmup_steps) {
      console_.note(fmt::format("copy warm-up {}/{} | loss {:.3f} | {}", step, config_.sft.copy_warmup_steps, loss,
                                format_duration(elapsed_s())));
    }
  }
  return {};
}

Expected<void> ColdStart::train() {
  DemonstrationStream demonstrations(config_, *tasks_, *session_);
  double loss = 0;
  for (std::int32_t step = 1; step <= config_.sft.num_steps; ++step) {
    const bool is_flat = is_flat_step(config_.sft, config_.run.seed, step - 1);
    auto batch = demonstrations.next(config_.sft.batch_invocations, is_flat);
    if (!batch) {
      return unexpected(batch.error());
    }
    auto done = is_flat ? trainer_->step_flat(batch->trajectories()) : trainer_->step(batch->pointers());
    if (!done) {
      return unexpected(done.error());
    }
    loss = step == 1 ? done->loss : 0.95 * loss + 0.05 * done->loss;
    if (step % 50 == 0 || step == config_.sft.num_steps) {
      console_.note(fmt::format("sft {}/{} | loss {:.3f} | lr {:.2e} | {}", step, config_.sft.num_steps, loss,
                                done->learning_rate, format_duration(elapsed_s())));
    }
    if (config_.sft.probe_every > 0 && step % config_.sft.probe_every == 0) {
      auto reached = probe();
      if (!reached) {
        return unexpected(reached.error());
      }
      if (*reached) {
        return {};
      }
    }
  }
  return {};
}

Expected<bool> ColdStart::probe() {
  MEMOPD_RETURN_IF_ERROR(session_->publish(std::make_shared<const WeightSet>(trainer_->weights())));
  auto tasks = probe_tasks(config_, *tasks_, num_probes_++);
  if (!tasks) {
    return unexpected(tasks.error());
  }
  auto done = session_->run(*std::move(tasks));
  if (!done) {
    return unexpected(done.error());
  }
  double sum = 0;
  for (const TrajectoryDone& trajectory : done->trajectories) {
    const auto f1 = trajectory.metrics.find("f1");
    sum += f1 == trajectory.metrics.end() ? 0.0 : f1->second;
  }
  const double f1 = sum / static_cast<double>(done->trajectories.size());
  console_.note(fmt::format("probe at step {}: f1 {:.3f} over {} tasks, stops at {:.3f} | {}", trainer_->num_steps(),
                            f1, done->trajectories.size(), config_.sft.probe_stop_f1, format_duration(elapsed_s())));
  return f1 >= config_.sft.probe_stop_f1;
}

Expected<void> ColdStart::report() {
  if (!config_.eval.splits.empty()) {
    MEMOPD_RETURN_IF_ERROR(session_->publish(std::make_shared<const WeightSet>(trainer_->weights())));
    auto result = session_->evaluate({"student", "", 0, false});
    if (!result) {
      return unexpected(result.error());
    }
    for (const auto& [name, value] : result->summary) {
      if (const auto* interval = std::get_if<Interval>(&value)) {
        console_.note(fmt::format("{} {:.3f} [{:.3f}, {:.3f}]", name, interval->mean, interval->low, interval->high));
      }
    }
  }
  console_.note(fmt::format("saved {} | {}", config_.sft.output, format_duration(elapsed_s())));
  return {};
}

struct SftArguments {
  std::string config_path;
  std::vector<std::string> overrides;
};

int run_sft(const SftArguments& arguments) {
  auto config = load_config(arguments.config_path, arguments.overrides);
  if (!config) {
    return report_error(config.error().message, kExitUsage);
  }
  if (auto valid = validate(*config, Purpose::sft); !valid) {
    return report_error(valid.error().message, kExitUsage);
  }
  if (std::filesystem::exists(std::filesystem::path(config->sft.output) / "model.safetensors")) {
    return report_error("sft.output " + config->sft.output + " holds a model: name another folder or move it away",
                        kExitUsage);
  }
  ColdStart cold_start(*std::move(config));
  auto done = cold_start.run();
  set_log_sink({});
  if (!done) {
    return report_error(done.error().message,
                        done.error().code == ErrorCode::config_error ? kExitUsage : kExitRunFailed);
  }
  return kExitOk;
}

}  // namespace

void add_sft_command(CLI::App& app, const ChooseCommand& choose) {
  auto arguments = std::make_shared<SftArguments>();
  CLI::App* command = app.add_subcommand("sft", "Cold start: train on an expert's trajectories");
  command->add_option("config", arguments->config_path, "TOML file with [sft]")->required();
  command->add_option("--set", arguments->overrides, "Override a setting: table.key=value")->allow_extra_args(false);
  command->footer("Example: memopd sft configs/quickstart_cold_start.toml --set run.seed=3");
  choose(command, [arguments] { return run_sft(*arguments); });
}

}  // namespace memopd
