#include "tools/session/host_check.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/telemetry/run_directory.hpp"

namespace memopd {
namespace {

/// A node whose program is a script with these lines.
class ScriptNode {
 public:
  explicit ScriptNode(const std::string& lines) {
    path_ = std::filesystem::temp_directory_path() / ("memopd_host_" + std::to_string(getpid()));
    std::ofstream(path_) << "#!/bin/sh\n" << lines << "\n";
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    node.capacity.name = "n1";
    node.program = path_.string();
  }
  ~ScriptNode() { std::filesystem::remove(path_); }
  [[nodiscard]] HostAnswer ask() const { return ask_hosts({node}).value().at("n1"); }

  PlannedNode node;

 private:
  std::filesystem::path path_;
};

std::string answer_with(const std::string& build, std::int64_t unix_time_ms) {
  HostFacts facts = read_host_facts();
  facts.build_id = build;
  facts.unix_time_ms = unix_time_ms;
  return "echo '" + to_json_line(facts) + "'";
}

TEST_CASE("facts of a host survive their line of JSON", "[session]") {
  const HostFacts facts = read_host_facts();
  CHECK(facts.build_id == build_id());
  CHECK(facts.memory_bytes > 0);
  const auto back = parse_host_facts(to_json_line(facts));
  REQUIRE(back);
  CHECK(back->host == facts.host);
  CHECK(back->usable_cpus == facts.usable_cpus);
  CHECK(back->unix_time_ms == facts.unix_time_ms);
  CHECK_FALSE(parse_host_facts("{}"));
}

TEST_CASE("a host that answers fills in what its table left open", "[session]") {
  const ScriptNode script(answer_with(std::string(build_id()), read_host_facts().unix_time_ms + 60'000));
  std::vector<PlannedNode> nodes = {script.node};
  nodes[0].capacity.cpus = 1.5;
  const auto answers = ask_hosts(nodes);
  REQUIRE(answers);
  CHECK(answers->at("n1").clock_offset_ms > 50'000);
  REQUIRE(take_answers(nodes, *answers));
  CHECK(nodes[0].capacity.cpus == 1.5);
  CHECK(nodes[0].capacity.memory_bytes == static_cast<double>(read_host_facts().memory_bytes));
}

TEST_CASE("another build shows both sides and the way out", "[session][pain:L07][error]") {
  const HostAnswer answer = ScriptNode(answer_with("deadbeef", 0)).ask();
  CHECK(answer.lacks_program);
  CHECK_THAT(answer.problem,
             Catch::Contains("is build deadbeef, here it is " + std::string(build_id())) && Catch::Contains("--push"));
}

TEST_CASE("what a host said instead of an answer is shown", "[session][error]") {
  CHECK_THAT(ScriptNode("echo ssh: no route; exit 255").ask().problem, Catch::Equals("ssh: no route"));
  CHECK_THAT(ScriptNode("echo Welcome").ask().problem, Catch::Contains("answered \"Welcome\""));
  CHECK_THAT(ScriptNode("kill -9 $$").ask().problem, Catch::Contains("SIGKILL"));
  ScriptNode absent("true");
  absent.node.program = "/nowhere/memopd-cluster";
  const HostAnswer answer = absent.ask();
  CHECK(answer.lacks_program);
  CHECK_THAT(answer.problem, Catch::Contains("/nowhere/memopd-cluster cannot be executed"));
}

TEST_CASE("every problem of every host is told at once", "[session][error]") {
  std::vector<PlannedNode> nodes(2);
  nodes[0].capacity.name = "a";
  nodes[1].capacity.name = "b";
  std::map<std::string, HostAnswer> answers;
  answers["a"].problem = "one";
  answers["b"].problem = "two";
  CHECK(take_answers(nodes, answers).error().message == "node a: one\nnode b: two");
}

}  // namespace
}  // namespace memopd
