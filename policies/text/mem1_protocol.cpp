#include "policies/text/mem1_protocol.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "policies/text/text_template.hpp"
#include "runtime/text/unicode.hpp"

namespace memopd {
namespace {

constexpr std::string_view kInstructions =
    "You answer one or more questions with the help of a search tool, over several steps.\n"
    "At each step you are shown these instructions, the questions, your own text of the step before, and what the "
    "search "
    "returned, between <information> and </information>. Nothing older is shown.\n"
    "At each step write exactly two things:\n"
    "1. <think> your updated memory </think>. It is the only memory you have: repeat everything essential that you "
    "know "
    "so far, with what the latest information adds, and decide what is still missing.\n"
    "2. Then one action: either <search> one short query </search>, or, when every question can be answered, <answer> "
    "your final answers </answer>, one answer for each question, in the order of the questions, separated by "
    "semicolons.\n"
    "Write nothing after the action.";

constexpr std::string_view kCorrection =
    "Your last response held no complete action. After </think>, write either <search> one short query </search> or "
    "<answer> your final answers </answer>.";

constexpr std::string_view kDocuments = "{documents}";
/// A turn count as wide as any that occurs, to measure the hint with.
constexpr std::int32_t kManyTurns = 1000;

struct TagPair {
  ActionKind kind;
  std::string_view open;
  std::string_view close;
};
constexpr TagPair kTagPairs[] = {{ActionKind::search, "<search>", "</search>"},
                                 {ActionKind::answer, "<answer>", "</answer>"}};

struct FoundAction {
  ActionKind kind = ActionKind::invalid;
  std::string_view text;
};

/// The pair whose opening tag comes first; an opening tag that is never closed does not count.
FoundAction find_action(std::string_view response) {
  FoundAction found;
  std::size_t first = std::string_view::npos;
  for (const TagPair& tags : kTagPairs) {
    const std::size_t open = response.find(tags.open);
    if (open >= first) {
      continue;
    }
    const std::size_t begin = open + tags.open.size();
    const std::size_t close = response.find(tags.close, begin);
    if (close != std::string_view::npos) {
      first = open;
      found = {tags.kind, strip(response.substr(begin, close - begin))};
    }
  }
  return found;
}

void append(Prompt& prompt, std::span<const std::int32_t> ids, SpanKind kind) {
  if (ids.empty()) {
    return;
  }
  const auto begin = static_cast<std::int32_t>(prompt.token_ids.size());
  prompt.token_ids.insert(prompt.token_ids.end(), ids.begin(), ids.end());
  const auto end = static_cast<std::int32_t>(prompt.token_ids.size());
  if (!prompt.spans.empty() && prompt.spans.back().kind == kind) {
    prompt.spans.back().end = end;
  } else {
    prompt.spans.push_back({begin, end, kind});
  }
}

std::string choose_instructions(const ProtocolConfig& config, const std::string& of_environment) {
  if (config.instructions != "default") {
    return config.instructions;
  }
  return std::string(kInstructions) + (of_environment.empty() ? "" : "\n\n" + of_environment);
}

}  // namespace

Mem1Protocol::Mem1Protocol(const ProtocolConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
                           std::unique_ptr<const ChatTemplate> chat_template, std::string instructions)
    : config_(config),
      tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)),
      instructions_(std::move(instructions)) {}

Expected<std::shared_ptr<const Protocol>> Mem1Protocol::create(const ProtocolConfig& config,
                                                               std::shared_ptr<const Tokenizer> tokenizer,
                                                               const std::string& environment_instructions) {
  for (const auto& [key, text, placeholder] : {std::tuple("question", &config.question, "{question}"),
                                               std::tuple("observation", &config.observation, "{documents}"),
                                               std::tuple("document", &config.document, "{text}")}) {
    const std::size_t place = text->find(placeholder);
    if (place == std::string::npos || text->find(placeholder, place + 1) != std::string::npos) {
      return unexpected(ErrorCode::config_error, std::string("protocol.") + key + " \"" + *text + "\": must contain " +
                                                     placeholder + " exactly once");
    }
  }
  auto chat_template = make_chat_template(config.chat_template, *tokenizer);
  if (!chat_template) {
    return unexpected(chat_template.error());
  }
  std::shared_ptr<const Mem1Protocol> protocol(new Mem1Protocol(config, std::move(tokenizer), std::move(*chat_template),
                                                                choose_instructions(config, environment_instructions)));
  MEMOPD_RETURN_IF_ERROR(protocol->check_wrapper());
  return std::shared_ptr<const Protocol>(std::move(protocol));
}

Expected<void> Mem1Protocol::check_wrapper() const {
  for (const std::int32_t turns_left : {1, kManyTurns}) {
    const Wrapper around = wrapper(turns_left);
    const std::size_t needed = tokenizer_->encode(around.head).size() + tokenizer_->encode(around.tail).size() + 1;
    if (needed > static_cast<std::size_t>(std::max(config_.max_observation_tokens, 0))) {
      return unexpected(ErrorCode::config_error,
                        "protocol.max_observation_tokens " + std::to_string(config_.max_observation_tokens) +
                            ": the observation's wrapper and hint alone need " + std::to_string(needed));
    }
  }
  return {};
}

Prompt Mem1Protocol::first(const std::string& question) const {
  Prompt prompt;
  const std::string shown = fill_template(config_.question, {{"question", question}});
  for (const ChatPiece& piece : chat_template_->wrap(instructions_, shown)) {
    append(prompt, tokenizer_->encode(piece.text, {.special_tokens = piece.is_markup}), piece.kind);
  }
  return prompt;
}

ParsedResponse Mem1Protocol::parse(std::span<const std::int32_t> response_token_ids, FinishReason finish_reason) const {
  ParsedResponse parsed;
  std::size_t end = response_token_ids.size();
  while (end > 0 &&
         (tokenizer_->is_special(response_token_ids[end - 1]) || response_token_ids[end - 1] == tokenizer_->eos_id())) {
    --end;
  }
  const auto kept = response_token_ids.first(end);
  const std::string response = tokenizer_->decode(kept);
  parsed.kept_end = static_cast<std::int32_t>(end);
  if (const std::size_t think = response.find("<think>"); think != std::string::npos) {
    std::size_t offset = 0;
    std::size_t index = 0;
    for (std::size_t size = 0; offset + (size = tokenizer_->token_bytes(kept[index]).size()) <= think; ++index) {
      offset += size;
    }
    parsed.kept_begin = static_cast<std::int32_t>(index);
    parsed.cut_inside_token = offset != think;
  }
  parsed.action.response = response;
  if (finish_reason == FinishReason::aborted) {
    return parsed;
  }
  const std::size_t reasoning_end = response.find("</think>");
  const std::string_view acting = reasoning_end == std::string::npos ? std::string_view(response)
                                                                     : std::string_view(response).substr(reasoning_end);
  const FoundAction found = find_action(acting);
  parsed.action.kind = found.kind;
  parsed.action.text = std::string(found.text);
  if (found.kind == ActionKind::answer) {
    parsed.answer = parsed.action.text;
  }
  return parsed;
}

std::int32_t reasoning_end(const Tokenizer& tokenizer, std::span<const std::int32_t> response_token_ids) {
  constexpr std::string_view kTag = "</think>";
  std::string text;
  for (std::size_t index = 0; index < response_token_ids.size(); ++index) {
    const std::size_t before = text.size();
    text += tokenizer.token_bytes(response_token_ids[index]);
    if (text.find(kTag, before < kTag.size() ? 0 : before - kTag.size()) != std::string::npos) {
      return static_cast<std::int32_t>(index) + 1;
    }
  }
  return 0;
}

Mem1Protocol::Wrapper Mem1Protocol::wrapper(std::int32_t turns_left) const {
  const std::string hint =
      fill_template(turns_left == 1 ? config_.hint_last : config_.hint, {{"n", std::to_string(turns_left)}});
  const std::size_t place = config_.observation.find(kDocuments);
  return {fill_template(std::string_view(config_.observation).substr(0, place), {{"hint", hint}}),
          fill_template(std::string_view(config_.observation).substr(place + kDocuments.size()), {{"hint", hint}})};
}

Mem1Protocol::Block Mem1Protocol::observation_block(const std::string& observation, std::int32_t turns_left) const {
  const Wrapper around = wrapper(turns_left);
  const auto limit = static_cast<std::size_t>(config_.max_observation_tokens);
  Block block{tokenizer_->encode(around.head + observation + around.tail), false};
  if (block.ids.size() <= limit) {
    return block;
  }
  // The tail is encoded on its own, so that no cut of the documents can merge into the closing tag or remove it.
  const std::vector<std::int32_t> tail = tokenizer_->encode(around.tail);
  block = {tokenizer_->encode(around.head + observation), true};
  block.ids.resize(std::min(block.ids.size(), limit - tail.size()));
  while (!block.ids.empty() && incomplete_utf8_suffix(tokenizer_->decode(
                                   std::span(block.ids).last(std::min<std::size_t>(block.ids.size(), 4)))) > 0) {
    block.ids.pop_back();
  }
  block.ids.insert(block.ids.end(), tail.begin(), tail.end());
  return block;
}

Prompt Mem1Protocol::next(const Prompt& first, const Invocation& last, const ParsedResponse& parsed,
                          const std::string& observation, std::int32_t turns_left) const {
  Prompt prompt{first.token_ids, first.spans, false};
  const auto kept = std::span(last.response_token_ids)
                        .subspan(static_cast<std::size_t>(parsed.kept_begin),
                                 static_cast<std::size_t>(parsed.kept_end - parsed.kept_begin));
  append(prompt, kept, SpanKind::kept);
  const Block block = observation_block(observation, turns_left);
  append(prompt, block.ids, SpanKind::observation);
  prompt.observation_was_cut = block.was_cut;
  return prompt;
}

std::string Mem1Protocol::observation_text(const std::vector<Document>& documents) const {
  std::string text;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    text += i == 0 ? "" : config_.separator;
    text += format_document(config_.document, static_cast<std::int32_t>(i) + 1, documents[i].title, documents[i].text);
  }
  return text;
}

std::string Mem1Protocol::correction() const { return std::string(kCorrection); }

}  // namespace memopd
