#include "actors/messages.hpp"

namespace memopd {

template const MessageType& message_type<RoleInit>();
template const MessageType& message_type<RunTask>();
template const MessageType& message_type<TrajectoryDone>();
template const MessageType& message_type<Generate>();
template const MessageType& message_type<Generated>();
template const MessageType& message_type<Retrieve>();
template const MessageType& message_type<Retrieved>();
template const MessageType& message_type<EmitInvocation>();
template const MessageType& message_type<EmitTrajectory>();
template const MessageType& message_type<Acknowledged>();
template const MessageType& message_type<ScorePack>();
template const MessageType& message_type<PackScored>();
template const MessageType& message_type<CloseStep>();
template const MessageType& message_type<StepClosed>();
template const MessageType& message_type<RecordStep>();
template const MessageType& message_type<BeginLineage>();
template const MessageType& message_type<LineageBegun>();
template const MessageType& message_type<TrainStep>();
template const MessageType& message_type<StepTrained>();
template const MessageType& message_type<SaveCheckpoint>();
template const MessageType& message_type<CheckpointSaved>();
template const MessageType& message_type<RestoreLearner>();
template const MessageType& message_type<LearnerRestored>();
template const MessageType& message_type<RankArrival>();
template const MessageType& message_type<RanksMet>();
template const MessageType& message_type<EndRanks>();
template const MessageType& message_type<GetWeights>();
template const MessageType& message_type<ShareWeights>();
template const MessageType& message_type<WeightsShared>();
template const MessageType& message_type<LoadWeights>();
template const MessageType& message_type<WeightsLoaded>();
template const MessageType& message_type<StartRun>();
template const MessageType& message_type<StopRun>();
template const MessageType& message_type<RunEnded>();
template const MessageType& message_type<RunTasks>();
template const MessageType& message_type<TasksDone>();

}  // namespace memopd
