#include "tests/day/oracles/register-oracle.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/harness/draw.h"

namespace talos::day {
namespace {

using testing::HasSubstr;
using Outcome = Call::Outcome;

Call wrote(const char* value, int64_t begin, int64_t end, Outcome outcome = Outcome::kDone) {
  return {
      .what = Call::What::kWrite, .value = value, .begin = begin, .end = end, .outcome = outcome};
}
Call readOf(const char* value, int64_t begin, int64_t end) {
  return {.what = Call::What::kRead, .value = value, .begin = begin, .end = end};
}
Call swapped(const char* expected, const char* value, int64_t begin, int64_t end,
             Outcome outcome = Outcome::kDone) {
  return {.what = Call::What::kSwap,
          .value = value,
          .expected = expected,
          .begin = begin,
          .end = end,
          .outcome = outcome};
}
Call at(int64_t revision, Call call, int64_t modified = 0) {
  call.revision = revision;
  call.modified = modified;
  return call;
}

struct HistoryRow {
  const char* name;
  std::vector<Call> calls;
  const char* problem;  // a part of it; empty: linearizable
};

const HistoryRow kHistories[] = {
    {"nothing", {}, ""},
    {"a key that does not exist", {readOf("", 1, 2)}, ""},
    {"a write and its read", {wrote("a", 1, 2), readOf("a", 3, 4)}, ""},
    {"an answered write that is lost", {wrote("a", 1, 2), readOf("", 3, 4)}, "the value before"},
    {"an old value after the new one was written",
     {wrote("a", 1, 2), wrote("b", 3, 4), readOf("a", 5, 6)},
     "read \"a\" from 5 to 6, but the value before it was \"b\""},
    {"a read during a write: either value",
     {wrote("a", 1, 2), wrote("b", 3, 9), readOf("a", 4, 5), readOf("b", 6, 7)},
     ""},
    {"a read during a write that goes back",
     {wrote("a", 1, 2), wrote("b", 3, 9), readOf("b", 4, 5), readOf("a", 6, 7)},
     "read \"a\" from 6 to 7"},
    {"two writes at once, in either order",
     {wrote("a", 1, 5), wrote("b", 1, 5), readOf("b", 6, 7), readOf("b", 8, 9)},
     ""},
    {"two writes at once, and reads in both orders",
     {wrote("a", 1, 5), wrote("b", 1, 5), readOf("b", 6, 7), readOf("a", 8, 9)},
     "read \"a\" from 8 to 9"},
    {"readers that disagree on the order of two writes",
     {wrote("a", 1, 20), wrote("b", 1, 20), readOf("a", 2, 3), readOf("b", 4, 5),
      readOf("a", 6, 7)},
     "read \"a\" from 6 to 7"},
    {"a write without an answer that takes effect later",
     {wrote("a", 1, 2), wrote("b", 3, 4, Outcome::kUnknown), readOf("a", 5, 6), readOf("b", 7, 8)},
     ""},
    {"a write without an answer that never takes effect",
     {wrote("a", 1, 2), wrote("b", 3, 4, Outcome::kUnknown), readOf("a", 5, 6)},
     ""},
    {"a write without an answer that is there and gone",
     {wrote("a", 1, 2), wrote("b", 3, 4, Outcome::kUnknown), readOf("b", 5, 6), readOf("a", 7, 8)},
     "read \"a\" from 7 to 8"},
    {"a refused write that has an effect",
     {wrote("a", 1, 2), wrote("b", 3, 4, Outcome::kRefused), readOf("b", 5, 6)},
     "which no client has written"},
    {"a value of the future", {readOf("a", 1, 2), wrote("a", 3, 4)}, "before it was written"},
    {"a value that no client has written", {readOf("x", 1, 2)}, "which no client has written"},
    {"a swap", {wrote("a", 1, 2), swapped("a", "b", 3, 4), readOf("b", 5, 6)}, ""},
    {"two swaps of one value that both succeed",
     {wrote("a", 1, 2), swapped("a", "b", 3, 6), swapped("a", "c", 3, 6)},
     "replaced \"a\""},
    {"a swap without an answer, whose value is swapped",
     {wrote("a", 1, 2), swapped("a", "b", 3, 4, Outcome::kUnknown), swapped("b", "c", 5, 6),
      readOf("c", 7, 8)},
     ""},
    {"a value that is written twice", {wrote("a", 1, 2), wrote("a", 3, 4)}, "written twice"},
};

// Catches: a lost write, a stale read and two orders that pass; a history that is good and fails.
TEST(RegisterOracle, JudgesEachHistoryOfTheTable) {
  for (auto& row : kHistories) {
    SCOPED_TRACE(row.name);
    auto problem = orderProblem("/k", row.calls);
    if (*row.problem == '\0') {
      EXPECT_EQ(problem, "");
    } else {
      EXPECT_THAT(problem, HasSubstr(row.problem));
    }
  }
}

// A register whose calls take effect at a random instant between beginning and end.
std::vector<Call> drawnHistory(harness::Draw& draw, unsigned clients, unsigned calls) {
  struct Effect {
    int64_t at;
    size_t call;
  };
  std::vector<Call> history;
  std::vector<Effect> effects;
  for (unsigned client = 0; client < clients; ++client) {
    int64_t clock = draw.number(0, 20);
    for (unsigned i = 0; i < calls; ++i) {
      auto end = clock + draw.number(2, 60);
      auto value = std::to_string(client) + "." + std::to_string(i);
      bool isRead = draw.chance(50), isLost = !isRead && draw.chance(10);
      history.push_back({.client = client,
                         .what = isRead ? Call::What::kRead : Call::What::kWrite,
                         .value = isRead ? "" : value,
                         .begin = clock,
                         .end = end,
                         .outcome = isLost ? Outcome::kUnknown : Outcome::kDone});
      auto late = isLost ? draw.number(0, 200) : 0;
      effects.push_back(
          {draw.number(unsigned(clock), unsigned(end)) + int64_t(late), history.size() - 1});
      clock = end + draw.number(1, 20);
    }
  }
  std::ranges::stable_sort(effects, {}, &Effect::at);
  std::string value;
  int64_t revision = 1, modified = 0;
  for (auto& effect : effects) {
    auto& call = history[effect.call];
    if (call.what == Call::What::kRead) {
      call.value = value;
      call.modified = modified;
    } else {
      value = call.value;
      modified = ++revision;
    }
    call.revision = revision;
  }
  return history;
}

// Catches: a search that takes exponentially long with some clients, and one that refuses a history
// of a register.
TEST(RegisterOracle, AcceptsWhatARegisterDoes) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    harness::Draw draw(seed, 0);
    auto calls = drawnHistory(draw, 4, 60);
    EXPECT_EQ(registerProblem({{"/k", calls}}), "") << "seed " << seed;
  }
}

// Catches: a search that accepts whatever it is given.
TEST(RegisterOracle, FindsAReadThatWasChanged) {
  unsigned found = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    harness::Draw draw(seed, 0);
    auto calls = drawnHistory(draw, 4, 60);
    auto isRead = [](auto& c) { return c.what == Call::What::kRead && !c.value.empty(); };
    auto first = std::ranges::find_if(calls, isRead);
    ASSERT_NE(first, calls.end());
    // The last read of all returns a value that was replaced long before.
    auto last = std::ranges::max_element(calls, {}, [&](auto& c) { return isRead(c) ? c.end : 0; });
    if (first->value == last->value) continue;
    last->value = first->value;
    found += orderProblem("/k", calls).empty() ? 0 : 1;
  }
  EXPECT_GE(found, 50u);
}

struct RevisionRow {
  const char* name;
  History history;
  const char* problem;
};

const RevisionRow kRevisions[] = {
    {"in order", {{"/a", {at(2, wrote("x", 1, 2))}}, {"/b", {at(3, wrote("y", 3, 4))}}}, ""},
    {"at once, in either order",
     {{"/a", {at(3, wrote("x", 1, 4))}}, {"/b", {at(2, wrote("y", 1, 4))}}},
     ""},
    {"a store that went back to an older one",
     {{"/a", {at(9, wrote("x", 1, 2))}}, {"/b", {at(5, wrote("y", 3, 4))}}},
     "after revision 9 was answered"},
    {"a read of an older store",
     {{"/a", {at(9, wrote("x", 1, 2)), at(8, readOf("", 3, 4))}}},
     "after revision 9 was answered"},
    {"two writes with one revision",
     {{"/a", {at(5, wrote("x", 1, 9))}}, {"/b", {at(5, wrote("y", 1, 9))}}},
     "was given twice"},
    {"another value than that of its revision",
     {{"/a", {at(5, wrote("x", 1, 2)), at(6, wrote("y", 1, 9)), at(7, readOf("y", 3, 4), 5)}}},
     "of revision 5, when"},
    {"a read without a write of before its revision",
     {{"/a", {at(5, wrote("x", 1, 2)), at(6, wrote("y", 1, 9)), at(7, readOf("x", 3, 4), 5)}}},
     "without the write of revision 6"},
};

// Catches: a store that is restored from an older copy, a revision that two writes have, and a lost
// write that an overlapping call could explain by values alone.
TEST(RegisterOracle, ComparesRevisions) {
  for (auto& row : kRevisions) {
    SCOPED_TRACE(row.name);
    auto problem = revisionProblem(row.history);
    if (*row.problem == '\0') {
      EXPECT_EQ(problem, "");
    } else {
      EXPECT_THAT(problem, HasSubstr(row.problem));
    }
  }
}

// Catches: an answered write that is lost without a later read of it.
TEST(RegisterOracle, FindsALostWriteAmongTheKeys) {
  EXPECT_EQ(lossProblem({"a", "b"}, {"a", "b", "c"}), "");
  EXPECT_EQ(lossProblem({"a", "b", "c"}, {"a"}), "2 of 3 answered writes are lost, the first is b");
}

}  // namespace
}  // namespace talos::day
