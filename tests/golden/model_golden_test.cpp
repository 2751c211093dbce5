// The packed forward against Hugging Face transformers run one call at a time (make_model_golden.py).
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "policies/model/checkpoint.hpp"
#include "policies/model/host_tensors.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/safetensors.hpp"
#include "runtime/alignpack/align_pack.hpp"

using namespace memopd;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(MEMOPD_SOURCE_DIR) / "tests/golden/model";

std::vector<Trajectory> read_trajectories() {
  std::ifstream file(kFolder / "trajectories.json");
  std::vector<Trajectory> trajectories;
  for (const auto& calls : nlohmann::json::parse(file)) {
    Trajectory trajectory;
    trajectory.id = {
        .split = "train", .step = 0, .task_index = static_cast<std::int32_t>(trajectories.size()), .sample = 0};
    for (const auto& call : calls) {
      Invocation invocation;
      invocation.trajectory_id = trajectory.id;
      invocation.invocation_index = static_cast<std::int32_t>(trajectory.invocations.size());
      invocation.prompt_token_ids = call["prompt"].get<std::vector<std::int32_t>>();
      invocation.response_token_ids = call["response"].get<std::vector<std::int32_t>>();
      trajectory.invocations.push_back(std::move(invocation));
    }
    trajectories.push_back(std::move(trajectory));
  }
  return trajectories;
}

std::map<std::string, at::Tensor> read_expected(const std::string& model, const std::string& dtype) {
  std::map<std::string, at::Tensor> expected;
  const auto tensors = read_safetensors(kFolder / model / ("expected_" + dtype + ".safetensors"));
  REQUIRE(tensors);
  for (const HostTensor& tensor : *tensors) {
    at::Tensor values = at::empty(tensor.shape, at::kDouble);
    copy_from_host(tensor, values);
    expected[tensor.name] = values;
  }
  return expected;
}

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor difference = found.to(at::kDouble) - expected;
  return difference.norm().item<double>() / expected.norm().item<double>();
}

void compare(const std::string& name, at::ScalarType dtype, bool is_shared, double tolerance) {
  auto model = load_transformer(kFolder / name, dtype).value();
  model.set_requires_grad(true);
  const auto trajectories = read_trajectories();
  const auto packs = align_pack(trajectories, {.max_tokens = 4096, .share_prefixes = is_shared}).value();
  REQUIRE(packs.size() == 1);
  const auto pack = to_tensors(packs.front()).value();
  const at::Tensor logits = model.logits(model.hidden(pack).index_select(0, pack.response_index));
  const at::Tensor log_probs = at::log_softmax(logits, 1).gather(1, pack.response_token_ids.unsqueeze(1));
  std::vector<at::Tensor> leaves;
  for (const NamedTensor& parameter : model.parameters()) leaves.push_back(parameter.tensor);
  const auto gradients = model.named_slices(torch::autograd::grad({log_probs.sum()}, leaves));
  REQUIRE(gradients.size() == tensor_specs(model.config()).size());
  const auto expected = read_expected(name, dtype == at::kDouble ? "float64" : "float32");

  std::int64_t row = 0;
  for (std::size_t t = 0; t < trajectories.size(); ++t) {
    for (std::size_t j = 0; j < trajectories[t].invocations.size(); ++j) {
      const at::Tensor& alone = expected.at("logits." + std::to_string(t) + "." + std::to_string(j));
      INFO(name << " trajectory " << t << " call " << j);
      const at::Tensor rows = logits.detach().narrow(0, row, alone.size(0)).to(at::kDouble);
      CHECK((at::log_softmax(rows, 1) - at::log_softmax(alone, 1)).abs().max().item<double>() <= tolerance);
      row += alone.size(0);
    }
  }
  CHECK(row == logits.size(0));
  for (const NamedTensor& gradient : gradients) {
    INFO(name << " gradient of " << gradient.name);
    CHECK(relative_error(gradient.tensor, expected.at("grad." + gradient.name)) <= tolerance);
  }
}

}  // namespace

TEST_CASE("float64: packed log-probs and gradients are those of single calls within 1e-10", "[model][golden][AP-5]") {
  for (const std::string name : {"qwen2", "qwen3", "llama", "llama3"}) {
    for (const bool is_shared : {true, false}) compare(name, at::kDouble, is_shared, 1e-10);
  }
}

TEST_CASE("float32: packed log-probs and gradients are those of single calls within 1e-5", "[model][golden][AP-5]") {
  for (const std::string name : {"qwen2", "qwen3", "llama", "llama3"}) {
    for (const bool is_shared : {true, false}) compare(name, at::kFloat, is_shared, 1e-5);
  }
}
