#include "runtime/transport/run_key.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/unit/runtime/transport/test_transport.hpp"

namespace memopd {
namespace {

TEST_CASE("a run key survives its file and its text", "[transport]") {
  const testing::TemporaryFolder folder;
  const auto key = RunKey::generate();
  REQUIRE(key);
  REQUIRE(key->write(folder.path() / "run.key"));

  const auto read = RunKey::read(folder.path() / "run.key");
  const auto parsed = RunKey::parse(key->text());

  REQUIRE(read);
  REQUIRE(parsed);
  CHECK(read->secret_key() == key->secret_key());
  CHECK(parsed->public_key() == key->public_key());
}

TEST_CASE("a run key file is for its owner alone and is never overwritten", "[transport][SE-1][error]") {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "run.key";
  REQUIRE(RunKey::generate()->write(file));
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777U) == 0600U);
  CHECK(RunKey::generate()->write(file).error().code == ErrorCode::already_exists);

  REQUIRE(::chmod(file.c_str(), 0640) == 0);

  const auto open_to_group = RunKey::read(file);
  REQUIRE_FALSE(open_to_group);
  CHECK(open_to_group.error().code == ErrorCode::refused);
  CHECK_THAT(open_to_group.error().message, Catch::Contains("mode 0640") && Catch::Contains("mode 0600"));
  std::filesystem::create_symlink(file, folder.path() / "link");
  CHECK(RunKey::read(folder.path() / "link").error().code == ErrorCode::refused);
  CHECK(RunKey::read(folder.path() / "none").error().code == ErrorCode::not_found);
}

TEST_CASE("a damaged run key is refused without showing its secret", "[transport][SE-1][error]") {
  const auto key = *RunKey::generate();
  const std::string text = key.text();
  const std::string mixed = "memopd-run-key 1 " + RunKey::generate()->public_key() + " " + key.secret_key() + "\n";
  for (const std::string& damaged : {std::string(), text.substr(1), text.substr(0, text.size() - 1), text + "x", mixed,
                                     "memopd-run-key 2" + text.substr(16)}) {
    const auto parsed = RunKey::parse(damaged);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::parse_error);
    CHECK_THAT(parsed.error().message, !Catch::Contains(key.secret_key()));
  }
}

}  // namespace
}  // namespace memopd
