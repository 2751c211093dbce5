#include "policies/engine/kv_cache.hpp"

#include <catch2/catch.hpp>

using namespace memopd;

TEST_CASE("slots are handed out lowest first and come back", "[kv_cache]") {
  KvCache cache({.num_layers = 1, .num_slots = 2, .num_kv_heads = 1, .head_dim = 2, .max_context_tokens = 3});
  CHECK(cache.acquire_slot() == 0);
  CHECK(cache.acquire_slot() == 1);
  CHECK_FALSE(cache.has_free_slot());
  cache.release_slot(1);
  cache.release_slot(0);
  CHECK(cache.acquire_slot() == 0);
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
