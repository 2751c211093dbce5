#include "envs/task_set.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/envs/scripted_play.hpp"

namespace memopd {
namespace {

using Targets = std::vector<std::vector<std::string>>;
using testing::must;
using testing::ScratchFolder;

std::string message(std::string_view line) { return parse_task(line, "train", "train_0", "t.jsonl:3").error().message; }

std::vector<std::string> ids(const std::vector<Task>& tasks) {
  std::vector<std::string> result;
  std::transform(tasks.begin(), tasks.end(), std::back_inserter(result), [](const Task& task) { return task.id; });
  return result;
}

TEST_CASE("the plain form joins its questions and keeps further keys as extra", "[task_set]") {
  const Task task = must(parse_task(
      R"({"id": "q7", "data_source": "nq", "questions": ["Who?", " Where is it"], "golden_answers": [["A", "B"], ["C"]],
          "hops": [1, 2]})",
      "val", "val_0", "f:1"));
  CHECK(task.id == "q7");
  CHECK(task.data_source == "nq");
  CHECK(task.split == "val");
  CHECK(task.text == "Who?; Where is it?");
  CHECK(task.targets == Targets{{"A", "B"}, {"C"}});
  CHECK(task.extra == R"({"hops":[1,2]})");
}

TEST_CASE("the prompt form takes the last user message and the target of the reward model", "[task_set]") {
  const Task task = must(parse_task(
      R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "Who?; Where?"}],
          "data_source": "mem1", "reward_model": {"style": "rule", "ground_truth": {"target": [["A"], ["C"]]}},
          "extra_info": {"index": 4}})",
      "train", "train_9", "f:1"));
  CHECK(task.id == "train_9");
  CHECK(task.text == "Who?; Where?");
  CHECK(task.targets == Targets{{"A"}, {"C"}});
  CHECK(task.extra == R"({"index":4})");
}

TEST_CASE("a wrong line names its place, what was found and what is allowed", "[task_set][error]") {
  CHECK(message("{").find("t.jsonl:3: no JSON; allowed is {\"questions\"") == 0);
  CHECK(message("[1]").find("t.jsonl:3: JSON, but no object") == 0);
  CHECK(message("{}").find("t.jsonl:3: neither of `questions` and `prompt`") == 0);
  CHECK(message(R"({"questions": ["a?"], "prompt": []})").find("t.jsonl:3: both of") == 0);
  CHECK(message(R"({"questions": [], "golden_answers": []})") ==
        "t.jsonl:3: `questions` is not a list of at least one string");
  CHECK(message(R"({"questions": [7], "golden_answers": [["a"]]})") ==
        "t.jsonl:3: `questions` holds a number that is no text");
  CHECK(message(R"({"questions": ["a?", "b?"], "golden_answers": [["a"]]})") ==
        "t.jsonl:3: 2 questions but 1 golden_answers");
  CHECK(message(R"({"questions": ["a?"], "golden_answers": ["a"]})") ==
        "t.jsonl:3: `golden_answers` holds a string for objective 0, allowed is a list of lists of aliases");
  CHECK(message(R"({"questions": ["a?"], "golden_answers": [[]]})").find("holds a list of none") != std::string::npos);
  CHECK(message(R"({"questions": ["a?"]})").find("`golden_answers` is a null") != std::string::npos);
  CHECK(message(R"({"id": 3, "questions": ["a?"], "golden_answers": [["a"]]})") ==
        "t.jsonl:3: `id` is a number, allowed is a string");
  CHECK(message(R"({"prompt": [{"role": "user"}]})").find("`prompt` holds something other than") != std::string::npos);
  CHECK(message(R"({"prompt": "q"})").find("no message of role user") != std::string::npos);
  CHECK(message(R"({"prompt": [{"role": "user", "content": "q"}], "reward_model": []})")
            .find("`reward_model.ground_truth.target` is a null") != std::string::npos);
}

TEST_CASE("files that are missing, empty or wrong in a later line are refused", "[task_set][error]") {
  const ScratchFolder folder;
  CHECK(load_tasks(folder.file("none.jsonl"), "train").error().code == ErrorCode::not_found);
  CHECK(load_tasks(folder.write("empty.jsonl", ""), "train").error().message.find("no task") != std::string::npos);
  const std::string line = R"({"id": "a", "questions": ["a?"], "golden_answers": [["a"]]})";
  const auto wrong = load_tasks(folder.write("wrong.jsonl", line + "\n\n"), "train");
  CHECK(wrong.error().message.find("wrong.jsonl:2: an empty line") != std::string::npos);
  const auto twice = load_tasks(folder.write("twice.jsonl", line + "\n" + line + "\n"), "train");
  CHECK(twice.error().message.find("twice.jsonl:2: id `a` stands on an earlier line too") != std::string::npos);
}

std::unique_ptr<TaskSet> letters() {
  std::vector<Task> tasks;
  for (const char* id : {"a", "b", "c", "d", "e", "f", "g"}) {
    Task& task = tasks.emplace_back();
    task.id = id;
    task.text = "q?";
    task.targets = {{"x"}};
  }
  return must(TaskSet::create({{"train", tasks}}));
}

TEST_CASE("a finite set repeats by passes, each a permutation of its own", "[task_set][CL-3]") {
  const auto set = letters();
  const auto all = ids(must(set->tasks({.split = "train", .seed = 5, .first = 0, .count = 14})));
  const std::vector<std::string> first(all.begin(), all.begin() + 7);
  const std::vector<std::string> second(all.begin() + 7, all.end());
  CHECK(std::set<std::string>(first.begin(), first.end()).size() == 7);
  CHECK(std::set<std::string>(second.begin(), second.end()).size() == 7);
  CHECK(first != second);
}

TEST_CASE("the stream depends on the seed alone, not on how it is cut into requests", "[task_set][CL-3]") {
  const auto set = letters();
  const auto all = ids(must(set->tasks({.split = "train", .seed = 5, .first = 0, .count = 20})));
  std::vector<std::string> pieces;
  for (std::int32_t first = 0; first < 20; first += 4) {
    const auto piece = ids(must(set->tasks({.split = "train", .seed = 5, .first = first, .count = 4})));
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  CHECK(pieces == all);
  CHECK(ids(must(set->tasks({.split = "train", .seed = 6, .first = 0, .count = 20}))) != all);
}

TEST_CASE("a request that the set cannot serve is refused", "[task_set][error]") {
  const auto set = letters();
  CHECK(set->tasks({.split = "dev"}).error().message == "unknown split `dev`; known are: train");
  CHECK(set->tasks({.split = "train", .first = -1}).error().code == ErrorCode::invalid_argument);
  CHECK(set->tasks({.split = "train", .num_objectives = 2}).error().message ==
        "task a of split train has 1 objectives, asked for are 2");
  CHECK(must(set->tasks({.split = "train", .num_objectives = 1})).size() == 1);
  CHECK(TaskSet::create({{"train", {}}}).error().code == ErrorCode::parse_error);
}

TEST_CASE("a set is loaded from one file a split", "[task_set]") {
  const ScratchFolder folder;
  const auto file = folder.write("t.jsonl", R"({"questions": ["a?"], "golden_answers": [["a"]]})");
  const auto set = must(TaskSet::load({{"train", file}}));
  CHECK(ids(must(set->tasks({.split = "train"}))) == std::vector<std::string>{"train_0"});
  CHECK(TaskSet::load({{"train", folder.file("none")}}).error().code == ErrorCode::not_found);
}

}  // namespace
}  // namespace memopd
