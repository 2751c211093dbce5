#include "tests/unit/runtime/cluster/test_children.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "runtime/cluster/detail/file_descriptor.hpp"

namespace memopd::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kHang = 30s;

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> test_child(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(MEMOPD_BINARY_DIR) + "/bin/cluster_test_child");
  return arguments;
}

bool has_ended(pid_t pid) {
  const detail::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) {
    return errno == ESRCH;
  }
  pollfd ended{process.get(), POLLIN, 0};
  return ::poll(&ended, 1, 10'000) == 1;
}

TestFolder::TestFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "memopd_cluster_XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TestFolder::wait_for_text(const std::string& file, const std::string& text) const {
  const auto limit = std::chrono::steady_clock::now() + kHang;
  while (std::chrono::steady_clock::now() < limit) {
    auto found = content(path_ / file);
    if (found.find(text) != std::string::npos) {
      return found;
    }
    std::this_thread::sleep_for(2ms);  // a file tells nobody that it has grown
  }
  FAIL(file << " does not hold '" << text << "' but: " << content(path_ / file));
  return {};
}

void TestFolder::write(const std::string& file, const std::string& text) const {
  std::filesystem::create_directories((path_ / file).parent_path());
  std::ofstream(path_ / file) << text;
}

TestTable::TestTable(std::chrono::milliseconds heartbeat_interval, std::chrono::milliseconds dead_after) {
  auto started = ProcessTable::start({heartbeat_interval, dead_after, folder.path()},
                                     {[this](const std::string& name, std::int64_t) {
                                        add({TableEvent::Kind::suspect, name, {}});
                                      },
                                      [this](const std::string& name) {
                                        add({TableEvent::Kind::recovered, name, {}});
                                      },
                                      [this](const std::string& name, const ExitReport& report) {
                                        add({TableEvent::Kind::exit, name, report});
                                      }});
  REQUIRE(started);
  table = std::move(*started);
}

void TestTable::add(TableEvent event) {
  const std::scoped_lock guard(mutex);
  events.push_back(std::move(event));
  changed.notify_all();
}

ProcessMark TestTable::launch(const std::string& name, std::vector<std::string> arguments) {
  const auto mark = table->launch({.name = name, .argv = test_child(std::move(arguments))});
  INFO((mark ? "" : mark.error().message));
  REQUIRE(mark);
  return *mark;
}

TableEvent TestTable::next() {
  std::unique_lock guard(mutex);
  REQUIRE(changed.wait_for(guard, kHang, [this] { return !events.empty(); }));
  auto event = std::move(events.front());
  events.pop_front();
  return event;
}

TableEvent TestTable::next_exit() {
  while (true) {
    if (auto event = next(); event.kind == TableEvent::Kind::exit) {
      return event;
    }
  }
}

void TestTable::wait_for_heartbeat(const std::string& name) const {
  const auto limit = std::chrono::steady_clock::now() + kHang;
  while (std::chrono::steady_clock::now() < limit) {
    for (const auto& child : table->snapshot()) {
      if (child.name == name && child.silent_ms >= 0) {
        return;
      }
    }
    std::this_thread::sleep_for(2ms);  // the first heartbeat is no event of the table
  }
  FAIL("no heartbeat of " << name);
}

long TestTable::said_number(const std::string& name, const std::string& word) const {
  const auto text = folder.wait_for_text(name + ".log", " " + word + " ");
  return std::strtol(text.c_str() + text.find(" " + word + " ") + word.size() + 2, nullptr, 10);
}

}  // namespace memopd::testing
