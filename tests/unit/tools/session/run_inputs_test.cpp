#include "tools/session/run_inputs.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

namespace memopd {
namespace {

TEST_CASE("inputs are the relative paths of a configuration that exist", "[session]") {
  const auto before = std::filesystem::current_path();
  const auto folder = std::filesystem::temp_directory_path() / ("memopd_inputs_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "model");
  std::ofstream(folder / "pieces.txt") << "a";
  std::filesystem::current_path(folder);
  Config config;
  config.student.model = "model";
  config.teacher.model = "gone";
  config.retriever.corpus = (folder / "pieces.txt").string();  // absolute: read where a process runs
  config.env = {{.name = "atlas", .options = {{"pieces", "pieces.txt"}, {"places", "new"}}}};
  CHECK(run_inputs(config) == std::vector<std::string>{"model", "pieces.txt"});
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace memopd
