#include "runtime/collective/rank_meeting.hpp"

#include <catch2/catch.hpp>

namespace memopd {
namespace {

using namespace std::chrono_literals;

RankArrival arrival(std::int64_t generation, std::int32_t rank, std::int64_t meeting,
                    const std::string& operation = "barrier of 0") {
  const auto id = static_cast<std::uint64_t>(rank);
  return {generation, rank, 2, meeting, operation, {ObjectRef{7, id}}, 1000};
}

/// What an arrival was answered; "" = nothing yet.
struct Heard {
  std::string text;
  [[nodiscard]] MeetingPlace::Answer answer() {
    return [this](const Expected<RanksMet>& met) {
      text = met ? std::to_string(met->objects.size()) + " ranks met" : met.error().message;
    };
  }
};

TEST_CASE("a meeting is over when all have arrived, and then for all", "[collective][RM-1]") {
  MeetingPlace place;
  Heard first;
  Heard second;

  CHECK(place.arrive(arrival(0, 1, 0), first.answer()));
  CHECK(first.text == "");
  CHECK_FALSE(place.arrive(arrival(0, 0, 0), second.answer()));

  CHECK(first.text == "2 ranks met");
  CHECK(second.text == "2 ranks met");
}

TEST_CASE("references come in rank order, whoever was first", "[collective][RM-1]") {
  MeetingPlace place;
  RanksMet met;
  place.arrive(arrival(0, 1, 0), [](const auto&) {});
  place.arrive(arrival(0, 0, 0), [&](const Expected<RanksMet>& outcome) { met = *outcome; });

  CHECK(met.objects == std::vector<std::vector<ObjectRef>>{{ObjectRef{7, 0}}, {ObjectRef{7, 1}}});
}

TEST_CASE("a later generation ends the earlier, whose ranks never meet it", "[collective][RM-2][CL-2]") {
  MeetingPlace place;
  Heard old;
  Heard fresh;
  Heard late;
  place.arrive(arrival(3, 0, 0), old.answer());

  place.arrive(arrival(4, 1, 0), fresh.answer());
  place.arrive(arrival(3, 1, 0), late.answer());

  CHECK(old.text == "collective aborted: generation 4 meets");
  CHECK(fresh.text == "");
  CHECK(late.text == "rank 1 of generation 3, the ranks are at generation 4");
}

TEST_CASE("an ended generation refuses whoever still comes, the next one begins anew", "[collective][RM-2]") {
  MeetingPlace place;
  Heard waiting;
  Heard late;
  Heard next;
  place.arrive(arrival(0, 0, 0), waiting.answer());

  place.end(0, "learner/1 was killed");
  place.arrive(arrival(0, 1, 0), late.answer());
  place.end(0, "said again");
  place.arrive(arrival(1, 1, 0), next.answer());

  CHECK(waiting.text == "collective aborted: learner/1 was killed");
  CHECK(late.text == "collective aborted: learner/1 was killed");
  CHECK(next.text == "");
}

TEST_CASE("a generation may be ended before anybody has come", "[collective][RM-2]") {
  MeetingPlace place;
  Heard late;
  place.end(5, "the run ends");
  place.arrive(arrival(5, 0, 0), late.answer());

  CHECK(late.text == "collective aborted: the run ends");
}

TEST_CASE("at the deadline those who wait hear who is missing", "[collective][RM-3][R4][error]") {
  MeetingPlace place;
  Heard waiting;
  Heard late;
  place.arrive(arrival(0, 0, 0, "broadcast of 8 from root 0"), waiting.answer());

  place.expire(0, 0, 20ms);
  place.arrive(arrival(0, 1, 0), late.answer());

  CHECK(waiting.text == "broadcast of 8 from root 0: no arrival of rank 1 within 20 ms");
  CHECK(late.text == waiting.text);
}

TEST_CASE("the deadline of a meeting that is over ends nothing", "[collective][RM-3]") {
  MeetingPlace place;
  Heard next;
  place.arrive(arrival(0, 0, 0), [](const auto&) {});
  place.arrive(arrival(0, 1, 0), [](const auto&) {});
  place.arrive(arrival(0, 0, 1), next.answer());

  place.expire(0, 0, 20ms);

  CHECK(next.text == "");
}

TEST_CASE("ranks that call different operations are told both", "[collective][RM-3][error]") {
  MeetingPlace place;
  Heard first;
  Heard second;
  place.arrive(arrival(0, 1, 0, "barrier of 0"), first.answer());
  place.arrive(arrival(0, 0, 0, "broadcast of 8 from root 1"), second.answer());

  CHECK(first.text == "rank 1 called barrier of 0, rank 0 called broadcast of 8 from root 1");
  CHECK(second.text == first.text);
}

TEST_CASE("an arrival that comes twice is answered twice with the same", "[collective][RM-4]") {
  MeetingPlace place;
  Heard once;
  Heard twice;
  Heard other;
  Heard after;
  place.arrive(arrival(0, 0, 0), once.answer());
  CHECK_FALSE(place.arrive(arrival(0, 0, 0), twice.answer()));
  CHECK(twice.text == "");
  place.arrive(arrival(0, 1, 0), other.answer());
  place.arrive(arrival(0, 1, 0), after.answer());

  CHECK(once.text == "2 ranks met");
  CHECK(twice.text == "2 ranks met");
  CHECK(after.text == "2 ranks met");
}

TEST_CASE("a rank outside the group and one that is elsewhere in it are refused", "[collective][RM-2][error]") {
  MeetingPlace place;
  Heard outside;
  Heard other_group;
  Heard ahead;
  place.arrive(arrival(0, 0, 0), [](const auto&) {});
  place.arrive(arrival(0, 2, 0), outside.answer());
  RankArrival wrong = arrival(0, 1, 0);
  wrong.num_ranks = 3;
  place.arrive(wrong, other_group.answer());
  place.arrive(arrival(0, 1, 4), ahead.answer());

  CHECK(outside.text == "rank 2 of 2, the group has 2 ranks");
  CHECK(other_group.text == "rank 1 of 3, the group has 2 ranks");
  CHECK(ahead.text == "rank 1 came to meeting 4, the group is at 0");
}

}  // namespace
}  // namespace memopd
