#include "envs/atlas/fictional.hpp"

#include <catch2/catch.hpp>
#include <cctype>
#include <set>

#include "tests/unit/envs/scripted_play.hpp"

namespace memopd::atlas {
namespace {

TEST_CASE("names are replaced whole, longest first and once", "[atlas][fictional]") {
  const NameReplacer replacer({{"Guinea", "Kenya"}, {"Papua New Guinea", "Zubo"}, {"Kenya", "Guinea"}, {".ke", ".zz"}});
  CHECK(replacer.replace("Guinea, Papua New Guinea") == "Kenya, Zubo");
  CHECK(replacer.replace("Kenya and Guinea") == "Guinea and Kenya");
  CHECK(replacer.replace("Kenyan Kenya's Kenya-Uganda sub-Kenya XKenya") ==
        "Kenyan Kenya's Kenya-Uganda sub-Kenya XKenya");
  CHECK(replacer.replace("is .ke.") == "is .zz.");
  CHECK(replacer.replace("Kenya") == "Guinea");
  CHECK(replacer.replace("").empty());
  CHECK(NameReplacer().replace("Kenya") == "Kenya");
}

TEST_CASE("an invented name has the form of its model and is no name of the world", "[atlas][fictional]") {
  const World& world = World::builtin();
  std::set<std::string> real;
  for (const Subject& subject : world.subjects()) {
    real.insert(subject.name);
    for (const auto& object : subject.objects) {
      real.insert(object.begin(), object.end());
    }
  }
  SplitMix random(1);
  std::set<std::string> invented;
  for (int i = 0; i < 2000; ++i) {
    const std::string code = NameMaker::builtin().invent(".ke", random);
    REQUIRE(code.size() == 3);
    CHECK(code[0] == '.');
    CHECK(code != ".an");  // nothing but an article: could never be answered
    const std::string currency = NameMaker::builtin().invent("euro", random);
    CHECK(std::islower(currency[0]) != 0);
    const std::string name = NameMaker::builtin().invent("Saint John's", random);
    CHECK(std::isupper(name[0]) != 0);
    for (const std::string& made : {code, currency, name}) {
      CAPTURE(made);
      CHECK(real.count(made) == 0);
    }
    invented.insert(name);
  }
  CHECK(invented.size() > 1600);  // short names repeat now and then
  // About as long as the 4,706 real ones, whose mean is 9 characters.
  double length = 0;
  for (const std::string& name : invented) {
    length += static_cast<double>(name.size()) / static_cast<double>(invented.size());
  }
  CHECK(length == Approx(9).margin(2));
}

TEST_CASE("a map covers subject, country and fact of each question and inverts itself", "[atlas][fictional]") {
  const std::vector<Question> questions = {{"Turkana", Relation::capital, true}, {"Cologne", Relation::country, false}};
  const NameMap map = NameMaker::builtin().make_map(World::builtin(), questions, 5);
  const std::string text = "Turkana is a county in Kenya. Nairobi. Cologne. Germany. Berlin.";
  const std::string fictional = map.to_fictional.replace(text);
  for (const char* gone : {"Turkana", "Kenya", "Nairobi", "Germany"}) {
    CAPTURE(gone, fictional);
    CHECK(fictional.find(gone) == std::string::npos);
  }
  CHECK(fictional.find("Berlin") != std::string::npos);  // nobody asks for it
  CHECK(map.to_real.replace(fictional) == text);
  CHECK(NameMaker::builtin().make_map(World::builtin(), questions, 5).to_fictional.replace(text) == fictional);
  CHECK(NameMaker::builtin().make_map(World::builtin(), questions, 6).to_fictional.replace(text) != fictional);
}

TEST_CASE("given word pieces are sorted by kind and are all that names are made of", "[atlas][fictional]") {
  const testing::ScratchFolder folder;
  const auto file = folder.write("pieces.txt", " Zu\n bo\nlo\n Q9\n\n x\n,\nK\n");
  const WordPieces pieces = testing::must(load_word_pieces(file));
  CHECK(pieces.first == std::vector<std::string>{"Zu"});
  CHECK(pieces.low == std::vector<std::string>{"bo"});
  CHECK(pieces.next == std::vector<std::string>{"lo"});

  const NameMaker maker(World::builtin(), pieces);
  SplitMix random(1);
  for (int i = 0; i < 50; ++i) {
    std::string name = maker.invent("Kenya", random);
    for (const std::string piece : {"Zu", "lo", " "}) {
      for (std::size_t at = name.find(piece); at != std::string::npos; at = name.find(piece)) {
        name.erase(at, piece.size());
      }
    }
    CHECK(name.empty());
  }
}

TEST_CASE("one piece of each kind is enough for any number of names", "[atlas][fictional]") {
  const NameMaker maker(World::builtin(), {.first = {"Ken"}, .next = {"ya"}, .low = {"bo"}});
  std::vector<Question> questions;
  for (std::size_t i = 0; i < 64; ++i) {
    questions.push_back({World::builtin().subjects()[100 + i].name, Relation::country, false});
  }
  const NameMap map = maker.make_map(World::builtin(), questions, 1);
  std::set<std::string> invented;
  for (const Question& question : questions) {
    invented.insert(map.to_fictional.replace(question.subject));
  }
  CHECK(invented.size() == 64);
}

TEST_CASE("a file without pieces of each kind is refused", "[atlas][fictional][error]") {
  const testing::ScratchFolder folder;
  CHECK(load_word_pieces(folder.file("none")).error().code == ErrorCode::not_found);
  CHECK(load_word_pieces(folder.write("few.txt", " Zu\nlo\n"))
            .error()
            .message.find("found 1 capitalised, 1 continuing and 0 lower-case pieces") != std::string::npos);
}

}  // namespace
}  // namespace memopd::atlas
