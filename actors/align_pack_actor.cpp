#include "actors/align_pack_actor.hpp"

#include <utility>

#include "actors/role_setup.hpp"
#include "actors/teacher_state.hpp"
#include "runtime/base/log.hpp"

namespace memopd {

MEMOPD_REGISTER_ACTOR("align_pack", AlignPackActor, RoleInit)

AlignPackActor::AlignPackActor(RoleInit init) : init_(std::move(init)) {}

void AlignPackActor::setup() {
  on(&AlignPackActor::emit_invocation);
  on(&AlignPackActor::emit_trajectory);
  on(&AlignPackActor::close_step);
  on(&AlignPackActor::record_step);
  on(&AlignPackActor::begin_lineage);
  if (auto loaded = load(); !loaded) {
    fail(loaded.error());
  }
}

Expected<void> AlignPackActor::load() {
  auto config = load_role_config(init_);
  if (!config) {
    return unexpected(config.error());
  }
  ask_timeout_ = std::chrono::seconds(config->run.step_timeout_s);
  auto teachers = cluster().find("teacher");
  if (teachers) {
    teachers_.emplace(*teachers);
  }
  auto tokenizer = load_role_tokenizer(init_);
  if (!tokenizer) {
    return unexpected(tokenizer.error());
  }
  tokenizer_ = *std::move(tokenizer);
  assembler_ = std::make_unique<StepAssembler>(config->pack, teachers_.has_value(),
                                               pack_history_for(config->opd.state, config->pack, tokenizer_));
  return init_.run_directory.empty() || !config->ledger.enabled ? Expected<void>() : open_records(*config);
}

Expected<void> AlignPackActor::open_records(const Config& config) {
  const std::filesystem::path folder = init_.run_directory;
  keep_steps_ = config.ledger.keep_steps;
  auto ledger = init_.is_resumed ? LedgerWriter::open(folder / "ledger") : LedgerWriter::create(folder / "ledger");
  if (!ledger) {
    return unexpected(ledger.error());
  }
  ledger_ = *std::move(ledger);
  auto text = TrajectoryTextWriter::create(folder / "trajectories");
  if (!text) {
    return unexpected(text.error());
  }
  text_ = *std::move(text);
  return {};
}

Expected<Acknowledged> AlignPackActor::emit_invocation(const EmitInvocation& record) {
  if (ledger_) {
    auto written = ledger_->append(record.invocation);
    if (!written) {
      return unexpected(written.error());
    }
    if (*written == AppendResult::written) {
      open_[record.invocation.trajectory_id].push_back(record.invocation);
    }
  }
  if (record.is_training) {
    auto added = assembler_->add(record.invocation);
    if (!added) {
      return unexpected(added.error());
    }
    overlap_.last_invocation = now();
    send_packs();
    answer_if_complete();
  }
  return Acknowledged{};
}

Expected<Acknowledged> AlignPackActor::emit_trajectory(const EmitTrajectory& record) {
  if (ledger_) {
    auto written = ledger_->append(record.trajectory, record.num_invocations);
    if (!written) {
      return unexpected(written.error());
    }
    if (*written == AppendResult::written) {
      MEMOPD_RETURN_IF_ERROR(append_text(record.trajectory));
    }
  }
  if (record.is_training) {
    auto added = assembler_->add(record);
    if (!added) {
      return unexpected(added.error());
    }
    answer_if_complete();
  }
  return Acknowledged{};
}

Expected<void> AlignPackActor::append_text(const Trajectory& record) {
  Trajectory whole = record;
  if (auto recorded = open_.extract(record.id)) {
    whole.invocations = std::move(recorded.mapped());
  }
  std::vector<CallText> calls;
  for (const Invocation& invocation : whole.invocations) {
    calls.push_back(
        {tokenizer_->decode(invocation.prompt_token_ids), tokenizer_->decode(invocation.response_token_ids)});
  }
  return text_->append(whole, calls);
}

void AlignPackActor::send_packs() {
  if (!teachers_) {
    return;
  }
  while (true) {
    const ActorRef teacher = teachers_->pick();
    const bool is_free = teachers_->in_flight(teacher) == 1;  // this pick
    teachers_->done(teacher);
    if (!is_free) {
      return;
    }
    auto pack = assembler_->next_pack(closing_.has_value());
    if (!pack) {
      fail(pack.error());
      return;
    }
    if (!*pack) {
      return;
    }
    send(**pack, 0);
  }
}

void AlignPackActor::send(const TeacherPack& pack, std::int32_t num_tries) {
  const ObjectRef object = objects().put(pack.pack, Scope{ScopeKind::step, pack.step});
  teachers_->ask<PackScored>(*this, ScorePack{object, pack.step}, ask_timeout_)
      .then([this, pack, num_tries](const Expected<PackScored>& scored) {
        constexpr std::int32_t kMaxTries = 3;
        if (!scored) {
          log_warning("align_pack", "teacher_failed", {{"pack", pack.number}, {"error", scored.error().message}});
          if (num_tries + 1 < kMaxTries) {
            send(pack, num_tries + 1);
            return;
          }
          assembler_->failed(pack.number);
        } else {
          auto scores = objects().get<TeacherScores>(scored->scores);
          auto taken =
              scores ? assembler_->scored(pack.number, *scored, **scores) : Expected<void>(unexpected(scores.error()));
          if (!taken) {
            fail(taken.error());
            return;
          }
          overlap_.last_score = now();
          overlap_.busy_ms += scored->busy_ms;
          overlap_.num_packs += 1;
          overlap_.num_tokens += pack.pack->num_tokens();
          overlap_.scores_before_close += closing_ ? 0 : 1;
        }
        send_packs();
        answer_if_complete();
      });
}

Later<StepClosed> AlignPackActor::close_step(const CloseStep& request) {
  if (closing_) {
    return unexpected(ErrorCode::refused, "step " + std::to_string(closing_->step) + " is being closed");
  }
  closing_ = request;
  closed_ = make_promise<StepClosed>();
  auto later = closed_->later();
  send_packs();
  answer_if_complete();
  return later;
}

void AlignPackActor::answer_if_complete() {
  if (!closing_ || !assembler_->is_complete(*closing_)) {
    return;
  }
  StepClosed closed;
  closed.metrics = overlap_metrics();
  auto batch = std::make_shared<const StepBatch>(assembler_->close(*closing_));
  closed.batch = objects().put(batch, Scope{ScopeKind::step, closing_->step});
  if (auto synced = ledger_ ? ledger_->sync() : Expected<void>(); !synced) {
    fail(synced.error());
    return;
  }
  overlap_ = {};
  closing_.reset();
  std::exchange(closed_, std::nullopt)->deliver(std::move(closed));
}

Expected<Acknowledged> AlignPackActor::record_step(const RecordStep& request) {
  if (!ledger_) {
    return Acknowledged{};
  }
  for (const DroppedFromStep& dropped : request.dropped) {
    MEMOPD_RETURN_IF_ERROR(ledger_->append_dropped(dropped.trajectory_id, dropped.attempt, dropped.reason));
  }
  MEMOPD_RETURN_IF_ERROR(ledger_->append_step(request.step, request.policy_version, request.trajectory_ids));
  MEMOPD_RETURN_IF_ERROR(ledger_->sync());
  if (keep_steps_ > 0) {
    MEMOPD_RETURN_IF_ERROR(ledger_->prune(keep_steps_));
  }
  return Acknowledged{};
}

Expected<LineageBegun> AlignPackActor::begin_lineage(const BeginLineage& request) {
  if (!ledger_) {
    return unexpected(ErrorCode::not_found, "ledger.enabled is false: no ledger names the lineage");
  }
  MEMOPD_RETURN_IF_ERROR(ledger_->append_rolled_back(request.from_step, request.to_step));
  MEMOPD_RETURN_IF_ERROR(ledger_->sync());
  return LineageBegun{ledger_->lineage()};
}

std::map<std::string, double> AlignPackActor::overlap_metrics() const {
  std::map<std::string, double> metrics;
  metrics["load/superseded"] = static_cast<double>(assembler_->num_superseded());
  metrics["load/repeats"] = static_cast<double>(assembler_->num_repeats());
  metrics["load/late"] = static_cast<double>(assembler_->num_late());
  if (overlap_.num_packs == 0) {
    return metrics;
  }
  const double behind_ms =
      std::chrono::duration<double, std::milli>(overlap_.last_score - overlap_.last_invocation).count();
  metrics["time/teacher_busy_s"] = overlap_.busy_ms / 1000;
  metrics["time/teacher_hidden_frac"] = overlap_.busy_ms > 0 ? 1.0 - behind_ms / overlap_.busy_ms : 0.0;
  metrics["load/teacher_packs"] = static_cast<double>(overlap_.num_packs);
  metrics["load/teacher_packed_tokens"] = static_cast<double>(overlap_.num_tokens);
  metrics["load/teacher_packs_before_close"] = static_cast<double>(overlap_.scores_before_close);
  return metrics;
}

}  // namespace memopd
