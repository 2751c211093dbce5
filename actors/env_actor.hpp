// env: runs trajectories. Slots of an Environment driven by the agent protocol.
//
// RL-2 once  a RunTask that comes again, while it runs or after, is answered from the one run of it.
// A RunTask is answered with TrajectoryDone once align_pack has acknowledged every record of it. Calls into the
// environment run on an executor with a deadline: one that throws ends its trajectory env_failed, one that hangs ends it
// timeout and costs the slot its Environment, nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "actors/call_executor.hpp"
#include "actors/messages.hpp"
#include "actors/trajectory_builder.hpp"
#include "envs/environment.hpp"
#include "runtime/actor/actor.hpp"
#include "runtime/actor/actor_pool.hpp"
#include "runtime/config/schema.hpp"

namespace memopd {

/// A call into an environment came back. `error` is empty when it gave a turn.
struct EnvironmentAnswered {
  std::int64_t slot = 0;
  std::int64_t call = 0;
  Turn turn;
  std::string error;
};
MEMOPD_MESSAGE(EnvironmentAnswered, 1, slot, call, turn, error)

/// A call into an environment should be back by now.
struct EnvironmentDeadline {
  std::int64_t slot = 0;
  std::int64_t call = 0;
};
MEMOPD_MESSAGE(EnvironmentDeadline, 1, slot, call)

class EnvActor : public Actor {
 public:
  explicit EnvActor(RoleInit init);
  ~EnvActor() override;

 protected:
  void setup() override;
  void stopping() override;
  [[nodiscard]] virtual std::unique_ptr<CallExecutor> make_executor() const { return make_threaded_executor(); }

 private:
  struct Slot;
  struct Link;
  using TaskKey = std::tuple<std::int64_t, TrajectoryId, std::int32_t>;  // lineage, id, attempt
  using EnvironmentCall = std::function<Expected<Turn>(Environment&)>;

  Later<TrajectoryDone> run_task(const RunTask& task);
  void environment_answered(const EnvironmentAnswered& answer);
  void environment_deadline(const EnvironmentDeadline& deadline);

  Expected<void> load();
  void proceed(std::int64_t slot_id, NextCall next);
  void generate(std::int64_t slot_id);
  [[nodiscard]] bool is_any_expected(const std::string& group) const;
  void retrieve(std::int64_t slot_id);
  void call_environment(std::int64_t slot_id, EnvironmentCall call, bool is_repeatable);
  void turned(std::int64_t slot_id, const Turn& turn);
  void emit_invocations(Slot& slot, std::int64_t slot_id);
  void finish(std::int64_t slot_id);
  void acknowledged(std::int64_t slot_id, const Expected<Acknowledged>& answer);
  Expected<std::shared_ptr<Environment>> take_environment();

  RoleInit init_;
  EnvConfig config_;
  BuilderLimits limits_;
  std::chrono::milliseconds ask_timeout_{};
  EnvironmentInfo info_;
  std::shared_ptr<const Protocol> protocol_;
  std::shared_ptr<Link> link_;
  std::unique_ptr<CallExecutor> executor_;
  std::map<std::string, ActorPool> students_;
  std::map<std::int64_t, Slot> slots_;
  std::vector<std::shared_ptr<Environment>> idle_environments_;
  std::map<TaskKey, std::int64_t> running_;               ///< slots
  std::map<TaskKey, Expected<TrajectoryDone>> finished_;  ///< the latest
  std::deque<TaskKey> finished_order_;
  std::int64_t next_slot_ = 0;
};

}  // namespace memopd
