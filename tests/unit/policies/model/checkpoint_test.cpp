#include "policies/model/checkpoint.hpp"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <catch2/catch.hpp>
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

HostTensor& named(std::vector<HostTensor>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const HostTensor& t) { return t.name == name; });
}

}  // namespace

TEST_CASE("a saved model loads with identical logits, tied or not", "[checkpoint][pain:T25]") {
  for (const std::string architecture : {"qwen2", "llama"}) {
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
