#include "kubed/balancer/server-scores.h"

#include <gtest/gtest.h>

#include <string>

namespace talos::kubed {
namespace {

struct Scores : public testing::Test {
  ServerScores scores;

  ~Scores() noexcept override {}
  // Servers are named by a letter each.
  static ApiServer server(char letter) { return {kj::str(letter), 6443}; }
  bool set(const char* letters) {
    kj::Vector<ApiServer> servers;
    for (auto at = letters; *at != 0; ++at) servers.add(server(*at));
    return scores.set(servers);
  }
  // Notes results: "a<5" is a connect of 5 ms to a, "a!" a failure; separated by spaces.
  void note(const std::string& results) {
    for (size_t at = 0; at < results.size(); ++at) {
      auto one = server(results[at]);
      if (results[++at] == '!') {
        scores.failed(one);
        ++at;
      } else {
        size_t digits = 0;
        auto time = std::stoi(results.substr(at + 1), &digits);
        scores.reached(one, time * kj::MILLISECONDS);
        at += digits + 1;
      }
    }
  }
  std::string shown() {
    std::string all;
    for (auto& entry : scores.all()) {
      all += kj::str(all.empty() ? "" : " ", entry.server.host, entry.score).cStr();
    }
    return all;
  }
  std::string picked(unsigned times) {
    std::string all;
    for (unsigned i = 0; i < times; ++i) {
      auto found = scores.pick();
      KJ_IF_MAYBE (one, found) {
        all += one->host.cStr();
      } else {
        all += '-';
      }
    }
    return all;
  }
};

struct PickRow {
  const char *name, *servers, *results, *picked;
};

// Catches: a server that is used although it fails; a far server beside a near one; one server that
// gets all connections; a fresh server that is not tried.
TEST_F(Scores, ServersOfTheBestTierTakeTurns) {
  const PickRow rows[] = {
      {"no servers", "", "", "----"},
      {"one", "a", "", "aaaa"},
      {"all are fresh", "abc", "", "abca"},
      {"a tier for each limit", "abcd", "a<100 b<99 c<9 d<0", "dddd"},
      {"a limit is in the next tier", "ab", "a<10 b<9", "bbbb"},
      {"a fresh server is in the best tier", "ab", "a<1", "bbbb"},
      {"equal tiers", "abc", "a<1 b<9 c<50", "abab"},
      {"a score of 0 is usable", "ab", "a!", "abab"},
      {"a score of -1 is not", "ab", "a! a!", "bbbb"},
      {"the next tier, if the best has no usable server", "abc", "a<0 a! a! a! b<50 c<20", "bcbc"},
      {"none is usable", "ab", "a! a! b! b!", "----"},
  };
  for (auto& row : rows) {
    scores = ServerScores();
    set(row.servers);
    note(row.results);
    EXPECT_EQ(row.picked, picked(4)) << row.name;
    EXPECT_EQ(row.picked[0] != '-', scores.health() != Health::kNone) << row.name;
  }
}

// Catches: servers that count as good before the first connect, or because one was reached that is
// not usable any more.
TEST_F(Scores, HealthIsThatOfReachedServers) {
  EXPECT_EQ(Health::kNone, scores.health()) << "there are no servers";
  set("ab");
  EXPECT_EQ(Health::kUnknown, scores.health());
  note("a!");
  EXPECT_EQ(Health::kUnknown, scores.health());
  note("a<1");
  EXPECT_EQ(Health::kReached, scores.health());
  note("a! a!");
  EXPECT_EQ(Health::kUnknown, scores.health()) << "b was not tried";
  note("b! b!");
  EXPECT_EQ(Health::kNone, scores.health());
}

// Catches: a server that has worked for a day and then needs a day of failures to be left out; one
// that was down for a day and is not used again.
TEST_F(Scores, ScoresHaveLimits) {
  set("ab");
  note("a<1 a<1 a<1 a<1 a<1 b! b! b! b! b! b! b!");
  EXPECT_EQ("a3 b-3", shown());
  note("a! b<1");
  EXPECT_EQ("a2 b-2", shown());
}

// Catches: a change of the list that makes a dead server usable again, or that keeps a removed one;
// a duplicate that gets twice as many connections; the same list, taken for another one.
TEST_F(Scores, AServerThatStaysKeepsItsScore) {
  set("ab");
  note("a! a! b<50");
  EXPECT_TRUE(set("bcab"));
  EXPECT_FALSE(set("bcab"));
  EXPECT_EQ("b2 c1 a-1", shown());
  EXPECT_EQ("cc", picked(2)) << "b is in a farther tier";
  set("c");
  note("a<1 b!");
  EXPECT_EQ("c1", shown());
}

// Catches: a server that is tried twice for one connection; a connection that fails although
// another server is usable.
TEST_F(Scores, EachServerIsTriedOnce) {
  set("abc");
  note("b! b!");
  kj::Vector<ApiServer> tried;
  std::string order;
  for (;;) {
    auto found = scores.pick(tried);
    KJ_IF_MAYBE (one, found) {
      order += one->host.cStr();
      tried.add(one->clone());
    } else {
      break;
    }
  }
  EXPECT_EQ("ac", order);
}

// Catches: an IPv6 address without brackets, so that its last group is taken for the port.
TEST(ApiServers, NameTheirPort) {
  EXPECT_STREQ("10.5.0.2:6443", (ApiServer{kj::str("10.5.0.2"), 6443}).name().cStr());
  EXPECT_STREQ("[fd00::2]:443", (ApiServer{kj::str("fd00::2"), 443}).name().cStr());
}

}  // namespace
}  // namespace talos::kubed
