// Small records and a scratch folder for the tests of the ledger.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ledger/ledger.hpp"

namespace memopd::testing {

class LedgerFolder {
 public:
  LedgerFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "memopd-ledger-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~LedgerFolder() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  LedgerFolder(const LedgerFolder&) = delete;
  LedgerFolder& operator=(const LedgerFolder&) = delete;

  [[nodiscard]] std::filesystem::path path() const { return root_ / "ledger"; }
  [[nodiscard]] std::filesystem::path segment(int number) const {
    return path() / ("segment-00000" + std::to_string(number) + ".ledger");
  }

 private:
  std::filesystem::path root_;
};

inline Invocation invocation(std::int32_t index, std::vector<std::int32_t> prompt, std::vector<std::int32_t> response,
                             std::int32_t attempt = 0) {
  Invocation made;
  made.trajectory_id = {"train", 12, 3, 0};
  made.attempt = attempt;
  made.invocation_index = index;
  made.prompt_token_ids = std::move(prompt);
  made.response_token_ids = std::move(response);
  made.rollout_log_probs.assign(made.response_token_ids.size(), -0.5F);
  made.policy_versions = {{7, static_cast<std::int32_t>(made.response_token_ids.size())}};
  made.sampling.seed = 18446744073709551615ULL;
  return made;
}

inline Trajectory trajectory(std::vector<Invocation> invocations) {
  Trajectory made;
  made.id = {"train", 12, 3, 0};
  made.task_id = "atlas-17";
  made.env = "atlas";
  made.invocations = std::move(invocations);
  made.rewards = {{"final", 0.5}};
  made.answer = "Lima; Quito";
  made.metrics = {{"f1", 0.5}};
  return made;
}

/// The same call of another trajectory.
inline Invocation of(TrajectoryId id, Invocation call) {
  call.trajectory_id = std::move(id);
  return call;
}

inline Trajectory of(TrajectoryId id, Trajectory made) {
  made.id = std::move(id);
  return made;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);  // a file emptied and written again is flushed at close by some file systems
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace memopd::testing
