#include "kubed/nodes/local-api-probe.h"

#include <gtest/gtest.h>

namespace talos::kubed {
namespace {

// Feeds answers, one a second: "+" good, "-" failed, "e" from a server that is about to end, "x"
// for a closed port; "_" is a second without an answer. Returns the verdict after each.
struct Feeding {
  ApiVerdict verdict;
  kj::TimePoint now = kj::origin<kj::TimePoint>();

  std::string verdicts(const std::string& answers) {
    std::string changes;
    for (char c : answers) {
      now += 1 * kj::SECONDS;
      if (c == '_') continue;
      kj::Maybe<kj::String> failure;
      if (c == '-') failure = kj::str("500: [-]etcd failed");
      if (c == 'e') failure = kj::str("500: [-]shutdown failed: reason withheld");
      if (c == 'x') {
        failure = kj::str("Kubernetes at 127.0.0.1:6443: cannot connect: Connection refused");
      }
      bool changed = verdict.take(kj::mv(failure), now);
      changes += changed ? (verdict.ready ? 'R' : 'N') : '.';
    }
    return changes;
  }
};

// Catches: an address that moves with each slow answer.
TEST(ApiVerdict, ChangesWhenAnswersStayOpposite) {
  Feeding feeding;
  auto& verdict = feeding.verdict;
  EXPECT_EQ(feeding.verdicts("----------"), "..........") << "it never was";
  EXPECT_FALSE(verdict.everReady);
  EXPECT_EQ(feeding.verdicts("+--------+---------"), "R.................N");
  EXPECT_STREQ(verdict.message.cStr(), "500: [-]etcd failed");
  EXPECT_EQ(feeding.verdicts("++++++++-+++++++++-"), ".................R.");
  EXPECT_STREQ(verdict.message.cStr(), "");
  EXPECT_TRUE(verdict.everReady);
  // Answers that take their time.
  EXPECT_EQ(feeding.verdicts("+_-_-_-_-_-"), ".....N");

  Feeding recalled;
  recalled.verdict.everReady = true;
  EXPECT_EQ(recalled.verdicts("+"), ".") << "after a crash it is not the first answer";
}

// Catches: an address that stays with a server that is about to end until it has gone; an address
// that is kept from a server after a regular restart; an address that returns to a server that has
// crashed since.
TEST(ApiVerdict, AServerThatEndsCountsAtOnce) {
  Feeding feeding;
  EXPECT_EQ(feeding.verdicts("+eee-----+"), "RN.......R");
  EXPECT_EQ(feeding.verdicts("---------++"), "........N..");
  EXPECT_EQ(feeding.verdicts("e++"), "...") << "it has failed before";
}

// Catches: an address that stays with a server that has gone, until another one is started.
TEST(ApiVerdict, AServerThatIsGoneCountsAtOnce) {
  Feeding feeding;
  EXPECT_EQ(feeding.verdicts("xx+xx-+"), "..RN..R") << "the first start, and a crash";
  EXPECT_EQ(feeding.verdicts("e-x+"), "N..R");
  EXPECT_EQ(feeding.verdicts("-x"), ".N");
}

}  // namespace
}  // namespace talos::kubed
