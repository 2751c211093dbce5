#include "runtime/cluster/process_output.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

namespace memopd {
namespace {

class Folder {
 public:
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& process, const std::string& text) const {
    std::ofstream(output_file_of(path, process), std::ios::binary | std::ios::app) << text;
  }
  [[nodiscard]] std::string read(const std::string& process) const {
    std::ifstream file(output_file_of(path, process), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("memopd_output_" + std::to_string(getpid()));
};

TEST_CASE("output arrives in order and once, whatever the head refuses meanwhile", "[cluster][pain:L09]") {
  const Folder here;
  const Folder* const there = &here;
  std::string sent;
  int num_offered = 0;
  OutputSpool spool(there->path, [&](const ProcessOutput& output) {
    if (++num_offered % 3 == 0) {
      return false;  // the head is slow
    }
    sent += output.text;
    return true;
  });
  spool.add("env/0");
  std::string expected;
  for (int i = 0; i < 40; ++i) {
    const std::string text = std::string(20'000, static_cast<char>('a' + i % 26)) + "\n";
    there->write("env/0", text);
    expected += text;
    (void)spool.turn();
  }
  while (sent.size() < expected.size()) {
    (void)spool.turn();
  }
  CHECK(sent == expected);
  CHECK_FALSE(spool.turn());
}

TEST_CASE("beyond the limit the oldest output is left out, and it says how much", "[cluster]") {
  const Folder there;
  std::string sent;
  OutputSpool spool(there.path, [&](const ProcessOutput& output) {
    sent += output.text;
    return true;
  });
  spool.add("env/0");
  there.write("env/0", std::string(OutputSpool::kMaxSpoolBytes + 100, 'x') + "the end\n");
  while (spool.turn()) {
  }
  CHECK_THAT(sent, Catch::StartsWith("(33554540 bytes were left out") && Catch::EndsWith("xthe end\n"));
  CHECK(sent.size() < static_cast<std::size_t>(OutputSpool::kMaxSpoolBytes));
}

TEST_CASE("the head appends what came to the file of the process", "[cluster]") {
  const Folder here;
  REQUIRE(append_output(here.path, {"student/1", "one\n"}));
  REQUIRE(append_output(here.path, {"student/1", "two\n"}));
  CHECK(here.read("student/1") == "one\ntwo\n");
}

}  // namespace
}  // namespace memopd
