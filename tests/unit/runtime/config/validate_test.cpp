#include "runtime/config/validate.hpp"

#include <catch2/catch.hpp>
#include <functional>

#include "runtime/config/load.hpp"

using namespace memopd;

namespace {

/// A config that every command accepts.
Config good_config() {
  Config config;
  config.env.push_back({.name = "atlas"});
  config.student.model = "models/student";
  config.teacher.model = "models/teacher";
  config.sft.output = "models/cold_start";
  config.eval.splits.push_back({.name = "val", .split = "val"});
  return config;
}

/// The message after `change`; empty if the config is still valid.
std::string problem_of(const std::function<void(Config&)>& change, Purpose purpose = Purpose::launch) {
  Config config = good_config();
  change(config);
  const auto result = validate(config, purpose);
  if (result) {
    return {};
  }
  CHECK(result.error().code == ErrorCode::config_error);
  return result.error().message;
}

}  // namespace

TEST_CASE("a complete config is valid for every command", "[config]") {
  for (const Purpose purpose : {Purpose::launch, Purpose::sft, Purpose::eval, Purpose::rollout}) {
    INFO(to_string(purpose));
    CHECK(validate(good_config(), purpose).has_value());
  }
}

TEST_CASE("what a command needs and lacks is named", "[config][error]") {
  CHECK(problem_of([](Config& c) { c.env.clear(); }) == "env is missing: at least one [[env]] is needed");
  CHECK(problem_of([](Config& c) { c.env.emplace_back(); }) ==
        "env.1.name is missing: the registered name of an environment");
  CHECK(problem_of([](Config& c) { c.student.model.clear(); }) == "student.model is missing: a Hugging Face folder");
  CHECK(problem_of([](Config& c) { c.student.model.clear(); }, Purpose::rollout).find("student.model") == 0);
  CHECK(problem_of([](Config& c) { c.student.model.clear(); }, Purpose::sft).empty());
  CHECK(problem_of([](Config& c) { c.sft.output.clear(); }, Purpose::sft) ==
        "sft.output is missing: the folder to write");
  CHECK(problem_of([](Config& c) { c.eval.splits.clear(); }, Purpose::eval).find("eval.splits is missing") == 0);
  CHECK(problem_of([](Config& c) { c.eval.splits[0].split.clear(); }).find("eval.splits.0.split is missing") == 0);
}

TEST_CASE("distillation and evaluation of a teacher need one", "[config][pain:T31][error]") {
  CHECK(problem_of([](Config& c) { c.teacher.model.clear(); }) == "opd.coef = 1 needs teacher.model");
  CHECK(problem_of([](Config& c) {
          c.teacher.model.clear();
          c.opd.coef = 0;
          c.eval.teacher = true;
        }) == "eval.teacher = true needs teacher.model");
}

TEST_CASE("a baseline is one override away: a coefficient of 0 leaves the other settings alone", "[config]") {
  CHECK(problem_of([](Config& c) {
          c.opd.coef = 0;
          c.opd.temperature = 2;
        }).empty());
  CHECK(problem_of([](Config& c) {
          c.ppo.coef = 0;
          c.ppo.clip = 0.1;
        }).empty());
}

TEST_CASE("contradictions are refused", "[config][error]") {
  CHECK(problem_of([](Config& c) { c.ppo.coef = c.opd.coef = 0; }) ==
        "ppo.coef = 0 and opd.coef = 0: nothing is trained");
  CHECK(problem_of([](Config& c) { c.learner.mini_batch_trajectories = 33; }) ==
        "learner.mini_batch_trajectories = 33 exceeds the 32 trajectories of a step (learner.tasks_per_step x "
        "sampling.num_samples)");
  CHECK(problem_of([](Config& c) { c.learner.num_ranks = 9; }).find("learner.num_ranks = 9 exceeds") == 0);
  CHECK(problem_of([](Config& c) { c.pack.max_tokens = 1000; }).find("pack.max_tokens = 1000 is below") == 0);
  CHECK(problem_of([](Config& c) {
          c.sampling.max_response_tokens = 1024;
        }).find("sampling.max_response_tokens = 1024 leaves") == 0);
  CHECK(problem_of([](Config& c) {
          c.retriever.corpus = c.retriever.index = "x";
        }).find("retriever.corpus contradicts") == 0);
  CHECK(problem_of([](Config& c) { c.eval.splits.push_back(c.eval.splits[0]); }) ==
        "eval.splits.1.name \"val\" is the name of an earlier split");
  CHECK(problem_of([](Config& c) { c.sft.model.num_attention_heads = 5; }, Purpose::sft)
            .find("sft.model.num_attention_heads = 5") == 0);
  CHECK(problem_of([](Config& c) { c.sft.model.num_key_value_heads = 3; }, Purpose::sft)
            .find("sft.model.num_key_value_heads = 3") == 0);
  CHECK(problem_of([](Config& c) { c.sft.model.num_previous_token_heads = 5; }, Purpose::sft)
            .find("sft.model.num_previous") == 0);
}

TEST_CASE("sampling that cuts the trained distribution has to be allowed", "[config][error]") {
  const std::string rest = "cuts the distribution that is trained on: needs sampling.allow_cut = true";
  CHECK(problem_of([](Config& c) { c.sampling.top_p = 0.9; }) == "sampling.top_p " + rest);
  CHECK(problem_of([](Config& c) { c.sampling.top_k = 50; }) == "sampling.top_k " + rest);
  CHECK(problem_of([](Config& c) { c.sampling.min_p = 0.1; }) == "sampling.min_p " + rest);
  CHECK(problem_of([](Config& c) {
          c.sampling.top_p = 0.9;
          c.sampling.allow_cut = true;
        }).empty());
}

TEST_CASE("settings of async mode and controls are refused where nothing reads them", "[config][pain:T31][error]") {
  CHECK(problem_of([](Config& c) { c.run.max_policy_lag = 1; }) ==
        "run.max_policy_lag has no effect: run.mode is \"sync\"");
  CHECK(problem_of([](Config& c) { c.student.weight_swap = "continue"; }).find("student.weight_swap has no effect") ==
        0);
  CHECK(problem_of([](Config& c) {
          c.run.mode = "async";
          c.run.is_deterministic = true;
        }) == "run.deterministic = true contradicts run.mode = \"async\": arrival times decide there");
  CHECK(problem_of([](Config& c) { c.ppo.estimator = "grpo"; }) ==
        "sampling.num_samples = 1: ppo.estimator \"grpo\" compares at least 2 samples of a task");
  CHECK(problem_of([](Config& c) {
          c.ppo.estimator = "rloo";
          c.sampling.num_samples = 2;
          c.ppo.lambda = 0.9;
        }) == "ppo.lambda has no effect: ppo.estimator \"rloo\" has no critic");
  CHECK(problem_of([](Config& c) { c.reference.model = "x"; }) ==
        "reference.model has no effect: ppo.reference_kl_coef is 0");
  CHECK(problem_of([](Config& c) { c.checkpoint.best = "eval/other/f1"; }).find("checkpoint.best = ") == 0);
  CHECK(problem_of([](Config& c) {
          c.eval.every = 0;
          c.checkpoint.best = "eval/val/f1";
        }) == "checkpoint.best has no effect: eval.every is 0");
  CHECK(problem_of([](Config& c) {
          c.ledger.enabled = false;
          c.ledger.keep_steps = 5;
        }) == "ledger.keep_steps has no effect: ledger.enabled is false");
}

TEST_CASE("a setting that nothing reads is refused", "[config][pain:T31][error]") {
  CHECK(problem_of([](Config& c) { c.opd.beta = 0.3; }) ==
        "opd.beta has no effect: opd.divergence is \"forward_kl\", beta belongs to \"jsd\"");
  CHECK(problem_of([](Config& c) { c.critic.model = "x"; }) ==
        "critic.model has no effect: critic.trunk is \"shared\"");
  CHECK(problem_of([](Config& c) { c.optimizer.min_lr_frac = 0.1; }) ==
        "optimizer.min_lr_frac has no effect: optimizer.schedule is \"constant\"");
  CHECK(problem_of([](Config& c) { c.sampling.allow_cut = true; }).find("sampling.allow_cut has no effect") == 0);
  CHECK(problem_of([](Config& c) {
          c.pack.teacher_flush = "step";
          c.pack.teacher_pack_tokens = 64;
        }).find("pack.teacher_pack_tokens has no effect") == 0);
  CHECK(problem_of([](Config& c) { c.eval.interval_tasks = 50; }) ==
        "eval.interval_tasks has no effect: eval.every is 0");
  CHECK(problem_of([](Config& c) {
          c.eval.every = 5;
          c.eval.splits[0].at_intervals = false;
        }).find("eval.every has no effect") == 0);
  CHECK(problem_of([](Config& c) { c.sft.vocab_size = 500, c.sft.tokenizer = "x"; }, Purpose::sft)
            .find("sft.vocab_size has no") == 0);
  CHECK(problem_of([](Config& c) { c.sft.init = "x", c.sft.model.hidden_size = 64; }, Purpose::sft)
            .find("sft.model has no") == 0);
  CHECK(problem_of([](Config& c) { c.sft.copy_warmup_rows = 8; }, Purpose::sft)
            .find("sft.copy_warmup_rows has no effect") == 0);
  CHECK(problem_of([](Config& c) { c.sft.probe_tasks = 8; }, Purpose::sft).find("sft.probe_tasks has no effect") == 0);
}

TEST_CASE("a switch that is turned off in so many words may keep its settings", "[config]") {
  CHECK(problem_of(
            [](Config& c) {
              c.sft.probe_tasks = 8;
              c.origins.by_name["sft.probe_every"] = "--set";
            },
            Purpose::sft)
            .empty());
}

TEST_CASE("templates have the placeholders they need and no others", "[config][error]") {
  CHECK(problem_of([](Config& c) { c.protocol.observation = "<information>{hint}</information>"; }) ==
        "protocol.observation needs the placeholder {documents}");
  CHECK(problem_of([](Config& c) { c.protocol.document = "{titel} {text}"; }) ==
        "protocol.document has unknown placeholder {titel}, allowed {k} {title} {text}, did you mean {title}");
  CHECK(problem_of([](Config& c) { c.protocol.question = "{\"q\": {question}}"; }).empty());
  CHECK(problem_of([](Config& c) {
          c.protocol.observation = "<information>{documents}</information>";
          c.protocol.hint = "{n} left";
        }).find("protocol.hint has no effect") == 0);
}

TEST_CASE("roles and nodes are named once, and names that are none are refused", "[config][error]") {
  CHECK(
      problem_of([](Config& c) { c.role = {{.name = "studnet"}}; }) ==
      "role.0.name = \"studnet\", allowed: align_pack, env, learner, retriever, student, teacher, teacher_policy (the "
      "coordinator lives in the launcher)");
  CHECK(problem_of([](Config& c) {
          c.role = {{.name = "env"}, {.name = "env"}};
        }) == "role.1.name \"env\" has an earlier [[role]]");
  CHECK(problem_of([](Config& c) {
          c.node = {{.name = "a"}, {.name = "a"}};
        }) == "node.1.name \"a\" is the name of an earlier node");
  CHECK(problem_of([](Config& c) { c.node = {{.name = "a", .address = "node[1-4]"}}; }) ==
        "node.0.name = \"a\" for several hosts \"node[1-4]\": each is named as its address");
  CHECK(problem_of([](Config& c) { c.node = {{.address = "b", .program = "bin/memopd-cluster"}}; }) ==
        "node.0.program = \"bin/memopd-cluster\" is not an absolute path");
}

TEST_CASE("ranks of a learner share one process or have one each", "[config]") {
  const auto with_role = [](const std::string& process) {
    return [process](Config& c) {
      c.learner.num_ranks = 2;
      c.role = {{.name = "learner", .process = process}};
    };
  };
  CHECK(problem_of(with_role("ranks")).empty());
  CHECK(problem_of(with_role("own")).empty());
}

TEST_CASE("silence, leases and ports of links fit one another", "[config][error]") {
  CHECK(problem_of([](Config& c) { c.net.dead_after_ms = 900; }) ==
        "net.dead_after_ms = 900 must be at least 2 x net.heartbeat_ms = 1000");
  CHECK(problem_of([](Config& c) { c.net.lease_ms = 1900; }) ==
        "net.lease_ms = 1900 must be at least net.dead_after_ms = 2000");
  CHECK(problem_of([](Config& c) {
          c.role = {{.name = "env"}};
          c.net.host = "127.0.0.1";
          c.net.ports = {9, 7};
        }) == "net.ports must be [lowest, highest]");
  CHECK(problem_of([](Config& c) { c.net.ports = {7, 9}; }) == "net.ports has no effect: net.host is not set");
}

TEST_CASE("a problem begins with the place of its setting, and all are reported at once", "[config][error]") {
  const auto config = parse_config("[opd]\nbeta = 0.3\n", "launch.toml", std::vector<std::string>{"critic.model=x"});
  REQUIRE(config);
  const auto result = validate(*config, Purpose::launch);
  REQUIRE_FALSE(result);
  CHECK(result.error().message ==
        "env is missing: at least one [[env]] is needed\n"
        "student.model is missing: a Hugging Face folder\n"
        "opd.coef = 1 needs teacher.model\n"
        "launch.toml:2:8: opd.beta has no effect: opd.divergence is \"forward_kl\", beta belongs to \"jsd\"\n"
        "--set: critic.model has no effect: critic.trunk is \"shared\"");
}
