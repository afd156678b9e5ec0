#include "machined/disk/installer/boot-code.h"

#include <gtest/gtest.h>
#include <string.h>

#include "common/base/file.h"

namespace talos::install {
namespace {

kj::Array<kj::byte> filled(size_t size, kj::byte with) {
  auto bytes = kj::heapArray<kj::byte>(size);
  memset(bytes.begin(), with, size);
  return bytes;
}
uint64_t get(kj::ArrayPtr<const kj::byte> in, size_t at, unsigned size) {
  uint64_t value = 0;
  for (unsigned i = size; i > 0; --i) value = value << 8 | in[at + i - 1];
  return value;
}

}  // namespace

// Catches: a boot sector that destroys the partition table, or loads something else.
TEST(BootCode, TheBootSectorKeepsTheTable) {
  auto sector = bootSector(filled(512, 0xaa), filled(512, 0x11), 0x123456789a);
  for (size_t i = 440; i < 512; ++i) EXPECT_EQ(sector[i], 0xaa) << i;
  EXPECT_EQ(get(sector, 0x5c, 8), 0x123456789au);
  EXPECT_EQ(get(sector, 0x66, 2), 0x9090u);
  for (size_t i : {0x00, 0x5b, 0x64, 0x68, 439}) EXPECT_EQ(sector[i], 0x11) << i;
}

// Catches: a block list for another place, or one sector short.
TEST(BootCode, TheCoreKnowsWhereItsRestIs) {
  auto core = coreImage(filled(512 * 3 + 1, 0x22), 206848, 1 << 20);
  EXPECT_EQ(core.size(), 512 * 4);
  EXPECT_EQ(get(core, 0x1f4, 8), 206849u);
  EXPECT_EQ(get(core, 0x1fc, 2), 3u);
  EXPECT_EQ(get(core, 0x1fe, 2), 0x2222u) << "the segment is GRUB's";
  EXPECT_EQ(core[512 * 3], 0x22);
  EXPECT_EQ(core[512 * 3 + 1], 0);
  EXPECT_TRUE(kj::runCatchingExceptions([] { coreImage(filled(1025, 0), 1, 1024); }) != nullptr);
  EXPECT_TRUE(kj::runCatchingExceptions([] { coreImage(filled(512, 0), 1, 1024); }) != nullptr);
}

// Catches: a GRUB whose images have these fields at other places.
TEST(BootCode, TheImagesAreAsExpected) {
  auto text = readFile("/usr/lib/grub/i386-pc/boot.img");
  auto boot = text.asBytes();
  ASSERT_EQ(boot.size(), 512);
  EXPECT_EQ(get(boot, 0x5c, 8), 1u) << "the sector that GRUB's own default is";
  EXPECT_EQ(boot[0x64], 0xff) << "the drive that was started from";
  EXPECT_EQ(boot[0x66], 0xeb) << "the jump over the check of the drive";
  auto first = readFile("/usr/lib/grub/i386-pc/diskboot.img");
  ASSERT_EQ(first.size(), 512);
  EXPECT_EQ(get(first.asBytes(), 0x1f4, 8), 2u);
  EXPECT_EQ(get(first.asBytes(), 0x1fe, 2), 0x820u);
}

}  // namespace talos::install
