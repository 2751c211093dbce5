#include "tools/session/push_program.hpp"

#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "runtime/cluster/remote_shell.hpp"
#include "runtime/telemetry/run_directory.hpp"
#include "runtime/transport/sha256.hpp"
#include "tools/session/host_commands.hpp"

namespace memopd {
namespace {

constexpr std::chrono::minutes kPatience{20};

bool belongs_to_the_system(std::string_view name) {
  // With another C library than the loader's nothing starts; every host has its own.
  constexpr std::array kOwn = {"ld-linux", "libc.so",    "libm.so",      "libdl.so", "libpthread.so",
                               "librt.so", "linux-vdso", "libresolv.so", "libnss_"};
  return std::any_of(kOwn.begin(), kOwn.end(), [&](const char* own) { return name.starts_with(own); });
}

int add_library(dl_phdr_info* info, std::size_t, void* target) {
  const std::filesystem::path path = info->dlpi_name;
  if (path.has_parent_path() && !belongs_to_the_system(path.filename().string())) {
    auto& libraries = *static_cast<std::map<std::string, std::string>*>(target);
    std::error_code failed;
    const auto real = std::filesystem::canonical(path, failed);
    if (!failed) {
      libraries[path.filename().string()] = real.string();
    }
  }
  return 0;
}

/// A shell's commands: pack what is to be there under the names it is looked up by, unpack it on the host, rename.
std::string copy_command(const PlannedNode& node, const std::string& folder) {
  std::string transform;
  std::string files = shell_word(std::filesystem::canonical("/proc/self/exe").string());
  for (const auto& [name, path] : loaded_libraries()) {
    files += " " + shell_word(path);
    if (const std::string real = std::filesystem::path(path).filename().string(); real != name) {
      transform += " --transform " + shell_word(fmt::format("s|^.*/{}$|{}|", real, name));
    }
  }
  const std::string unpack = fmt::format(
      "if [ -e {0}/complete ]; then cat >/dev/null; else rm -rf {0}.partial && mkdir -p {0}.partial && "
      "tar -xf - -C {0}.partial && touch {0}.partial/complete && rm -rf {0} && mv {0}.partial {0}; fi",
      shell_word(folder));
  auto ssh = ssh_command(node.address, {"sh", "-c", unpack});
  std::string remote;
  for (const std::string& word : ssh) {
    remote += " " + shell_word(word);
  }
  return fmt::format("set -o pipefail; tar -chPf -{} --transform 's|^.*/||' {} |{}", transform, files, remote);
}

/// Below the home folder, where ssh starts. Named by what the program is: two builds of one commit with other changes differ.
std::string cache_folder() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Sha256 hash;
  std::vector<char> block(1 << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    hash.append(std::as_bytes(std::span(block).first(static_cast<std::size_t>(file.gcount()))));
  }
  const Sha256Digest digest = hash.finish();
  return fmt::format(".cache/memopd/{}-{:02x}", build_id(), fmt::join(digest.begin(), digest.begin() + 8, ""));
}

}  // namespace

std::map<std::string, std::string> loaded_libraries() {
  std::map<std::string, std::string> libraries;
  ::dl_iterate_phdr(&add_library, &libraries);
  return libraries;
}

Expected<void> push_program(std::vector<PlannedNode>& nodes, const std::map<std::string, HostAnswer>& answers) {
  const std::string folder = cache_folder();
  std::map<std::string, std::vector<std::string>> commands;
  for (PlannedNode& node : nodes) {
    if (!node.is_here() && answers.at(node.capacity.name).lacks_program) {
      commands[node.capacity.name] = {"bash", "-c", copy_command(node, folder)};
      node.program = "~/" + folder + "/" + std::filesystem::canonical("/proc/self/exe").filename().string();
      node.pushed = folder;
    }
  }
  const auto ends = run_commands(commands, kPatience);
  MEMOPD_RETURN_IF_ERROR(ends);
  std::string problems;
  for (const auto& [name, end] : *ends) {
    if (end.code != 0) {
      problems += fmt::format("{}node {}: the program could not be copied: {}", problems.empty() ? "" : "\n", name,
                              end.lines.empty() ? end.text : end.lines.back());
    }
  }
  return problems.empty() ? Expected<void>() : Expected<void>(unexpected(ErrorCode::io_error, problems));
}

}  // namespace memopd
