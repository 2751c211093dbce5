// Random damage to tokenizer.json: whatever the file, the result is an error that names a place in it or a tokenizer
// that works. `test_policies_text "[.fuzz]"` does the same for a minute or so; MEMOPD_FUZZ_SEED=N starts elsewhere.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "policies/text/tokenizer.hpp"
#include "runtime/base/random.hpp"
#include "tests/unit/policies/text/toy_tokenizers.hpp"

namespace memopd {
namespace {

using nlohmann::json;

std::string valid_file() {
  const auto tokenizer =
      train_bpe(std::vector<std::string>{"he he llo llo hello hello", "été été 12 12"},
                {.vocab_size = 290, .added_tokens = testing::kTags, .special_tokens = testing::kSpecials});
  REQUIRE(tokenizer);
  return tokenizer->to_json();
}

/// Bytes flipped, cut out, doubled, or replaced by what parsers stumble over.
std::string damage_bytes(std::string text, SplitMix& random) {
  const std::vector<std::string> oddities = {"\"",
                                             "[",
                                             "{",
                                             "]",
                                             "}",
                                             ",",
                                             ":",
                                             "null",
                                             "-1",
                                             "1e999",
                                             "\\u0000",
                                             "\\ud800",
                                             "\xFF",
                                             "99999999999999999999",
                                             "true",
                                             "[[[[[[[[",
                                             "{\"type\":\"Sequence\",\"normalizers\":["};
  for (std::uint64_t left = 1 + random.below(4); left > 0; --left) {
    const std::size_t place = random.below(text.size());
    const std::size_t size = std::min<std::size_t>(text.size() - place, random.below(40));
    switch (random.below(4)) {
      case 0:
        text[place] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(place, size);
        break;
      case 2:
        text.insert(place, text.substr(place, size));
        break;
      default:
        text.insert(place, oddities[random.below(oddities.size())]);
    }
    text += text.empty() ? "x" : "";
  }
  return text;
}

json random_value(SplitMix& random) {
  const std::vector<json> values = {nullptr,
                                    true,
                                    false,
                                    0,
                                    -1,
                                    5,
                                    1 << 20,
                                    1ULL << 63,
                                    0.5,
                                    "",
                                    "a",
                                    "Ġ",
                                    "(",
                                    "a*|b",
                                    "é",
                                    "Sequence",
                                    "Split",
                                    "ByteLevel",
                                    "NFC",
                                    "BPE",
                                    json::array(),
                                    json::object(),
                                    json::array({"a", "b"}),
                                    json{{"type", "Digits"}},
                                    json{{"type", "NFKC"}}};
  return values[random.below(values.size())];
}

/// One value somewhere in the tree replaced, removed, doubled or given a new key.
void damage_tree(json& node, SplitMix& random) {
  json* target = &node;
  while (!target->empty() && target->is_structured() && random.below(5) != 0) {
    auto child = target->begin();
    std::advance(child, static_cast<std::ptrdiff_t>(random.below(target->size())));
    target = &*child;
  }
  if (target->is_array() && !target->empty() && random.below(2) == 0) {
    const std::size_t index = random.below(target->size());
    random.below(2) == 0 ? target->erase(index) : target->push_back((*target)[index]);
  } else if (target->is_object() && random.below(2) == 0) {
    (*target)[random.below(2) == 0 ? "Ġhe" : "novel"] = random_value(random);
  } else {
    *target = random_value(random);
  }
}

/// Empty if the result for `file` is one of the two that are allowed.
std::string complaint(const std::string& file) {
  const auto tokenizer = Tokenizer::from_json(file);
  if (!tokenizer) {
    const bool names_place = tokenizer.error().message.find("tokenizer.json: ") != std::string::npos;
    return names_place ? "" : "an error without a place: " + tokenizer.error().message;
  }
  const std::string text = "hello été 12 <think>\n\n  he\xFF<|im_end|>";
  const auto ids = tokenizer->encode(text, {.special_tokens = true});
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= tokenizer->vocab_size()) {
      return "id " + std::to_string(id) + " outside the vocabulary";
    }
  }
  (void)tokenizer->decode(ids);
  const auto again = Tokenizer::from_json(tokenizer->to_json());
  if (!again) {
    return "what was written is refused: " + again.error().message;
  }
  return again->encode(text, {.special_tokens = true}) == ids ? "" : "what was written gives other ids";
}

void fuzz(std::uint64_t seed, int rounds) {
  const std::string valid = valid_file();
  const json tree = json::parse(valid);
  int num_accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    SplitMix random(chain_seed(seed, {static_cast<std::uint64_t>(round)}));
    std::string file;
    if (random.below(2) == 0) {
      file = damage_bytes(valid, random);
    } else {
      json damaged = tree;
      for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
        damage_tree(damaged, random);
      }
      file = damaged.dump();
    }
    INFO("seed " << seed << ", round " << round);
    REQUIRE(complaint(file) == "");
    num_accepted += Tokenizer::from_json(file).has_value() ? 1 : 0;
  }
  CHECK(num_accepted > rounds / 50);  // both outcomes were seen
  CHECK(num_accepted < rounds);
}

TEST_CASE("a damaged tokenizer.json gives an error with its place or a tokenizer that works",
          "[tokenizer][fuzz][error]") {
  fuzz(/*seed=*/1, /*rounds=*/400);
}

TEST_CASE("damage to tokenizer.json, for a minute", "[.fuzz]") {
  const char* seed = std::getenv("MEMOPD_FUZZ_SEED");  // NOLINT(concurrency-mt-unsafe): one thread
  fuzz(seed == nullptr ? 2 : std::stoull(seed), /*rounds=*/60000);
}

}  // namespace
}  // namespace memopd
