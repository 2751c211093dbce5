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
