#include "talosctl/cluster/containers/node-slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/test-tree.h"

namespace talos::cluster {
namespace {

using install::nameOf;
using install::Slot;
using install::SlotState;

std::string textOf(const SlotChoice& choice) {
  std::string text = nameOf(choice.slot).cStr();
  KJ_IF_MAYBE (seconds, choice.trialS) text += " on trial " + std::to_string(*seconds);
  for (auto& line : choice.said) text += std::string("; ") + line.cStr();
  return text;
}

std::string textOf(const SlotState& state) {
  std::string text = nameOf(state.confirmed).cStr();
  KJ_IF_MAYBE (slot, state.attempt) text += std::string(" try ") + nameOf(*slot).cStr();
  return text + " " + std::to_string(state.tries);
}

// Returns the header of a squashfs with this length.
kj::String squashfs(kj::StringPtr name, uint8_t length = 120) {
  auto text = kj::heapString(120);
  memset(text.begin(), 0, text.size());
  memcpy(text.begin(), "hsqs", 4);
  text[40] = static_cast<char>(length);
  memcpy(text.begin() + 100, name.begin(), name.size());
  return text;
}

struct NodeSlots : testing::Test {
  ~NodeSlots() noexcept override {}
  machined::TestTree tree;
  kj::String slots = tree.at("slots");

  std::string unmountable;  // image that the kernel refuses

  void SetUp() override {
    tree.file("image.sqsh", squashfs("first"));
    makeSlots(slots, tree.at("image.sqsh"), "v1");
  }
  void second() {
    tree.file("slots/B/rootfs.sqsh", squashfs("second"));
    tree.file("slots/B/version", "v2\n");
  }
  void record(const SlotState& state) {
    tree.file("slots/grub/grubenv", install::writeSlots(state));
  }
  std::string recorded() {
    return textOf(KJ_ASSERT_NONNULL(install::readSlots(readFile(tree.at("slots/grub/grubenv")))));
  }
  // Returns the choice, with the name in the image that is started.
  std::string start() {
    try {
      char name[7] = {};
      auto choice = startOfSlots(slots, [&](kj::AutoCloseFd image) {
        KJ_ASSERT(pread(image, name, 6, 100) >= 0);
        if (unmountable == name) fail(ErrorKind::kFailedPrecondition, "the kernel refuses it");
      });
      return textOf(choice) + ": " + name;
    } catch (const kj::Exception& e) {
      return messageOf(e).cStr();
    }
  }
};

}  // namespace

// Catches: a slot that is tried forever, or never; a trial of the confirmed system; a count that is
// not saved before the slot is chosen.
TEST(SlotChoice, FromTheRecord) {
  const struct {
    SlotState state;
    const char *chosen, *saved;
  } kCases[] = {
      {{}, "A", ""},
      {{.confirmed = Slot::kB}, "B", ""},
      {{Slot::kA, Slot::kB, 1, 90}, "B on trial 90", "A try B 0"},
      {{Slot::kA, Slot::kB, 3}, "B on trial 600", "A try B 2"},
      {{Slot::kA, Slot::kB, 0}, "A", ""},
      {{Slot::kB, Slot::kA, 1, 30}, "A on trial 30", "B try A 0"},
      {{Slot::kB, Slot::kB, 1}, "B", "B try B 0"},
  };
  for (auto& row : kCases) {
    std::string saved;
    auto save = [&](const SlotState& state) { saved = textOf(state); };
    EXPECT_EQ(textOf(chooseSlot(SlotState(row.state), save)), row.chosen) << textOf(row.state);
    EXPECT_EQ(saved, row.saved) << textOf(row.state);
  }
  auto refuse = [](const SlotState&) { fail(ErrorKind::kInternal, "the disk is full"); };
  EXPECT_EQ(textOf(chooseSlot(SlotState{Slot::kA, Slot::kB, 1}, refuse)),
            "A; slot B is not tried, as the try cannot be counted: the disk is full");
  EXPECT_EQ(textOf(chooseSlot(nullptr, refuse)),
            "A; the record of the slots is missing or damaged; starting slot A");
}

// Catches: a system that does not know its slot, or that it is on trial.
TEST(SlotChoice, IsPassedToTheSystem) {
  SlotChoice choice;
  EXPECT_EQ(argumentsOf(choice), "talos.slot=A");
  choice.slot = Slot::kB;
  choice.trialS = 90;
  EXPECT_EQ(argumentsOf(choice), "talos.slot=B talos.trial=90");
}

// Catches: a cluster that cannot be created if its folder and the build are on two file systems.
TEST_F(NodeSlots, TheImageIsOnAnotherFileSystem) {
  int memory;
  KJ_SYSCALL(memory = memfd_create("image", MFD_CLOEXEC));
  kj::AutoCloseFd image(memory);
  auto text = squashfs("memory");
  ASSERT_EQ(write(image, text.begin(), text.size()), ssize_t(text.size()));
  makeSlots(tree.at("others"), kj::str("/proc/self/fd/", memory), "v1");
  EXPECT_EQ(readFile(tree.at("others/A/rootfs.sqsh")), text);
}

// Catches: a system on trial that is started again after a crash or a power cut.
TEST_F(NodeSlots, ATryIsCountedOnTheDisk) {
  EXPECT_EQ(start(), "A: first");
  second();
  record({Slot::kA, Slot::kB, 1, 90});
  EXPECT_EQ(start(), "B on trial 90: second");
  EXPECT_EQ(recorded(), "A try B 0");
  EXPECT_EQ(start(), "A: first");
  record({.confirmed = Slot::kB});
  EXPECT_EQ(start(), "B: second");
}

// Catches: a node that does not start at all, or tries forever, because of one bad system.
TEST_F(NodeSlots, ASystemThatCannotBeStarted) {
  auto fallsBack = [&](const std::string& reason) {
    record({Slot::kA, Slot::kB, 1});
    EXPECT_EQ(start(), "A; slot B cannot be started: " + reason + "; starting slot A: first");
    EXPECT_EQ(recorded(), "A try B 0");
  };
  fallsBack("cannot open B/rootfs.sqsh: No such file or directory");
  tree.file("slots/B/rootfs.sqsh", squashfs("second", 121));
  fallsBack("B/rootfs.sqsh is cut off: it has 120 of 121 bytes");
  tree.file("slots/B/rootfs.sqsh", kj::heapString(squashfs("second").slice(0, 95)));
  fallsBack("B/rootfs.sqsh is not a squashfs");
  second();
  unmountable = "second";
  fallsBack("the kernel refuses it");
  KJ_SYSCALL(unlink(tree.at("slots/B/rootfs.sqsh").cStr()));
  tree.link("slots/B/rootfs.sqsh", tree.at("image.sqsh"));
  fallsBack("cannot open B/rootfs.sqsh: Too many levels of symbolic links");
  KJ_SYSCALL(unlink(tree.at("slots/B/rootfs.sqsh").cStr()));
  tree.directory("slots/B/rootfs.sqsh");
  fallsBack("B/rootfs.sqsh is not a file");
  KJ_SYSCALL(unlink(tree.at("slots/A/rootfs.sqsh").cStr()));
  EXPECT_THAT(start(), testing::HasSubstr("neither system can be started: cannot open A/rootfs"));
}

// Catches: a node that a damaged or invalid record stops; a link as a record that is followed out
// of the folder.
TEST_F(NodeSlots, ARecordThatCannotBeRead) {
  second();
  auto startsA = [&]() {
    EXPECT_EQ(start(), "A; the record of the slots is missing or damaged; starting slot A: first");
  };
  tree.file("slots/grub/grubenv", "slot=B\n");
  startsA();
  KJ_SYSCALL(unlink(tree.at("slots/grub/grubenv").cStr()));
  startsA();
  tree.file("elsewhere", install::writeSlots({Slot::kA, Slot::kB, 1}));
  tree.link("slots/grub/grubenv", tree.at("elsewhere"));
  startsA();
  EXPECT_EQ(readFile(tree.at("elsewhere")), install::writeSlots({Slot::kA, Slot::kB, 1}));
}

// Catches: an existing node whose slot is created again at each start; a folder that a crash has
// left incomplete and that counts as complete.
TEST_F(NodeSlots, AreMadeOnceFromTheImage) {
  EXPECT_EQ(readFile(tree.at("slots/A/version")), "v1\n");
  EXPECT_EQ(recorded(), "A 0");
  EXPECT_EQ(std::string(readFile(tree.at("slots/meta")).cStr(), install::kMetaFileBytes),
            std::string(install::kMetaFileBytes, 0));
  tree.file("image.sqsh", squashfs("other"));
  makeSlots(slots, tree.at("image.sqsh"), "v9");
  EXPECT_EQ(start(), "A: first");

  removeTree(slots);
  tree.directory("slots.new/A");
  tree.file("slots.new/A/rootfs.sqsh", "half");
  makeSlots(slots, tree.at("image.sqsh"), "v9");
  EXPECT_EQ(start(), "A: other");
  EXPECT_NE(access(tree.at("slots.new").cStr(), F_OK), 0);
}

// Catches: a node whose request is served twice, or with another slot's image; one that waits for
// an answer in vain; a request through a link into the host.
TEST_F(NodeSlots, ARequestForAMountIsServedOnce) {
  second();
  std::string mounted;
  auto serve = [&]() -> std::string {
    mounted = "";
    auto line = serveMountRequest(slots, [&](kj::AutoCloseFd image) {
      if (!unmountable.empty()) fail(ErrorKind::kFailedPrecondition, unmountable.c_str());
      char text[16] = {};
      KJ_SYSCALL(pread(image, text, sizeof text - 1, 100));
      mounted = text;
    });
    return line.map([](kj::String& l) { return std::string(l.cStr()); }).orDefault("nothing");
  };
  EXPECT_EQ(serve(), "nothing");
  tree.file("slots/mount", "B\n");
  EXPECT_EQ(serve(), "mounted slot B for the running node");
  EXPECT_EQ(mounted, "second");
  EXPECT_EQ(serve(), "nothing");
  unmountable = "no loop device";
  tree.file("slots/mount", "A\n");
  EXPECT_EQ(serve(), "the node gets no mount: no loop device");
  EXPECT_EQ(KJ_ASSERT_NONNULL(tryReadFile(tree.at("slots/mount-refused"))), "no loop device");
  unmountable = "";
  tree.file("slots/mount", "C\n");
  EXPECT_EQ(serve(), "the node gets no mount: the request names no slot");
  tree.file("B", "B\n");
  ASSERT_EQ(symlink("../B", tree.at("slots/mount").cStr()), 0);
  EXPECT_NE(serve(), "nothing");
  EXPECT_EQ(mounted, "");
  EXPECT_EQ(serve(), "nothing");
}

}  // namespace talos::cluster
