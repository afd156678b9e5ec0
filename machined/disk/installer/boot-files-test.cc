#include "machined/disk/installer/boot-files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "machined/disk/installer/file-systems.h"
#include "machined/disk/installer/partition-layout.h"

namespace talos::install {
namespace {

using testing::HasSubstr;

struct Ran {
  int status;
  std::string said;
};
Ran run(const std::string& command) {
  auto* pipe = popen((command + " 2>&1").c_str(), "r");
  KJ_REQUIRE(pipe != nullptr);
  std::string said;
  char chunk[4096];
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, pipe)) > 0;) said.append(chunk, n);
  return {pclose(pipe), said};
}

std::string show(kj::Maybe<SlotState> state) {
  KJ_IF_MAYBE (s, state) {
    std::string attempt = "-";
    KJ_IF_MAYBE (slot, s->attempt) attempt = nameOf(*slot).cStr();
    return std::string(nameOf(s->confirmed).cStr()) + " " + attempt + " " +
           std::to_string(s->tries) + " " + std::to_string(s->healthTimeoutS);
  }
  return "none";
}

kj::String arguments(kj::StringPtr platform, kj::StringPtr config,
                     std::initializer_list<kj::StringPtr> extra, kj::StringPtr arch = "amd64") {
  return bootArguments({platform, config, kj::arrayPtr(extra.begin(), extra.size()), arch});
}

}  // namespace

// Catches: a block that GRUB's own tools read differently.
TEST(BootFiles, GrubReadsAndWritesTheState) {
  machined::TestTree tree;
  auto path = kj::str(tree.root, "/grubenv");
  writeFileAtomically(path, writeSlots({Slot::kA, Slot::kB, 3}), 0600);
  auto listed = run(std::string("grub-editenv ") + path.cStr() + " list");
  EXPECT_EQ(listed.status, 0) << listed.said;
  EXPECT_EQ(listed.said, "slot=A\ntry=B\ntries=3\nwithin=600\n");
  EXPECT_EQ(run(std::string("grub-editenv ") + path.cStr() + " set tries=2").status, 0);
  EXPECT_EQ(show(readSlots(readFile(path))), "A B 2 600");
}

// Catches: a configuration that GRUB cannot parse; it is read only at the next start.
TEST(BootFiles, GrubParsesItsConfiguration) {
  machined::TestTree tree;
  auto path = kj::str(tree.root, "/grub.cfg");
  auto entry = bootEntry(Slot::kB, "a=1;b c={$x} console=ttyS0,115200n8");
  for (auto& text : {grubConfig(), kj::str(entry)}) {
    writeFileAtomically(path, text, 0600);
    auto checked = run(std::string("grub-script-check ") + path.cStr());
    EXPECT_EQ(checked.status, 0) << checked.said << text.cStr();
  }
  EXPECT_EQ(entry,
            "linux /B/vmlinuz 'a=1;b' 'c={$x}' 'console=ttyS0,115200n8' 'talos.slot=B' $trialB\n"
            "initrd /B/initramfs\n");
}

// Catches: a slot that is tried for ever, or never.
TEST(BootFiles, TheConfigurationCountsDown) {
  auto text = grubConfig();
  for (unsigned left = 1; left <= kMostTries; ++left) {
    EXPECT_THAT(text.cStr(), HasSubstr(kj::str("[ \"$tries\" = ", left, " ]; then\n    set tries=",
                                               left - 1, "\n    if save_env tries; then")
                                           .cStr()));
  }
}

// Catches: another order or other values than documented; a console that is not replaced; another
// argument that is.
TEST(BootFiles, Arguments) {
  constexpr const char* kDefaults =
      "init_on_alloc=1 slab_nomerge pti=on consoleblank=0 nvme_core.io_timeout=4294967295 "
      "random.trust_cpu=on printk.devkmsg=on ima_template=ima-ng ima_appraise=fix ima_hash=sha512";
  EXPECT_STREQ(arguments("metal", "", {}).cStr(),
               (std::string("talos.platform=metal talos.config=none console=ttyS0 console=tty0 ") +
                kDefaults)
                   .c_str());
  EXPECT_STREQ(arguments("metal", "https://c/x?a=b", {"console=ttyS1,9600", "pti=off", "a"}).cStr(),
               (std::string("talos.platform=metal talos.config=https://c/x?a=b ") + kDefaults +
                " console=ttyS1,9600 pti=off a")
                   .c_str());
  EXPECT_STREQ(
      arguments("packet", "", {}).cStr(),
      (std::string("talos.platform=packet talos.config=none console=ttyS1,115200n8 ") + kDefaults)
          .c_str());
  EXPECT_STREQ(
      arguments("aws", "", {}).cStr(),
      (std::string("talos.platform=aws talos.config=none console=tty1 console=ttyS0 ") + kDefaults)
          .c_str());
  EXPECT_STREQ(
      arguments("other", "", {"console=x"}).cStr(),
      (std::string("talos.platform=other talos.config=none ") + kDefaults + " console=x").c_str());
}

// Catches: a source, added to the line of a CD or of iPXE, that comes second.
TEST(BootFiles, ArgumentsThatASourceMayFollow) {
  auto text = [](kj::StringPtr config) {
    return bootArguments({.platform = "metal", .config = config, .sourceMayFollow = true});
  };
  EXPECT_THAT(text("").cStr(), testing::StartsWith("talos.platform=metal console=ttyS0 "));
  EXPECT_THAT(text("").cStr(), testing::Not(HasSubstr("talos.config")));
  EXPECT_THAT(text("http://c/x").cStr(), HasSubstr(" talos.config=http://c/x console=ttyS0 "));
}

// Catches: a machine whose serial port stays silent; an argument of x86 that arm64 lacks; a changed
// argument of the user.
TEST(BootFiles, ArgumentsOfArm64) {
  constexpr const char* kDefaults =
      "init_on_alloc=1 slab_nomerge kpti=on consoleblank=0 nvme_core.io_timeout=4294967295 "
      "random.trust_cpu=on printk.devkmsg=on ima_template=ima-ng ima_appraise=fix ima_hash=sha512";
  struct {
    const char* platform;
    const char* consoles;
  } rows[] = {{"metal", "console=ttyAMA0 console=tty0 "},
              {"nocloud", "console=tty1 console=ttyAMA0 "},
              {"equinixMetal", "console=ttyS1,115200n8 "}};
  for (auto& row : rows) {
    EXPECT_EQ(std::string(arguments(row.platform, "", {}, "arm64").cStr()),
              std::string("talos.platform=") + row.platform + " talos.config=none " + row.consoles +
                  kDefaults);
  }
  EXPECT_THAT(arguments("metal", "", {"console=ttyS0", "pti=on"}, "arm64").cStr(),
              testing::EndsWith(" console=ttyS0 pti=on"));
}

// Catches: a partition without space for a second system with all drivers beside the first.
TEST(BootFileSystem, HasRoomForTwoSystems) {
  constexpr uint64_t kSystemBytes = 140 * kMiB, kBlock = 4096;
  machined::TestTree tree;
  auto path = tree.at("boot");
  tree.file("boot", "");
  auto table = layout(kLeastDisk, 512);
  auto size = KJ_ASSERT_NONNULL(find(table, kBoot, 512)).size;
  ASSERT_EQ(truncate(path.cStr(), static_cast<off_t>(size)), 0);
  makeBootXfs(path);
  auto shown = run(std::string("xfs_db -r -c 'sb 0' -c 'p fdblocks' ") + path.cStr());
  ASSERT_EQ(shown.said.find("fdblocks = "), 0u) << shown.said;
  EXPECT_GE(std::stoull(shown.said.substr(strlen("fdblocks = "))) * kBlock, 2 * kSystemBytes);
}

}  // namespace talos::install
