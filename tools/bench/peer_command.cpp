#include "tools/bench/peer_command.hpp"

#include <cstdio>

namespace memopd {

std::string quoted(const std::filesystem::path& path) {
  std::string word = "'";
  for (const char c : path.string()) {
    word += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return word + "'";
}

Expected<std::string> run_command(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return unexpected(ErrorCode::io_error, command + ": cannot be started");
  }
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    output.push_back(static_cast<char>(c));
  }
  if (const int status = ::pclose(pipe); status != 0) {
    return unexpected(ErrorCode::io_error, command + ": wait status " + std::to_string(status));
  }
  return output;
}

}  // namespace memopd
