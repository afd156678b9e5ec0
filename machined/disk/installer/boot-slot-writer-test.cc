#include "machined/disk/installer/boot-slot-writer.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/testing/test-tree.h"

namespace talos::install {
namespace {

using testing::HasSubstr;

// Runs steps in the test's own process, with all its rights.
class NoConfinement final : public Confinement {
 public:
  void enter(StepKind, confine::LandlockPaths) override {}
  kj::String step(kj::Function<kj::String(Confinement&)> body) override { return body(*this); }
};

std::string textOf(const SlotsOnDisk& found) {
  std::string text = nameOf(found.state.confirmed).cStr();
  KJ_IF_MAYBE (slot, found.state.attempt) {
    text += std::string(" try ") + nameOf(*slot).cStr() + " " + std::to_string(found.state.tries);
  }
  for (auto& system : found.systems) {
    text += std::string("; ") + nameOf(system.slot).cStr() + " " + system.version.cStr();
  }
  return text;
}

// The folder of a node in a container, whose slot A runs, and an installer image.
struct FolderOfSlots : testing::Test {
  ~FolderOfSlots() noexcept override {}
  machined::TestTree tree;
  kj::String slots = tree.at("slots"), content = kj::str("hsqs the next system");
  std::string said;
  NoConfinement confinement;

  kj::StringPtr failsAt = "";  // the power fails before the step with this message

  void SetUp() override {
    for (auto folder : {"slots/grub"_kj, "slots/A"_kj, "image/usr/install"_kj}) {
      tree.directory(folder);
    }
    tree.file("slots/grub/grubenv", writeSlots({}));
    tree.file("slots/A/rootfs.sqsh", "hsqs the first system");
    tree.file("slots/A/version", "v1\n");
    tree.file("image/usr/install/version", "v2\n");
    tree.file("image/usr/install/rootfs.sqsh", content);
    list(content);
  }
  void list(kj::StringPtr text) {
    Sha256 digest;
    digest.add(text.asBytes());
    tree.file("image/usr/install/SHA256SUMS", kj::str(digest.hex(), "  rootfs.sqsh\n"));
  }
  std::string facts(kj::Maybe<SlotAt> slot = nullptr) {
    auto found = factsOf(image(), slot, confinement);
    return kj::str(found.version, " ", found.configKeys).cStr();
  }
  ImageSource image() { return ImageMount{kj::str("bind"), tree.at("image"), {}}; }
  std::string upgradeTo(Slot slot) {
    kj::Function<void(kj::StringPtr)> say = [this](kj::StringPtr line) {
      if (failsAt.size() > 0 && line.startsWith(failsAt)) {
        fail(ErrorKind::kInternal, "the power is gone");
      }
      said += std::string(line.cStr()) + "; ";
    };
    return problem([&]() { upgrade(slots, slot, image(), "a=1", say, confinement); });
  }
  std::string chosen(const SlotState& state) {
    return problem([&]() { choose(slots, state, confinement); });
  }
  std::string problem(kj::Function<void()> call) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(call)) return messageOf(*e).cStr();
    return "";
  }
  std::string now() { return textOf(readSlotsOf(slots, confinement)); }
};

}  // namespace

// Catches: an image of an earlier release, without a list of config keys, that is taken for one
// that knows no keys; a list that is too long to be kept.
TEST_F(FolderOfSlots, AnImageSaysWhatItIs) {
  EXPECT_EQ(facts(), "v2 ");
  tree.file("image/usr/install/config-keys", "machine\n");
  EXPECT_EQ(facts(), "v2 machine\n");
  tree.file("image/usr/install/config-keys", std::string(kMostConfigKeys + 1, 'a').c_str());
  EXPECT_EQ(problem([&]() { facts(); }),
            "not an installer image: /usr/install/config-keys is too large");
}

// Catches: a slot that loses its system to an image that does not fit; an image that is refused
// only when it is to be written.
TEST_F(FolderOfSlots, AnImageThatDoesNotFitChangesNothing) {
  ASSERT_EQ(upgradeTo(Slot::kB), "");
  SlotAt other{slots, Slot::kB};
  EXPECT_EQ(facts(other), "v2 ");
  constexpr off_t kTooLarge = off_t{4} << 40;
  ASSERT_EQ(truncate(tree.at("image/usr/install/rootfs.sqsh").cStr(), kTooLarge), 0);
  constexpr auto kWhy = "the new system is too large: it needs 4194304 MiB";
  EXPECT_THAT(upgradeTo(Slot::kB), HasSubstr(kWhy));
  EXPECT_THAT(problem([&]() { facts(other); }), HasSubstr(kWhy));
  EXPECT_EQ(facts(), "v2 ");
  EXPECT_EQ(textOf(readSlotsOf(slots, confinement)), "A; A v1; B v2");
}

// Catches: a node in a container whose services of extensions are silently missing after an
// upgrade.
TEST_F(FolderOfSlots, AnImageWithExtensionsIsRefused) {
  tree.file("image/usr/install/config-keys",
            "machine\n//process-1=ab\n//extension=iscsi-tools v2\n//extension=agent v1\n");
  EXPECT_EQ(upgradeTo(Slot::kB),
            "the image has system extensions (iscsi-tools v2, agent v1), which a node in a "
            "container does not load; nothing was written; use an image without them");
  EXPECT_EQ(now(), "A; A v1");
}

// Catches: a folder that is taken for a partition; a system that is started without being chosen.
TEST_F(FolderOfSlots, TheOtherSlotIsWrittenAndChosen) {
  EXPECT_EQ(now(), "A; A v1");
  EXPECT_EQ(upgradeTo(Slot::kB), "");
  EXPECT_EQ(said, "writing v2 to slot B; verifying slot B; ");
  EXPECT_EQ(now(), "A; A v1; B v2");
  EXPECT_EQ(readFile(tree.at("slots/B/rootfs.sqsh")), content);
  EXPECT_NE(access(tree.at("slots/B/vmlinuz").cStr(), F_OK), 0);
  EXPECT_EQ(chosen({Slot::kA, Slot::kB, 1, 90}), "");
  EXPECT_EQ(now(), "A try B 1; A v1; B v2");
  EXPECT_EQ(chosen({.confirmed = Slot::kB}), "");
  EXPECT_EQ(now(), "B; A v1; B v2");
  EXPECT_EQ(readFile(tree.at("slots/grub/grubenv")), writeSlots({.confirmed = Slot::kB}));
}

// Catches: the running system overwritten; a missing system that is chosen.
TEST_F(FolderOfSlots, WhatIsRefusedChangesNothing) {
  EXPECT_EQ(upgradeTo(Slot::kA), "slot A is the one that is started; it is not written to");
  EXPECT_EQ(chosen({Slot::kA, Slot::kB, 1}), "there is no system in slot B");
  EXPECT_EQ(now(), "A; A v1");
  EXPECT_EQ(readFile(tree.at("slots/A/rootfs.sqsh")), "hsqs the first system");
}

// Catches: an image that differs from its list and counts as a system.
TEST_F(FolderOfSlots, AnImageThatIsNotWhole) {
  auto refused = [&](kj::StringPtr reason) {
    auto text = upgradeTo(Slot::kB);
    EXPECT_NE(text.find(reason.cStr()), std::string::npos) << text;
    EXPECT_EQ(now(), "A; A v1");
  };
  tree.file("image/usr/install/rootfs.sqsh", kj::heapString(content.slice(0, 9)));
  refused("rootfs.sqsh");
  KJ_SYSCALL(unlink(tree.at("image/usr/install/rootfs.sqsh").cStr()));
  refused("not an installer image: cannot open /usr/install/rootfs.sqsh");
  tree.file("image/usr/install/version", "v2\nv3\n");
  refused("version");
}

// Catches: after a power cut at any step, a half-written slot that is tried, or the loss of the
// running one. The next upgrade replaces the remains.
TEST_F(FolderOfSlots, ACutBetweenTheSteps) {
  for (auto step : {"writing"_kj, "verifying"_kj}) {
    failsAt = "";
    ASSERT_EQ(upgradeTo(Slot::kB), "");
    ASSERT_EQ(chosen({Slot::kA, Slot::kB, 1}), "");
    failsAt = step;
    EXPECT_EQ(upgradeTo(Slot::kB), "the power is gone");
    EXPECT_EQ(now(), "A; A v1") << step.cStr();
  }
}

// Catches: an unreadable record that counts as one for slot A.
TEST_F(FolderOfSlots, ARecordThatCannotBeRead) {
  for (auto& text : {kj::str("slot=B\n"), kj::str()}) {
    tree.file("slots/grub/grubenv", text);
    auto reason = problem([&]() { readSlotsOf(slots, confinement); });
    EXPECT_EQ(reason, std::string(slots.cStr()) +
                          ": grub/grubenv is missing or damaged, so it is unknown which system is "
                          "started");
    EXPECT_EQ(upgradeTo(Slot::kB), reason);
  }
  removeTree(tree.at("slots/grub"));
  EXPECT_NE(upgradeTo(Slot::kB).find("grub/grubenv is missing"), std::string::npos);
}

}  // namespace talos::install
