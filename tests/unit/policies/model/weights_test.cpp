#include "policies/model/weights.hpp"

#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>

#include "tests/unit/policies/model/tiny_models.hpp"

using namespace memopd;
using namespace memopd::testing;

TEST_CASE("a weight set carries a model to another with identical values", "[weights][pain:T20]") {
  const Transformer source = tiny_model(tiny_config(), 3);
  Transformer target = tiny_model(tiny_config(), 4);
  const WeightSet weights = to_weight_set(source, 2, 7);
  const at::Tensor leaf = target.embedding();

  REQUIRE(load_weight_set(target, weights));

  CHECK(weights.lineage == 2);
  CHECK(weights.policy_version == 7);
  CHECK(target.embedding().is_same(leaf));  // optimizers and graphs keep their leaves
  for (std::size_t i = 0; i < source.parameters().size(); ++i) {
    CHECK(at::equal(source.parameters()[i].tensor, target.parameters()[i].tensor));
  }
}

TEST_CASE("a weight set that does not fit is refused whole", "[weights][error]") {
  Transformer target = tiny_model(tiny_config(), 4);
  WeightSet weights = to_weight_set(tiny_model(tiny_config(), 3), 0, 1);
  const std::uint64_t before = weight_fingerprint(to_weight_set(target, 0, 0));
  weights.tensors.pop_back();
  weights.tensors.front().shape.front() += 1;

  const auto loaded = load_weight_set(target, weights);

  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code == ErrorCode::shape_mismatch);
  CHECK_THAT(loaded.error().message,
             Catch::Contains("missing model.norm.weight") && Catch::Contains("is [25, 16], expected [24, 16]"));
  CHECK(weight_fingerprint(to_weight_set(target, 0, 0)) == before);
}

TEST_CASE("a weight set whose bytes do not fill its shape is refused", "[weights][error]") {
  Transformer target = tiny_model();
  WeightSet weights = to_weight_set(target, 0, 1);
  weights.tensors.front().bytes.pop_back();
  CHECK(load_weight_set(target, weights).error().code == ErrorCode::shape_mismatch);

  weights = to_weight_set(target, 0, 1);
  weights.tensors.front().dtype = DType::int32;
  CHECK(load_weight_set(target, weights).error().code == ErrorCode::shape_mismatch);
}

TEST_CASE("the fingerprint sees every bit of a weight set and no version", "[weights][pain:T20]") {
  WeightSet weights = to_weight_set(tiny_model(), 0, 1);
  const std::uint64_t fingerprint = weight_fingerprint(weights);
  CHECK(fingerprint != 0);

  weights.policy_version = 9;
  CHECK(weight_fingerprint(weights) == fingerprint);
  weights.tensors.back().bytes.back() ^= std::byte{1};
  CHECK(weight_fingerprint(weights) != fingerprint);
}
