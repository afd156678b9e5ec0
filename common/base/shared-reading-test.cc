#include "common/base/shared-reading.h"

#include <gtest/gtest.h>

namespace talos {
namespace {

class SharedReadings : public testing::Test {
 public:
  ~SharedReadings() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::Vector<kj::Own<kj::PromiseFulfiller<kj::String>>> reads;
  SharedReading<kj::String> reading{[this]() {
    auto paf = kj::newPromiseAndFulfiller<kj::String>();
    reads.add(kj::mv(paf.fulfiller));
    return kj::mv(paf.promise);
  }};

  kj::Promise<kj::String> ask() {
    return reading.get().then([](auto&& answer) { return kj::str(answer->value); });
  }
};

// Catches: a value whose reading began before the call that gets it; one reading for each caller.
TEST_F(SharedReadings, ThoseWhoAskMeanwhileShareTheNextOne) {
  auto first = ask();
  EXPECT_FALSE(first.poll(scope));
  auto second = ask(), third = ask();
  EXPECT_FALSE(second.poll(scope));
  EXPECT_EQ(reads.size(), 1u);
  reads[0]->fulfill(kj::str("a"));
  EXPECT_EQ(first.wait(scope), "a"_kj);
  EXPECT_FALSE(second.poll(scope));
  EXPECT_EQ(reads.size(), 2u);
  reads[1]->fulfill(kj::str("b"));
  EXPECT_EQ(second.wait(scope), "b"_kj);
  EXPECT_EQ(third.wait(scope), "b"_kj);
  auto fourth = ask();
  EXPECT_FALSE(fourth.poll(scope));
  EXPECT_EQ(reads.size(), 3u);
}

// Catches: a failure that the next one inherits.
TEST_F(SharedReadings, AFailureIsOfThoseWhoShareIt) {
  auto first = ask();
  EXPECT_FALSE(first.poll(scope));
  auto second = ask();
  reads[0]->reject(KJ_EXCEPTION(FAILED, "no answer"));
  EXPECT_THROW(first.wait(scope), kj::Exception);
  EXPECT_FALSE(second.poll(scope));
  reads[1]->fulfill(kj::str("b"));
  EXPECT_EQ(second.wait(scope), "b"_kj);
}

// Catches: a caller that leaves and takes the reading of the others with it.
TEST_F(SharedReadings, ACallerThatLeavesDisturbsNoOther) {
  {
    auto gone = ask();
    EXPECT_FALSE(gone.poll(scope));
  }
  auto second = ask();
  EXPECT_FALSE(second.poll(scope));
  reads[0]->fulfill(kj::str("a"));
  EXPECT_FALSE(second.poll(scope));
  reads[1]->fulfill(kj::str("b"));
  EXPECT_EQ(second.wait(scope), "b"_kj);
}

}  // namespace
}  // namespace talos
