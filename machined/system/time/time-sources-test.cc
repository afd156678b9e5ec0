#include "machined/system/time/time-sources.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace talos::machined {
namespace {

struct Ms {
  int64_t offset, error;
};

// Returns "0,2 best 2", or "none".
std::string verdict(std::initializer_list<Ms> rows, size_t needed = 1) {
  std::vector<Claim> claims;
  for (auto& r : rows) {
    claims.push_back({r.offset * kj::MILLISECONDS, r.error * kj::MILLISECONDS});
  }
  std::string text;
  KJ_IF_MAYBE (a, agree(kj::arrayPtr(claims.data(), claims.size()), needed)) {
    for (auto m : a->members) text += (text.empty() ? "" : ",") + std::to_string(m);
    return text + " best " + std::to_string(a->best);
  }
  return "none";
}

// Catches: a single wrong server that is followed because it claims to be the most exact.
TEST(Agreement, Table) {
  EXPECT_EQ(verdict({}), "none");
  EXPECT_EQ(verdict({{5, 1}}), "0 best 0");
  EXPECT_EQ(verdict({{5, 1}, {6, 1}}), "0,1 best 0");
  EXPECT_EQ(verdict({{5, 1}, {7, 1}}), "0,1 best 0");  // they touch
  EXPECT_EQ(verdict({{5, 1}, {8, 1}}), "none");        // one claim against the other
  EXPECT_EQ(verdict({{10, 5}, {3600000, 0}, {12, 4}}), "0,2 best 2");
  EXPECT_EQ(verdict({{-3600000, 0}, {10, 5}, {12, 4}}), "1,2 best 2");
  EXPECT_EQ(verdict({{0, 1}, {100, 1}, {200, 1}}), "none");
  EXPECT_EQ(verdict({{0, 1}, {0, 2}, {100, 1}, {100, 2}}), "none");  // two against two
  EXPECT_EQ(verdict({{0, 1}, {0, 2}, {100, 1}, {100, 2}, {1, 3}}), "0,1,4 best 0");
  EXPECT_EQ(verdict({{0, 9}, {20, 10}, {40, 9}}), "none");  // no two overlap
  EXPECT_EQ(verdict({{0, 9}, {20, 10}, {40, 10}}), "1,2 best 1");
}

// Catches: two of three servers that are silent for a moment while the third one is wrong.
TEST(Agreement, AQuorumMayBeAskedFor) {
  EXPECT_EQ(verdict({{5, 1}}, 2), "none");
  EXPECT_EQ(verdict({{5, 1}, {5, 2}}, 2), "0,1 best 0");
}

}  // namespace
}  // namespace talos::machined
