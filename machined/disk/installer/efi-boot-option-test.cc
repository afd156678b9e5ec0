// Boot options of UEFI firmware, their order, and the entry of a system disk.
#include "machined/disk/installer/efi-boot-option.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <string.h>

#include "common/testing/test-tree.h"

namespace talos::install {
namespace {

using machined::TestTree;

constexpr auto kVendor = "-8be4df61-93ca-11d2-aa0d-00e098032b8c"_kj;

EfiBootOption talos(kj::byte disk = 1) {
  EfiBootOption option{.description = kj::str("Talos"),
                       .file = {.partition = 1,
                                .firstSector = 2048,
                                .sectors = 204800,
                                .id = {},
                                .path = kj::str("\\EFI\\BOOT\\BOOTX64.EFI")}};
  memset(option.file.id.bytes, disk, sizeof(option.file.id.bytes));
  return option;
}

std::string hex(kj::ArrayPtr<const kj::byte> bytes) {
  std::string text;
  for (auto b : bytes) {
    char two[3];
    snprintf(two, sizeof(two), "%02x", b);
    text += two;
  }
  return text;
}

std::string orderOf(const kj::Maybe<kj::Vector<uint16_t>>& order) {
  KJ_IF_MAYBE (o, order) return kj::strArray(*o, ",").cStr();
  return "as it is";
}

// Catches: an option that the firmware does not understand. By the tables of the specification:
// 3.1.3 (the option), 10.3.5.1 (the hard drive), 10.3.5.4 (the file), 10.3.1 (the end).
TEST(EfiBootOption, AsTheSpecificationHasIt) {
  auto bytes = encode(talos(0xab));
  EXPECT_EQ(hex(bytes),
            "01000000"
            "5e00"
            "540061006c006f0073000000"
            "04012a00"
            "01000000"
            "0008000000000000"
            "0020030000000000"
            "abababababababababababababababab"
            "0202"
            "04043000"
            "5c004500460049005c0042004f004f0054005c0042004f004f0054005800360034002e00"
            "4500460049000000"
            "7fff0400");
}

// Catches: a field that is read from another place.
TEST(EfiBootOption, IsReadAsItWasWritten) {
  auto option = talos(7);
  auto again = KJ_ASSERT_NONNULL(decodeBootOption(encode(option)));
  EXPECT_EQ(again.description, option.description);
  EXPECT_EQ(again.file.path, option.file.path);
  EXPECT_EQ(again.file.partition, 1u);
  EXPECT_EQ(again.file.firstSector, 2048u);
  EXPECT_EQ(again.file.sectors, 204800u);
  EXPECT_TRUE(again.file.id == option.file.id);
}

// Catches: a damaged option that is read beyond its end, or counts as complete.
TEST(EfiBootOption, WhatIsCutOffOrOfAnotherKind) {
  auto whole = encode(talos());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_TRUE(decodeBootOption(whole.slice(0, size)) == nullptr) << size;
  }
  auto with = [&](size_t at, kj::byte value) {
    auto bytes = kj::heapArray(whole.asPtr());
    bytes[at] = value;
    return decodeBootOption(bytes) != nullptr;
  };
  EXPECT_TRUE(with(0, 1));
  EXPECT_FALSE(with(0, 0)) << "inactive";
  EXPECT_FALSE(with(18, 2)) << "another kind of path";
  EXPECT_FALSE(with(20, 3)) << "a node that is shorter than its head";
  EXPECT_FALSE(with(20, 0xff)) << "a node that is longer than the path";
  EXPECT_FALSE(with(58, 1)) << "a partition of an MBR";
}

// Catches: an option that overwrites another system's option; an option that is made twice; an
// order that loses entries.
TEST(EfiBootOption, TheEntryOfTheSystemDisk) {
  auto option = [](uint16_t number, kj::Array<kj::byte> bytes) {
    return BootVariables::Option{number, kj::mv(bytes)};
  };
  auto plan = [&](std::initializer_list<uint16_t> order,
                  kj::Vector<BootVariables::Option> options) {
    BootVariables found{.options = kj::mv(options), .order = {}};
    for (auto number : order) found.order.add(number);
    auto p = KJ_ASSERT_NONNULL(planBootEntry(found, talos()));
    return std::string(bootOptionName(p.number).cStr()) + (p.option == nullptr ? " is there" : "") +
           ", order " + orderOf(p.order);
  };
  auto others = [&] {
    kj::Vector<BootVariables::Option> all;
    all.add(option(0, kj::heapArray<kj::byte>({1, 2, 3})));
    all.add(option(2, encode(talos(9))));  // for another disk
    return all;
  };
  EXPECT_EQ(plan({}, {}), "Boot0000, order 0");
  EXPECT_EQ(plan({2, 0}, others()), "Boot0001, order 1,2,0");
  EXPECT_EQ(plan({2, 1, 0}, others()), "Boot0003, order 3,2,1,0") << "a number of the order alone";
  auto withOurs = [&] {
    auto all = others();
    all.add(option(5, encode(talos())));
    return all;
  };
  EXPECT_EQ(plan({5, 2, 0}, withOurs()), "Boot0005 is there, order as it is");
  EXPECT_EQ(plan({2, 5, 0}, withOurs()), "Boot0005 is there, order 5,2,0");
  EXPECT_EQ(plan({2, 0}, withOurs()), "Boot0005 is there, order 5,2,0") << "after a cut";
}

// Catches: a number in lower case, which is another variable; a variable of another kind.
TEST(EfiBootOption, Names) {
  EXPECT_EQ(bootOptionName(0xaf), "Boot00AF");
  EXPECT_EQ(KJ_ASSERT_NONNULL(bootOptionNumber("Boot00AF")), 0xaf);
  EXPECT_EQ(KJ_ASSERT_NONNULL(bootOptionNumber("BootFFFF")), 0xffff);
  for (auto name : {"Boot00af", "BootOrder", "BootNext", "Boot001", "Boot00010", "boot0001"}) {
    EXPECT_TRUE(bootOptionNumber(name) == nullptr) << name;
  }
}

// Catches: attributes that are missing, or are taken for a part of the value; a changed variable of
// another system; a second entry for the same disk.
TEST(EfiVariables, AnEntryIsAddedOnce) {
  TestTree tree;
  auto file = [&](kj::StringPtr name) { return kj::str(name, kVendor); };
  tree.file(file("Boot0000"), kj::heapString("\x07\0\0\0other", 9));
  tree.file(file("BootOrder"), kj::heapString("\x07\0\0\0\0\0", 6));
  tree.file("Boot0001-of-another-vendor", "x");
  tree.file(file("Boot0002"), "");  // cannot be read
  int raw;
  KJ_SYSCALL(raw = open(tree.root.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  kj::AutoCloseFd folder(raw);
  EXPECT_TRUE(addBootEntry(folder, talos()));
  EXPECT_FALSE(addBootEntry(folder, talos()));
  EXPECT_TRUE(addBootEntry(folder, talos(2)));
  auto content = [&](kj::StringPtr name) { return readFile(tree.at(file(name))); };
  EXPECT_EQ(hex(content("BootOrder").asBytes()),
            "07000000"
            "0300"
            "0100"
            "0000");
  EXPECT_EQ(hex(content("Boot0001").asBytes()), "07000000" + hex(encode(talos())));
  EXPECT_EQ(hex(content("Boot0003").asBytes()), "07000000" + hex(encode(talos(2))));
  EXPECT_EQ(content("Boot0000").size(), 9u);
}

// Catches: an order that the firmware does not report at the moment, and that is replaced by our
// entry alone.
TEST(EfiVariables, AnOrderThatCannotBeReadStays) {
  TestTree tree;
  auto order = kj::str("BootOrder", kVendor);
  auto refusal = [&] {
    int raw;
    KJ_SYSCALL(raw = open(tree.root.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    kj::AutoCloseFd folder(raw);
    return messageOf(
        KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&] { addBootEntry(folder, talos()); })));
  };
  tree.file(order, "\x07");
  EXPECT_EQ(refusal(), "cannot read BootOrder: it has 1 bytes");
  EXPECT_EQ(readFile(tree.at(order)), "\x07");
  KJ_SYSCALL(unlink(tree.at(order).cStr()));
  tree.directory(order);
  EXPECT_EQ(refusal(), "cannot read BootOrder: Is a directory");
  KJ_SYSCALL(rmdir(tree.at(order).cStr()));
  tree.link(order, order);
  EXPECT_EQ(refusal(), "cannot read BootOrder: Too many levels of symbolic links");
  EXPECT_TRUE(tryReadFile(tree.at(kj::str("Boot0000", kVendor))) == nullptr);
}

}  // namespace
}  // namespace talos::install
