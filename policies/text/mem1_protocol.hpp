// Protocol "mem1": the agent's only memory is the text of its last response from the first <think> on.
//
// Action = the first complete <search>..</search> or <answer>..</answer> pair after the first </think>; if there is no
// </think>, the first pair anywhere. Text after the pair is ignored. A pair that stands only inside the reasoning is
// not an action. Source: MEM1 (Zhou et al. 2025), with kept text taken by ids instead of encoded again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "policies/text/chat_template.hpp"
#include "policies/text/protocol.hpp"

namespace memopd {

/// Where the reasoning of a response ends: index of the first token after the one that completes its first </think>; 0 if
/// there is none, for then nothing is marked as reasoning. The memory-mask control needs it (history_pack.hpp).
[[nodiscard]] std::int32_t reasoning_end(const Tokenizer& tokenizer, std::span<const std::int32_t> response_token_ids);

class Mem1Protocol : public Protocol {
 public:
  /// @error config_error  as make_protocol()
  static Expected<std::shared_ptr<const Protocol>> create(const ProtocolConfig& config,
                                                          std::shared_ptr<const Tokenizer> tokenizer,
                                                          const std::string& environment_instructions);

  [[nodiscard]] Prompt first(const std::string& question) const override;
  [[nodiscard]] ParsedResponse parse(std::span<const std::int32_t> response_token_ids,
                                     FinishReason finish_reason) const override;
  [[nodiscard]] Prompt next(const Prompt& first, const Invocation& last, const ParsedResponse& parsed,
                            const std::string& observation, std::int32_t turns_left) const override;
  [[nodiscard]] const std::vector<std::string>& stop_strings() const override { return stop_strings_; }
  [[nodiscard]] std::string observation_text(const std::vector<Document>& documents) const override;
  [[nodiscard]] std::string correction() const override;

 private:
  /// The observation block around the documents: what comes before and after them.
  struct Wrapper {
    std::string head;
    std::string tail;
  };
  struct Block {
    std::vector<std::int32_t> ids;
    bool was_cut = false;
  };

  Mem1Protocol(const ProtocolConfig& config, std::shared_ptr<const Tokenizer> tokenizer,
               std::unique_ptr<const ChatTemplate> chat_template, std::string instructions);
  [[nodiscard]] Wrapper wrapper(std::int32_t turns_left) const;
  [[nodiscard]] Block observation_block(const std::string& observation, std::int32_t turns_left) const;
  [[nodiscard]] Expected<void> check_wrapper() const;

  ProtocolConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const ChatTemplate> chat_template_;
  std::string instructions_;
  std::vector<std::string> stop_strings_{"</search>", "</answer>"};
};

}  // namespace memopd
