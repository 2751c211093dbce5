// memopd tokenizer encode|decode|train.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "policies/text/bpe_trainer.hpp"
#include "policies/text/tokenizer.hpp"
#include "tools/memopd/commands.hpp"
#include "tools/session/console.hpp"

namespace memopd {
namespace {

struct TokenizerArguments {
  std::string tokenizer;
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

int run_train(const TokenizerArguments& arguments) {
  std::vector<std::string> texts;
  for (const std::string& path : arguments.files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      return report_error(path + ": cannot be read", kExitUsage);
    }
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
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

  CLI::App* train = tokenizer->add_subcommand("train", "Train a vocabulary on text files");
  train->add_option("files", arguments->files, "Text files")->required();
  train->add_option("--output", arguments->output, "Folder to write")->required();
  train->add_option("--vocab-size", arguments->train.vocab_size, "Ids in all")->capture_default_str();
  train->add_option("--added", arguments->train.added_tokens, "Tokens that are never cut");
  train->footer("Example: memopd tokenizer train corpus.txt --output my_tokenizer --vocab-size 4096");
  choose(train, [arguments] { return run_train(*arguments); });
}

}  // namespace memopd
