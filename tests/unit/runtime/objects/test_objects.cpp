#include "tests/unit/runtime/objects/test_objects.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

namespace memopd::testing {
namespace {

constexpr int kHangMs = 30'000;

}  // namespace

ObjectNode::ObjectNode(std::uint64_t max_bytes, Bulk* bulk, std::int32_t max_connections,
                       std::function<void(const ObjectRef&)> on_missing) {
  std::string name = (std::filesystem::temp_directory_path() / "memopd-objects-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  folder_ = name;
  auto server = ObjectServer::start({socket(), max_bytes, max_connections, bulk, std::move(on_missing)});
  REQUIRE(server);
  server_ = *std::move(server);
}

ObjectNode::~ObjectNode() {
  server_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::unique_ptr<ObjectStore> ObjectNode::connect(std::uint64_t store_id) const {
  auto store = connect_object_store({socket(), store_id, std::chrono::milliseconds(kHangMs)});
  REQUIRE(store);
  return *std::move(store);
}

ChildProcess::ChildProcess(std::vector<std::string> arguments) {
  std::array<int, 2> to_child{};
  std::array<int, 2> from_child{};
  REQUIRE(::pipe2(to_child.data(), O_CLOEXEC) == 0);
  REQUIRE(::pipe2(from_child.data(), O_CLOEXEC) == 0);
  arguments.insert(arguments.begin(), std::string(MEMOPD_BINARY_DIR) + "/bin/object_test_child");
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(to_child[0], 0);
    ::dup2(from_child[1], 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(to_child[0]);
  ::close(from_child[1]);
  input_ = to_child[1];
  output_ = from_child[0];
}

ChildProcess::~ChildProcess() {
  kill();
  ::close(input_);
  ::close(output_);
}

void ChildProcess::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

std::string ChildProcess::ask(const std::string& line) {
  const std::string text = line + "\n";
  REQUIRE(::write(input_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  return read_line();
}

ObjectRef ChildProcess::ask_ref(const std::string& line) {
  std::istringstream answer(ask(line));
  std::string word;
  ObjectRef ref;
  answer >> word >> ref.high >> ref.low;
  REQUIRE(word == "ref");
  return ref;
}

std::string ChildProcess::read_line() {
  std::string line;
  while (true) {
    pollfd item{output_, POLLIN, 0};
    REQUIRE(::poll(&item, 1, kHangMs) == 1);
    char c = 0;
    REQUIRE(::read(output_, &c, 1) == 1);
    if (c == '\n') {
      return line;
    }
    line.push_back(c);
  }
}

std::size_t num_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

void wait_until(const std::function<bool()>& done, const std::string& what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kHangMs);
  while (!done()) {
    INFO("waiting for " << what);
    REQUIRE(std::chrono::steady_clock::now() < end);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::size_t num_memory_files() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    count += std::filesystem::read_symlink(entry.path(), closed).string().find("memfd:memopd") != std::string::npos;
  }
  return count;
}

}  // namespace memopd::testing
