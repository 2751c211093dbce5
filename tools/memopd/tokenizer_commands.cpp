// memopd tokenizer encode|decode|compare|train.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "policies/text/bpe_trainer.hpp"
#include "policies/text/byte_alphabet.hpp"
#include "policies/text/tokenizer.hpp"
#include "policies/text/tokenizer_comparison.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

struct TokenizerArguments {
  std::string tokenizer;
  std::string other;
  std::string text;
  std::vector<std::int32_t> ids;
  bool with_special = false;
  std::vector<std::string> files;
  std::string output;
  BpeTrainOptions train;
};

int run_encode(const TokenizerArguments& arguments) {
  auto tokenizer = Tokenizer::load(arguments.tokenizer);
  if (!tokenizer) {
    return report_error(tokenizer.error().message, kExitUsage);
  }
  std::string text = arguments.text;
  if (text.empty()) {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  }
  std::string line;
  for (const std::int32_t id : tokenizer->encode(text, {arguments.with_special})) {
    line += (line.empty() ? "" : " ") + std::to_string(id);
  }
  std::printf("%s\n", line.c_str());
  return kExitOk;
}

int run_decode(const TokenizerArguments& arguments) {
  auto tokenizer = Tokenizer::load(arguments.tokenizer);
  if (!tokenizer) {
    return report_error(tokenizer.error().message, kExitUsage);
  }
  for (const std::int32_t id : arguments.ids) {
    if (id < 0 || id >= tokenizer->vocab_size()) {
      return report_error(
          fmt::format("id {}: found outside the vocabulary, allowed 0..{}", id, tokenizer->vocab_size() - 1),
          kExitUsage);
    }
  }
  std::printf("%s\n", tokenizer->decode(arguments.ids).c_str());
  return kExitOk;
}

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return file ? std::optional(std::string(std::istreambuf_iterator<char>(file), {})) : std::nullopt;
}

std::string list(const std::vector<std::string>& texts) {
  std::string line;
  for (const std::string& text : texts) {
    line += (line.empty() ? "" : " ") + text;
  }
  return line.empty() ? "none" : line;
}

/// Tokens from `index` on, in the byte alphabet.
std::string show_ids(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, std::size_t index) {
  constexpr std::size_t kShown = 6;
  std::string line;
  for (std::size_t i = index; i < std::min(ids.size(), index + kShown); ++i) {
    line += fmt::format(" {}={}", ids[i], to_byte_alphabet(tokenizer.token_bytes(ids[i])));
  }
  return line.empty() ? " end" : line;
}

void print_text_comparison(const Tokenizer& a, const Tokenizer& b, const std::string& text) {
  const auto difference = compare_on_text(a, b, text);
  if (!difference) {
    std::printf("text                 %zu bytes, the same ids\n", text.size());
    return;
  }
  std::printf("text                 %zu bytes: %zu and %zu ids, which part at id %zu, byte %zu\n", text.size(),
              difference->ids_a.size(), difference->ids_b.size(), difference->index, difference->byte_offset);
  std::printf("  A %s\n  B %s\n", show_ids(a, difference->ids_a, difference->index).c_str(),
              show_ids(b, difference->ids_b, difference->index).c_str());
}

void print_comparison(const Tokenizer& a, const Tokenizer& b) {
  const TokenizerComparison comparison = compare_tokenizers(a, b);
  std::printf("ids                  %d and %d\n", comparison.vocab_size_a, comparison.vocab_size_b);
  std::printf("shared from id 0 on  %d: the largest scored_vocab for this pair\n", comparison.shared_prefix);
  std::printf("ids that differ      %d\n", comparison.num_differing_ids);
  for (const std::int32_t id : comparison.differing_ids) {
    std::printf("  %-8d %s | %s\n", id, to_byte_alphabet(a.token_bytes(id)).c_str(),
                to_byte_alphabet(b.token_bytes(id)).c_str());
  }
  const auto eos = [](const Tokenizer& tokenizer) {
    return tokenizer.eos_id() ? fmt::format("{} {}", *tokenizer.eos_id(), tokenizer.token_bytes(*tokenizer.eos_id()))
                              : "none";
  };
  std::printf("end of sequence      %s and %s\n", eos(a).c_str(), eos(b).c_str());
  std::printf("special only in A    %s\nspecial only in B    %s\nspecial and moved    %s\n",
              list(comparison.special_only_a).c_str(), list(comparison.special_only_b).c_str(),
              list(comparison.special_moved).c_str());
  std::printf("bytes without an id  %zu and %zu\n", a.missing_bytes().size(), b.missing_bytes().size());
}

int run_compare(const TokenizerArguments& arguments) {
  const auto a = Tokenizer::load(arguments.tokenizer);
  const auto b = Tokenizer::load(arguments.other);
  if (!a || !b) {
    return report_error(a ? b.error().message : a.error().message, kExitUsage);
  }
  print_comparison(*a, *b);
  if (arguments.text.empty()) {
    return kExitOk;
  }
  const auto text = read_text(arguments.text);
  if (!text) {
    return report_error(arguments.text + ": cannot be read", kExitUsage);
  }
  print_text_comparison(*a, *b, *text);
  return kExitOk;
}

int run_train(const TokenizerArguments& arguments) {
  std::vector<std::string> texts;
  for (const std::string& path : arguments.files) {
    auto text = read_text(path);
    if (!text) {
      return report_error(path + ": cannot be read", kExitUsage);
    }
    texts.push_back(std::move(*text));
  }
  auto tokenizer = train_bpe(texts, arguments.train);
  if (!tokenizer) {
    return report_error(tokenizer.error().message, kExitUsage);
  }
  if (auto saved = tokenizer->save(arguments.output); !saved) {
    return report_error(saved.error().message, kExitRunFailed);
  }
  std::printf("%s: %d ids\n", arguments.output.c_str(), tokenizer->vocab_size());
  return kExitOk;
}

}  // namespace

void add_tokenizer_commands(CLI::App& app, const ChooseCommand& choose) {
  auto arguments = std::make_shared<TokenizerArguments>();
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Byte-level BPE");
  tokenizer->require_subcommand(1);

  CLI::App* encode = tokenizer->add_subcommand("encode", "Print the ids of a text (or of standard input)");
  encode->add_option("tokenizer", arguments->tokenizer, "Folder or tokenizer.json")->required();
  encode->add_option("text", arguments->text, "Text");
  encode->add_flag("--special", arguments->with_special, "Look for special tokens in the text");
  encode->footer("Example: memopd tokenizer encode envs/atlas/teacher \" Kenya is a country.\"");
  choose(encode, [arguments] { return run_encode(*arguments); });

  CLI::App* decode = tokenizer->add_subcommand("decode", "Print the text of ids");
  decode->add_option("tokenizer", arguments->tokenizer, "Folder or tokenizer.json")->required();
  decode->add_option("ids", arguments->ids, "Ids")->required();
  decode->footer("Example: memopd tokenizer decode envs/atlas/teacher 301 17 46");
  choose(decode, [arguments] { return run_decode(*arguments); });

  CLI::App* compare = tokenizer->add_subcommand("compare", "Print where two tokenizers differ");
  compare->add_option("a", arguments->tokenizer, "Folder or tokenizer.json")->required();
  compare->add_option("b", arguments->other, "Folder or tokenizer.json")->required();
  compare->add_option("--text", arguments->text, "File: show where its ids part");
  compare->footer("Example: memopd tokenizer compare student teacher --text README.md");
  choose(compare, [arguments] { return run_compare(*arguments); });

  CLI::App* train = tokenizer->add_subcommand("train", "Train a vocabulary on text files");
  train->add_option("files", arguments->files, "Text files")->required();
  train->add_option("--output", arguments->output, "Folder to write")->required();
  train->add_option("--vocab-size", arguments->train.vocab_size, "Ids in all")->capture_default_str();
  train->add_option("--added", arguments->train.added_tokens, "Tokens that are never cut");
  train->footer("Example: memopd tokenizer train corpus.txt --output my_tokenizer --vocab-size 4096");
  choose(train, [arguments] { return run_train(*arguments); });
}

}  // namespace memopd
