#include "tools/memopd/checkpoint_view.hpp"

#include "tests/unit/tools/memopd/run_example.hpp"

using namespace memopd;
using namespace memopd::testing;

TEST_CASE("a checkpoint shows its versions, its model and every tensor", "[checkpoint]") {
  const RunExample run;

  const auto view = view_checkpoint(run.path() / "checkpoints/step-1");

  REQUIRE(view);
  const std::string text = to_text(*view);
  CHECK(text.find("  policy_version       1\n") != std::string::npos);
  CHECK(text.find("policy: qwen2, 2 layers, hidden 16, ") != std::string::npos);
  CHECK(text.find(formatted("  %-56s %-9s [%d, 16]\n", "model.embed_tokens.weight", "float32",
                            run.tokenizer().vocab_size())) != std::string::npos);
  const auto json = nlohmann::json::parse(to_json(*view));
  CHECK(json["state"]["policy_version"] == 1);
  REQUIRE(json["files"].size() == 1);
  CHECK(json["files"][0]["name"] == "policy/model.safetensors");
  CHECK(json["files"][0]["tensors"].size() == tensor_specs(run.version(0).config()).size());
}

TEST_CASE("a folder whose parts do not fit names every mismatch", "[checkpoint][pain:T14][pain:T25]") {
  const RunExample run;
  const auto folder = run.student_folder();
  const auto clean = view_checkpoint(folder);
  REQUIRE(clean);
  REQUIRE(clean->models.size() == 1);
  CHECK(clean->models.front().fingerprint ==
        formatted("%016llx", static_cast<unsigned long long>(
                                 weight_fingerprint(to_weight_set(load_transformer(folder).value(), 0, 0)))));

  auto config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  const std::int32_t rows = config["vocab_size"].get<std::int32_t>();
  config["vocab_size"] = rows - 1;
  config["num_hidden_layers"] = 1;
  write_file(folder / "config.json", config.dump());
  REQUIRE(run.tokenizer().save(folder));
  const auto view = view_checkpoint(folder);

  REQUIRE(view);
  const std::string text = to_text(*view);
  CHECK_THAT(text, Catch::Contains(
                       formatted("problem: model.embed_tokens.weight is [%d, 16], expected [%d, 16]", rows, rows - 1)));
  CHECK_THAT(text, Catch::Contains("problem: unexpected model.layers.1.mlp.down_proj.weight"));
  CHECK_THAT(text, Catch::Contains(formatted("problem: tokenizer has %d ids, the model %d rows", rows, rows - 1)));
  const auto json = nlohmann::json::parse(to_json(*view));
  CHECK(json["models"][0]["problems"].size() == view->models.front().problems.size());
  CHECK(json["models"][0]["tokenizer_size"] == rows);
}

TEST_CASE("a model folder is shown alone, and a folder without either is refused", "[checkpoint][error]") {
  const RunExample run;
  const auto model = view_checkpoint(run.student_folder());
  REQUIRE(model);
  CHECK(model->files.front().name == "model.safetensors");
  CHECK(model->state_json.empty());
  const auto none = view_checkpoint(run.path() / "ledger");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::not_found);
  write_file(run.path() / "checkpoints/step-1/state.json", "{");
  const auto torn = view_checkpoint(run.path() / "checkpoints/step-1");
  REQUIRE_FALSE(torn);
  CHECK(torn.error().code == ErrorCode::parse_error);
}
