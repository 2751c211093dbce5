#include "policies/training/memory_plan.hpp"

#include <catch2/catch.hpp>
#include <numeric>

using namespace memopd;

namespace {

ModelConfig model(std::int32_t hidden, std::int32_t vocab) {
  ModelConfig config;
  config.vocab_size = vocab;
  config.hidden_size = hidden;
  config.intermediate_size = 3;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 1;
  config.num_key_value_heads = 1;
  config.head_dim = hidden;
  config.max_position_embeddings = 8;
  return config;
}

double bytes_of(const DevicePlan& device, const std::string& role, const std::string& part) {
  double sum = 0;
  for (const MemoryPart& entry : device.parts) {
    sum += entry.role == role && entry.part == part ? entry.bytes : 0;
  }
  return sum;
}

}  // namespace

TEST_CASE("parameters are the elements of every tensor of a checkpoint", "[memory_plan]") {
  // D 2, V 5, F 3: embedding 10; q, k, v 3 (4 + 2); o 4; gate, up, down 18; norms 3 x 2.
  CHECK(num_parameters(model(2, 5)) == 10 + 18 + 4 + 18 + 6);
  ModelConfig untied = model(2, 5);
  untied.tie_word_embeddings = false;
  CHECK(num_parameters(untied) == 56 + 10);
}

TEST_CASE("a learner rank holds weights, master weights, moments and gradients", "[memory_plan]") {
  Config config;
  const ModelConfig student = model(2, 5);

  const auto devices = plan_memory(config, student, nullptr, {});

  REQUIRE(devices.size() == 1);
  CHECK(bytes_of(devices[0], "learner/0", "weights") == 56 * 2);
  CHECK(bytes_of(devices[0], "learner/0", "master weights") == 56 * 4);
  CHECK(bytes_of(devices[0], "learner/0", "moments") == 56 * 8);
  CHECK(bytes_of(devices[0], "learner/0", "gradients") == 56 * 4);
  CHECK(bytes_of(devices[0], "teacher/0", "weights") == 0);
}

TEST_CASE("sharding splits the optimizer's state over the ranks and nothing else", "[memory_plan]") {
  Config config;
  config.learner.num_ranks = 4;
  const ModelConfig student = model(2, 5);

  const auto devices = plan_memory(config, student, nullptr, {.num_devices = 4, .shard_optimizer = true});

  CHECK(bytes_of(devices[3], "learner/3", "moments") == 56 * 8 / 4);
  CHECK(bytes_of(devices[3], "learner/3", "master weights") == 56);
  CHECK(bytes_of(devices[3], "learner/3", "gradients") == 56 * 4);
}

TEST_CASE("the cache of an engine has a key and a value for every token of every slot", "[memory_plan]") {
  Config config;
  config.student.max_sequences = 3;
  config.student.max_context_tokens = 16;

  const auto devices = plan_memory(config, model(2, 5), nullptr, {});

  CHECK(bytes_of(devices[0], "student/0", "key/value cache") == 3 * 16 * 2 * 2 * 2);
}

TEST_CASE("actors are placed on devices in turn, and the total is the sum of the parts and the overhead",
          "[memory_plan]") {
  Config config;
  config.teacher.num_actors = 3;
  const ModelConfig teacher = model(4, 5);

  const auto devices = plan_memory(config, model(2, 5), &teacher, {.num_devices = 2});

  CHECK(bytes_of(devices[0], "teacher/2", "weights") > 0);
  CHECK(bytes_of(devices[1], "teacher/1", "weights") > 0);
  double sum = kOverheadBytes;
  for (const MemoryPart& part : devices[0].parts) {
    sum += part.bytes;
  }
  CHECK(devices[0].total_bytes() == sum);
}
