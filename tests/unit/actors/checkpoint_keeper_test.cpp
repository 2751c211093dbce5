#include "actors/checkpoint_keeper.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <string>

using namespace memopd;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("memopd_keeper_" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] const fs::path& path() const { return path_; }

  void save(std::int32_t step) const {
    const fs::path folder = path_ / ("step-" + std::to_string(step));
    fs::create_directories(folder);
    std::ofstream(folder / "state.json") << "{}";
  }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      found.insert(entry.path().filename().string());
    }
    return found;
  }

 private:
  fs::path path_;
};

using Names = std::set<std::string>;

}  // namespace

TEST_CASE("the newest checkpoints stay and older ones go", "[checkpoint]") {
  const Folder folder;
  CheckpointKeeper keeper(folder.path(), 2);
  for (const std::int32_t step : {5, 10, 15}) {
    folder.save(step);
    keeper.saved(step);
  }
  CHECK(folder.names() == Names{"step-10", "step-15"});
}

TEST_CASE("the best checkpoint stays however old, until a better one comes", "[checkpoint]") {
  const Folder folder;
  CheckpointKeeper keeper(folder.path(), 1);
  const auto step = [&](std::int32_t number, double value) {
    folder.save(number);
    keeper.saved(number);
    keeper.evaluated(number, value);
  };
  step(1, 0.7);
  step(2, 0.5);
  step(3, 0.7);
  CHECK(folder.names() == Names{"step-1", "step-3"});
  step(4, 0.9);
  step(5, 0.1);
  CHECK(folder.names() == Names{"step-4", "step-5"});
}

TEST_CASE("a folder without state.json is no checkpoint", "[checkpoint][CL-3]") {
  const Folder folder;
  folder.save(3);
  fs::create_directories(folder.path() / "step-9");
  fs::create_directories(folder.path() / "step-4.unfinished");
  fs::create_directories(folder.path() / "other");
  CHECK(complete_checkpoints(folder.path()) == std::vector<std::int32_t>{3});
  CHECK(complete_checkpoints(folder.path() / "none").empty());
}

TEST_CASE("checkpoints of a given-up line are deleted, and a best one among them is forgotten", "[checkpoint][CL-3]") {
  const Folder folder;
  for (const std::int32_t step : {2, 4, 6}) {
    folder.save(step);
  }
  CheckpointKeeper keeper(folder.path(), 3);
  keeper.drop_after(4);
  keeper.restore_best(CheckpointKeeper::Best{6, 1.0});
  CHECK(folder.names() == Names{"step-2", "step-4"});
  CHECK_FALSE(keeper.best());
}
