#include "kubed/nodes/local-api-probe.h"

#include <gtest/gtest.h>

namespace talos::kubed {
namespace {

// Feeds answers, "+" good and "-" failed, and returns the verdict after each.
std::string verdicts(ApiVerdict& verdict, const std::string& answers) {
  std::string changes;
  for (char c : answers) {
    kj::Maybe<kj::String> failure;
    if (c == '-') failure = kj::str("500");
    bool changed = verdict.take(kj::mv(failure));
    changes += changed ? (verdict.ready ? 'R' : 'N') : '.';
  }
  return changes;
}

// Catches: an address that moves with each slow answer, or to and fro with a server that crashes
// again and again; one that stays with a server that is gone.
TEST(ApiVerdict, ChangesAfterAFewInARow) {
  ApiVerdict verdict;
  EXPECT_EQ(verdicts(verdict, "----------"), "..........") << "it never was";
  EXPECT_FALSE(verdict.everReady);
  EXPECT_EQ(verdicts(verdict, "+----+-----"), "R.........N");
  EXPECT_STREQ(verdict.message.cStr(), "500");
  EXPECT_EQ(verdicts(verdict, "++++-+++++-"), ".........R.");
  EXPECT_STREQ(verdict.message.cStr(), "");
  EXPECT_TRUE(verdict.everReady);

  ApiVerdict recalled;
  recalled.everReady = true;
  EXPECT_EQ(verdicts(recalled, "+"), ".") << "after a crash it is not the first answer";
}

}  // namespace
}  // namespace talos::kubed
