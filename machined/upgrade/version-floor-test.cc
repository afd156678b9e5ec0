#include "machined/upgrade/version-floor.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace talos::machined {
namespace {

using testing::HasSubstr;

std::string refusal(kj::StringPtr version, kj::StringPtr floor) {
  KJ_IF_MAYBE (text, belowFloor(version, floor)) return text->cStr();
  return "";
}

}  // namespace

// Catches: versions that are compared as texts ("v0.10" before "v0.9"), a pre-release that counts
// as newer than its release, and customized builds of one release that are refused.
TEST(VersionFloor, Order) {
  const std::vector<const char*> ascending = {"v0.8.9",
                                              "v0.9.0-alpha",
                                              "v0.9.0-alpha.1",
                                              "v0.9.0-alpha.beta",
                                              "v0.9.0-beta.2",
                                              "v0.9.0-beta.11",
                                              "v0.9.0-rc.1",
                                              "v0.9.0",
                                              "v0.9.1",
                                              "v0.10.0",
                                              "v1",
                                              "v1.0.1",
                                              "v2.0.0",
                                              "v18446744073709551615.0.0"};
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t j = 0; j < ascending.size(); ++j) {
      auto older = isOlder(ascending[i], ascending[j]);
      ASSERT_TRUE(older != nullptr) << ascending[i] << " " << ascending[j];
      EXPECT_EQ(KJ_ASSERT_NONNULL(older), i < j) << ascending[i] << " " << ascending[j];
    }
  }
  EXPECT_EQ(KJ_ASSERT_NONNULL(isOlder("1.2", "v1.2.0")), false);
  for (auto build : {"v1.2.3", "v1.2.3+a", "v1.2.3-custom", "v1.2.3-site_1", "v1.2.3-12-gab"}) {
    EXPECT_EQ(KJ_ASSERT_NONNULL(isOlder(build, "v1.2.3-site2")), false) << build;
    EXPECT_EQ(KJ_ASSERT_NONNULL(isOlder("v1.2.2-site2", build)), true) << build;
  }
}

// Catches: a text that is read as version 0, or beyond its end.
TEST(VersionFloor, WhatIsNoVersion) {
  for (auto text : {"", "v", "latest", "v1..2", "v1.2.3.4", "v1.2.x", "v1.2.3_a", "v1.2.3-rc..b",
                    "v-1.0.0", "v18446744073709551616.0.0", " v1.0.0", "v1.0.0-beta_b", "v1.+5"}) {
    EXPECT_TRUE(isOlder(text, "v1.0.0") == nullptr) << text;
    EXPECT_TRUE(isOlder("v1.0.0", text) == nullptr) << text;
  }
}

// Catches: a floor that an older system lowers; a floor that a damaged value keeps from rising.
TEST(VersionFloor, OnlyRises) {
  EXPECT_EQ(raisedFloor("v0.9.1", "v0.9.0"), "v0.9.1");
  EXPECT_EQ(raisedFloor("v0.9.1", "v0.9.2"), "v0.9.2");
  EXPECT_EQ(raisedFloor("v0.9.1", "v0.9.1+x"), "v0.9.1");
  EXPECT_EQ(raisedFloor("", "v0.9.1"), "v0.9.1");
  EXPECT_EQ(raisedFloor("what?", "v0.9.1"), "v0.9.1");
  EXPECT_EQ(raisedFloor("v0.9.1", "dev"), "v0.9.1");
}

TEST(VersionFloor, Refusals) {
  EXPECT_EQ(refusal("v0.9.1", "v0.9.1"), "");
  EXPECT_EQ(refusal("v0.9.2-rc.1", "v0.9.1"), "");
  EXPECT_THAT(refusal("v0.9.0", "v0.9.1"), HasSubstr("v0.9.0 is older than v0.9.1"));
  EXPECT_THAT(refusal("latest", "v0.9.1"), HasSubstr("\"latest\" cannot be compared with v0.9.1"));
  // A node whose own builds have no version has no floor.
  EXPECT_EQ(refusal("v0.9.1", ""), "");
}

}  // namespace talos::machined
