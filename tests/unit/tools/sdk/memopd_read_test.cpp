// tools/sdk/python/memopd_read.py reads what the C++ writer wrote.
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/ledger/ledger.hpp"
#include "runtime/ledger/read_ledger.hpp"
#include "runtime/ledger/trajectory_text.hpp"
#include "tests/unit/runtime/ledger/ledger_example.hpp"

using namespace memopd;
using namespace memopd::testing;
using Json = nlohmann::json;
using ints = std::vector<std::int32_t>;

namespace {

struct Output {
  int status = -1;
  std::string text;
};

/// Standard output and error of the reader.
Output run_reader(const std::filesystem::path& run, const std::string& option = "") {
  const std::string command = std::string(MEMOPD_PYTHON) + " -B " + MEMOPD_SOURCE_DIR +
                              "/tools/sdk/python/memopd_read.py " + run.string() + " " + option + " 2>&1";
  Output output;
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> chunk{};
  while (std::fgets(chunk.data(), static_cast<int>(chunk.size()), pipe) != nullptr) {
    output.text += chunk.data();
  }
  output.status = pclose(pipe);
  return output;
}

std::vector<Json> lines(const Output& output) {
  INFO(output.text);
  REQUIRE(output.status == 0);
  std::vector<Json> result;
  std::istringstream text(output.text);
  for (std::string line; std::getline(text, line);) {
    result.push_back(Json::parse(line));
  }
  return result;
}

Json to_json(const TrajectoryId& id) {
  return {{"split", id.split}, {"step", id.step}, {"task_index", id.task_index}, {"sample", id.sample}};
}

/// The fields that the C++ reader sees, as the script must print them.
Json to_json(const InvocationRecord& record) {
  const Invocation& call = record.invocation;
  Json json = {
      {"trajectory_id", to_json(call.trajectory_id)},
      {"attempt", call.attempt},
      {"invocation_index", call.invocation_index},
      {"prompt_token_ids", call.prompt_token_ids},
      {"spans",
       {{{"begin", 0}, {"end", 1}, {"kind", "question"}}, {{"begin", 1}, {"end", 3}, {"kind", "observation"}}}},
      {"response_token_ids", call.response_token_ids},
      {"rollout_log_probs", Json::array()},
      {"log_kept_mass", Json::array()},
      {"policy_versions", Json::array()},
      {"sampling",
       {{"temperature", call.sampling.temperature},
        {"top_p", call.sampling.top_p},
        {"top_k", call.sampling.top_k},
        {"min_p", call.sampling.min_p},
        {"max_response_tokens", call.sampling.max_response_tokens},
        {"seed", call.sampling.seed}}},
      {"finish_reason", to_string(call.finish_reason)},
      {"reward", call.reward},
      {"digest", call.digest},
      {"timings", {{"queue_ms", 0.0}, {"prefill_ms", 0.25}, {"decode_ms", 0.0}}}};
  for (const float value : call.rollout_log_probs) {
    json["rollout_log_probs"].push_back(static_cast<double>(value));
  }
  for (const float value : call.log_kept_mass) {
    json["log_kept_mass"].push_back(static_cast<double>(value));
  }
  for (const VersionRun& run : call.policy_versions) {
    json["policy_versions"].push_back({{"policy_version", run.policy_version}, {"count", run.count}});
  }
  return {{"kind", "invocation"}, {"lineage", record.lineage}, {"invocation", json}};
}

/// A call with something in every field, whose record is long enough to be compressed.
Invocation full_call() {
  Invocation call = invocation(3, {-1, 200, 70000}, ints(300, 5), 1);
  call.spans = {{0, 1, SpanKind::question}, {1, 3, SpanKind::observation}};
  call.rollout_log_probs[0] = -1.0e-30F;
  call.rollout_log_probs[1] = -0.1F;
  call.log_kept_mass = call.rollout_log_probs;
  call.policy_versions = {{7, 299}, {5000000000, 1}};
  call.finish_reason = FinishReason::length;
  call.reward = -0.1;
  call.digest = {18446744073709551615ULL, 1};
  call.timings.prefill_ms = 0.25;
  return call;
}

void write_run(const LedgerFolder& folder) {
  const auto writer = LedgerWriter::create(folder.path(), {.lineage = 2, .steps_per_segment = 1});
  REQUIRE(writer);
  Trajectory ended = trajectory({});
  ended.status = TrajectoryStatus::turn_limit;
  ended.answer = "S\xc3\xa3o Paulo";
  REQUIRE((*writer)->append(full_call()));
  REQUIRE((*writer)->append(ended, 4));
  REQUIRE((*writer)->append_dropped({"train", 12, 9, 0}, 0, "timeout"));
  REQUIRE((*writer)->append_step(12, 8, {{"train", 12, 3, 0}}));
  REQUIRE((*writer)->append_rolled_back(13, 12));
}

}  // namespace

TEST_CASE("the script reads every record as the C++ reader does", "[sdk][RL-1]") {
  const LedgerFolder folder;
  write_run(folder);
  const auto contents = read_ledger(folder.path());
  REQUIRE(contents);

  const auto records = lines(run_reader(folder.path().parent_path(), "--records"));

  REQUIRE(records.size() == 5);
  CHECK(records[0] == to_json(std::get<InvocationRecord>(contents->records[0])));
  CHECK(records[1] == Json{{"kind", "trajectory"},
                           {"lineage", 2},
                           {"num_invocations", 4},
                           {"trajectory",
                            {{"id", to_json({"train", 12, 3, 0})},
                             {"attempt", 0},
                             {"task_id", "atlas-17"},
                             {"env", "atlas"},
                             {"invocations", Json::array()},
                             {"status", "turn_limit"},
                             {"rewards", {{"final", 0.5}}},
                             {"answer", "S\xc3\xa3o Paulo"},
                             {"metrics", {{"f1", 0.5}}}}}});
  CHECK(records[2] == Json{{"kind", "dropped"},
                           {"lineage", 2},
                           {"trajectory_id", to_json({"train", 12, 9, 0})},
                           {"attempt", 0},
                           {"reason", "timeout"}});
  CHECK(records[3] == Json{{"kind", "step"},
                           {"lineage", 2},
                           {"step", 12},
                           {"policy_version", 8},
                           {"trajectories", {to_json({"train", 12, 3, 0})}}});
  CHECK(records[4] ==
        Json{{"kind", "rolled_back"}, {"from_lineage", 2}, {"to_lineage", 3}, {"from_step", 13}, {"to_step", 12}});
}

TEST_CASE("the script's summary counts a run", "[sdk]") {
  const LedgerFolder folder;
  write_run(folder);
  const Output output = run_reader(folder.path().parent_path());
  INFO(output.text);
  REQUIRE(output.status == 0);
  const Json summary = Json::parse(output.text);
  CHECK(summary["records"] ==
        Json{{"invocation", 1}, {"trajectory", 1}, {"dropped", 1}, {"step", 1}, {"rolled_back", 1}});
  CHECK(summary["trained"] == 1);
  CHECK(summary["dropped"] == Json{{"timeout", 1}});
  CHECK(summary["statuses"] == Json{{"turn_limit", 1}});
  CHECK(summary["prompt_tokens"] == 3);
  CHECK(summary["response_tokens"] == 300);
}

TEST_CASE("the script ends at a torn end and refuses damage", "[sdk][LE-3][error]") {
  const LedgerFolder folder;
  write_run(folder);
  const std::string last = read_bytes(folder.segment(1));
  write_bytes(folder.segment(1), last.substr(0, last.size() - 1));
  CHECK(lines(run_reader(folder.path().parent_path(), "--records")).size() == 4);

  std::string first = read_bytes(folder.segment(0));
  first[60] = static_cast<char>(first[60] ^ 1);
  write_bytes(folder.segment(0), first);
  const Output damaged = run_reader(folder.path(), "--records");
  CHECK(damaged.status != 0);
  CHECK(damaged.text.find("segment-000000.ledger, byte 16: damaged record") != std::string::npos);
}

TEST_CASE("the script reads the text view in the order of steps", "[sdk][pain:T30]") {
  const LedgerFolder folder;
  const auto run = folder.path().parent_path();
  const auto writer = TrajectoryTextWriter::create(run / "trajectories");
  REQUIRE(writer);
  const Trajectory late = trajectory({invocation(0, {1}, {4})});
  Trajectory early = late;
  early.id.step = 2;
  REQUIRE((*writer)->append(late, std::vector<CallText>{{"a\nb", "c"}}));
  REQUIRE((*writer)->append(early, std::vector<CallText>{{"d", "e"}}));

  const auto found = lines(run_reader(run, "--trajectories"));

  REQUIRE(found.size() == 2);
  CHECK(found[0] == Json::parse(*trajectory_line(early, std::vector<CallText>{{"d", "e"}})));
  CHECK(found[1] == Json::parse(*trajectory_line(late, std::vector<CallText>{{"a\nb", "c"}})));
}
