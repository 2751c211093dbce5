// Tasks from JSONL files, in two forms:
//
//   plain   {"id": "q1", "questions": ["Who ..?", ..], "golden_answers": [["alias", ..], ..]}   optional: data_source
//   prompt  {"prompt": [{"role": "user", "content": ".."}], "data_source": "..", "extra_info": {..},
//            "reward_model": {"ground_truth": {"target": [["alias", ..], ..]}}}
//
// Further keys of the plain form (subjects, relations, ..) go to Task.extra, as does extra_info. Strict: the first
// wrong line is an error that names file, line, what was found and what is allowed.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "envs/environment.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/data/task.hpp"

namespace memopd {

/// Every task of one file, in file order; ids without `id` are `<split>_<line index>`.
/// @error not_found     no such file
/// @error parse_error   empty file, a line that is no JSON object of either form, a duplicate id
Expected<std::vector<Task>> load_tasks(const std::filesystem::path& file, const std::string& split);

/// One line of a task file; `place` (file:line) starts every message.
/// @error parse_error  as above
Expected<Task> parse_task(std::string_view line, const std::string& split, const std::string& default_id,
                          const std::string& place);

/// Tasks in memory as an endless stream per split: pass 0 is a shuffle by the request's seed, pass 1 another, and so on.
/// TaskRequest.num_objectives must be 0 or the K of every task of the split (`invalid_argument`).
class TaskSet final : public TaskSource {
 public:
  /// @error parse_error  a split without tasks
  static Expected<std::unique_ptr<TaskSet>> create(std::map<std::string, std::vector<Task>> tasks_by_split);
  /// One file per split. @error as load_tasks
  static Expected<std::unique_ptr<TaskSet>> load(const std::map<std::string, std::filesystem::path>& file_by_split);

  [[nodiscard]] Expected<std::vector<Task>> tasks(const TaskRequest& request) const override;

 private:
  explicit TaskSet(std::map<std::string, std::vector<Task>> tasks_by_split);

  std::map<std::string, std::vector<Task>> tasks_by_split_;
};

}  // namespace memopd
