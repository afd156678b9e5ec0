#include "machined/disk/installer/system-installation.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::install {

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

}  // namespace talos::install
