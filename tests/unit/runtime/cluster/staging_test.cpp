#include "runtime/cluster/staging.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

namespace memopd {
namespace {

namespace fs = std::filesystem;

/// Published bytes, fetched at once on the caller's thread; `damage` is what the fetch of the n-th object says.
class MemoryBulk final : public Bulk {
 public:
  BulkTicket publish(BulkSource source) override {
    BulkTicket ticket;
    ticket.object.bytes[0] = static_cast<std::uint8_t>(sources_.size() + 1);
    ticket.size_bytes = source.bytes.size();
    sources_.push_back(std::move(source));
    return ticket;
  }
  void withdraw(const BulkObjectId&) override {}
  FetchId fetch(BulkTicket ticket, BulkTarget target, Done done) override {
    const std::size_t number = ticket.object.bytes[0];
    if (number == damaged) {
      done(unexpected(ErrorCode::parse_error, "other bytes than those of the ticket"));
    } else {
      const auto& bytes = sources_[number - 1].bytes;
      std::copy(bytes.begin(), bytes.end(), target.bytes.begin());
      done({});
    }
    return 0;
  }
  void abort(FetchId) override {}
  [[nodiscard]] BulkCounters counters() const override { return {}; }

  std::size_t damaged = 0;

 private:
  std::vector<BulkSource> sources_;
};

/// A working directory with a model folder, and a folder of another host.
class Hosts {
 public:
  Hosts() {
    fs::create_directories(root / "here/model/deep");
    fs::create_directories(root / "there");
    write("here/model/config.json", "{}");
    write("here/model/deep/weights", std::string(100'000, 'w'));
    write("here/model/empty", "");
    fs::permissions(root / "here/model/config.json", fs::perms::owner_all);
    fs::current_path(root / "here");
  }
  ~Hosts() {
    fs::current_path(before);
    fs::remove_all(root);
  }
  void write(const std::string& path, const std::string& text) const { std::ofstream(root / path) << text; }
  [[nodiscard]] std::string read(const std::string& path) const {
    std::ifstream file(root / path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const fs::path before = fs::current_path();
  const fs::path root = fs::temp_directory_path() / ("memopd_staging_" + std::to_string(getpid()));
};

TEST_CASE("input files arrive under their own paths, whole, with their permissions", "[cluster]") {
  const Hosts hosts;
  MemoryBulk bulk;
  const std::vector<std::string> inputs = {"./model"};
  const auto files = list_inputs(inputs);
  REQUIRE(files);
  CHECK(files->size() == 3);
  const auto offered = offer_files(*files, bulk);
  REQUIRE(offered);
  const auto done = fetch_files(*offered, hosts.root / "there", bulk);
  REQUIRE(done);
  CHECK(hosts.read("there/model/deep/weights") == std::string(100'000, 'w'));
  CHECK(fs::exists(hosts.root / "there/model/empty"));
  CHECK(fs::status(hosts.root / "there/model/config.json").permissions() == fs::perms::owner_all);
  CHECK_FALSE(fs::exists(hosts.root / "there/model/config.json.partial"));
}

TEST_CASE("a file that does not arrive is named, and does not appear", "[cluster][error]") {
  const Hosts hosts;
  MemoryBulk bulk;
  const std::vector<std::string> inputs = {"model"};
  const auto offered = offer_files(*list_inputs(inputs), bulk);
  bulk.damaged = 2;
  const auto done = fetch_files(*offered, hosts.root / "there", bulk);
  REQUIRE_FALSE(done);
  CHECK(done.error().message == "input file model/deep/weights: other bytes than those of the ticket");
  CHECK_FALSE(fs::exists(hosts.root / "there/model/deep/weights"));
}

TEST_CASE("only what lies below the working directory is given away, and nothing is written beside the work folder",
          "[cluster][error]") {
  const Hosts hosts;
  const auto message = [](const std::string& input) {
    const std::vector<std::string> inputs = {input};
    const auto files = list_inputs(inputs);
    return files ? std::string("accepted") : files.error().message;
  };
  CHECK_THAT(message("/etc/passwd"), Catch::Contains("is not below the working directory"));
  CHECK_THAT(message("model/../../there"), Catch::Contains("is not below the working directory"));
  CHECK_THAT(message("no_model"), Catch::Contains("no_model: "));
  MemoryBulk bulk;
  const auto done = fetch_files({{{"../outside", 0600, 0, {}}}}, hosts.root / "there", bulk);
  REQUIRE_FALSE(done);
  CHECK(done.error().code == ErrorCode::refused);
  CHECK_FALSE(fs::exists(hosts.root / "outside"));
}

}  // namespace
}  // namespace memopd
