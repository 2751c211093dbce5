#include "policies/text/tokenizer.hpp"

#include <algorithm>

#include "policies/text/byte_alphabet.hpp"
#include "policies/text/tokenizer_parts.hpp"

namespace memopd {
namespace detail {

void TokenizerParts::finish() {
  const auto& tokens = model.tokens();
  std::size_t size = tokens.size();
  for (const AddedToken& token : added_tokens) {
    size = std::max(size, static_cast<std::size_t>(token.id) + 1);
  }
  bytes_by_id.assign(size, {});
  is_special.assign(size, false);
  for (const AddedToken& token : added_tokens) {
    const auto id = static_cast<std::size_t>(token.id);
    bytes_by_id[id] = token.content;
    is_special[id] = token.is_special;
    ids_by_bytes.emplace(token.content, token.id);
    const std::string content = token.is_normalized ? normalize_unicode9(token.content, normal_form) : token.content;
    matchers[token.is_normalized ? 1 : 0].add(content, token);
  }
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].is_present && bytes_by_id[id].empty()) {
      bytes_by_id[id] = tokens[id].bytes;
      ids_by_bytes.emplace(tokens[id].bytes, static_cast<std::int32_t>(id));
    }
  }
}

std::vector<ByteRange> pre_tokenize(const std::vector<Regex>& patterns, std::string_view text) {
  std::vector<ByteRange> pieces;
  if (!text.empty()) {
    pieces.push_back({0, text.size()});
  }
  for (const Regex& pattern : patterns) {
    std::vector<ByteRange> finer;
    finer.reserve(text.size() / 4 + 1);
    for (const ByteRange& piece : pieces) {
      for (const ByteRange& part : pattern.split(text.substr(piece.begin, piece.end - piece.begin))) {
        finer.push_back({piece.begin + part.begin, piece.begin + part.end});
      }
    }
    pieces = std::move(finer);
  }
  return pieces;
}

}  // namespace detail

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3 + 1);
  detail::for_each_piece(
      *parts_, text, options.special_tokens, [&](std::string_view piece) { parts_->model.encode(piece, ids); },
      [&](std::int32_t id) { ids.push_back(id); });
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string bytes;
  bytes.reserve(ids.size() * 4);
  for (const std::int32_t id : ids) {
    if (!skip_special || !is_special(id)) {
      bytes.append(token_bytes(id));
    }
  }
  return bytes;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  return id >= 0 && id < vocab_size() ? parts_->bytes_by_id[static_cast<std::size_t>(id)] : std::string_view();
}

std::int32_t Tokenizer::vocab_size() const { return static_cast<std::int32_t>(parts_->bytes_by_id.size()); }

std::optional<std::int32_t> Tokenizer::token_id(std::string_view text) const {
  const auto found = parts_->ids_by_bytes.find(text);
  return found == parts_->ids_by_bytes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int32_t> Tokenizer::eos_id() const { return parts_->eos_id; }

std::vector<std::uint8_t> Tokenizer::missing_bytes() const { return parts_->model.missing_bytes(); }

const std::string& Tokenizer::bos_token() const { return parts_->bos_token; }

const std::string& Tokenizer::chat_template() const { return parts_->chat_template; }

bool Tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && id < vocab_size() && parts_->is_special[static_cast<std::size_t>(id)];
}

Expected<void> check_compatible(const Tokenizer& student, const Tokenizer& teacher, std::int32_t scored_vocab) {
  const std::int32_t smaller = std::min(student.vocab_size(), teacher.vocab_size());
  const std::int32_t scored = scored_vocab == 0 ? smaller : scored_vocab;
  const std::string sizes = "student vocabulary " + std::to_string(student.vocab_size()) + ", teacher vocabulary " +
                            std::to_string(teacher.vocab_size()) + ", scored ids " + std::to_string(scored);
  if (scored < 1 || scored > smaller) {
    return unexpected(ErrorCode::tokenizer_mismatch,
                      "scored ids must be 1.." + std::to_string(smaller) + ", the ids that both have: " + sizes);
  }
  for (std::int32_t id = 0; id < scored; ++id) {
    if (student.token_bytes(id) != teacher.token_bytes(id)) {
      return unexpected(ErrorCode::tokenizer_mismatch,
                        "id " + std::to_string(id) + ": student has \"" + to_byte_alphabet(student.token_bytes(id)) +
                            "\", teacher has \"" + to_byte_alphabet(teacher.token_bytes(id)) + "\" (" + sizes + ")");
    }
  }
  return {};
}

}  // namespace memopd
