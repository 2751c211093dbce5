#include "runtime/config/load.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/config/field_table.hpp"

using namespace memopd;

namespace {

/// The message of a config that must not load; empty if it does.
std::string problem_of(const std::string& text, std::vector<std::string> overrides = {}) {
  const auto config = parse_config(text, "launch.toml", overrides);
  if (config) {
    return {};
  }
  CHECK(config.error().code == ErrorCode::config_error);
  return config.error().message;
}

struct Anything {
  template <class T>
  operator T() const;
};

/// How many members an aggregate has.
template <class T, class... Found>
constexpr std::size_t num_members() {
  if constexpr (requires { T{Found{}..., Anything{}}; }) {
    return num_members<T, Found..., Anything>();
  } else {
    return sizeof...(Found);
  }
}

template <class Struct>
void check_complete(const detail::Table& table) {
  INFO(table.name);
  CHECK(table.fields.size() + table.children.size() + (table.options ? 1 : 0) == num_members<Struct>());
}

const detail::Table& child(const detail::Table& table, const std::string& name) {
  for (const auto& item : table.children) {
    if (item.name == name) {
      return item;
    }
  }
  FAIL("no table " << name);
  return table;
}

void count_fields(const detail::Table& table, std::size_t& count) {
  count += table.fields.size();
  for (const auto& item : table.children) {
    count_fields(item, count);
  }
}

/// A value of the kind that differs from `value` and is allowed.
detail::SettingValue changed(const detail::Field& field, const detail::SettingValue& value) {
  using detail::Kind;
  switch (field.kind) {
    case Kind::boolean:
      return !std::get<bool>(value);
    case Kind::integer:
      return std::get<std::int64_t>(value) + 1;
    case Kind::real: {
      const double half = std::get<double>(value) * 0.5;
      const bool fits = half > field.rule.low && half != 0.0;
      return fits ? half : (std::isfinite(field.rule.high) ? (field.rule.high + field.rule.low) / 3 : 7.25);
    }
    case Kind::integers:
      return std::vector<std::int64_t>{5, 4};
    case Kind::text:
      break;
  }
  return field.rule.words.empty() ? std::string("x-") + field.name : field.rule.words.back();
}

void change_all(const detail::Table& table, void* object) {
  for (const auto& field : table.fields) {
    detail::SettingValue value = changed(field, field.get(object));
    const auto problem = check_value(field, value);
    INFO(table.name << "." << field.name);
    CHECK(problem.value_or("") == "");
    field.set(object, value);
  }
  for (const auto& item : table.children) {
    if (item.is_array) {
      item.append(object);
    }
    change_all(item, item.at(object, 0));
  }
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a misspelt key is refused with its place and the nearest name", "[config][pain:T31][error]") {
  CHECK(problem_of("[opd]\ncofe = 1\n") == "launch.toml:2:1: unknown key opd.cofe, did you mean opd.coef");
}

TEST_CASE("a misspelt table is refused with the nearest name", "[config][pain:T31][error]") {
  CHECK(problem_of("[optimiser]\nlr = 1e-3\n") == "launch.toml:1:2: unknown table optimiser, did you mean optimizer");
}

TEST_CASE("a key in the wrong table is sent to the tables that have it", "[config][pain:T31][error]") {
  CHECK(problem_of("[reward]\nwarmup_steps = 5\n") ==
        "launch.toml:2:1: unknown key reward.warmup_steps, did you mean optimizer.warmup_steps");
}

TEST_CASE("a key that resembles nothing is answered with what the table has", "[config][error]") {
  CHECK(problem_of("[checkpoint]\nfoobar = 1\n") ==
        "launch.toml:2:1: unknown key checkpoint.foobar, checkpoint has: every keep best");
}

TEST_CASE("a wrong type names what was found and what is allowed", "[config][error]") {
  CHECK(problem_of("[opd]\ncoef = \"1\"\n") == "launch.toml:2:8: opd.coef: found string \"1\", allowed a number >= 0");
  CHECK(problem_of("[run]\nnum_steps = 1.5\n") ==
        "launch.toml:2:13: run.num_steps: found number 1.5, allowed an integer >= 1");
  CHECK(problem_of("[ledger]\nenabled = 1\n") ==
        "launch.toml:2:11: ledger.enabled: found integer 1, allowed true or false");
  CHECK(problem_of("[run]\nname = 1979-05-27\n") ==
        "launch.toml:2:8: run.name: found a date, allowed letters, digits, - _ .");
  CHECK(problem_of("run = 3\n") == "launch.toml:1:7: run: found integer 3, allowed a table ([run])");
  CHECK(problem_of("[env]\nname = \"atlas\"\n") ==
        "launch.toml:1:1: env: found a table, allowed an array of tables ([[env]])");
  CHECK(problem_of("[sft]\nobjectives = [1, \"2\"]\n") ==
        "launch.toml:2:14: sft.objectives: found an array, allowed an array of integers >= 1");
}

TEST_CASE("a value out of range names the range", "[config][error]") {
  CHECK(problem_of("[opd]\ncoef = -1\n") == "launch.toml:2:8: opd.coef: found -1.0, allowed a number >= 0");
  CHECK(problem_of("[opd]\ncoef = nan\n") == "launch.toml:2:8: opd.coef: found nan, allowed a number >= 0");
  CHECK(problem_of("[ppo]\ngamma = 1.01\n") == "launch.toml:2:9: ppo.gamma: found 1.01, allowed a number in [0, 1]");
  CHECK(problem_of("[ppo]\ndual_clip = 0.5\n") ==
        "launch.toml:2:13: ppo.dual_clip: found 0.5, allowed a number > 1 or 0");
  CHECK(problem_of("[run]\nnum_steps = 3000000000\n") ==
        "launch.toml:2:13: run.num_steps: found 3000000000, allowed an integer >= 1 and < 2^31");
  CHECK(problem_of("[run]\nname = \"..\"\n") ==
        "launch.toml:2:8: run.name: found \"..\", allowed letters, digits, - _ .");
  CHECK(problem_of("[sft]\nobjectives = [1, 0]\n") ==
        "launch.toml:2:14: sft.objectives: found [1, 0], allowed an array of integers >= 1");
}

TEST_CASE("the ends of a range are allowed as its brackets say", "[config]") {
  CHECK(problem_of("[sampling]\ntop_p = 1\nmin_p = 0\n[ppo]\ndual_clip = 0\n").empty());
  CHECK_FALSE(problem_of("[sampling]\ntop_p = 0\n").empty());
  CHECK_FALSE(problem_of("[sampling]\nmin_p = 1\n").empty());
  CHECK_FALSE(problem_of("[ppo]\ndual_clip = 1\n").empty());
}

TEST_CASE("an unknown word lists the words and the nearest one", "[config][error]") {
  CHECK(problem_of("[opd]\ndivergence = \"forwardkl\"\n") ==
        "launch.toml:2:14: opd.divergence: found \"forwardkl\", allowed \"forward_kl\" | \"reverse_kl\" | \"jsd\", did "
        "you "
        "mean \"forward_kl\"");
}

TEST_CASE("all problems of a file and of its overrides are reported at once, one a line", "[config][error]") {
  const std::string problem =
      problem_of("[opd]\ncofe = 1\ncoef = -1\n[pack]\nmax_tokens = true\n", {"run.sed=1", "ppo.clip"});

  CHECK(problem ==
        "launch.toml:3:8: opd.coef: found -1.0, allowed a number >= 0\n"
        "launch.toml:2:1: unknown key opd.cofe, did you mean opd.coef\n"
        "launch.toml:5:14: pack.max_tokens: found boolean true, allowed an integer >= 16\n"
        "--set run.sed=1: unknown key run.sed, did you mean run.seed\n"
        "--set ppo.clip: expected name=value, as in opd.coef=0.5");
}

TEST_CASE("a duplicate key and bytes that are not TOML are refused with their place", "[config][error]") {
  CHECK(problem_of("[run]\nseed = 1\nseed = 2\n").find("launch.toml:3:") == 0);
  CHECK(problem_of("[run]\nseed = 1\n[run]\n").find("launch.toml:3:") == 0);
  CHECK(problem_of("[run]\nname = \"\xff\xfe\"\n").find("launch.toml:2:") == 0);
  CHECK(problem_of("[run\n").find("launch.toml:1:") == 0);
}

TEST_CASE("a file that is missing or a folder is named", "[config][error]") {
  const auto missing = load_config("no/such/launch.toml");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::not_found);
  CHECK(missing.error().message == "config file no/such/launch.toml: no such file");

  const auto folder = load_config(MEMOPD_SOURCE_DIR);
  REQUIRE_FALSE(folder);
  CHECK(folder.error().code == ErrorCode::io_error);
}

TEST_CASE("overrides change fields, tables of arrays and options", "[config]") {
  const std::string text =
      "[[env]]\nname = \"atlas\"\n[env.options]\nplaces = \"old\"\n[[eval.splits]]\nname = \"val\"\n";
  const std::vector<std::string> overrides = {"run.name=2026",
                                              "opd.divergence=jsd",
                                              "opd.beta=0.25",
                                              "env.0.num_slots=4",
                                              "env.0.options.places=new",
                                              "env.0.options.a.b=\"x y\"",
                                              "eval.splits.0.num_tasks=20",
                                              "sft.objectives=[2, 3]",
                                              "protocol.hint="};

  const auto config = parse_config(text, "launch.toml", overrides);

  REQUIRE(config);
  CHECK(config->run.name == "2026");
  CHECK(config->opd.divergence == "jsd");
  CHECK(config->opd.beta == 0.25);
  CHECK(config->env[0].num_slots == 4);
  CHECK(config->env[0].options == std::map<std::string, std::string>{{"places", "new"}, {"a.b", "x y"}});
  CHECK(config->eval.splits[0].num_tasks == 20);
  CHECK(config->sft.objectives == std::vector<std::int32_t>{2, 3});
  CHECK(config->protocol.hint.empty());
  CHECK(config->origins.by_name.at("opd.beta") == "--set");
  CHECK(config->origins.by_name.at("env.0.name") == "launch.toml:2:8");
}

TEST_CASE("overrides are checked like a file", "[config][error]") {
  const std::string text = "[[env]]\nname = \"atlas\"\n";
  CHECK(problem_of(text, {"opd.cofe=1"}) == "--set opd.cofe=1: unknown key opd.cofe, did you mean opd.coef");
  CHECK(problem_of(text, {"opd.coef=abc"}) == "--set opd.coef=abc: opd.coef: found abc, allowed a number >= 0");
  CHECK(problem_of(text, {"opd.coef=-1"}) == "--set opd.coef=-1: opd.coef: found -1.0, allowed a number >= 0");
  CHECK(problem_of(text, {"opd=1"}) == "--set opd=1: opd is a table, name one of its keys");
  CHECK(problem_of(text, {"run.seed.x=1"}) == "--set run.seed.x=1: run.seed is a key, not a table");
  CHECK(problem_of(text, {"env.num_slots=4"}) ==
        "--set env.num_slots=4: env: found index \"num_slots\", allowed 0..0 (as in env.0.name)");
  CHECK(problem_of(text, {"env.1.num_slots=4"}) ==
        "--set env.1.num_slots=4: env: found index \"1\", allowed 0..0 (as in env.0.name)");
  CHECK(problem_of(text, {"eval.splits.0.name=a"}) ==
        "--set eval.splits.0.name=a: eval.splits: there is no [[eval.splits]] to change");
  CHECK(problem_of(text, {"run.seed=1\nname=\"x\""}).find("run.seed: found 1\nname=\"x\", allowed an integer >= 0") !=
        std::string::npos);
  CHECK(problem_of(text, {"run.seed=1", "run.seed=2"}) ==
        "--set run.seed=2: run.seed is already set by --set run.seed=1");
  CHECK(problem_of(text, {"student.model=\xff"}).find("student.model: found") != std::string::npos);
  CHECK(problem_of(text, {"=1"}) == "--set =1: expected name=value, as in opd.coef=0.5");
}

TEST_CASE("options keep strings, numbers and booleans as text and refuse the rest", "[config]") {
  const auto config =
      parse_config("[[env]]\nname = \"atlas\"\n[env.options]\na = \"x\"\nb = 3\nc = 0.5\nd = true\n", "launch.toml");
  REQUIRE(config);
  CHECK(config->env[0].options ==
        std::map<std::string, std::string>{{"a", "x"}, {"b", "3"}, {"c", "0.5"}, {"d", "true"}});
  CHECK(problem_of("[[env]]\n[env.options]\na = [1]\n") ==
        "launch.toml:3:5: env.0.options.a: found array [1], allowed a string, number or boolean");
}

TEST_CASE("the defaults survive a dump", "[config]") {
  const Config defaults;
  const auto reloaded = parse_config(dump_config(defaults), "dump.toml");
  REQUIRE(reloaded);
  CHECK(*reloaded == defaults);
}

TEST_CASE("a config in which every setting differs from its default survives a dump", "[config]") {
  Config config;
  change_all(detail::config_table(), &config);
  config.env[0].options = {{"plain", "a"}, {"with space", "line\nbreak \"quoted\" \\ \x01 \xc3\xa9"}};
  config.env.push_back({.name = "second"});
  config.optimizer.lr = 0.1 + 0.2;
  const auto reloaded = parse_config(dump_config(config), "dump.toml");
  if (!reloaded) {
    FAIL(reloaded.error().message);
  }
  CHECK(*reloaded == config);
  CHECK_FALSE(*reloaded == Config{});
}

TEST_CASE("every member of every settings struct is in the field table", "[config][pain:T31]") {
  const detail::Table& root = detail::config_table();
  CHECK(root.children.size() + 1 == num_members<Config>());  // and origins, which is no setting
  check_complete<RunConfig>(child(root, "run"));
  check_complete<EnvConfig>(child(root, "env"));
  check_complete<RetrieverConfig>(child(root, "retriever"));
  check_complete<ProtocolConfig>(child(root, "protocol"));
  check_complete<StudentConfig>(child(root, "student"));
  check_complete<TeacherConfig>(child(root, "teacher"));
  check_complete<CriticConfig>(child(root, "critic"));
  check_complete<SamplingConfig>(child(root, "sampling"));
  check_complete<PackConfig>(child(root, "pack"));
  check_complete<RewardConfig>(child(root, "reward"));
  check_complete<PpoConfig>(child(root, "ppo"));
  check_complete<OpdConfig>(child(root, "opd"));
  check_complete<SftConfig>(child(root, "sft"));
  check_complete<ModelShapeConfig>(child(child(root, "sft"), "model"));
  check_complete<OptimizerConfig>(child(root, "optimizer"));
  check_complete<LearnerConfig>(child(root, "learner"));
  check_complete<EvalConfig>(child(root, "eval"));
  check_complete<EvalSplitConfig>(child(child(root, "eval"), "splits"));
  check_complete<CheckpointConfig>(child(root, "checkpoint"));
  check_complete<LedgerConfig>(child(root, "ledger"));
  check_complete<AlarmsConfig>(child(root, "alarms"));
  check_complete<NetConfig>(child(root, "net"));
  check_complete<NodeConfig>(child(root, "node"));
  check_complete<RoleConfig>(child(root, "role"));
  check_complete<MonitorConfig>(child(root, "monitor"));
}

TEST_CASE("a dump and the reference hold every setting once", "[config]") {
  Config config;
  config.env.emplace_back();
  config.eval.splits.emplace_back();
  config.node.emplace_back();
  config.role.emplace_back();
  std::size_t num_fields = 0;
  count_fields(detail::config_table(), num_fields);
  REQUIRE(num_fields > 100);

  CHECK(count_of(dump_config(config), " = ") == num_fields);
  const std::string reference = config_reference();
  CHECK(count_of(reference, "\n  ") == num_fields + 1);  // and env.options
  CHECK(reference.find("coef = 1.0") != std::string::npos);
  CHECK(reference.find("a number >= 0") != std::string::npos);
}

TEST_CASE("every allowed default is within its own range", "[config]") {
  Config config;
  std::vector<std::pair<const detail::Table*, void*>> open = {{&detail::config_table(), &config}};
  while (!open.empty()) {
    const auto [table, object] = open.back();
    open.pop_back();
    for (const auto& field : table->fields) {
      detail::SettingValue value = field.get(object);
      INFO(table->name << "." << field.name);
      CHECK(check_value(field, value).value_or("") == "");
      CHECK_FALSE(field.doc.empty());
    }
    for (const auto& item : table->children) {
      if (item.is_array) {
        item.append(object);
      }
      open.emplace_back(&item, item.at(object, 0));
    }
  }
}

TEST_CASE("every shipped config loads", "[config]") {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::filesystem::path(MEMOPD_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() == ".toml") {
      const auto config = load_config(entry.path());
      INFO((config ? std::string() : config.error().message));
      CHECK(config.has_value());
    }
  }
}
