#include "actors/align_pack_actor.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

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
  make_assembler_ = [pack = config->pack, needs_scores = teachers_.has_value(),
                     history = pack_history_for(config->opd.state, config->pack, *tokenizer)] {
    return std::make_unique<StepAssembler>(pack, needs_scores, history);
  };
  assembler_ = make_assembler_();
  return init_.run_directory.empty() || !config->ledger.enabled ? Expected<void>() : open_records(*config, *tokenizer);
}

Expected<void> AlignPackActor::open_records(const Config& config, std::shared_ptr<const Tokenizer> tokenizer) {
  keep_steps_ = config.ledger.keep_steps;
  const bool is_there = init_.is_resumed || incarnation() > 1;
  auto records =
      is_there ? RunRecords::open(init_.run_directory, tokenizer) : RunRecords::create(init_.run_directory, tokenizer);
  if (!records && !init_.is_resumed && incarnation() > 1 && records.error().code == ErrorCode::not_found) {
    records = RunRecords::create(init_.run_directory, tokenizer);  // the earlier one died before it began them
  }
  if (!records) {
    return unexpected(records.error());
  }
  records_ = *std::move(records);
  return take_up_open_steps(records_->take_open_steps());
}

Expected<void> AlignPackActor::take_up_open_steps(const OpenStepRecords& open) {
  assembler_->skip_to(open.first_open_step);
  for (const auto& record : open.records) {
    auto added = std::visit(
        [this](const auto& emitted) {
          if constexpr (std::is_same_v<std::decay_t<decltype(emitted)>, EmitInvocation>) {
            return assembler_->add(emitted.invocation);
          } else {
            return assembler_->add(emitted);
          }
        },
        record);
    if (!added) {
      return unexpected(added.error());
    }
  }
  if (incarnation() > 1) {
    log_info("align_pack", "open_steps_read",
             {{"first_open_step", open.first_open_step}, {"num_records", open.records.size()}});
  }
  return {};
}

void AlignPackActor::started() { send_packs(); }

bool AlignPackActor::is_of_earlier_lineage(std::int64_t lineage) {
  const bool is_earlier = lineage < (records_ ? records_->lineage() : lineage_);
  num_of_earlier_lineages_ += is_earlier ? 1 : 0;
  return is_earlier;
}

Expected<Acknowledged> AlignPackActor::emit_invocation(const EmitInvocation& record) {
  if (is_of_earlier_lineage(record.lineage)) {
    return Acknowledged{};
  }
  if (records_) {
    auto written = records_->add(record.invocation);
    if (!written) {
      return unexpected(written.error());
    }
    if (*written == AppendResult::stale) {
      return Acknowledged{};
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
  if (is_of_earlier_lineage(record.lineage)) {
    return Acknowledged{};
  }
  if (records_) {
    auto written = records_->add(record.trajectory, record.num_invocations);
    if (!written) {
      return unexpected(written.error());
    }
    if (*written == AppendResult::stale) {
      return Acknowledged{};
    }
  }
  if (record.is_training) {
    auto added = assembler_->add(record);
    if (!added) {
      return unexpected(added.error());
    }
    send_packs();
    answer_if_complete();
  }
  return Acknowledged{};
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
      .then([this, pack, num_tries, lineage = num_lineages_](const Expected<PackScored>& scored) {
        if (lineage == num_lineages_ && assembler_->is_awaited(pack.number)) {
          take_scores(pack, num_tries, scored);
        }
        send_packs();
        answer_if_complete();
      });
}

void AlignPackActor::take_scores(const TeacherPack& pack, std::int32_t num_tries, const Expected<PackScored>& scored) {
  constexpr std::int32_t kMaxTries = 3;
  if (!scored) {
    const auto& teachers = teachers_->group().members();
    const bool was_restarted =
        scored.error().code == ErrorCode::target_down &&
        std::any_of(teachers.begin(), teachers.end(), [](const ActorRef& teacher) { return teacher.is_expected(); });
    log_warning("align_pack", "teacher_failed", {{"pack", pack.number}, {"error", scored.error().message}});
    if (was_restarted || num_tries + 1 < kMaxTries) {
      send(pack, num_tries + (was_restarted ? 0 : 1));
    } else {
      assembler_->failed(pack.number);
    }
    return;
  }
  auto scores = objects().get<TeacherScores>(scored->scores);
  auto taken = scores ? assembler_->scored(pack.number, *scored, **scores) : Expected<void>(unexpected(scores.error()));
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

Later<StepClosed> AlignPackActor::close_step(const CloseStep& request) {
  if (is_of_earlier_lineage(request.lineage)) {
    return unexpected(ErrorCode::refused, "step " + std::to_string(request.step) + " of an earlier lineage");
  }
  if (closed_ && closed_->lineage == request.lineage && closed_->step == request.step) {
    return Later<StepClosed>::ready(closed_->answer);
  }
  if (closing_ && closing_->step != request.step) {
    return unexpected(ErrorCode::refused, "step " + std::to_string(closing_->step) + " is being closed");
  }
  closing_ = request;
  askers_.push_back(make_promise<StepClosed>());
  auto later = askers_.back().later();
  send_packs();
  answer_if_complete();
  return later;
}

void AlignPackActor::answer_if_complete() {
  if (!closing_ || !assembler_->is_complete(*closing_)) {
    return;
  }
  StepClosed closed;
  const std::int64_t num_superseded = assembler_->num_superseded();
  auto batch = std::make_shared<const StepBatch>(assembler_->close(*closing_));
  closed.metrics = overlap_metrics();
  closed.metrics["load/superseded"] = static_cast<double>(assembler_->num_superseded() - num_superseded);
  closed.batch = objects().put(batch, Scope{ScopeKind::step, closing_->step});
  if (auto synced = records_ ? records_->sync() : Expected<void>(); !synced) {
    fail(synced.error());
    return;
  }
  overlap_ = {};
  closed_ = ClosedStep{closing_->lineage, closing_->step, std::move(closed)};
  closing_.reset();
  for (Promise<StepClosed>& asker : std::exchange(askers_, {})) {
    asker.deliver(closed_->answer);
  }
}

Expected<Acknowledged> AlignPackActor::record_step(const RecordStep& request) {
  if (is_of_earlier_lineage(request.lineage)) {
    return unexpected(ErrorCode::refused, "step " + std::to_string(request.step) + " of an earlier lineage");
  }
  assembler_->skip_to(request.step + 1);  // a restart had opened it again
  if (records_) {
    MEMOPD_RETURN_IF_ERROR(records_->record_step(request, keep_steps_));
  }
  return Acknowledged{};
}

Expected<LineageBegun> AlignPackActor::begin_lineage(const BeginLineage& request) {
  if (records_) {
    const std::int64_t before = records_->lineage();
    auto lineage = records_->begin_lineage(request);
    if (!lineage) {
      return unexpected(lineage.error());
    }
    forget_if(*lineage != before, request.to_step);
    return LineageBegun{*lineage};
  }
  const bool begins = request.lineage >= lineage_;
  lineage_ = std::max(lineage_, request.lineage + 1);
  forget_if(begins, request.to_step);
  return LineageBegun{lineage_};
}

void AlignPackActor::forget_if(bool is_new_lineage, std::int32_t first_step) {
  if (!is_new_lineage) {
    return;
  }
  ++num_lineages_;
  assembler_ = make_assembler_();
  assembler_->skip_to(first_step);
  overlap_ = {};
  closing_.reset();
  closed_.reset();
  for (Promise<StepClosed>& asker : std::exchange(askers_, {})) {
    asker.deliver(unexpected(ErrorCode::refused, "the run went back to step " + std::to_string(first_step)));
  }
}

std::map<std::string, double> AlignPackActor::overlap_metrics() const {
  std::map<std::string, double> metrics;
  metrics["load/repeats"] = static_cast<double>(assembler_->num_repeats());
  metrics["load/late"] = static_cast<double>(assembler_->num_late());
  metrics["load/of_earlier_lineages"] = static_cast<double>(num_of_earlier_lineages_);
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
