// A real model against Hugging Face transformers. Hidden: needs tools/data/get smollm2, then make_smollm2_golden.py.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "policies/engine/engine.hpp"
#include "policies/model/checkpoint.hpp"
#include "policies/model/host_tensors.hpp"
#include "policies/model/packed_tensors.hpp"
#include "policies/model/safetensors.hpp"
#include "runtime/alignpack/align_pack.hpp"

using namespace memopd;

namespace {

const std::filesystem::path kData = std::filesystem::path(MEMOPD_SOURCE_DIR) / ".deps/data";
const std::filesystem::path kModel = kData / "smollm2";

using Ints = std::vector<std::int32_t>;

struct Reference {
  Ints prompt;
  at::Tensor logits;  ///< [prompt, V] float32
  Ints greedy;        ///< 64 ids
};

Reference read_expected() {
  const auto tensors = read_safetensors(kData / "smollm2_golden/expected.safetensors");
  REQUIRE(tensors);
  std::map<std::string, at::Tensor> values;
  for (const HostTensor& tensor : *tensors) {
    at::Tensor value = at::empty(tensor.shape, to_scalar_type(tensor.dtype));
    copy_from_host(tensor, value);
    values[tensor.name] = value;
  }
  const auto ints = [](const at::Tensor& x) { return Ints(x.data_ptr<int>(), x.data_ptr<int>() + x.numel()); };
  return {ints(values.at("prompt")), values.at("logits"), ints(values.at("greedy"))};
}

Invocation call(const Ints& prompt, const Ints& response, std::int32_t index = 0) {
  Invocation result;
  result.trajectory_id = {.split = "train", .step = 0, .task_index = 0, .sample = 0};
  result.invocation_index = index;
  result.prompt_token_ids = prompt;
  result.response_token_ids = response;
  return result;
}

PackedTensors pack_of(const std::vector<Invocation>& calls) {
  std::vector<const Invocation*> pointers;
  for (const Invocation& one : calls) pointers.push_back(&one);
  return to_tensors(align_pack(pointers, {.max_tokens = 4096, .share_prefixes = true}).value().front()).value();
}

/// [response tokens, V], float64.
at::Tensor log_probs(const Transformer& model, const std::vector<Invocation>& calls) {
  const PackedTensors pack = pack_of(calls);
  return at::log_softmax(model.logits(model.hidden(pack).index_select(0, pack.response_index)).to(at::kDouble), 1);
}

double largest(const at::Tensor& difference) { return difference.abs().max().item<double>(); }

}  // namespace

TEST_CASE("SmolLM2: logits within 1e-4 of transformers, 64 greedy ids equal, by packed forward and by engine",
          "[.smollm2][model][golden]") {
  const at::NoGradGuard no_grad;
  const Reference expected = read_expected();
  const auto model = load_transformer(kModel);
  REQUIRE(model);
  const at::Tensor logits = model->logits(model->hidden(pack_of({call(expected.prompt, {0})})));
  const double error = largest(logits.narrow(0, 0, expected.logits.size(0)) - expected.logits);
  WARN("largest difference of " << expected.logits.numel() << " logits: " << error);
  CHECK(error <= 1e-4);

  // Teacher-forced: each of the 64 is the arg max after those before it.
  const PackedTensors pack = pack_of({call(expected.prompt, expected.greedy)});
  const at::Tensor best = model->logits(model->hidden(pack).index_select(0, pack.response_index)).argmax(1);
  for (std::size_t i = 0; i < expected.greedy.size(); ++i) {
    CHECK(best[static_cast<std::int64_t>(i)].item<std::int64_t>() == expected.greedy[i]);
  }

  auto engine = Engine::create(kModel, nullptr, {.max_sequences = 1, .max_context_tokens = 256}).value();
  REQUIRE(engine->submit({.request_id = 1,
                          .prompt_token_ids = expected.prompt,
                          .sampling = {.temperature = 0, .max_response_tokens = 64},
                          .stop_strings = {}}));
  Ints found;
  while (!engine->is_idle()) {
    for (const GenerateResult& result : engine->step()) found = result.response_token_ids;
  }
  const auto end = std::find(expected.greedy.begin(), expected.greedy.end(), 2);  // the engine stops at the eos id
  CHECK(found == Ints(expected.greedy.begin(), end == expected.greedy.end() ? end : end + 1));
}

TEST_CASE("SmolLM2: packed calls are as near to float64 as calls alone, twice at most", "[.smollm2][model][AP-5]") {
  const at::NoGradGuard no_grad;
  const Reference expected = read_expected();
  const auto part = [&expected](std::size_t begin, std::size_t end) {
    return Ints(expected.greedy.begin() + static_cast<std::ptrdiff_t>(begin),
                expected.greedy.begin() + static_cast<std::ptrdiff_t>(end));
  };
  Ints longer = expected.prompt;
  const Ints kept = part(0, 20);
  longer.insert(longer.end(), kept.begin(), kept.end());
  Ints rewritten = expected.prompt;
  const Ints other = part(20, 34);
  rewritten.insert(rewritten.end(), other.begin(), other.end());
  // The second call continues the first, the third rewrites its memory.
  const std::vector<Invocation> calls = {call(expected.prompt, kept), call(longer, part(34, 50), 1),
                                         call(rewritten, part(50, 64), 2)};
  at::Tensor exact, alone, packed;
  {
    const auto model = load_transformer(kModel, at::kDouble).value();
    std::vector<at::Tensor> rows;
    for (const Invocation& one : calls) rows.push_back(log_probs(model, {one}));
    exact = at::cat(rows);
    CHECK(largest(log_probs(model, calls) - exact) <= 1e-10);
  }
  const auto model = load_transformer(kModel).value();
  std::vector<at::Tensor> rows;
  for (const Invocation& one : calls) rows.push_back(log_probs(model, {one}));
  alone = at::cat(rows);
  packed = log_probs(model, calls);
  WARN("largest error against float64: alone " << largest(alone - exact) << ", packed " << largest(packed - exact));
  CHECK(largest(packed - exact) <= 2 * largest(alone - exact));
}

TEST_CASE("SmolLM2 is saved in shards for make_smollm2_golden.py to load", "[.smollm2][checkpoint]") {
  const auto folder = kData / "smollm2_saved";
  const auto model = load_transformer(kModel);
  REQUIRE(model);
  REQUIRE(copy_companion_files(kModel, folder));
  REQUIRE(save_transformer(folder, *model, /*max_shard_bytes=*/200'000'000));
}
