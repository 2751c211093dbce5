#include "policies/engine/kv_cache.hpp"

#include <catch2/catch.hpp>

using namespace memopd;

TEST_CASE("slots are handed out in order, then those that were not used for longest", "[kv_cache]") {
  KvCache cache({.num_layers = 1, .num_slots = 2, .num_kv_heads = 1, .head_dim = 2, .max_context_tokens = 3});
  CHECK(cache.acquire_slot() == 0);
  CHECK(cache.acquire_slot() == 1);
  CHECK_FALSE(cache.has_free_slot());
  cache.release_slot(1);
  cache.release_slot(0);
  cache.use_slot(1);  // now 0 is the older one
  CHECK(cache.acquire_slot() == 0);
  CHECK(cache.acquire_slot() == 1);
}

TEST_CASE("a stored token is a column of the keys and a row of the values", "[kv_cache]") {
  KvCache cache({.num_layers = 2, .num_slots = 2, .num_kv_heads = 2, .head_dim = 2, .max_context_tokens = 3});
  const float key[] = {1, 2, 3, 4};  // head 0, head 1
  const float value[] = {5, 6, 7, 8};
  cache.store(1, 1, 2, {}, key, value);

  const float* keys = cache.keys(1, 1, 1);
  CHECK(keys[2] == 3);
  CHECK(keys[cache.key_stride() + 2] == 4);
  CHECK(cache.values(1, 1, 1)[2 * 2] == 7);
  CHECK(cache.values(1, 1, 0)[2 * 2 + 1] == 6);
}

TEST_CASE("a copied prefix has the keys, the values and the tokens of its source, in every layer", "[kv_cache][AP-6]") {
  KvCache cache({.num_layers = 2, .num_slots = 2, .num_kv_heads = 2, .head_dim = 2, .max_context_tokens = 3});
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    for (std::int32_t index = 0; index < 2; ++index) {
      const auto first = static_cast<float>(10 * layer + 100 * index);
      const float row[] = {first, first + 1, first + 2, first + 3};
      cache.store(layer, 0, index, {.id = 7 + index, .position = index}, row, row);
    }
  }
  cache.copy_prefix(0, 1, 2);

  CHECK(cache.keys(1, 1, 1)[1] == 112);
  CHECK(cache.keys(1, 1, 1)[cache.key_stride()] == 13);
  CHECK(cache.values(0, 1, 1)[2 + 1] == 103);
  CHECK(cache.token(1, 1).id == 8);
  CHECK(cache.token(1, 1).position == 1);
}

TEST_CASE("beside an entry stands the token it was computed from, slot by slot", "[kv_cache][AP-6]") {
  KvCache cache({.num_layers = 1, .num_slots = 2, .num_kv_heads = 1, .head_dim = 2, .max_context_tokens = 3});
  const float row[] = {0, 0};
  cache.store(0, 0, 2, {.id = 7, .position = 2}, row, row);
  cache.store(0, 1, 2, {.id = 8, .position = 9}, row, row);

  CHECK(cache.token(0, 2).id == 7);
  CHECK(cache.token(0, 2).position == 2);
  CHECK(cache.token(1, 2).id == 8);
  CHECK(cache.token(1, 2).position == 9);
}
