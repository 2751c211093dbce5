// Damaged model folders: tensors or an error, whatever header, shapes and settings say.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "policies/model/model_config.hpp"
#include "policies/model/safetensors.hpp"
#include "tests/support/fuzz.hpp"

namespace memopd::testing {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {(std::istreambuf_iterator<char>(in)), {}};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST_CASE("damaged safetensors headers and config.json, for a minute", "[.fuzz]") {
  std::string pattern = (std::filesystem::temp_directory_path() / "memopd-fuzz-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  const auto file = folder / "model.safetensors";
  const std::vector<HostTensor> tensors = {{"a.weight", DType::float32, {2, 3}, std::vector<std::byte>(24)},
                                           {"b.bias", DType::float32, {4}, std::vector<std::byte>(16)}};
  REQUIRE(write_safetensors(file, tensors));
  const std::string valid = read_file(file);
  const std::string settings = read_file(std::filesystem::path(MEMOPD_SOURCE_DIR) / "envs/atlas/teacher/config.json");
  REQUIRE_FALSE(settings.empty());
  const auto count = fuzz("model folders", [&](SplitMix& random) {
    write_file(file, damage(valid, random));
    if (const auto read = read_safetensors(file); !read && read.error().message.empty()) {
      FAIL("an error without words");
    }
    write_file(folder / "config.json", damage(settings, random));
    if (const auto read = load_model_config(folder); !read && read.error().message.empty()) {
      FAIL("an error without words");
    }
  });
  CHECK(count > 100);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace memopd::testing
