// What a user sees when an input of a run is broken: found before anything starts, with the place and what is allowed.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "actors/roles.hpp"
#include "policies/text/bpe_trainer.hpp"
#include "policies/training/sft.hpp"

using namespace memopd;
namespace fs = std::filesystem;

namespace {

class ModelFolders {
 public:
  ModelFolders() : path_(fs::temp_directory_path() / ("memopd_bad_input_" + std::to_string(getpid()))) {
    make_tokenizer("student", "aa bb");
    make_model("student");
    make_tokenizer("teacher", "aa bb");
    make_model("teacher");
  }
  ModelFolders(const ModelFolders&) = delete;
  ModelFolders& operator=(const ModelFolders&) = delete;
  ~ModelFolders() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  void make_tokenizer(const std::string& name, const std::string& text) {
    const auto tokenizer = train_bpe(std::vector<std::string>{text, text, text}, {.vocab_size = 260});
    REQUIRE(tokenizer);
    REQUIRE(tokenizer->save(path_ / name));
  }
  void write(const std::string& name, const std::string& content) { std::ofstream(path_ / name) << content; }
  [[nodiscard]] fs::path path(const std::string& name) const { return path_ / name; }
  [[nodiscard]] Config config() const {
    Config config;
    config.env.emplace_back();
    config.env.front().name = "atlas";
    config.protocol.chat_template = "none";
    config.student.model = path("student").string();
    config.teacher.model = path("teacher").string();
    return config;
  }

 private:
  void make_model(const std::string& name) {
    SftSetup setup;
    setup.sft.model.hidden_size = 8;
    setup.sft.model.intermediate_size = 8;
    setup.sft.model.num_hidden_layers = 1;
    setup.sft.model.num_attention_heads = 2;
    setup.sft.model.num_key_value_heads = 2;
    setup.sft.model.num_previous_token_heads = 0;
    setup.vocab_size = 260;
    auto trainer = SftTrainer::create(setup);
    REQUIRE(trainer);
    REQUIRE((*trainer)->save(path_ / name));
  }

  fs::path path_;
};

std::string problem(const Config& config) {
  const auto checked = check_inputs(config, launch_roles(config, {}));
  return checked ? std::string() : checked.error().message;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("sound inputs pass the check", "[roles]") {
  const ModelFolders folders;
  CHECK(problem(folders.config()).empty());
}

TEST_CASE("a missing model folder is named, and every other problem beside it", "[roles][error]") {
  const ModelFolders folders;
  Config config = folders.config();
  config.teacher.model = folders.path("nowhere").string();
  config.retriever.index = folders.path("none.sqlite").string();

  const std::string message = problem(config);

  CHECK(contains(message, "nowhere"));
  CHECK(contains(message, "none.sqlite"));
}

TEST_CASE("a teacher whose tokenizer spells a shared id differently is refused", "[roles][error][pain:T14]") {
  ModelFolders folders;
  folders.make_tokenizer("teacher", "cc dd");

  const std::string message = problem(folders.config());

  INFO(message);
  CHECK(contains(message, "id 256"));
  CHECK(contains(message, "student vocabulary 259, teacher vocabulary 259, scored ids 259"));
}

TEST_CASE("an empty task file is refused by name", "[roles][error]") {
  ModelFolders folders;
  folders.write("tasks.jsonl", "");
  Config config = folders.config();
  config.env.front().tasks = folders.path("tasks.jsonl").string();

  const std::string message = problem(config);

  INFO(message);
  CHECK(contains(message, "tasks.jsonl"));
  CHECK(contains(message, "no task"));
}

TEST_CASE("a line that is no task is refused with file and line", "[roles][error]") {
  ModelFolders folders;
  folders.write("tasks.jsonl",
                "{\"id\": \"a\", \"questions\": [\"q?\"], \"golden_answers\": [[\"x\"]]}\n{\"id\": 3}\n");
  Config config = folders.config();
  config.env.front().tasks = folders.path("tasks.jsonl").string();

  CHECK(contains(problem(config), "tasks.jsonl:2"));
}

TEST_CASE("an unknown environment and an unknown option name the nearest", "[roles][error][pain:T31]") {
  const ModelFolders folders;
  Config config = folders.config();
  config.env.front().name = "atlsa";
  CHECK(contains(problem(config), "atlas"));

  config = folders.config();
  config.env.front().options["fictonal"] = "0.5";
  CHECK(contains(problem(config), "fictional"));
}

TEST_CASE("a corpus with a broken line is refused with file and line", "[roles][error]") {
  ModelFolders folders;
  folders.write("corpus.jsonl", "{\"id\": \"0\", \"contents\": \"\\\"Title\\\"\\ntext\"}\nnot json\n");
  Config config = folders.config();
  config.retriever.corpus = folders.path("corpus.jsonl").string();

  CHECK(contains(problem(config), "corpus.jsonl:2"));
}
