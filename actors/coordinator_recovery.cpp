// The way back: from a checkpoint of an earlier part of the run, or from the last one when a learner was lost.
#include <algorithm>
#include <memory>
#include <utility>

#include "actors/coordinator_actor.hpp"
#include "actors/gather.hpp"
#include "actors/learner_actor.hpp"
#include "runtime/base/log.hpp"
#include "runtime/telemetry/rewind.hpp"

namespace memopd {

void CoordinatorActor::watch_learners() {
  if (const auto learners = cluster().find("learner")) {
    for (const ActorRef& learner : *learners) {
      watch_learner(learner);
    }
  }
}

void CoordinatorActor::watch_learner(const ActorRef& learner) {
  watch(learner, [this, learner](const Down& down) {
    if (is_over_ || !down.is_failure) {
      return;
    }
    if (down.may_return) {
      watch_learner(learner);
      learner_lost(down.name + ": " + down.reason);
    } else {
      fail_run("learner", {ErrorCode::target_down, down.name + ": " + down.reason});
    }
  });
}

/// Without a ledger nobody has the records of the open steps once align_pack is lost.
void CoordinatorActor::watch_align_pack() {
  const auto align_pack = cluster().find("align_pack");
  if (!align_pack || (config_->ledger.enabled && !init_.run_directory.empty())) {
    return;
  }
  watch((*align_pack)[0], [this](const Down& down) {
    if (!is_over_ && down.is_failure) {
      fail_run("align_pack", {ErrorCode::target_down, down.name + " was lost (" + down.reason +
                                                          ") and with it the records of the open steps: ledger.enabled "
                                                          "is false, so nothing can read them again"});
    }
  });
}

/// Weights that were lost with a node are shared once more by the learner, if that lives; if not, the run goes back, and
/// whoever waits for them hears that there are none.
Later<WeightsShared> CoordinatorActor::get_weights(const GetWeights& request) {
  if (request.lost == ObjectRef{} || request.lost != published_.weights) {
    return Later<WeightsShared>::ready(published_);
  }
  const auto learners = cluster().find("learner");
  if (!learners || !(*learners)[0].is_alive()) {
    return unexpected(ErrorCode::refused, "the weights are lost, and the learner with them");
  }
  return ask<WeightsShared>((*learners)[0], ShareWeights{}, ask_timeout_)
      .then([this, lost = request.lost](const Expected<WeightsShared>& shared) -> Expected<WeightsShared> {
        if (!shared) {
          return unexpected(ErrorCode::refused, "the weights are lost: " + shared.error().message);
        }
        if (published_.weights == lost) {
          published_ = *shared;
        }
        return published_;
      });
}

/// An ask of a learner failed: with its process, then the run goes back; else for a reason that ends the run.
void CoordinatorActor::learner_failed(const std::string& what, const Error& error) {
  const auto learners = cluster().find("learner");
  // What it was to read may have gone with a node: the checkpoint has what it takes to make it again.
  bool may_return = error.code == ErrorCode::target_down || error.code == ErrorCode::not_found;
  for (const ActorRef& learner : *learners) {
    may_return = may_return && learner.is_expected();
  }
  if (may_return) {
    learner_lost(error.message);
  } else {
    fail_run(what, error);
  }
}

void CoordinatorActor::learner_lost(const std::string& reason) {
  constexpr std::int32_t kMaxInARow = 20;  // one death may be noticed twice, by its notice and by what was asked
  if (++num_recoveries_in_a_row_ > kMaxInARow) {
    fail_run("learner", {ErrorCode::target_down,
                         "lost " + std::to_string(kMaxInARow) + " times without a step between: " + reason});
    return;
  }
  ++recovery_;
  is_between_steps_ = true;
  if (checkpoints_) {
    const auto best = checkpoints_->best();
    checkpoints_.emplace(directory_->checkpoints(), config_->checkpoint.keep);  // one may be complete and not reported
    checkpoints_->restore_best(best);
  }
  const auto newest = checkpoints_ ? checkpoints_->newest() : std::nullopt;
  const std::string checkpoint = newest ? checkpoints_->path(*newest).string() : "";
  log_warning("coordinator", "learner_lost",
              {{"step", schedule_ ? schedule_->num_trained() : 0},
               {"reason", reason},
               {"recovery", recovery_},
               {"checkpoint", checkpoint}});
  const std::int32_t from_step = schedule_ ? schedule_->num_dispatched() : init_.interrupted_at;
  const auto when_both = [this, checkpoint, from_step, recovery = recovery_, num_open = std::make_shared<int>(2)] {
    if (--*num_open == 0 && !is_over_ && recovery == recovery_) {
      go_back(checkpoint, lineage_, from_step);
    }
  };
  dispatcher_->give_up(when_both);
  restore_learners(checkpoint, when_both);
}

/// Every rank loads the checkpoint, as soon as it is there.
void CoordinatorActor::restore_learners(const std::string& checkpoint, const Then& then) {
  const ObjectRef collective = new_collective("a learner was lost");
  std::vector<Later<LearnerRestored>> answers;
  const auto learners = cluster().find("learner");
  for (const ActorRef& learner : *learners) {
    answers.push_back(ask<LearnerRestored>(learner, RestoreLearner{recovery_, checkpoint, collective}, ask_timeout_));
  }
  gather(std::move(answers), if_current([this, then](const Expected<std::vector<LearnerRestored>>& restored) {
           if (restored) {
             then();
           } else {
             learner_failed("learner", restored.error());
           }
         }));
}

/// The ranks that live may wait for the lost one: their group ends, and they get another.
ObjectRef CoordinatorActor::new_collective(const std::string& reason) {
  if (const auto meeting = cluster().find("rank_meeting")) {
    (void)tell((*meeting)[0], EndRanks{recovery_ - 1, reason});
    return {};
  }
  auto group = objects().get<CollectiveGroup>(init_.collective);
  if (!group) {
    return {};
  }
  (*group)->front()->abort(reason);
  init_.collective = objects().put(
      std::make_shared<const CollectiveGroup>(make_local_collective((*group)->front()->world_size())), Scope{});
  return init_.collective;
}

void CoordinatorActor::go_back(const std::string& checkpoint, std::int64_t lineage, std::int32_t from_step) {
  RunState state;
  if (!checkpoint.empty()) {
    auto loaded = load_run_state(checkpoint);
    if (!loaded) {
      fail_run("resume", loaded.error());
      return;
    }
    state = *std::move(loaded);
    state.lineage += 1;
  }
  went_back_to_ = checkpoint;
  const bool has_ledger = config_->ledger.enabled && directory_;
  const BeginLineage request{has_ledger ? lineage : std::max(lineage, state.lineage - 1), from_step, state.step};
  auto align_pack = cluster().find("align_pack");
  ask<LineageBegun>((*align_pack)[0], request, ask_timeout_)
      .then(if_current([this, state](const Expected<LineageBegun>& begun) {
        if (!begun) {
          fail_run("ledger", begun.error());
          return;
        }
        lineage_ = begun->lineage;
        if (auto taken = take_up(state, true); !taken) {
          fail_run("resume", taken.error());
          return;
        }
        log_info("coordinator", "resumed",
                 {{"step", state.step}, {"checkpoint", went_back_to_}, {"lineage", lineage_}});
        go_on();
      }));
}

/// Everything that follows from the state of a run; of one that has not begun, the state of the beginning.
Expected<void> CoordinatorActor::take_up(const RunState& state, bool is_rewound) {
  const double total_s = summary_.durations["total"];
  summary_ = state.summary;
  summary_.verdict = Verdict::stopped;
  summary_.first_failure.clear();
  if (recovery_ == 0) {
    earlier_s_ = summary_.durations["total"];
  } else {
    summary_.durations["total"] = total_s;
  }
  policy_version_ = state.policy_version;
  num_empty_steps_ = 0;
  steps_.clear();
  current_ = {};
  schedule_.emplace(state.step, config_->run.num_steps, config_->run.max_policy_lag);
  alarms_.emplace(config_->alarms, config_->run.max_policy_lag == 0);
  alarms_->restore(state.first_values);
  if (is_stopping_) {
    schedule_->stop();
  }
  if (!directory_) {
    return {};
  }
  if (is_rewound) {
    checkpoints_->restore_best(state.best);
    checkpoints_->drop_after(state.step);
    constexpr std::int32_t kBeforeEverything = -1;
    writer_.reset();
    MEMOPD_RETURN_IF_ERROR(
        rewind_run_files(directory_->path(), went_back_to_.empty() ? kBeforeEverything : state.step));
  }
  auto writer = MetricsWriter::create(directory_->path(), unix_time_s(),
                                      is_rewound ? std::optional<std::int64_t>(state.step + 1) : std::nullopt);
  if (!writer) {
    return unexpected(writer.error());
  }
  writer_ = *std::move(writer);
  return {};
}

void CoordinatorActor::go_on() {
  last_step_done_ = now();
  const bool begins_anew = went_back_to_.empty();
  if (begins_anew && recovery_ == 0) {
    begin_anew();  // students have the weights of the beginning
  } else {
    share_weights([this, begins_anew] { begins_anew ? begin_anew() : after_step(); });
  }
}

void CoordinatorActor::share_weights(Then then) {
  const auto learners = cluster().find("learner");
  ask<WeightsShared>((*learners)[0], ShareWeights{}, ask_timeout_)
      .then(if_current([this, then = std::move(then)](const Expected<WeightsShared>& shared) {
        if (!shared) {
          learner_failed("learner", shared.error());
        } else if (shared->policy_version != policy_version_) {
          fail_run("resume", {ErrorCode::invalid_argument, "checkpoint " + went_back_to_ +
                                                               ": the weights are of policy_version " +
                                                               std::to_string(shared->policy_version) +
                                                               ", the run was at " + std::to_string(policy_version_)});
        } else {
          publish(*shared, then);
        }
      }));
}

}  // namespace memopd
