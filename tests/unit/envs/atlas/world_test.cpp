#include "envs/atlas/world.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "envs/retrieval/corpus.hpp"
#include "envs/scoring.hpp"
#include "tests/unit/envs/scripted_play.hpp"

namespace memopd::atlas {
namespace {

using testing::must;

constexpr const char* kHeader = "subject\trelation\tobject\taliases\tsubject_type\tsplit\tsource\n";

TEST_CASE("the embedded facts are 229 countries and 4477 places in three splits", "[atlas]") {
  const World& world = World::builtin();
  std::map<std::string, std::pair<int, int>> counts;
  for (const Subject& subject : world.subjects()) {
    auto& [countries, places] = counts[subject.split];
    (subject.is_country ? countries : places) += 1;
    if (!subject.is_country) {
      const Subject& country = world.country_of(subject);
      CHECK(country.is_country);
      CHECK((subject.split == "test") == (country.split == "test"));  // a test country takes its places with it
    }
  }
  CHECK(counts["test"].first == 57);
  CHECK(counts["val"].first == 0);
  CHECK(counts["train"].first == 229 - 57);
  CHECK(counts["test"].second + counts["val"].second + counts["train"].second == 4477);
}

TEST_CASE("documents state the facts in the fixed order, title apart", "[atlas]") {
  const auto documents = World::builtin().documents();
  REQUIRE(documents.size() == 4706);
  CHECK(
      document_contents(documents[0]) ==
      "\"Aruba\"\nAruba is a country. Its capital is Oranjestad. Its currency is Aruban florin. Its language is Dutch. "
      "Its continent is North America. Its internet code is .aw.");
  CHECK(documents[1].id == "1");
  CHECK(document_contents(documents[1]) == "\"Paardenbaai\"\nPaardenbaai is a port in Aruba.");
  const World& world = World::builtin();
  CHECK(world.document_text(*world.find("Umm al Qaywayn")) == "Umm al Qaywayn is an emirate in United Arab Emirates.");
}

TEST_CASE("answers are the fact and at most three aliases", "[atlas]") {
  const World& world = World::builtin();
  using Answers = std::vector<std::string>;
  CHECK(world.answers({"Ouargla", Relation::country, false}) ==
        Answers{"Algeria", "Algerie", "Dzayer", "People's Democratic Republic of Algeria"});
  CHECK(world.answers({"Uruguay", Relation::currency, false}) == Answers{"Uruguayan peso", "UYI"});
  CHECK(world.answers({"Boffa", Relation::language, true}) == Answers{"French"});
  CHECK(world.answers({"Sweden", Relation::internet_code, false}) == Answers{".se"});
  CHECK(world.answers({"Atlantis", Relation::capital, false}).empty());
}

TEST_CASE("questions have three forms, each parsed back", "[atlas]") {
  const std::pair<Question, std::string> examples[] = {
      {{"Papua New Guinea", Relation::continent, false}, "What is the continent of Papua New Guinea?"},
      {{"Ouargla", Relation::country, false}, "Which country is Ouargla in?"},
      {{"Cebu City", Relation::internet_code, true}, "What is the internet code of the country of Cebu City?"},
      {{"Isle of Man", Relation::capital, false}, "What is the capital of Isle of Man?"},
  };
  for (const auto& [question, text] : examples) {
    CAPTURE(text);
    CHECK(question_text(question) == text);
    const auto parsed = parse_question(text);
    REQUIRE(parsed);
    CHECK(parsed->subject == question.subject);
    CHECK(parsed->relation == question.relation);
    CHECK(parsed->is_two_hop == question.is_two_hop);
  }
  for (const char* text : {"", "What is the age of Kenya?", "What is the country of Kenya?", "Which country is  in",
                           "What is the capital of ?", "What is the capital?", "Who is Kenya?"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_question(text));
  }
  CHECK(parse_questions("Which country is Ouargla in?; What is the capital of Kenya?")->size() == 2);
  CHECK_FALSE(parse_questions("Which country is Ouargla in?; And why?"));
}

TEST_CASE("a task asks K questions about distinct subjects of its split, answered by its targets", "[atlas]") {
  const World& world = World::builtin();
  std::map<std::string, int> kinds;
  for (std::int32_t i = 0; i < 500; ++i) {
    for (const std::string split : {"train", "val", "test"}) {
      const Task task = must(world.make_task(split, 7, i, 4, {}));
      const auto questions = parse_questions(task.text);
      REQUIRE(questions);
      REQUIRE(questions->size() == 4);
      REQUIRE(task.targets.size() == 4);
      CHECK(task.max_turns == 10);
      std::set<std::string> subjects;
      for (std::size_t k = 0; k < 4; ++k) {
        const Question& question = (*questions)[k];
        const Subject* subject = world.find(question.subject);
        REQUIRE(subject != nullptr);
        CHECK(subject->split == split);
        CHECK(task.targets[k] == world.answers(question));
        CHECK(normalize_answer(Scorer::em, task.targets[k][0]) != normalize_answer(Scorer::em, subject->name));
        subjects.insert(question.subject);
        kinds[split + (subject->is_country ? " country" : question.is_two_hop ? " two hop" : " one hop")] += 1;
      }
      CHECK(subjects.size() == 4);
    }
  }
  // Shares .3, .2, .5 of 2000 questions: four standard deviations are 90. val has no countries: .2 and .5 of .7.
  CHECK(std::abs(kinds["train country"] - 600) < 90);
  CHECK(std::abs(kinds["train one hop"] - 400) < 90);
  CHECK(std::abs(kinds["val two hop"] - 1429) < 90);
  CHECK(kinds["val country"] == 0);
}

TEST_CASE("extra names subjects, relations and hops of each question", "[atlas]") {
  const Task task =
      must(World::builtin().make_task("test", 3, 0, 2, {.country_one_hop = 0, .place_one_hop = 1, .place_two_hop = 0}));
  const auto extra = nlohmann::json::parse(task.extra);
  CHECK(extra["relations"] == std::vector<std::string>{"country", "country"});
  CHECK(extra["hops"] == std::vector<int>{1, 1});
  CHECK(task.text == "Which country is " + extra["subjects"][0].get<std::string>() + " in?; Which country is " +
                         extra["subjects"][1].get<std::string>() + " in?");
}

TEST_CASE("a task depends on split, seed, index and K alone", "[atlas][CL-3]") {
  const World& world = World::builtin();
  const std::string text = must(world.make_task("train", 7, 12, 2, {})).text;
  CHECK(must(world.make_task("train", 7, 12, 2, {})).text == text);
  CHECK(must(world.make_task("train", 8, 12, 2, {})).text != text);
  CHECK(must(world.make_task("train", 7, 13, 2, {})).text != text);
  CHECK(must(world.make_task("train", 7, 12, 2, {})).id == "train_k2_s7_12");
}

TEST_CASE("tasks that the world cannot make are refused", "[atlas][error]") {
  const World& world = World::builtin();
  CHECK(world.make_task("dev", 1, 0, 2, {}).error().message == "unknown split `dev`; known are: train, val, test");
  CHECK(world.make_task("train", 1, 0, 0, {}).error().code == ErrorCode::invalid_argument);
  CHECK(world.make_task("train", 1, 0, 65, {}).error().code == ErrorCode::invalid_argument);
  const QuestionMix countries{.country_one_hop = 1, .place_one_hop = 0, .place_two_hop = 0};
  CHECK(world.make_task("val", 1, 0, 1, countries).error().code == ErrorCode::invalid_argument);
  CHECK(world.make_task("test", 1, 0, 58, countries).error().code == ErrorCode::invalid_argument);
}

TEST_CASE("a wrong fact table names line, found and allowed", "[atlas][error]") {
  const auto message = [](const std::string& rows, const std::string& aliases = "") {
    const auto world = World::parse(kHeader + rows, aliases);
    return world ? std::string() : world.error().message;
  };
  const std::string kenya = "Kenya\tcapital\tNairobi\t\tcountry\ttrain\tx\n";
  CHECK(message(kenya).empty());
  CHECK(message("Kenya\tcapital\n") == "facts.tsv:2: 2 columns, allowed are 7");
  CHECK(message("Kenya\tking\tX\t\tcountry\ttrain\tx\n").find("facts.tsv:2: relation `king` of a country") == 0);
  CHECK(message("Turkana\tcapital\tX\t\tcounty\ttrain\tx\n").find("facts.tsv:2: relation `capital` of a county") == 0);
  CHECK(message("Kenya\tcapital\tX\t\tcountry\tdev\tx\n").find("facts.tsv:2: split `dev`") == 0);
  CHECK(message("Kenya\tcapital\t\t\tcountry\ttrain\tx\n") == "facts.tsv:2: no subject or no object");
  CHECK(message(kenya + kenya) == "facts.tsv:3: a second capital of Kenya");
  CHECK(message("Turkana\tcountry\tKenya\t\tcounty\ttrain\tx\n") ==
        "facts.tsv: Turkana is in Kenya, which is no country there");
  CHECK(message(kenya, "Kenya\n") == "aliases.tsv:1: 1 columns, allowed are 2");
}

}  // namespace
}  // namespace memopd::atlas
