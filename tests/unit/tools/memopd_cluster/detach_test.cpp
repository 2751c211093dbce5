#include "tools/memopd_cluster/detach.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <iterator>

#include "tests/unit/tools/memopd_cluster/run_folder.hpp"

using namespace memopd;
namespace fs = std::filesystem;

namespace {

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// What a launch does that begins: its folder, an event, and then as long as it is let live.
int begin_run(const fs::path& folder, bool stays) {
  fs::create_directories(folder / "logs");
  std::printf("run %s\n", folder.c_str());
  std::fflush(stdout);
  std::ofstream(folder / "session") << ::getsid(0) << ' ' << ::getpid();
  std::ofstream(folder / "events.jsonl", std::ios::app) << "{}\n";
  while (stays) {
    ::pause();
  }
  return 0;
}

}  // namespace

TEST_CASE("a detached run goes on in a session of its own, its output in its folder", "[memopd_cluster]") {
  const ScratchFolder root;
  const fs::path folder = root.path() / "runs" / "try2";
  CHECK(run_detached({folder, false}, [&] { return begin_run(folder, true); }) == 0);
  pid_t session = 0;
  pid_t pid = 0;
  std::ifstream(folder / "session") >> session >> pid;
  REQUIRE(pid > 1);
  CHECK(session == pid);
  CHECK(process_start_ticks(pid) != 0);
  CHECK(read_file(folder / "logs" / "launcher.out") == "run " + folder.string() + "\n");
  CHECK(std::distance(fs::directory_iterator(root.path() / "runs"), {}) == 1);
  // The monitor's link is in it.
  CHECK((fs::status(folder / "logs" / "launcher.out").permissions() & fs::perms::mask) == fs::perms(0600));
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST_CASE("a detached run that cannot begin gives its exit code and leaves nothing", "[memopd_cluster][error]") {
  const ScratchFolder root;
  const fs::path folder = root.path() / "try2";
  const auto fail = [] {
    std::fprintf(stderr, "memopd: no such model (shown by a test)\n");
    return 2;
  };
  CHECK(run_detached({folder, false}, fail) == 2);
  CHECK(run_detached({folder, false}, [] {
          ::raise(SIGKILL);
          return 0;
        }) == 128 + SIGKILL);
  CHECK(fs::is_empty(root.path()));
}

TEST_CASE("an old run of that name is not taken for the new one", "[memopd_cluster][error]") {
  const ScratchFolder root;
  const fs::path folder = root.path() / "try2";
  fs::create_directories(folder / "logs");
  std::ofstream(folder / "events.jsonl") << "{}\n{}\n";
  CHECK(run_detached({folder, false}, [] { return 2; }) == 2);
  CHECK_FALSE(fs::exists(folder / "logs" / "launcher.out"));
  CHECK(run_detached({folder, true}, [&] { return begin_run(folder, false); }) == 0);
  CHECK(fs::exists(folder / "logs" / "launcher.out"));
}
