#include "runtime/cluster/remote_shell.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>

namespace memopd {
namespace {

/// What `sh -c "printf %s WORD"` prints.
std::string as_a_shell_reads(const std::string& word) {
  const std::string command = "printf %s " + word;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::string text;
  for (int letter = std::fgetc(pipe.get()); letter != EOF; letter = std::fgetc(pipe.get())) {
    text += static_cast<char>(letter);
  }
  return text;
}

TEST_CASE("a shell reads a quoted word as it was", "[cluster]") {
  for (const std::string text : {"plain", "with space", "it's", "$HOME `id` \"x\" \\ ;&|*", "''"}) {
    CHECK(as_a_shell_reads(shell_word(text)) == text);
  }
}

TEST_CASE("an address is never an option of ssh", "[cluster][error]") {
  CHECK(check_address("carol@gpu-01.lab_2"));
  for (const char* bad : {"", "-oProxyCommand=id", "a b", "a;b", "$(id)"}) {
    CHECK_FALSE(check_address(bad));
  }
}

TEST_CASE("ssh asks nothing and executes one quoted command", "[cluster]") {
  const auto command = ssh_command("h2", {"/opt/my memopd", "memopd-agent"});
  CHECK(command.front() == "ssh");
  CHECK(command[command.size() - 2] == "h2");
  CHECK(command[command.size() - 3] == "--");
  CHECK(command.back() == "exec '/opt/my memopd' 'memopd-agent'");
  CHECK(std::count(command.begin(), command.end(), "BatchMode=yes") == 1);
  CHECK(std::count(command.begin(), command.end(), "StrictHostKeyChecking=no") == 0);
}

}  // namespace
}  // namespace memopd
