#include "policies/text/protocol.hpp"

#include <utility>

#include "policies/text/mem1_protocol.hpp"

namespace memopd {

Expected<std::shared_ptr<const Protocol>> make_protocol(const ProtocolConfig& config,
                                                        std::shared_ptr<const Tokenizer> tokenizer,
                                                        const std::string& environment_instructions) {
  if (config.name == "mem1") {
    return Mem1Protocol::create(config, std::move(tokenizer), environment_instructions);
  }
  return unexpected(ErrorCode::config_error, "protocol.name \"" + config.name + "\": known is \"mem1\"");
}

}  // namespace memopd
