#include "runtime/cluster/remote_shell.hpp"

#include <algorithm>

namespace memopd {

std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char letter : text) {
    word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return word + "'";
}

Expected<void> check_address(std::string_view address) {
  const bool is_plain = std::all_of(address.begin(), address.end(), [](char letter) {
    const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    return is_letter || (letter >= '0' && letter <= '9') || std::string_view("._@-").find(letter) != std::string::npos;
  });
  if (address.empty() || address.front() == '-' || !is_plain) {
    return unexpected(ErrorCode::invalid_argument, "address \"" + std::string(address) +
                                                       "\", expected [user@]host of letters, digits, '.', '_', '-'");
  }
  return {};
}

std::vector<std::string> ssh_command(const std::string& address, const std::vector<std::string>& argv) {
  std::string remote = "exec";
  for (const std::string& word : argv) {
    remote += " " + shell_word(word);
  }
  // ControlMaster=no: a master of ours would outlive the command; one that the user keeps is used.
  return {"ssh", "-T",
          "-o",  "BatchMode=yes",
          "-o",  "ConnectTimeout=5",
          "-o",  "ServerAliveInterval=5",
          "-o",  "ServerAliveCountMax=2",
          "-o",  "ControlMaster=no",
          "-o",  "ForwardAgent=no",
          "--",  address,
          remote};
}

}  // namespace memopd
