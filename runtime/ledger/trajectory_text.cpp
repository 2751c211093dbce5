#include "runtime/ledger/trajectory_text.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace memopd {
namespace {

using Json = nlohmann::ordered_json;
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string name_of(const TrajectoryId& id) { return fmt::format("{}-{}.jsonl", id.split, id.step); }

Json to_json(const Invocation& invocation, const CallText& text) {
  return {{"prompt", text.prompt},
          {"response", text.response},
          {"prompt_tokens", invocation.prompt_token_ids.size()},
          {"response_tokens", invocation.response_token_ids.size()},
          {"finish_reason", to_string(invocation.finish_reason)},
          {"reward", invocation.reward}};
}

}  // namespace

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::eos:
      return "eos";
    case FinishReason::length:
      return "length";
    case FinishReason::aborted:
      return "aborted";
  }
  return "unknown";
}

Expected<std::string> trajectory_line(const Trajectory& trajectory, std::span<const CallText> calls) {
  if (calls.size() != trajectory.invocations.size()) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("trajectory {}: found {} texts, allowed {}, one per invocation",
                                  to_string(trajectory.id), calls.size(), trajectory.invocations.size()));
  }
  Json line = {{"trajectory_id", to_string(trajectory.id)},
               {"attempt", trajectory.attempt},
               {"task_id", trajectory.task_id},
               {"env", trajectory.env},
               {"status", to_string(trajectory.status)},
               {"answer", trajectory.answer},
               {"rewards", trajectory.rewards},
               {"metrics", trajectory.metrics}};
  line["calls"] = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    line["calls"].push_back(to_json(trajectory.invocations[i], calls[i]));
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct TrajectoryTextWriter::State {
  std::filesystem::path folder;
  std::string open_name;  ///< only the newest file stays open: steps come in order
  File file{nullptr, [](std::FILE* f) { return f != nullptr ? std::fclose(f) : 0; }};
  std::mutex mutex;

  Expected<void> write(const std::string& name, const std::string& line) {
    if (name != open_name) {
      file.reset(std::fopen((folder / name).c_str(), "ab"));
      open_name = file ? name : "";
    }
    if (!file || std::fwrite(line.data(), 1, line.size(), file.get()) != line.size() || std::fflush(file.get()) != 0) {
      return unexpected(ErrorCode::io_error,
                        fmt::format("trajectories {}: {}", (folder / name).string(), std::strerror(errno)));
    }
    return {};
  }
};

TrajectoryTextWriter::TrajectoryTextWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TrajectoryTextWriter::~TrajectoryTextWriter() = default;

Expected<std::unique_ptr<TrajectoryTextWriter>> TrajectoryTextWriter::create(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return unexpected(ErrorCode::io_error, fmt::format("trajectories {}: {}", folder.string(), error.message()));
  }
  auto state = std::make_unique<State>();
  state->folder = folder;
  return std::unique_ptr<TrajectoryTextWriter>(new TrajectoryTextWriter(std::move(state)));
}

Expected<void> TrajectoryTextWriter::append(const Trajectory& trajectory, std::span<const CallText> calls) {
  const auto line = trajectory_line(trajectory, calls);
  if (!line) {
    return unexpected(line.error());
  }
  if (trajectory.id.split.empty() || trajectory.id.split.find('/') != std::string::npos) {
    return unexpected(ErrorCode::invalid_argument,
                      fmt::format("trajectory {}: a split without / names its file", to_string(trajectory.id)));
  }
  const std::lock_guard lock(state_->mutex);
  return state_->write(name_of(trajectory.id), *line + "\n");
}

Expected<void> TrajectoryTextWriter::append_if_missing(const Trajectory& trajectory, std::span<const CallText> calls) {
  const std::filesystem::path path = state_->folder / name_of(trajectory.id);
  std::uintmax_t whole_bytes = 0;
  bool is_there = false;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    whole_bytes += line.size() + 1;
    const Json json = Json::parse(line, nullptr, false);
    is_there = is_there || (json.is_object() && json.value("trajectory_id", "") == to_string(trajectory.id) &&
                            json.value("attempt", -1) == trajectory.attempt);
  }
  close();
  std::error_code error;
  if (std::filesystem::exists(path, error) && std::filesystem::file_size(path, error) > whole_bytes) {
    std::filesystem::resize_file(path, whole_bytes, error);
    if (error) {
      return unexpected(ErrorCode::io_error, fmt::format("trajectories {}: {}", path.string(), error.message()));
    }
  }
  return is_there ? Expected<void>() : append(trajectory, calls);
}

void TrajectoryTextWriter::close() {
  const std::lock_guard lock(state_->mutex);
  state_->file.reset();
  state_->open_name.clear();
}

}  // namespace memopd
