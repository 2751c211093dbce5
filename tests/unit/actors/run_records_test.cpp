#include "actors/run_records.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/ledger/audit.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "tests/support/simulated_models.hpp"

using namespace memopd;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("memopd_run_records_" + std::to_string(getpid()));
  Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
};

std::shared_ptr<const Tokenizer> tokenizer() {
  return {std::shared_ptr<const Tokenizer>(), &memopd::testing::simulated_tokenizer()};
}
std::unique_ptr<RunRecords> create(const Folder& folder) { return *RunRecords::create(folder.path, tokenizer()); }
std::unique_ptr<RunRecords> open(const Folder& folder) { return *RunRecords::open(folder.path, tokenizer()); }

Invocation invocation(std::int32_t step, std::int32_t task, std::int32_t attempt = 0) {
  Invocation made;
  made.trajectory_id = {"train", step, task, 0};
  made.attempt = attempt;
  made.prompt_token_ids = {65, 66};
  made.response_token_ids = {67};
  made.policy_versions = {{step, 1}};
  return made;
}

Trajectory record(std::int32_t step, std::int32_t task, std::int32_t attempt = 0) {
  Trajectory made;
  made.id = {"train", step, task, 0};
  made.attempt = attempt;
  return made;
}

void add_whole(RunRecords& records, std::int32_t step, std::int32_t task) {
  REQUIRE(records.add(invocation(step, task)));
  REQUIRE(records.add(record(step, task), 1));
}

RecordStep record_of(std::int32_t step, std::vector<TrajectoryId> trained, std::vector<DroppedFromStep> dropped = {}) {
  return {0, step, step, std::move(trained), std::move(dropped)};
}

std::string text_of(const Folder& folder, std::int32_t step) {
  std::ifstream file(folder.path / ("trajectories/train-" + std::to_string(step) + ".jsonl"));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("opened records give the training records of the steps that are not closed", "[run_records][RL-2]") {
  const Folder folder;
  {
    auto records = create(folder);
    add_whole(*records, 0, 0);
    REQUIRE(records->record_step(record_of(0, {{"train", 0, 0, 0}}), 0));
    Invocation evaluated = invocation(1, 0);
    evaluated.trajectory_id.split = "val";
    REQUIRE(records->add(evaluated));
    add_whole(*records, 1, 0);
    REQUIRE(records->add(invocation(1, 1)));
  }

  const OpenStepRecords found = open(folder)->take_open_steps();

  CHECK(found.first_open_step == 1);
  REQUIRE(found.records.size() == 3);
  CHECK(std::get<EmitInvocation>(found.records[0]).invocation.trajectory_id == TrajectoryId{"train", 1, 0, 0});
  CHECK(std::get<EmitTrajectory>(found.records[1]).num_invocations == 1);
  CHECK(std::get<EmitInvocation>(found.records[2]).invocation.trajectory_id == TrajectoryId{"train", 1, 1, 0});
}

TEST_CASE("opened records of a rolled back step are gone", "[run_records][CL-3]") {
  const Folder folder;
  {
    auto records = create(folder);
    add_whole(*records, 0, 0);
    REQUIRE(records->begin_lineage({0, 1, 0}));
  }

  CHECK(open(folder)->take_open_steps().records.empty());
}

TEST_CASE("a record that comes again after a restart is a repeat", "[run_records][RL-2]") {
  const Folder folder;
  add_whole(*create(folder), 0, 0);

  auto records = open(folder);

  CHECK(records->add(invocation(0, 0)).value() == AppendResult::repeated);
  CHECK(records->add(record(0, 0), 1).value() == AppendResult::repeated);
}

TEST_CASE("a text that a crash tore off is written whole, and one that is there is not written again",
          "[run_records][RL-2]") {
  const Folder folder;
  {
    auto records = create(folder);
    add_whole(*records, 0, 0);
    add_whole(*records, 0, 1);
  }
  const std::string whole = text_of(folder, 0);

  open(folder);
  CHECK(text_of(folder, 0) == whole);

  fs::resize_file(folder.path / "trajectories/train-0.jsonl", whole.size() - 5);
  open(folder);
  CHECK(text_of(folder, 0) == whole);

  fs::resize_file(folder.path / "trajectories/train-0.jsonl", whole.find('\n') + 1);
  open(folder);
  CHECK(text_of(folder, 0) == whole);
}

TEST_CASE("the text of an attempt has the calls of that attempt", "[run_records]") {
  const Folder folder;
  auto records = create(folder);
  REQUIRE(records->add(invocation(0, 0, 0)));  // its env actor died
  REQUIRE(records->add(invocation(0, 0, 1)));
  REQUIRE(records->add(record(0, 0, 1), 1));

  const std::string text = text_of(folder, 0);

  CHECK(text.find("\"attempt\":1") != std::string::npos);
  CHECK(text.find("\"prompt\"") == text.rfind("\"prompt\""));
}

TEST_CASE("a text has every call, in order, in whatever order the records came", "[run_records]") {
  const Folder folder;
  auto records = create(folder);
  Invocation second = invocation(0, 0);
  second.invocation_index = 1;
  second.response_token_ids = {68};
  REQUIRE(records->add(record(0, 0), 2));
  REQUIRE(records->add(second));
  CHECK(text_of(folder, 0).empty());

  REQUIRE(records->add(invocation(0, 0)));

  const std::string text = text_of(folder, 0);
  const std::string first_response = tokenizer()->decode(std::vector<std::int32_t>{67});
  const std::string second_response = tokenizer()->decode(std::vector<std::int32_t>{68});
  CHECK(text.find("\"response\":\"" + first_response) < text.find("\"response\":\"" + second_response));
  CHECK(text.find("\"response\":\"" + second_response) != std::string::npos);
  open(folder);
  CHECK(text_of(folder, 0) == text);
}

TEST_CASE("a step that was recorded in part is recorded once", "[run_records][RL-2]") {
  const Folder folder;
  const RecordStep request = record_of(0, {{"train", 0, 0, 0}}, {{{"train", 0, 1, 0}, 0, "timeout"}});
  {
    auto records = create(folder);
    add_whole(*records, 0, 0);
    add_whole(*records, 0, 1);
  }
  {
    auto ledger = LedgerWriter::open(folder.path / "ledger");  // what a process did before it was killed
    REQUIRE((*ledger)->append_dropped({"train", 0, 1, 0}, 0, "timeout"));
  }

  REQUIRE(open(folder)->record_step(request, 0));
  REQUIRE(open(folder)->record_step(request, 0));

  const LedgerAudit audit = audit_ledger(*read_ledger(folder.path / "ledger"));
  CHECK(audit.violations == std::vector<std::string>{});
  CHECK(audit.num_steps == 1);
  CHECK(audit.num_trained == 1);
  CHECK(audit.num_dropped() == 1);
}

TEST_CASE("a lineage that was asked for twice has begun once", "[run_records][CL-3]") {
  const Folder folder;
  auto records = create(folder);
  add_whole(*records, 0, 0);

  CHECK(records->begin_lineage({0, 1, 0}).value() == 1);
  add_whole(*records, 0, 0);
  CHECK(records->begin_lineage({0, 1, 0}).value() == 1);  // late: lineage 0 has ended
  CHECK(open(folder)->lineage() == 1);
  CHECK(records->begin_lineage({1, 1, 0}).value() == 2);
}

TEST_CASE("a lineage that begins on what the ledger has begins once while nothing is recorded in it",
          "[run_records][CL-3]") {
  const Folder folder;
  const BeginLineage request{BeginLineage::kWhatTheLedgerHas, 3, 0};
  auto records = create(folder);
  add_whole(*records, 0, 0);

  CHECK(records->begin_lineage(request).value() == 1);
  CHECK(open(folder)->begin_lineage(request).value() == 1);
  auto later = open(folder);
  add_whole(*later, 0, 0);
  CHECK(later->begin_lineage(request).value() == 2);
}
