#include "machined/confined/parser/superblock.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>

#include "common/base/file.h"

namespace talos::parse {
namespace {

using Image = std::string;

std::string look(const Image& image) {
  auto found = readSuperblock([&](uint64_t offset, size_t size) {
    if (offset >= image.size()) return kj::Array<const kj::byte>();
    size_t there = kj::min(size, image.size() - offset);
    auto* from = reinterpret_cast<const kj::byte*>(image.data()) + offset;
    return kj::heapArray<const kj::byte>(from, there);
  });
  KJ_IF_MAYBE (f, found) return kj::str(nameOf(f->type), " '", f->label, "'").cStr();
  return "none";
}

void put(Image& image, size_t at, const Image& bytes) {
  if (image.size() < at + bytes.size()) image.resize(at + bytes.size());
  image.replace(at, bytes.size(), bytes);
}

Image xfs(const Image& label) {
  Image i(512, 0);
  put(i, 0, "XFSB");
  put(i, 108, label);
  return i;
}

// Returns an image as it is until mkfs.xfs is done.
Image unfinishedXfs() {
  Image i = xfs("x");
  i[126] = 1;
  return i;
}

Image ext4(const Image& label) {
  Image i(2048, 0);
  put(i, 1024 + 56, "\x53\xef");
  put(i, 1024 + 120, label);
  return i;
}

// A FAT16 boot sector: one reserved sector, two tables of one sector, 16 entries in the root
// directory.
Image fat(const Image& label) {
  Image i(4096, 0);
  put(i, 0, Image("\xeb\x3c\x90mkfs.fat\x00\x02\x01\x01\x00\x02\x10\x00\x00\x10\xf8\x01\x00", 24));
  put(i, 38, "\x29");
  put(i, 43, label);
  put(i, 510, "\x55\xaa");
  return i;
}
constexpr size_t kFatRoot = 3 * 512;

Image rootEntry(const Image& name, char attributes) {
  Image i(32, 0);
  put(i, 0, name);
  i[11] = attributes;
  return i;
}

Image descriptor(char type, const Image& label, const Image& escape = "") {
  Image i(2048, 0);
  i[0] = type;
  put(i, 1, "CD001\x01");
  put(i, 40, label + Image(32 - label.size(), ' '));
  put(i, 88, escape);
  return i;
}

Image iso(std::initializer_list<Image> descriptors) {
  Image i(32768, 0);
  for (auto& d : descriptors) i += d;
  return i + descriptor('\xff', "");
}

Image wide(const Image& text) {
  Image result;
  for (char c : text) result += Image(1, 0) + c;
  return result;
}

// Catches: a label cut, with its padding, or of the wrong place; a file system taken for another.
TEST(Superblock, Labels) {
  EXPECT_EQ("xfs 'STATE'", look(xfs("STATE")));
  EXPECT_EQ("xfs 'twelve_chars'", look(xfs("twelve_charsXX")));
  EXPECT_EQ("ext4 'STATE'", look(ext4("STATE")));
  EXPECT_EQ("vfat 'CIDATA'", look(fat("CIDATA     ")));
  EXPECT_EQ("vfat ''", look(fat("NO NAME    ")));
  EXPECT_EQ("iso9660 'metal-iso'", look(iso({descriptor(1, "metal-iso")})));
  EXPECT_EQ("crypto_LUKS ''", look(Image("LUKS\xba\xbe\0\2", 8)));
  EXPECT_EQ("none", look(""));
  EXPECT_EQ("none", look(Image(65536, 0)));
  EXPECT_EQ("none", look(xfs("STATE").substr(0, 110)));
  // Catches: a file system that was incomplete when the power was cut, and is mounted.
  EXPECT_EQ("none", look(unfinishedXfs()));
}

// Catches: the capitals of the primary descriptor preferred to the name that was given, and a name
// that Joliet had to cut preferred to the whole one.
TEST(Superblock, JolietHasTheNameAsGiven) {
  auto joliet = [](const Image& text) {
    return descriptor(2, wide(text + Image(16 - text.size(), ' ')), "%/E");
  };
  EXPECT_EQ("iso9660 'cidata'", look(iso({descriptor(1, "CIDATA"), joliet("cidata")})));
  EXPECT_EQ("iso9660 'A_NAME_OF_TWENTY_LET'",
            look(iso({descriptor(1, "A_NAME_OF_TWENTY_LET"), joliet("a_name_of_twenty")})));
  EXPECT_EQ("iso9660 'CIDATA'", look(iso({descriptor(1, "CIDATA"), descriptor(2, wide("x"))})))
      << "a supplementary descriptor that is not Joliet's";
}

Image recognition(std::initializer_list<const char*> names, size_t sector = 2048) {
  Image i(32768, 0);
  for (auto name : names) {
    Image d(sector, 0);
    put(d, 1, Image(name) + "\x01");
    i += d;
  }
  return i + Image(sector, 0);
}

// Catches: a disc of Azure, which has UDF alone, that is not found; a disc with both that is
// mounted as ISO 9660, whose names are in capitals; a sequence that is not finished, or in another
// order, accepted.
TEST(Superblock, Udf) {
  EXPECT_EQ("udf ''", look(recognition({"BEA01", "NSR02", "TEA01"})));
  EXPECT_EQ("udf ''", look(recognition({"BEA01", "NSR03", "TEA01"})));
  EXPECT_EQ("udf ''", look(recognition({"BEA01", "BOOT2", "NSR03", "TEA01"}, 4096)));
  auto both = iso({descriptor(1, "CIDATA")});
  both += recognition({"BEA01", "NSR03", "TEA01"}).substr(32768);
  EXPECT_EQ("udf 'CIDATA'", look(both));
  for (auto& wrong :
       {recognition({"BEA01", "NSR02"}), recognition({"NSR02", "BEA01", "TEA01"}),
        recognition({"BEA01", "TEA01"}), recognition({"BEA01", "x", "NSR02", "TEA01"}),
        recognition({"BEA01", "NSR04", "TEA01"}), recognition({"BEA01", "NSR02", "TEA01"}, 512),
        recognition({"BEA01", "NSR02", "TEA01"}).substr(0, 32768 + 2 * 2048 + 3)}) {
    EXPECT_EQ("none", look(wrong));
  }
}

// Catches: the label from the stick's formatting instead of its present label.
TEST(Superblock, TheRootDirectoryOfFatComesFirst) {
  auto stick = fat("OLD        ");
  put(stick, kFatRoot, rootEntry("LONGNAME   ", 0x0f));
  put(stick, kFatRoot + 32,
      rootEntry("\xe5"
                "ELETED    ",
                0x08));
  put(stick, kFatRoot + 64, rootEntry("CONFIG  YAM", 0x20));
  put(stick, kFatRoot + 96, rootEntry("CIDATA     ", 0x08));
  EXPECT_EQ("vfat 'CIDATA'", look(stick));
}

// Catches: a large stick whose label is read from the place that only small sticks use.
TEST(Superblock, Fat32) {
  Image i(16384, 0);
  // Clusters of four sectors, two reserved sectors, two tables of one sector, the root directory in
  // cluster 3.
  put(i, 0, Image("\xeb\x58\x90mkfs.fat\x00\x02\x04\x02\x00\x02\x00\x00\x00\x00\xf8\x00\x00", 24));
  put(i, 36, "\x01");
  put(i, 44, "\x03");
  put(i, 66, "\x29");
  put(i, 71, "OLD        ");
  put(i, 510, "\x55\xaa");
  EXPECT_EQ("vfat 'OLD'", look(i));
  put(i, (2 + 2 * 1 + 1 * 4) * 512, rootEntry("CIDATA     ", 0x08));
  EXPECT_EQ("vfat 'CIDATA'", look(i));
  put(i, 44, "\x01");
  EXPECT_EQ("none", look(i));
}

// Catches: a partition table or a boot loader (they end in 55 aa too) taken for FAT.
TEST(Superblock, APartitionTableIsNoFileSystem) {
  Image mbr(4096, 0);
  put(mbr, 0, "\xeb\x63\x90");
  put(mbr, 446, Image("\x80\x20\x21\x00\x83", 5));
  put(mbr, 510, "\x55\xaa");
  EXPECT_EQ("none", look(mbr));
  auto odd = fat("X");
  odd[11] = 3;  // bytes a sector
  EXPECT_EQ("none", look(odd));
}

// Catches: a disc for sticks, which begins with a partition table, that is not seen as a disc.
TEST(Superblock, HybridDisc) {
  auto disc = iso({descriptor(1, "metal-iso")});
  put(disc, 0, fat("EFI        "));
  EXPECT_EQ("iso9660 'metal-iso'", look(disc));
}

// Catches: escape sequences or half a character of a foreign label on the console.
TEST(Superblock, LabelsAreOneCleanLine) {
  EXPECT_EQ("xfs 'a?[31mb c'", look(xfs("a\x1b[31mb\nc")));
  EXPECT_EQ("xfs 'gr\xc3\xbc\xc3\x9f'", look(xfs("gr\xc3\xbc\xc3\x9f")));
  EXPECT_EQ(
      "xfs 'a?"
      "?'",
      look(xfs("a\xc3(").replace(109, 2, "\xc3\xff")));
}

// Volumes made by the usual tools.
class RealVolume : public testing::Test {
 protected:
  kj::String folder;
  RealVolume() {
    char pattern[] = "/tmp/superblock-test-XXXXXX";
    KJ_ASSERT(mkdtemp(pattern) != nullptr);
    folder = kj::str(pattern);
  }
  ~RealVolume() noexcept override { removeTree(folder); }

  std::string make(kj::StringPtr command) {
    auto line = kj::str("cd ", folder, " && { ", command, "; } >log 2>&1");
    if (system(line.cStr()) != 0) return readFile(kj::str(folder, "/log")).cStr();
    auto content = readFile(kj::str(folder, "/image"), 2u << 20);
    return look(Image(content.begin(), content.size()));
  }
};

// Catches: a standard that this file implements wrongly.
TEST_F(RealVolume, Fat) {
  EXPECT_EQ("vfat 'CIDATA'", make("truncate -s 1M image && mkfs.vfat -n CIDATA image"));
  EXPECT_EQ("vfat ''", make("truncate -s 1M image && mkfs.vfat image"));
  EXPECT_EQ("vfat 'METAL-ISO'", make("truncate -s 40M full && mkfs.vfat -F 32 -n METAL-ISO full && "
                                     "head -c 2M full >image"));
  EXPECT_EQ("vfat 'SIXTEEN'", make("truncate -s 20M full && mkfs.vfat -F 16 -n SIXTEEN full && "
                                   "head -c 2M full >image"));
}
TEST_F(RealVolume, Iso) {
  EXPECT_EQ("iso9660 'cidata'",
            make("mkdir d && echo x >d/user-data && xorriso -as mkisofs -V cidata "
                 "-J -r -o image d"));
  EXPECT_EQ("iso9660 'metal-iso'",
            make("xorriso -as mkisofs -V metal-iso -r -o image d || "
                 "{ mkdir d; xorriso -as mkisofs -V metal-iso -r -o image d; }"));
}
TEST_F(RealVolume, Xfs) {
  EXPECT_EQ("xfs 'STATE'", make("truncate -s 320M full && mkfs.xfs -q -L STATE full && "
                                "head -c 1M full >image"));
}

}  // namespace
}  // namespace talos::parse
