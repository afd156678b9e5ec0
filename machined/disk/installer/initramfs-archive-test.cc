#include "machined/disk/installer/initramfs-archive.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "common/base/file.h"
#include "common/testing/test-tree.h"

namespace talos::install {

// Catches: an archive that cpio does not unpack to the same bytes, whatever their number, also
// after another archive.
TEST(Archive, CpioUnpacksIt) {
  for (size_t size : {0, 1, 2, 3, 4, 4096, 5001}) {
    machined::TestTree tree;
    std::string content(size, 'x');
    auto wrapping = wrapRootImage(size);
    EXPECT_EQ((wrapping.before.size() + size + wrapping.after.size()) % 4, 0);
    auto path = kj::str(tree.root, "/archive");
    writeFileAtomically(path, kj::str(wrapping.before, content.c_str(), wrapping.after), 0600);
    auto status = system((std::string("cd ") + tree.root.cStr() +
                          " && cpio --extract --quiet --no-absolute-filenames <archive")
                             .c_str());
    EXPECT_EQ(status, 0);
    EXPECT_EQ(content, readFile(kj::str(tree.root, "/rootfs.sqsh")).cStr());
  }
  EXPECT_TRUE(kj::runCatchingExceptions([] { wrapRootImage(uint64_t{1} << 32); }) != nullptr);
}

}  // namespace talos::install
