#include "policies/model/checkpoint.hpp"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "policies/model/host_tensors.hpp"
#include "policies/model/safetensors.hpp"
#include "policies/model/weights.hpp"
#include "tests/unit/policies/model/tiny_models.hpp"

using namespace memopd;
using namespace memopd::testing;

namespace {

at::Tensor logits_of(const Transformer& model) {
  const auto tensors = to_tensors(pack_of({invocation({5, 6, 7}, {8, 9})})).value();
  return model.logits(model.hidden(tensors));
}

/// Rewrites model.safetensors of `folder` after `change` of its tensors.
template <class Change>
void edit_weights(const std::filesystem::path& folder, Change change) {
  auto tensors = read_safetensors(folder / "model.safetensors").value();
  change(tensors);
  REQUIRE(write_safetensors(folder / "model.safetensors", tensors));
}

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

HostTensor& named(std::vector<HostTensor>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const HostTensor& t) { return t.name == name; });
}

}  // namespace

TEST_CASE("a saved model loads with identical logits, tied or not", "[checkpoint][pain:T25]") {
  for (const std::string architecture : {"qwen2", "qwen3", "llama"}) {
    for (const bool is_tied : {true, false}) {
      const TemporaryFolder folder("checkpoint");
      const Transformer model = tiny_model(tiny_config(architecture, is_tied));
      REQUIRE(save_transformer(folder.path(), model));
      const auto loaded = load_transformer(folder.path());
      const auto header = read_safetensors_header(folder.path() / "model.safetensors");

      REQUIRE(loaded);
      CHECK(loaded->config() == model.config());
      CHECK(at::equal(logits_of(*loaded), logits_of(model)));
      const bool has_head = std::any_of(header->entries.begin(), header->entries.end(),
                                        [](const auto& entry) { return entry.name == "lm_head.weight"; });
      CHECK(has_head == !is_tied);
      CHECK(loaded->head_weight().is_same(loaded->embedding()) == is_tied);
    }
  }
}

TEST_CASE("bfloat16 and float16 weights load as their exact float32 values", "[checkpoint]") {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const TemporaryFolder folder("half");
    const Transformer model = tiny_model();
    REQUIRE(save_transformer(folder.path(), model));
    edit_weights(folder.path(), [&](std::vector<HostTensor>& tensors) {
      for (const NamedTensor& slice : model.named_slices())
        named(tensors, slice.name) = to_host_tensor(slice.name, slice.tensor.to(type));
    });
    const auto loaded = load_transformer(folder.path());

    REQUIRE(loaded);
    CHECK(at::equal(loaded->embedding(), model.embedding().to(type).to(at::kFloat)));
  }
}

TEST_CASE("every missing, unexpected and wrongly shaped tensor is listed in one error", "[checkpoint][error]") {
  const TemporaryFolder folder("problems");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  edit_weights(folder.path(), [](std::vector<HostTensor>& tensors) {
    named(tensors, "model.norm.weight").name = "model.extra.weight";
    named(tensors, "model.layers.1.mlp.up_proj.weight").shape = {16, 24};
  });
  const auto loaded = load_transformer(folder.path());

  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == ErrorCode::shape_mismatch);
  CHECK_THAT(loaded.error().message, Catch::Contains("missing model.norm.weight [16]"));
  CHECK_THAT(loaded.error().message, Catch::Contains("unexpected model.extra.weight [16]"));
  CHECK_THAT(loaded.error().message,
             Catch::Contains("model.layers.1.mlp.up_proj.weight is [16, 24], expected [24, 16]"));
}

TEST_CASE("a head beside a tied embedding must equal it", "[checkpoint][pain:T25][error]") {
  const TemporaryFolder folder("tied");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  edit_weights(folder.path(), [](std::vector<HostTensor>& tensors) {
    HostTensor head = named(tensors, "model.embed_tokens.weight");
    head.name = "lm_head.weight";
    tensors.push_back(head);
  });
  CHECK(load_transformer(folder.path()));

  edit_weights(folder.path(),
               [](std::vector<HostTensor>& tensors) { named(tensors, "lm_head.weight").bytes[0] ^= std::byte{1}; });
  CHECK_THAT(load_transformer(folder.path()).error().message, Catch::Contains("lm_head.weight differs"));
}

TEST_CASE("shards named by an index load like one file, and only from their folder", "[checkpoint]") {
  const TemporaryFolder folder("shards");
  const Transformer model = tiny_model();
  REQUIRE(save_transformer(folder.path(), model));
  const auto tensors = read_safetensors(folder.path() / "model.safetensors").value();
  std::filesystem::remove(folder.path() / "model.safetensors");
  REQUIRE(write_safetensors(folder.path() / "a.safetensors", std::span(tensors).first(4)));
  REQUIRE(write_safetensors(folder.path() / "b.safetensors", std::span(tensors).subspan(4)));
  nlohmann::json map;
  for (std::size_t i = 0; i < tensors.size(); ++i) map[tensors[i].name] = i < 4 ? "a.safetensors" : "b.safetensors";
  write_file(folder.path() / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());

  const auto loaded = load_transformer(folder.path());
  REQUIRE(loaded);
  CHECK(weight_fingerprint(to_weight_set(*loaded, 0, 0)) == weight_fingerprint(to_weight_set(model, 0, 0)));

  write_file(folder.path() / "model.safetensors.index.json", R"({"weight_map": {"a": "../a.safetensors"}})");
  CHECK(load_transformer(folder.path()).error().code == ErrorCode::parse_error);
}

TEST_CASE("an index and its shards that contradict each other are listed in one error", "[checkpoint][error]") {
  const TemporaryFolder folder("index");
  REQUIRE(save_transformer(folder.path(), tiny_model(), /*max_shard_bytes=*/4000));
  const auto index_path = folder.path() / "model.safetensors.index.json";
  auto index = nlohmann::json::parse(file_text(index_path));
  auto& map = index["weight_map"];
  const std::string first = map.front(), last = map.back();
  REQUIRE(first != last);
  map["model.norm.weight"] = first;                    // lies in the last one
  map.erase("model.layers.0.input_layernorm.weight");  // lies in a shard, unnamed
  map["model.extra.weight"] = last;                    // lies nowhere
  write_file(index_path, index.dump());
  const auto loaded = load_transformer(folder.path());

  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == ErrorCode::parse_error);
  CHECK_THAT(loaded.error().message, Catch::Contains("model.norm.weight lies in " + last + ", not in " + first));
  CHECK_THAT(loaded.error().message, Catch::Contains("model.layers.0.input_layernorm.weight of "));
  CHECK_THAT(loaded.error().message, Catch::Contains("model.extra.weight is not in " + last));

  std::filesystem::remove(folder.path() / first);
  std::filesystem::remove(folder.path() / last);
  const auto absent = load_transformer(folder.path());
  CHECK(absent.error().code == ErrorCode::not_found);
  CHECK_THAT(absent.error().message, Catch::Contains(first + ": ") && Catch::Contains(last + ": "));
}

TEST_CASE("a model above the limit is saved in shards that load the same, and leaves no older weights beside them",
          "[checkpoint][pain:T25]") {
  const TemporaryFolder folder("sharded");
  const Transformer model = tiny_model();
  const auto fingerprint = [](const Transformer& m) { return weight_fingerprint(to_weight_set(m, 0, 0)); };
  const auto has = [&folder](const std::string& name) { return std::filesystem::exists(folder.path() / name); };
  REQUIRE(save_transformer(folder.path(), tiny_model(tiny_config(), 4)));
  REQUIRE(save_transformer(folder.path(), model, 4000));
  CHECK_FALSE(has("model.safetensors"));
  CHECK(fingerprint(*load_transformer(folder.path())) == fingerprint(model));
  std::vector<std::filesystem::path> shards;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
  }
  CHECK(stored_weight_fingerprint(shards).value() == fingerprint(model));
  const auto index = nlohmann::json::parse(file_text(folder.path() / "model.safetensors.index.json"));
  CHECK(index["weight_map"].size() == tensor_specs(model.config()).size());
  const std::string first = index["weight_map"]["model.embed_tokens.weight"];
  CHECK_THAT(first, Catch::StartsWith("model-0000") && Catch::EndsWith(".safetensors"));

  std::uint64_t bytes = 0;
  for (const NamedTensor& slice : model.named_slices()) bytes += slice.tensor.nbytes();
  CHECK(index["metadata"]["total_size"] == bytes);

  REQUIRE(save_transformer(folder.path(), model, bytes));  // exactly the limit
  CHECK(has("model.safetensors"));
  CHECK_FALSE(has("model.safetensors.index.json"));
  CHECK_FALSE(has(first));
}

TEST_CASE("weights at an odd place of the file load", "[checkpoint]") {
  const TemporaryFolder folder("odd");
  const Transformer model = tiny_model();
  REQUIRE(save_transformer(folder.path(), model));
  std::string text = file_text(folder.path() / "model.safetensors");
  text[0] = static_cast<char>(text[0] + 1);  // the header's length, whose padding grows by a blank
  text.insert(text.find('{'), " ");
  write_file(folder.path() / "model.safetensors", text);

  CHECK(weight_fingerprint(to_weight_set(*load_transformer(folder.path()), 0, 0)) ==
        weight_fingerprint(to_weight_set(model, 0, 0)));
}

TEST_CASE("weights that are no floating-point numbers are listed with the rest", "[checkpoint][error]") {
  const TemporaryFolder folder("integers");
  REQUIRE(save_transformer(folder.path(), tiny_model()));
  edit_weights(folder.path(), [](std::vector<HostTensor>& tensors) {
    named(tensors, "model.norm.weight").dtype = DType::int32;
    named(tensors, "model.layers.1.mlp.up_proj.weight").shape = {16, 24};
  });
  const auto loaded = load_transformer(folder.path());

  CHECK(loaded.error().code == ErrorCode::shape_mismatch);
  CHECK_THAT(loaded.error().message, Catch::Contains("model.norm.weight is int32, not floating-point") &&
                                         Catch::Contains("up_proj.weight is [16, 24]"));
}

TEST_CASE("companion files follow a model without replacing what is there", "[checkpoint][pain:T25]") {
  const TemporaryFolder from("from"), to("to");
  write_file(from.path() / "generation_config.json", R"({"eos_token_id": [1, 2], "top_k": 20})");
  write_file(from.path() / "tokenizer.json", "the model's");
  write_file(from.path() / "notes.txt", "not part of a model");
  write_file(to.path() / "tokenizer.json", "its own");

  REQUIRE(copy_companion_files(from.path(), to.path()));
  ModelConfig config = tiny_config();
  config.eos_token_ids = {1};
  REQUIRE(save_transformer(to.path(), tiny_model(config)));

  CHECK(file_text(to.path() / "generation_config.json") == file_text(from.path() / "generation_config.json"));
  CHECK(file_text(to.path() / "tokenizer.json") == "its own");
  CHECK_FALSE(std::filesystem::exists(to.path() / "notes.txt"));
}

TEST_CASE("the head of a folder has the fingerprint of the whole model's", "[checkpoint]") {
  for (const bool is_tied : {true, false}) {
    const TemporaryFolder folder("head");
    const Transformer model = tiny_model(tiny_config("qwen2", is_tied));
    REQUIRE(save_transformer(folder.path(), model));
    const auto head = load_head(folder.path(), at::kDouble);

    REQUIRE(head);
    CHECK(head_fingerprint(*head, 20) == head_fingerprint(model, 20));
    CHECK(head_fingerprint(*head, 20) != head_fingerprint(model, 21));
  }
}

TEST_CASE("loading from nowhere and saving into a file are errors", "[checkpoint][error]") {
  const TemporaryFolder folder("nowhere");
  CHECK(load_transformer(folder.path()).error().code == ErrorCode::not_found);
  write_file(folder.path() / "file", "x");
  CHECK(save_transformer(folder.path() / "file", tiny_model()).error().code == ErrorCode::io_error);
}
