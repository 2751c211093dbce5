#include "policies/model/model_config.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runtime/config/schema.hpp"
#include "tests/unit/policies/model/file_bytes.hpp"

using namespace memopd;

namespace {

/// The keys of a small Qwen2 config.json, with `changes` over them; null removes a key.
std::string qwen2_json(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json object = {{"model_type", "qwen2"},
                           {"vocab_size", 32},
                           {"hidden_size", 16},
                           {"intermediate_size", 24},
                           {"num_hidden_layers", 2},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"rms_norm_eps", 1e-6},
                           {"rope_theta", 1000.0},
                           {"tie_word_embeddings", true},
                           {"max_position_embeddings", 64},
                           {"eos_token_id", {1, 2}}};
  object.merge_patch(changes);
  return object.dump();
}

std::string error_of(const nlohmann::json& changes, ErrorCode code) {
  const auto config = parse_model_config(qwen2_json(changes), "config.json");
  REQUIRE_FALSE(config);
  CHECK(config.error().code == code);
  return config.error().message;
}

}  // namespace

TEST_CASE("model_config reads what Hugging Face writes and writes what it reads", "[model_config][pain:T25]") {
  const auto config = parse_model_config(qwen2_json(), "config.json");

  REQUIRE(config);
  CHECK(config->head_dim == 4);
  CHECK(config->attention_bias);
  CHECK(config->rope_theta == 1000.0);
  CHECK(config->eos_token_ids == std::vector<std::int32_t>{1, 2});
  CHECK(*parse_model_config(to_json(*config), "again") == *config);
}

TEST_CASE("model_config finds rope_theta inside rope_parameters", "[model_config]") {
  const auto config = parse_model_config(
      qwen2_json({{"rope_theta", nullptr}, {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5000.0}}}}),
      "c");

  REQUIRE(config);
  CHECK(config->rope_theta == 5000.0);
}

TEST_CASE("model_config knows the families apart", "[model_config][pain:T25]") {
  const auto qwen3 = parse_model_config(qwen2_json({{"model_type", "qwen3"}}), "c");
  REQUIRE(qwen3);
  CHECK(qwen3->head_dim == 128);  // what transformers takes where the key is missing
  CHECK_FALSE(qwen3->attention_bias);
  CHECK(qwen3->has_qk_norm());
  const auto specs = tensor_specs(*qwen3);
  const auto shape_of = [&specs](const std::string& name) {
    const auto place =
        std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name == name; });
    return place == specs.end() ? std::vector<std::int64_t>{} : place->shape;
  };
  CHECK(shape_of("model.layers.1.self_attn.k_norm.weight") == std::vector<std::int64_t>{128});
  CHECK(shape_of("model.layers.1.self_attn.q_proj.weight") == std::vector<std::int64_t>{512, 16});
  CHECK(shape_of("model.layers.1.self_attn.q_proj.bias").empty());

  const auto llama = parse_model_config(qwen2_json({{"model_type", "llama"}}), "c");
  REQUIRE(llama);
  CHECK(llama->head_dim == 4);
  CHECK_FALSE(llama->has_qk_norm());
  for (const auto& config : {*qwen3, *llama}) CHECK(*parse_model_config(to_json(config), "again") == config);
}

TEST_CASE("model_config reads Llama 3's RoPE scaling under both keys, and writes it", "[model_config][pain:T25]") {
  const nlohmann::json scaling = {{"rope_type", "llama3"},
                                  {"factor", 8.0},
                                  {"low_freq_factor", 1.0},
                                  {"high_freq_factor", 4.0},
                                  {"original_max_position_embeddings", 8192}};
  nlohmann::json parameters = scaling;
  parameters["rope_theta"] = 1000.0;
  const auto older = parse_model_config(qwen2_json({{"rope_scaling", scaling}}), "c");
  const auto newer = parse_model_config(qwen2_json({{"rope_theta", nullptr}, {"rope_parameters", parameters}}), "c");

  REQUIRE(older);
  REQUIRE(newer);
  CHECK(*older == *newer);
  CHECK(older->rope_scaling == Llama3RopeScaling{8.0, 1.0, 4.0, 8192});
  CHECK(*parse_model_config(to_json(*older), "again") == *older);
}

TEST_CASE("Llama 3's scaling keeps short waves, slows long ones and blends between", "[model_config]") {
  ModelConfig config = *parse_model_config(qwen2_json({{"head_dim", 6}, {"rope_theta", 1e6}}), "c");
  const auto plain = rope_frequencies(config);  // 1, 1e-2, 1e-4
  CHECK(plain[0] == 1.0);
  CHECK(plain[2] == Approx(1e-4));

  // Turns within the original context: 1600, 16 and 0.16.
  config.rope_scaling = Llama3RopeScaling{10.0, 1.0, 31.0, 10053};
  const auto scaled = rope_frequencies(config);
  CHECK(scaled[0] == plain[0]);
  CHECK(scaled[1] == Approx(0.55e-2).epsilon(1e-4));  // half of the way from 1 to 31 turns: (1 + 1/10) / 2
  CHECK(scaled[2] == Approx(1e-5));
}

TEST_CASE("model_config refuses by name what would change the numbers", "[model_config][error]") {
  using Catch::Contains;
  const auto refused = ErrorCode::unsupported;
  CHECK_THAT(error_of({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}, refused),
             Contains("rope_scaling") && Contains("dynamic"));
  CHECK_THAT(error_of({{"rope_parameters", {{"rope_type", "longrope"}}}}, refused), Contains("longrope"));
  CHECK_THAT(error_of({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}}, refused), Contains("yarn"));
  CHECK_THAT(
      error_of({{"rope_scaling", {{"type", "linear"}}}, {"rope_parameters", {{"rope_type", "default"}}}}, refused),
      Contains("differ"));
  CHECK_THAT(error_of({{"use_sliding_window", true}}, refused), Contains("use_sliding_window"));
  CHECK_THAT(error_of({{"layer_types", {"full_attention", "sliding_attention"}}}, refused), Contains("layer_types"));
  CHECK_THAT(error_of({{"hidden_act", "gelu"}}, refused), Contains("hidden_act"));
  CHECK_THAT(error_of({{"model_type", "gemma"}}, refused), Contains("gemma") && Contains("qwen2"));
  CHECK_THAT(error_of({{"model_type", "llama"}, {"attention_bias", true}}, refused), Contains("attention_bias"));
  CHECK_THAT(error_of({{"quantization_config", {{"bits", 4}}}}, refused), Contains("quantization_config"));
}

TEST_CASE("model_config lists every problem of a file at once", "[model_config][error]") {
  const std::string message =
      error_of({{"hidden_size", "wide"}, {"vocab_size", nullptr}, {"num_hidden_layers", -1}}, ErrorCode::parse_error);

  CHECK_THAT(message, Catch::Contains("config.json") && Catch::Contains("hidden_size") &&
                          Catch::Contains("vocab_size is missing") && Catch::Contains("num_hidden_layers"));
  CHECK_THAT(
      error_of({{"hidden_size", "wide"}, {"hidden_act", "gelu"}, {"use_sliding_window", true}}, ErrorCode::unsupported),
      Catch::Contains("hidden_size") && Catch::Contains("hidden_act") && Catch::Contains("use_sliding_window"));
  CHECK_THAT(error_of({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 0.5}}}}, ErrorCode::parse_error),
             Catch::Contains("low_freq_factor is missing") && Catch::Contains("original_max_position_embeddings"));
  CHECK_THAT(error_of({{"rope_scaling",
                        {{"rope_type", "llama3"},
                         {"factor", 0.5},
                         {"low_freq_factor", 4.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 0}}}},
                      ErrorCode::parse_error),
             Catch::Contains("factor is not at least 1") && Catch::Contains("low_freq_factor is not between") &&
                 Catch::Contains("is below 1"));
  CHECK_THAT(error_of({{"num_key_value_heads", 3}}, ErrorCode::parse_error), Catch::Contains("does not divide"));
  CHECK_THAT(error_of({{"eos_token_id", 99}}, ErrorCode::parse_error), Catch::Contains("eos id 99"));
  CHECK_THAT(error_of({{"num_hidden_layers", 2000000000}}, ErrorCode::parse_error), Catch::Contains("above 2000"));
  CHECK(parse_model_config("{", "c").error().code == ErrorCode::parse_error);
}

TEST_CASE("model_config adds the eos ids of generation_config.json", "[model_config]") {
  const testing::TemporaryFolder folder("config");
  testing::write_file(folder.path() / "config.json", qwen2_json());
  testing::write_file(folder.path() / "generation_config.json", R"({"eos_token_id": [2, 5]})");

  CHECK(load_model_config(folder.path())->eos_token_ids == std::vector<std::int32_t>{1, 2, 5});
  CHECK(load_model_config(folder.path() / "absent").error().code == ErrorCode::not_found);
}

TEST_CASE("model_config refuses a shape that its architecture cannot have", "[model_config][error]") {
  const ModelShapeConfig shape;
  REQUIRE(model_config_from_shape(shape, 100, {}));

  ModelShapeConfig odd = shape;
  odd.num_attention_heads = 5;
  CHECK(model_config_from_shape(odd, 100, {}).error().code == ErrorCode::invalid_argument);
  ModelShapeConfig biased = shape;
  biased.architecture = "llama";
  CHECK_THAT(model_config_from_shape(biased, 100, {}).error().message, Catch::Contains("attention_bias"));
  CHECK(model_config_from_shape(shape, 0, {}).error().code == ErrorCode::invalid_argument);
}
