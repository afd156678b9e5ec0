#include "machined/boot/tasks/system-disk-wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace talos::machined {
namespace {

struct SystemDiskWait : public testing::Test {
  ~SystemDiskWait() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> reported;

  void wait(kj::Duration appears) {
    auto isThere = [this, appears]() -> kj::Promise<bool> {
      return timer.now() >= kj::origin<kj::TimePoint>() + appears;
    };
    auto report = [this](kj::StringPtr line) { reported.push_back(line.cStr()); };
    auto waiting = awaitSystemDisk(timer, isThere, report);
    while (!waiting.poll(scope)) timer.advanceTo(timer.now() + 50 * kj::MILLISECONDS);
    waiting.wait(scope);
  }
  auto passed() const { return (timer.now() - kj::origin<kj::TimePoint>()) / kj::MILLISECONDS; }
};

}  // namespace

// Catches: a line on the console at each boot, or at each look.
TEST_F(SystemDiskWait, PresentDiskIsNotReported) {
  wait(0 * kj::SECONDS);
  EXPECT_EQ(passed(), 0);
  EXPECT_THAT(reported, testing::IsEmpty());
}
TEST_F(SystemDiskWait, LateDiskIsAwaited) {
  wait(3 * kj::SECONDS);
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

// Catches: a boot that waits for ever, or that continues without a message.
TEST_F(SystemDiskWait, OneThatDoesNotCome) {
  wait(2 * kj::HOURS);
  EXPECT_EQ(passed(), 60'000);
  EXPECT_THAT(reported, testing::ElementsAre(
                            "waiting for the disk that this system was started from",
                            "warning: no disk with the partitions BOOT and EPHEMERAL has appeared "
                            "within 60 s"));
}

}  // namespace talos::machined
