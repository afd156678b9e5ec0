#include "machined/disk/image/disk-image.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/version.h"
#include "common/testing/test-tree.h"
#include "machined/disk/installer/locked-disk.h"
#include "machined/disk/installer/partition-layout.h"

namespace talos::install {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = kLeastDisk;

// A system whose parts have different content.
class Parts {
 public:
  Parts() {
    tree.directory("system");
    tree.directory("out");
    for (auto name : {"vmlinuz", "initramfs", "BOOTX64.EFI", "BOOTAA64.EFI"}) {
      tree.file(kj::str("system/", name), kj::str("the ", name, " of the test\n"));
    }
    auto sector = std::string(512, 'b');
    tree.file("system/boot.img", sector.c_str());
    tree.file("system/core.img", std::string(4096, 'c').c_str());
    tree.file("root", std::string(3u << 20, 'r').c_str());
  }
  void write(kj::StringPtr arch, kj::StringPtr arguments = "talos.platform=aws") {
    auto file = tree.at("out/disk"), folder = tree.at("system");
    writeDiskImage({.file = file, .bytes = kBytes, .arguments = arguments},
                   {.folder = folder, .image = tree.at("root"), .arch = arch});
  }
  std::string says(const std::string& command) const {
    auto* pipe = popen((command + " 2>&1").c_str(), "r");
    KJ_REQUIRE(pipe != nullptr);
    std::string said;
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, pipe)) > 0;) said.append(chunk, n);
    pclose(pipe);
    return said;
  }
  // Returns the file as GRUB reads it from the partition.
  std::string inBoot(const std::string& path) const {
    return says("grub-fstest " + std::string(tree.at("out/disk").cStr()) + " cat '(loop0,gpt3)/" +
                path + "'");
  }
  // Returns the file as mtools read it from the partition of UEFI.
  std::string ofEfi(const std::string& tool, const std::string& name) const {
    auto offset = KJ_ASSERT_NONNULL(find(table(), kEfi, 512)).offset;
    return says(tool + " -i " + tree.at("out/disk").cStr() + "@@" + std::to_string(offset) +
                " ::EFI/BOOT" + name);
  }
  kj::Array<const kj::byte> at(uint64_t offset, size_t size) const {
    return at(tree.at("out/disk").cStr(), offset, size);
  }
  static kj::Array<const kj::byte> at(const std::string& file, uint64_t offset, size_t size) {
    int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    KJ_REQUIRE(fd >= 0);
    kj::AutoCloseFd disk(fd);
    auto bytes = kj::heapArray<kj::byte>(size);
    auto n = pread(disk, bytes.begin(), size, static_cast<off_t>(offset));
    return kj::heapArray<const kj::byte>(bytes.begin(),
                                         static_cast<size_t>(kj::max(n, ssize_t{0})));
  }
  gpt::Table table() const { return tableOf(tree.at("out/disk").cStr()); }
  static gpt::Table tableOf(const std::string& file) {
    auto read = [&](uint64_t offset, size_t size) { return at(file, offset, size); };
    return KJ_REQUIRE_NONNULL(gpt::read(read, 512));
  }

  machined::TestTree tree;
};

}  // namespace

// Catches: a disk that the installer would not recognize as ours; a STATE that is not empty, with
// which the first boot fails; a file that occupies as many bytes as the disk.
TEST(DiskImage, IsAnInstalledDiskWithoutAConfig) {
  Parts parts;
  parts.write("amd64");
  auto table = parts.table();
  EXPECT_TRUE(table.inForce);
  EXPECT_EQ(installedOn(table), Installed::kYes);
  for (auto name : {kMeta, kState, kEphemeral}) {
    auto place = KJ_ASSERT_NONNULL(find(table, name, 512));
    EXPECT_TRUE(isZero(parts.at(place.offset, 4096))) << name.cStr();
  }
  struct stat info;
  ASSERT_EQ(stat(parts.tree.at("out/disk").cStr(), &info), 0);
  EXPECT_EQ(static_cast<uint64_t>(info.st_size), kBytes);
  EXPECT_LT(static_cast<uint64_t>(info.st_blocks) * 512, kBytes / 8);
}

// Catches: file systems that the boot loader cannot read, or that lack a file; files in a slot that
// is not started.
TEST(DiskImage, TheBootLoaderFindsTheSystem) {
  Parts parts;
  parts.write("amd64");
  EXPECT_EQ(parts.inBoot("A/vmlinuz"), "the vmlinuz of the test\n");
  EXPECT_THAT(parts.inBoot("A/boot.cfg"), HasSubstr("'talos.platform=aws' 'talos.slot=A'"));
  EXPECT_EQ(parts.inBoot("A/version"), std::string(buildVersion().tag.cStr()) + "\n");
  EXPECT_THAT(parts.inBoot("grub/grub.cfg"), HasSubstr("source /A/boot.cfg"));
  EXPECT_THAT(parts.inBoot("grub/grubenv"), HasSubstr("slot=A"));
  auto initramfs = parts.inBoot("A/initramfs");
  EXPECT_EQ(initramfs.find("the initramfs of the test\n"), 0u);
  EXPECT_GT(initramfs.size(), 3u << 20);
  EXPECT_EQ(parts.ofEfi("mtype", "/BOOTX64.EFI"), "the BOOTX64.EFI of the test\n");
  auto bios = KJ_ASSERT_NONNULL(find(parts.table(), kBios, 512));
  EXPECT_EQ(parts.at(bios.offset + 512, 1)[0], 'c');
  EXPECT_EQ(parts.at(0, 1)[0], 'b');
  EXPECT_EQ(parts.at(510, 2), (kj::arr<kj::byte>(0x55, 0xaa).asPtr()));
}

// Catches: the boot program of another architecture, which the firmware does not start; boot code
// of x86, whose files an image for arm64 lacks.
TEST(DiskImage, OfArm64HasNothingForABios) {
  Parts parts;
  for (auto name : {"boot.img", "core.img"}) {
    ASSERT_EQ(unlink(parts.tree.at(kj::str("system/", name)).cStr()), 0);
  }
  parts.write("arm64");
  EXPECT_EQ(parts.ofEfi("mtype", "/BOOTAA64.EFI"), "the BOOTAA64.EFI of the test\n");
  EXPECT_EQ(parts.ofEfi("mdir -b", ""), "::/EFI/BOOT/BOOTAA64.EFI\n");
  EXPECT_NE(parts.at(0, 1)[0], 'b');
  auto bios = KJ_ASSERT_NONNULL(find(parts.table(), kBios, 512));
  EXPECT_TRUE(isZero(parts.at(bios.offset, 4096)));
  EXPECT_EQ(installedOn(parts.table()), Installed::kYes);
}

// Catches: a random identity, or today's date, which makes two builds of one release differ; an
// identity that two platforms share; inodes with wrong checksums, which the kernel does not read.
TEST(DiskImage, TheSameSystemGivesTheSameBytes) {
  Parts parts;
  constexpr time_t kDate = 1700000000;  // 2023-11-14 22:13:20 UTC
  const timespec times[] = {{.tv_sec = kDate}, {.tv_sec = kDate}};
  ASSERT_EQ(utimensat(AT_FDCWD, parts.tree.at("system/vmlinuz").cStr(), times, 0), 0);
  std::string out = parts.tree.at("out").cStr();
  parts.write("amd64");
  ASSERT_EQ(rename((out + "/disk").c_str(), (out + "/first").c_str()), 0);
  parts.write("amd64");
  EXPECT_EQ(parts.says("cmp " + out + "/first " + out + "/disk"), "");
  EXPECT_THAT(parts.ofEfi("TZ=UTC mdir", ""), HasSubstr("2023-11-14"));

  auto boot = KJ_ASSERT_NONNULL(find(parts.table(), kBoot, 512));
  parts.says("dd if=" + out + "/disk of=" + out + "/boot bs=1M skip=" +
             std::to_string(boot.offset >> 20) + " count=" + std::to_string(boot.size >> 20));
  auto repaired = parts.says("{ xfs_repair -n -f " + out + "/boot && echo whole; }");
  EXPECT_THAT(repaired, testing::EndsWith("whole\n")) << repaired;
  auto inode = parts.says("xfs_db -r -f -c 'path /A/version' -c 'print core.mtime.sec v3.crc' " +
                          out + "/boot");
  EXPECT_THAT(inode, HasSubstr("2023")) << inode;
  EXPECT_THAT(inode, HasSubstr("(correct)")) << inode;

  parts.write("amd64", "talos.platform=azure");
  EXPECT_NE(parts.says("cmp " + out + "/first " + out + "/disk"), "");
  EXPECT_FALSE(parts.table().disk == parts.tableOf(out + "/first").disk);
}

// Catches: a partial image after an error, or its temporary files beside it.
TEST(DiskImage, AnErrorLeavesNothing) {
  Parts parts;
  ASSERT_EQ(unlink(parts.tree.at("system/vmlinuz").cStr()), 0);
  auto failure = kj::runCatchingExceptions([&] { parts.write("amd64"); });
  KJ_IF_MAYBE (e, failure) {
    EXPECT_THAT(messageOf(*e).cStr(), HasSubstr("/vmlinuz"));
  } else {
    ADD_FAILURE() << "no error";
  }
  EXPECT_EQ(parts.says("ls -A " + std::string(parts.tree.at("out").cStr())), "");
}

}  // namespace talos::install
