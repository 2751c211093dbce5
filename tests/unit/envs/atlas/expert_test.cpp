#include "envs/atlas/expert.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "envs/atlas/environment.hpp"
#include "envs/retrieval/bm25_index.hpp"
#include "tests/unit/envs/scripted_play.hpp"

namespace memopd::atlas {
namespace {

using testing::must;

const std::string kQuestion = "What is the capital of the country of Cologne?; Which country is Gharb in?";

std::string respond(const std::string& context) { return must(AtlasExpert().respond(kQuestion, context)); }

TEST_CASE("the expert searches, keeps what the document says and answers when all is known", "[atlas][expert]") {
  CHECK(respond("") == "<think></think><search> Cologne country</search>");
  CHECK(respond("<think></think><search> Cologne country</search>\n"
                "<information> Cologne is a city in Germany.</information>\n") ==
        "<think> Cologne in Germany</think><search> Germany capital</search>");
  CHECK(respond("<think> Cologne in Germany</think><search> Germany capital</search>\n"
                "<information> Germany is a country. Its capital is Berlin. Its currency is euro. Its internet code is "
                ".de.</information>\n") == "<think> Cologne: capital is Berlin</think><search> Gharb country</search>");
  CHECK(respond("<think> Cologne: capital is Berlin</think><search> Gharb country</search>\n"
                "<information> Gharb is a region in Malta.</information>\n") ==
        "<think> Cologne: capital is Berlin; Gharb: in Malta</think><answer> Berlin; Malta</answer>");
}

TEST_CASE("the expert finds its document among others and under other templates", "[atlas][expert]") {
  CHECK(respond("<think></think><search> Cologne country</search>\n<information> Cologne Hill is a hill in Chile.\n"
                " Cologne is a city in Germany.</information>\n") ==
        "<think> Cologne in Germany</think><search> Germany capital</search>");
  CHECK(
      respond("<think></think><search> Cologne country</search>\n\n<information>[HINT]You have 3 turns left.[/HINT]\n\n"
              "Doc 1(Title: \"Cologne\") Cologne is a city in Germany.\n</information>\n\n") ==
      "<think> Cologne in Germany</think><search> Germany capital</search>");
}

TEST_CASE("a fact that the observation lacks is kept as unknown, so the task goes on", "[atlas][expert]") {
  CHECK(respond("<think> Cologne in Germany</think><search> Germany capital</search>\n<information></information>\n") ==
        "<think> Cologne: capital is unknown</think><search> Gharb country</search>");
}

TEST_CASE("codes keep their dot and lose the sentence's", "[atlas][expert]") {
  const std::string context =
      "<think></think><search> Kenya internet code</search>\n<information> Kenya is a country. Its internet code is "
      ".ke.</information>\n";
  CHECK(must(AtlasExpert().respond("What is the internet code of Kenya?", context)) ==
        "<think> Kenya: internet code is .ke</think><answer> .ke</answer>");
}

TEST_CASE("text that is not of this world is an error", "[atlas][expert][error]") {
  CHECK(AtlasExpert().respond("Who are you?", "").error().code == ErrorCode::invalid_argument);
  CHECK(AtlasExpert().respond("", "").error().code == ErrorCode::invalid_argument);
  CHECK(AtlasExpert().respond(kQuestion, "no tags").error().code == ErrorCode::invalid_argument);
}

struct Totals {
  double em = 0;
  double f1 = 0;
  double calls = 0;
};

/// Means over `num_tasks` tasks played through the index.
Totals play_tasks(const Bm25Index& index, const std::string& split, std::int32_t num_objectives, double fictional,
                  std::int32_t topk, std::int32_t num_tasks) {
  AtlasEnvironment environment({.fictional = fictional});
  const auto tasks = must(AtlasTaskSource({}).tasks(
      {.split = split, .seed = 11, .first = 0, .count = num_tasks, .num_objectives = num_objectives}));
  Totals totals;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto played = testing::play(environment, AtlasExpert(), &index, tasks[i], i, topk);
    CAPTURE(played.question, played.calls.back().response, fictional);
    CHECK(played.is_done);
    CHECK(played.last.metrics.at("em") == 1.0);
    totals.em += played.last.metrics.at("em") / num_tasks;
    totals.f1 += played.last.metrics.at("f1") / num_tasks;
    totals.calls += static_cast<double>(played.calls.size()) / num_tasks;
  }
  return totals;
}

TEST_CASE("the expert answers everything through the retriever, in every split, at every K", "[atlas][expert]") {
  const Bm25Index index = must(Bm25Index::build(World::builtin().documents()));
  for (const std::int32_t topk : {1, 3}) {
    for (const std::string split : {"train", "val", "test"}) {
      for (const std::int32_t num_objectives : {1, 2, 4, 8}) {
        const Totals totals = play_tasks(index, split, num_objectives, 0, topk, 200);
        CAPTURE(topk, split, num_objectives, totals.calls);
        CHECK(totals.em == Approx(1.0).epsilon(1e-9));
        CHECK(totals.f1 == Approx(1.0).epsilon(1e-9));
        // One call a hop and one to answer: 1.5 hops a question, 12/7 in val, which asks about places alone. Four
        // standard deviations of the mean of 200 tasks.
        const double hops = split == "val" ? 12.0 / 7 : 1.5;
        CHECK(std::abs(totals.calls - (1 + hops * num_objectives)) < 4 * 0.5 * std::sqrt(num_objectives / 200.0));
      }
    }
  }
}

TEST_CASE("the expert answers everything in fictional trajectories", "[atlas][expert][fictional]") {
  const Bm25Index index = must(Bm25Index::build(World::builtin().documents()));
  for (const std::int32_t topk : {1, 3}) {
    CHECK(play_tasks(index, "train", 3, 1, topk, 300).f1 == Approx(1.0).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace memopd::atlas
