#include "machined/disk/installer/system-installation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"

namespace talos::install {
namespace {

struct TestClock final : kj::MonotonicClock {
  kj::TimePoint time = kj::origin<kj::TimePoint>();
  kj::TimePoint now() const override { return time; }
};

struct Wipe {
  std::vector<std::string> lines;
  kj::Duration longest = 0 * kj::SECONDS;  // between two lines

  Wipe(uint64_t bytes, uint64_t step, kj::Duration each) {
    TestClock clock;
    WipeProgress progress(bytes, clock);
    auto last = clock.time;
    for (uint64_t done = 0; done < bytes;) {
      done = kj::min(done + step, bytes);
      clock.time += each;
      KJ_IF_MAYBE (line, progress.at(done)) {
        lines.push_back(line->cStr());
        longest = kj::max(longest, clock.time - last);
        last = clock.time;
      }
    }
  }
};

}  // namespace

// Catches: a large disk whose wipe is ended because it reports nothing for 10 minutes, and is
// started again at each boot.
TEST(WipeProgress, ALargeDiskIsNeverSilentForLong) {
  Wipe wipe(16'000'900'661'248, 256u << 20, 2 * kj::SECONDS);
  EXPECT_LE(wipe.longest / kj::SECONDS, 120);
  ASSERT_GE(wipe.lines.size(), 2u);
  EXPECT_EQ(wipe.lines.front(), "7 of 14902 GiB");
  EXPECT_EQ(wipe.lines.back(), "100 %");
}

// Catches: a line for each part of a fast disk.
TEST(WipeProgress, ASmallDiskSaysItsTenths) {
  Wipe wipe(8ull << 30, 256u << 20, 100 * kj::MILLISECONDS);
  EXPECT_EQ(wipe.lines, (std::vector<std::string>{"10 %", "20 %", "30 %", "40 %", "50 %", "60 %",
                                                  "70 %", "80 %", "90 %", "100 %"}));
}

// Catches: an installer that takes another file system, or a lower one, for the system.
TEST(Installation, TheImageIsWhatTheRootIsMountedFrom) {
  constexpr kj::StringPtr kLower = "1 1 0:2 / / rw - rootfs none rw\n"_kj;
  EXPECT_EQ(
      rootImage(kj::str(kLower, "22 1 7:0 / / ro,relatime shared:1 - squashfs /dev/loop0 ro\n",
                        "30 22 0:5 / /dev rw - devtmpfs none rw\n")),
      "/dev/loop0");
  constexpr kj::StringPtr kOver =
      "22 1 7:0 / / ro - squashfs /dev/loop0 ro\n23 22 8:1 / / rw - ext4 /dev/sda1 rw\n"_kj;
  for (auto other : {"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"_kj, ""_kj, kOver}) {
    auto failure = kj::runCatchingExceptions([&] { rootImage(kj::str(kLower, other)); });
    EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
              "this system cannot be installed: its root is not an image");
  }
}

// Catches: a system with extensions that cannot be installed from a CD, or is installed from the
// layer of an extension.
TEST(Installation, TheImageIsBelowTheLayersOfExtensions) {
  constexpr kj::StringPtr kOverlay =
      "22 1 0:30 / / ro shared:1 - overlay overlay ro,lowerdir=/layer1:/run/root-image\n"_kj;
  constexpr kj::StringPtr kImage = "25 24 7:0 / /run/root-image ro - squashfs /dev/loop0 ro\n"_kj;
  EXPECT_EQ(rootImage(kj::str(kOverlay, kImage)), "/dev/loop0");
  EXPECT_EQ(rootImage(kj::str(kImage, kOverlay)), "/dev/loop0");
  // A mount there makes nothing else an image.
  constexpr kj::StringPtr kDisk = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"_kj;
  EXPECT_ANY_THROW(rootImage(kj::str(kDisk, kImage)));
  EXPECT_ANY_THROW(rootImage(kOverlay));
}

}  // namespace talos::install
