#include "envs/scoring.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

using Targets = std::vector<std::vector<std::string>>;

TEST_CASE("em removes case, punctuation of any script, articles and surplus space", "[scoring]") {
  CHECK(normalize_answer(Scorer::em, "  The  \"U.S.\" dollar, a bill! ") == "us dollar bill");
  CHECK(normalize_answer(Scorer::em, "\xC2\xABLa Paz\xC2\xBB\xE3\x80\x82") == "la paz");  // « » 。
  CHECK(normalize_answer(Scorer::em, "\xEF\xBC\xAB\xEF\xBD\x85nya \xEF\xAC\x81") ==
        "kenya fi");  // full width, ligature
  CHECK(normalize_answer(Scorer::em, "\xC3\x89VORA") == "\xC3\xA9vora");
}

TEST_CASE("mem1_train deletes ASCII punctuation and articles and leaves other scripts' punctuation", "[scoring]") {
  CHECK(normalize_answer(Scorer::mem1_train, "The well-known an.swer") == "wellknown answer");
  CHECK(normalize_answer(Scorer::mem1_train, "\xC2\xABPaz\xC2\xBB") == "\xC2\xABpaz\xC2\xBB");
}

TEST_CASE("mem1_eval turns punctuation into spaces and keeps articles", "[scoring]") {
  CHECK(normalize_answer(Scorer::mem1_eval, "The well-known U.S.") == "the well known u s");
}

TEST_CASE("answers are split at semicolons, stripped and aligned by position", "[scoring]") {
  CHECK(split_answers(" Nairobi ;.ke") == std::vector<std::string>{"Nairobi", ".ke"});
  CHECK(split_answers("a;;b;") == std::vector<std::string>{"a", "", "b", ""});
  CHECK(split_answers(" \n").empty());

  const Targets targets = {{"Nairobi"}, {".ke", "ke"}};
  CHECK(score(Scorer::em, " Nairobi; KE", targets).em == 1.0);
  CHECK(score(Scorer::em, "KE; Nairobi", targets).em == 0.0);
}

TEST_CASE("f1 takes the best alias over multisets of words", "[scoring]") {
  // {east, east, timor} and {east, timor}: 2 common of 5; {east, east}: 2 of 5.
  const AnswerScores scores = score(Scorer::f1, "East East Timor", {{"east east", "Timor East"}});
  CHECK(scores.f1 == Approx(0.8));
  CHECK(scores.em == 0.0);
  CHECK(scores.reward == Approx(0.8));
}

TEST_CASE("mem1_eval counts a repeated word once", "[scoring]") {
  // {east, timor} against {east, timor}: sets are equal where multisets are not.
  CHECK(score(Scorer::mem1_eval, "East East Timor", {{"Timor East"}}).f1 == Approx(1.0));
  CHECK(score(Scorer::mem1_eval, "East East Timor", {{"Timor East"}}).em == 0.0);
}

TEST_CASE("a missing answer scores 0 and an extra one is ignored, both counted", "[scoring]") {
  const Targets targets = {{"a1"}, {"b1"}, {"c1"}};
  const AnswerScores few = score(Scorer::em, "a1;", targets);
  CHECK(few.em == Approx(1.0 / 3));
  CHECK(few.em_sum == 1.0);
  CHECK(few.missing == 2);
  CHECK(few.extra == 0);
  const AnswerScores many = score(Scorer::em, "a1; b1; c1; d1; ; e1", targets);
  CHECK(many.em == 1.0);
  CHECK(many.extra == 2);
  CHECK(many.missing == 0);
}

TEST_CASE("mem1_train sums over objectives and mem1_eval gives the whole sample 0 on a count mismatch", "[scoring]") {
  const Targets targets = {{"a1"}, {"b1"}};
  CHECK(score(Scorer::mem1_train, "a1", targets).em_sum == 1.0);
  CHECK(score(Scorer::mem1_eval, "a1", targets).em_sum == 0.0);
  CHECK(score(Scorer::mem1_eval, "a1; b1; c1", targets).f1_sum == 0.0);
  CHECK(score(Scorer::mem1_eval, "a1; b1", targets).em_sum == 2.0);
}

TEST_CASE("an empty gold never matches an empty answer", "[scoring]") {
  for (const Scorer scorer : {Scorer::em, Scorer::f1, Scorer::mem1_train, Scorer::mem1_eval}) {
    CAPTURE(to_string(scorer));
    for (const std::string answer : {"", "...", ";"}) {
      const AnswerScores scores = score(scorer, answer, {{""}, {"?!"}});
      CHECK(scores.em_sum == 0.0);
      CHECK(scores.f1_sum == 0.0);
    }
  }
  CHECK(score(Scorer::em, "the", {{"a"}}).em == 0.0);  // articles alone are empty
}

TEST_CASE("metrics report sum and mean under their own names", "[scoring]") {
  const auto metrics = score(Scorer::f1, "a1", {{"a1"}, {"b1"}}).metrics();
  CHECK(metrics == std::map<std::string, double>{
                       {"em", 0.5}, {"em_sum", 1}, {"extra", 0}, {"f1", 0.5}, {"f1_sum", 1}, {"missing", 1}});
}

TEST_CASE("no objectives score 0 and invalid UTF-8 is compared as it is", "[scoring]") {
  CHECK(score(Scorer::f1, "a1", {}).reward == 0.0);
  CHECK(score(Scorer::em, "caf\xC3", {{"caf\xC3"}}).em == 1.0);
}

TEST_CASE("scorers are found by their names alone", "[scoring][error]") {
  for (const Scorer scorer : {Scorer::em, Scorer::f1, Scorer::mem1_train, Scorer::mem1_eval}) {
    CHECK(parse_scorer(to_string(scorer)).value() == scorer);
  }
  CHECK(parse_scorer("F1").error().message == "unknown scorer `F1`; allowed are em, f1, mem1_train, mem1_eval");
}

}  // namespace
}  // namespace memopd
