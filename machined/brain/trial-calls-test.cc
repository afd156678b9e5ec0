#include "machined/brain/trial-calls.h"

#include <gtest/gtest.h>

namespace talos::machined {
namespace {

kj::TimePoint second(int64_t number) {
  return kj::origin<kj::TimePoint>() + number * kj::SECONDS;
}

netlink::Connection connectionFrom(kj::StringPtr address, unsigned socket) {
  netlink::Connection connection;
  connection.remote = Ip::require(address);
  connection.id.idiag_cookie[0] = socket;
  return connection;
}

const auto kOwn = kj::arr(kj::str("10.5.0.2"), kj::str("fd00::2"));

}  // namespace

// Catches: a connection that another node's apid has kept since before a closed firewall, and that
// counts as reached; a node that reaches itself; a client that connects again and does not count.
TEST(TrialCalls, OnlyANewConnectionOfAnotherMachineCounts) {
  auto old = connectionFrom("10.5.0.9", 1);
  struct {
    const char* from;
    unsigned socket;
    bool counts;
  } rows[] = {
      {"10.5.0.9", 1, false},  {"10.5.0.9", 2, true}, {"10.5.0.2", 2, false},
      {"127.0.0.1", 2, false}, {"::1", 2, false},     {"fd00::2", 2, false},
      {"fd00::9", 2, true},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.from);
    TrialCalls calls;
    calls.begin(1, true, second(0));
    calls.look(kj::arrayPtr(&old, 1), kOwn, true, second(3));
    netlink::Connection now[] = {old, connectionFrom(row.from, row.socket)};
    EXPECT_EQ(row.counts, calls.counts(now, kOwn));
  }
}

// Catches: a connection that was made before the rules of the firewall were, and counts; a network
// that was incomplete before the change, so that no call ever counts.
TEST(TrialCalls, ConnectionsCountWhenTheChangeHasTakenEffect) {
  auto early = connectionFrom("10.5.0.9", 1), late = connectionFrom("10.5.0.9", 2);
  TrialCalls calls;
  EXPECT_FALSE(calls.counts(kj::arrayPtr(&early, 1), kOwn));  // no trial
  calls.begin(1, true, second(0));
  EXPECT_TRUE(calls.settles());
  calls.look(kj::arrayPtr(&early, 1), kOwn, true, second(2));
  EXPECT_FALSE(calls.counts(kj::arrayPtr(&late, 1), kOwn));
  calls.look(kj::arrayPtr(&early, 1), kOwn, false, second(10));
  EXPECT_FALSE(calls.counts(kj::arrayPtr(&late, 1), kOwn));
  calls.look(kj::arrayPtr(&early, 1), kOwn, false, second(20));
  EXPECT_FALSE(calls.settles());
  EXPECT_FALSE(calls.counts(kj::arrayPtr(&early, 1), kOwn));
  EXPECT_TRUE(calls.counts(kj::arrayPtr(&late, 1), kOwn));
}

// Catches: a client that is called through another node and never counts, because the apid there
// keeps its connection; one of this node, or of a change that needs no call, that is ended.
TEST(TrialCalls, OlderConnectionsOfOthersAreEndedOnce) {
  netlink::Connection all[] = {connectionFrom("10.5.0.9", 1), connectionFrom("10.5.0.2", 2),
                               connectionFrom("127.0.0.1", 3), connectionFrom("fd00::9", 4)};
  TrialCalls calls;
  calls.begin(1, true, second(0));
  EXPECT_EQ(0u, calls.look(all, kOwn, true, second(2)).size());
  auto ends = calls.look(all, kOwn, true, second(3));
  ASSERT_EQ(2u, ends.size());
  EXPECT_EQ(Ip::require("10.5.0.9"), ends[0].remote);
  EXPECT_EQ(Ip::require("fd00::9"), ends[1].remote);
  EXPECT_EQ(0u, calls.look(all, kOwn, true, second(4)).size());
  calls.begin(2, false, second(5));
  EXPECT_EQ(0u, calls.look(all, kOwn, true, second(8)).size());
}

// Catches: a second change whose calls count by the connections of the first.
TEST(TrialCalls, AnotherChangeStartsFromTheBeginning) {
  auto connection = connectionFrom("10.5.0.9", 1);
  TrialCalls calls;
  calls.begin(1, true, second(0));
  calls.look(nullptr, kOwn, true, second(3));
  EXPECT_TRUE(calls.counts(kj::arrayPtr(&connection, 1), kOwn));
  calls.begin(1, true, second(4));
  EXPECT_TRUE(calls.counts(kj::arrayPtr(&connection, 1), kOwn));
  calls.begin(2, true, second(5));
  EXPECT_FALSE(calls.counts(kj::arrayPtr(&connection, 1), kOwn));
  calls.look(kj::arrayPtr(&connection, 1), kOwn, true, second(8));
  EXPECT_FALSE(calls.counts(kj::arrayPtr(&connection, 1), kOwn));
}

}  // namespace talos::machined
