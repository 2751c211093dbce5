#include "tools/memopd/ledger_show.hpp"

#include <sstream>

#include "policies/training/log_prob_scorer.hpp"
#include "tests/unit/tools/memopd/run_example.hpp"
#include "tools/memopd/ledger_stats.hpp"

using namespace memopd;
using namespace memopd::testing;
using Json = nlohmann::json;

namespace {

std::string show(const RunExample& run, const ShowSelection& selection, const ShowOptions& options = {}) {
  std::ostringstream out;
  const auto shown = show_ledger(run.open(), run.tokenizer(), selection, options, out);
  INFO((shown ? std::string() : shown.error().message));
  REQUIRE(shown);
  return out.str();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a call is shown by kind of span, with its response and what became of it", "[ledger][pain:T30]") {
  RunExample run;
  run.add_trajectory({"train", 0, 3, 0}, 0);
  REQUIRE(run.ledger().append_step(0, 0, {{"train", 0, 3, 0}}));

  const std::string text = show(run, {});

  CHECK(contains(text, "train.0.3.0  attempt 0  lineage 0  trained in step 0  completed\n"));
  CHECK(
      contains(text, "  task task-7  env atlas  calls 2  answer \"Lima\"\n  rewards  final 0.5\n  metrics  f1 0.25\n"));
  CHECK(contains(text, "call 1  prompt "));
  CHECK(contains(text, "stop  version 0  temperature 0.5  reward 0  mean log-prob -"));
  CHECK(contains(text, "  question    Question: who?\n"));
  CHECK(contains(text, "  kept        <think>a\n              \\x1b[1mkept\n"));  // no escape reaches the terminal
  CHECK(contains(text, "  response    <think>x3\n"));
  CHECK_FALSE(contains(text, "\033"));
}

TEST_CASE("colours mark the kinds of spans", "[ledger]") {
  RunExample run;
  run.add_trajectory({"train", 0, 3, 0}, 0);
  const std::string text = show(run, {}, {.view = {.has_colors = true}});
  CHECK(contains(text, "\033[36mQuestion: who?\033[0m"));
  CHECK(contains(text, "\033[33m<think>a\033[0m"));
  CHECK(contains(text, "\033[1;35m<think>x3\033[0m"));
}

TEST_CASE("tokens are shown with id, position, log-prob and version", "[ledger][RL-3]") {
  RunExample run;
  const Invocation call = run.call(run.version(0), {"train", 0, 3, 0}, 0, 0);
  REQUIRE(run.ledger().append(call));
  const std::string text = show(run, {}, {.view = {.with_tokens = true}});
  CHECK(contains(text, "position      id   log-prob version  text\n"));
  CHECK(contains(text, formatted("%10zu %7d %10.5f %7d  \"<think>\"\n", call.prompt_token_ids.size(),
                                 call.response_token_ids[0], static_cast<double>(call.rollout_log_probs[0]), 0)));
  CHECK(contains(text, formatted("ids %d %d", call.prompt_token_ids[0], call.prompt_token_ids[1])));
  CHECK(contains(text, "pending  (no trajectory record)"));
}

TEST_CASE("a selection narrows what is shown", "[ledger]") {
  RunExample run;
  run.add_trajectory({"train", 0, 3, 0}, 0);
  run.add_trajectory({"train", 1, 3, 0}, 1);
  run.add_trajectory({"near", 1, 3, 0}, 1);
  const ShowOptions json{.is_json = true};
  const auto count = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  CHECK(count(show(run, {}, json)) == 1);
  CHECK(count(show(run, {.limit = 9}, json)) == 3);
  CHECK(count(show(run, {.step = 1, .limit = 9}, json)) == 2);
  CHECK(count(show(run, {.split = "near", .limit = 9}, json)) == 1);
  CHECK(count(show(run, {.trajectory = TrajectoryId{"train", 1, 3, 0}, .limit = 9}, json)) == 1);
  CHECK(count(show(run, {.trajectory = TrajectoryId{"train", 9, 3, 0}}, json)) == 0);
  const Json shown = Json::parse(show(run, {.split = "train", .call = 1}, json));
  CHECK(shown["trajectory_id"] == "train.0.3.0");
  REQUIRE(shown["calls"].size() == 1);
  CHECK(shown["calls"][0]["call"] == 1);
  CHECK(shown["calls"][0]["spans"][1]["kind"] == "kept");
  CHECK(shown["calls"][0]["spans"][1]["text"] == "<think>a\n\x1b[1mkept");
  CHECK(shown["calls"][0]["response"] == "<think>x3");
}

TEST_CASE("the divergence is computed again by the newest kept policy that is not newer", "[ledger][pain:T30]") {
  RunExample run;
  const Invocation call = run.call(run.version(1), {"train", 5, 3, 0}, 0, 5);
  REQUIRE(run.ledger().append(call));
  const auto policy = LogProbScorer::load(run.path() / "checkpoints/step-1/policy", 0).value();
  const auto teacher = LogProbScorer::load(run.teacher_folder(), 0).value();
  const auto expected = policy->divergences(pack_of({call}), *teacher, {});
  REQUIRE(expected);

  const Json shown = Json::parse(show(run, {}, {.with_divergence = true, .is_json = true}));
  const std::string text = show(run, {}, {.view = {.with_tokens = true}, .with_divergence = true});

  const Json& divergence = shown["calls"][0]["divergence"];
  CHECK(divergence["policy_version"] == 1);
  CHECK(divergence["is_own_version"] == false);
  CHECK(divergence["per_token"].get<std::vector<double>>() == *expected);
  CHECK(expected->front() > 1e-3);
  CHECK(contains(text, "by the policy of version 1, the newest kept that is not newer than the call's"));
  CHECK(contains(text, formatted(" %10.5f  \"<think>\"", expected->front())));
}

TEST_CASE("statistics count, weigh and balance a ledger", "[ledger][RL-2]") {
  RunExample run;
  run.add_trajectory({"train", 0, 0, 0}, 0);
  run.add_trajectory({"train", 0, 1, 0}, 0);
  REQUIRE(run.ledger().append_dropped({"train", 0, 1, 0}, 0, "stale"));
  REQUIRE(run.ledger().append_step(0, 0, {{"train", 0, 0, 0}}));
  run.add_trajectory({"near", 1, 0, 0}, 1);

  const auto stats = ledger_stats(run.open());

  REQUIRE(stats);
  CHECK(stats->records ==
        std::map<std::string, std::int64_t>{{"dropped", 1}, {"invocation", 6}, {"step", 1}, {"trajectory", 3}});
  CHECK(stats->invocations == std::map<std::string, std::int64_t>{{"near", 2}, {"train", 4}});
  CHECK(stats->first_step == 0);
  CHECK(stats->last_version == 1);
  CHECK(stats->audit.violations.empty());
  const Json json = Json::parse(to_json(*stats));
  CHECK(json["accounting"]["trained"] == 1);
  CHECK(json["accounting"]["dropped"]["stale"] == 1);
  CHECK(json["accounting"]["evaluations"] == 1);
  CHECK(contains(to_text(*stats), "trained 1  dropped 1  superseded 0  pending 0  evaluations 1"));
}

TEST_CASE("statistics hold max_policy_lag of the run", "[ledger][RL-3]") {
  RunExample run;
  run.add_trajectory({"train", 0, 0, 0}, 0);
  REQUIRE(run.ledger().append_step(0, 1, {{"train", 0, 0, 0}}));
  const auto stats = ledger_stats(run.open());
  REQUIRE(stats);
  CHECK(stats->audit.violations ==
        std::vector<std::string>{"step 0: trajectory train.0.0.0, attempt 0: lag 1, allowed 0"});
}

TEST_CASE("a folder without a ledger and a run without a tokenizer say what is needed", "[ledger][error]") {
  const TemporaryFolder folder("no_ledger");
  const auto none = open_ledger_run(folder.path());
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::not_found);
  const RunExample run;
  const auto bare = open_ledger_run(run.path() / "ledger");
  REQUIRE(bare);
  const auto tokenizer = load_run_tokenizer(*bare);
  REQUIRE_FALSE(tokenizer);
  CHECK(contains(tokenizer.error().message, "--tokenizer DIR"));
  CHECK(load_run_tokenizer(*bare, run.student_folder().string()));
}
