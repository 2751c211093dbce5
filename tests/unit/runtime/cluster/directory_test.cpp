#include "runtime/cluster/directory.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

ProcessEntry process(const std::string& name, std::uint64_t incarnation, ProcessState state = ProcessState::running) {
  return {name, "local", state, incarnation, {}, {"ipc://x"}, ""};
}

std::vector<ActorEntry> group(const std::string& name, std::int32_t size, const std::string& where) {
  std::vector<ActorEntry> members;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    members.push_back({name + "/" + std::to_string(rank), name, "counter", rank, size, false, 10, where});
  }
  return members;
}

TEST_CASE("a reader that applies every update holds what the author holds", "[cluster]") {
  Directory author;
  Directory reader;
  author.set(process("launcher", 1));
  REQUIRE(author.add(group("env", 3, "launcher")));
  for (const auto& update : author.since(reader.version(), 2)) {
    CHECK(update.processes.size() + update.actors.size() <= 2);
    reader.apply(update);
  }
  author.set(process("student/0", 2));
  for (const auto& update : author.since(reader.version())) {
    CHECK(update.actors.empty());
    reader.apply(update);
  }

  CHECK(reader.version() == author.version());
  CHECK(reader.group("env").size() == 3);
  CHECK(reader.process("student/0")->incarnation == 2);
}

TEST_CASE("a late update never brings back an earlier incarnation", "[cluster][CL-2]") {
  Directory reader;
  reader.apply({5, {process("student/0", 3)}, {}});
  reader.apply({4, {process("student/0", 2, ProcessState::starting)}, {}});

  CHECK(reader.process("student/0")->incarnation == 3);
  CHECK(reader.process("student/0")->state == ProcessState::running);
  CHECK(reader.version() == 5);
}

TEST_CASE("setting what is already there changes no version", "[cluster]") {
  Directory directory;
  CHECK(directory.set(process("a", 1)));
  const auto version = directory.version();
  CHECK_FALSE(directory.set(process("a", 1)));
  CHECK(directory.version() == version);
  CHECK(directory.since(version).empty());
}

TEST_CASE("a group name is taken once", "[cluster][error]") {
  Directory directory;
  REQUIRE(directory.add(group("env", 1, "a")));
  const auto again = directory.add(group("env", 2, "b"));
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::already_exists);
  CHECK(directory.group("env").size() == 1);
}

}  // namespace
}  // namespace memopd
