#include "common/testing/provided.h"

#include <gtest/gtest-spi.h>

namespace talos {
namespace {

// The results of a test that needs a thing of this name and does not have it, or has it.
class Provided : public testing::Test {
 protected:
  testing::TestPartResultArray results;

  ~Provided() noexcept override {}
  void TearDown() override { unsetenv("PROVIDES"); }
  void need(bool there, const std::string& name) {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    [&] { TALOS_NEEDS(there, name, "there is no cheese"); }();
  }
};

// Catches: a test that is skipped, and so passes, in the target that provides what it needs.
TEST_F(Provided, WhatTheTargetHasIsNotSkipped) {
  setenv("PROVIDES", "bread cheese", 1);
  need(false, "cheese");
  ASSERT_EQ(results.size(), 1);
  EXPECT_TRUE(results.GetTestPartResult(0).fatally_failed());
  EXPECT_NE(strstr(results.GetTestPartResult(0).message(), "there is no cheese"), nullptr);
}

// Catches: a name that counts because it is a part of another one.
TEST_F(Provided, WhatTheTargetDoesNotHaveIsSkipped) {
  for (auto given : {"", "bread", "cheesecake bread", "cheese-1.34.4"}) {
    setenv("PROVIDES", given, 1);
    need(false, "cheese");
  }
  unsetenv("PROVIDES");
  need(false, "cheese");
  ASSERT_EQ(results.size(), 5);
  for (int i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(results.GetTestPartResult(i).skipped()) << i;
  }
}

TEST_F(Provided, WhatIsThereEndsNothing) {
  setenv("PROVIDES", "cheese", 1);
  need(true, "cheese");
  EXPECT_EQ(results.size(), 0);
}

}  // namespace
}  // namespace talos
