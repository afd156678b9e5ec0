#include "machined/boot/tasks/system-disk-wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::machined {
namespace {

struct SystemDiskWait : public testing::Test {
  ~SystemDiskWait() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> reported;

  // "" when it resolved; how long it took is the timer's.
  std::string waited(kj::Duration appears) {
    kj::Maybe<kj::Exception> failure;
    bool over = false;
    auto isThere = [this, appears]() -> kj::Promise<bool> {
      return timer.now() >= kj::origin<kj::TimePoint>() + appears;
    };
    auto wait = awaitSystemDisk(timer, isThere,
                                [this](kj::StringPtr line) { reported.push_back(line.cStr()); })
                    .then([&] { over = true; },
                          [&](kj::Exception&& e) {
                            failure = kj::mv(e);
                            over = true;
                          })
                    .eagerlyEvaluate(nullptr);
    for (scope.poll(); !over; scope.poll()) timer.advanceTo(timer.now() + 50 * kj::MILLISECONDS);
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    return "";
  }
  auto passed() const { return (timer.now() - kj::origin<kj::TimePoint>()) / kj::MILLISECONDS; }
};

}  // namespace

// Catches: a line on the console of each boot, or one for each look.
TEST_F(SystemDiskWait, OneThatIsThere) {
  EXPECT_EQ(waited(0 * kj::SECONDS), "");
  EXPECT_EQ(passed(), 0);
  EXPECT_THAT(reported, testing::IsEmpty());
}
TEST_F(SystemDiskWait, OneThatComesLate) {
  EXPECT_EQ(waited(3 * kj::SECONDS), "");
  EXPECT_EQ(passed(), 3000);
  EXPECT_THAT(reported,
              testing::ElementsAre("waiting for the disk that this system was started from"));
}

// Catches: a disk whose later partitions the kernel has not added yet, the BOOT of another system.
TEST(HasSystemDisk, WhenItsLastPartitionIsThere) {
  kj::Vector<BlockDevice> devices;
  auto add = [&](kj::StringPtr disk, kj::StringPtr partitionName) {
    auto& device = devices.add();
    device.disk = kj::str(disk);
    device.partitionName = kj::str(partitionName);
  };
  EXPECT_FALSE(hasSystemDisk(devices));
  add("sda", "BOOT");
  EXPECT_FALSE(hasSystemDisk(devices));
  add("sdb", "EPHEMERAL");
  EXPECT_FALSE(hasSystemDisk(devices));
  add("sda", "EPHEMERAL.unfinished");
  EXPECT_TRUE(hasSystemDisk(devices));
}

// Catches: a boot that goes on without its disk, as a node that belongs to nobody; one that waits
// for ever.
TEST_F(SystemDiskWait, OneThatDoesNotCome) {
  EXPECT_THAT(waited(2 * kj::HOURS), testing::HasSubstr("has not appeared within 60 s"));
  EXPECT_EQ(passed(), 60'000);
}

}  // namespace talos::machined
