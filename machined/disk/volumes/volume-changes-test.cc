#include "machined/disk/volumes/volume-changes.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "machined/disk/volumes/swaps.h"
#include "machined/disk/volumes/test-volume-fakes.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

using config::StorageVolume;
using testing::HasSubstr;

// Two configs, each with the volume u-data, and a store.
struct VolumeChangesTest : testing::Test {
  ~VolumeChangesTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  TestClock clock;
  Registry registry;
  Store store{registry, clock};
  capnp::MallocMessageBuilder first, second;
  config::Config::Builder before = first.initRoot<config::Config>(),
                          after = second.initRoot<config::Config>();
  StorageVolume::Builder old = volumeIn(before), next = volumeIn(after);

  static StorageVolume::Builder volumeIn(config::Config::Builder config) {
    auto volume = config.getMachine().initVolumes(1)[0];
    volume.setId("u-data");
    volume.initSize().setMost(10 * kGiB);
    return volume;
  }
  void status(kj::StringPtr id, kj::StringPtr phase, uint64_t bytes,
              kj::StringPtr provider = nullptr) {
    putRecord<rpc::VolumeStatusSpec>(store, id, [&](auto out) {
      out.setPhase(phase);
      out.setSize(bytes);
      out.setEncryptionProvider(provider);
      out.setTarget("/var/mnt/data");
      out.setType("partition");
    });
  }
  kj::String notInEffect() {
    return kj::strArray(volumesNotInEffect(store, after.asReader(), false), "|");
  }
};

void setKey(config::Encryption::Builder encryption, kj::StringPtr passphrase) {
  encryption.initKeys(1)[0].initStatic().setPassphrase(passphrase);
}

}  // namespace

TEST_F(VolumeChangesTest, StatusNamesTheDocumentAndTheReason) {
  EXPECT_EQ("UserVolumeConfig[data]: a node in a container has no disks",
            kj::strArray(volumesNotInEffect(store, after.asReader(), true), "|"));
  // Catches: a config that a node in a container takes for trimming, and that trims nothing.
  auto rules = after.getMachine().initTrims(3);
  rules[0].setMountpoint("/var/mnt/data");
  rules[0].setSeconds(60);
  rules[1].setSeconds(0);
  rules[2].setSeconds(604'800);
  EXPECT_EQ(
      "UserVolumeConfig[data]: a node in a container has no disks|"
      "FilesystemTrimConfig: a node in a container has no disks, and trims nothing",
      kj::strArray(volumesNotInEffect(store, after.asReader(), true), "|"));
  EXPECT_EQ("UserVolumeConfig[data]: not made yet", notInEffect());
  status("u-data", "waiting", 0);
  EXPECT_EQ("UserVolumeConfig[data]: waiting", notInEffect());
}

// Catches: an answer "in effect" for a document that the volume differs from.
TEST_F(VolumeChangesTest, ReadyVolumeIsComparedWithItsDocument) {
  status("u-data", "ready", 10 * kGiB);
  EXPECT_EQ("", notInEffect());
  next.getSize().setMost(5 * kGiB);
  EXPECT_EQ(
      "UserVolumeConfig[data].provisioning: not in effect: it has 10 GiB and does not shrink; a "
      "new volume has the size",
      notInEffect());
  next.getSize().setMost(20 * kGiB);
  next.getSize().setLeast(20 * kGiB);
  EXPECT_EQ("UserVolumeConfig[data].provisioning: it has 10 GiB, and minSize is 20 GiB",
            notInEffect());
  next.getSize().setLeast(0);
  setKey(next.initEncryption(), "a");
  EXPECT_EQ("UserVolumeConfig[data].encryption: not in effect: the partition is not encrypted",
            notInEffect());
}

TEST_F(VolumeChangesTest, VolumesOfTheSystemAreComparedToo) {
  after.getMachine().initVolumes(0);
  status("EPHEMERAL", "ready", 10 * kGiB);
  EXPECT_EQ("", notInEffect());
  setKey(after.getMachine().getSystemDiskEncryption().initEphemeral(), "a");
  after.initDocuments(1).set(0, "VolumeConfig[EPHEMERAL].encryption");
  EXPECT_EQ(
      "VolumeConfig[EPHEMERAL].encryption: not in effect: the partition is not encrypted; reset "
      "EPHEMERAL to encrypt it",
      notInEffect());
  status("EPHEMERAL", "ready", 10 * kGiB, "luks2");
  EXPECT_EQ("", notInEffect());
  after.getMachine().initEphemeralSize().setMost(5 * kGiB);
  EXPECT_THAT(notInEffect().cStr(),
              HasSubstr("VolumeConfig[EPHEMERAL].provisioning: not in effect: "
                        "it has 10 GiB and does not shrink"));
}

TEST_F(VolumeChangesTest, OnlyARoomierSizeOfEphemeralNeedsABoot) {
  auto size = after.getMachine().initEphemeralSize();
  size.setGrows(true);
  size.setMost(5 * kGiB);
  EXPECT_FALSE(mayGrowEphemeral(after.getMachine(), 10 * kGiB));
  EXPECT_TRUE(mayGrowEphemeral(after.getMachine(), 0)) << "its size is not known";
  size.setMost(20 * kGiB);
  EXPECT_TRUE(mayGrowEphemeral(after.getMachine(), 10 * kGiB));
  size.setGrows(false);
  EXPECT_FALSE(mayGrowEphemeral(after.getMachine(), 10 * kGiB));
}

TEST_F(VolumeChangesTest, DocumentsThatActOnDisksAreNamed) {
  auto changed = [&]() {
    return kj::strArray(changedVolumes(before.asReader().getMachine(), after.getMachine()), ",");
  };
  EXPECT_EQ("", changed());
  next.setInsecure(true);
  EXPECT_EQ("UserVolumeConfig[data]", changed());
  after.getMachine().initVolumes(0);
  EXPECT_EQ("UserVolumeConfig[data]", changed());
  old.setKind(StorageVolume::Kind::DIRECTORY);
  EXPECT_EQ("", changed()) << "a directory is on no disk of its own";
}

TEST_F(VolumeChangesTest, OtherKeysAreFound) {
  auto keys = [&]() {
    return kj::strArray(volumesWithOtherKeys(before.asReader().getMachine(), after.getMachine()),
                        ",");
  };
  setKey(old.initEncryption(), "a");
  EXPECT_EQ("", keys()) << "it becomes plain";
  setKey(next.initEncryption(), "a");
  EXPECT_EQ("", keys());
  setKey(next.initEncryption(), "b");
  EXPECT_EQ("UserVolumeConfig[data].encryption", keys());
}

// Catches: a directory that a partition is mounted over while pods use it.
TEST_F(VolumeChangesTest, VolumeInUseKeepsItsType) {
  next.setKind(StorageVolume::Kind::DIRECTORY);
  checkVolumeTypes(store, before.asReader().getMachine(), after.getMachine());
  status("u-data", "ready", kGiB);
  auto e = KJ_ASSERT_NONNULL(kj::runCatchingExceptions(
      [&]() { checkVolumeTypes(store, before.asReader().getMachine(), after.getMachine()); }));
  EXPECT_THAT(
      messageOf(e).cStr(),
      HasSubstr("UserVolumeConfig[data].volumeType: /var/mnt/data is in use as a partition; "
                "remove the document first"));
}

TEST_F(VolumeChangesTest, TrialsHoldWhatIsWrittenToDisks) {
  EXPECT_TRUE(volumesHeld(store) == nullptr);
  putRecord<rpc::MachineStatusSpec>(store, "machine",
                                    [](auto out) { out.setRevertsAt("2026-11-30T12:00:00Z"); });
  EXPECT_EQ("a config is on trial", volumesHeld(store).orDefault(kj::String()));
  putRecord<rpc::UpgradeStatusSpec>(store, "node", [](auto out) { out.setStage("trying"); });
  EXPECT_EQ("the upgraded system is on trial", volumesHeld(store).orDefault(kj::String()));
}

TEST(Swaps, WhatDoesNotFitIntoMemoryStays) {
  constexpr auto kTable = "/dev/vdb1 partition 4194304 2097152 -2\n"_kj;
  EXPECT_TRUE(whySwapStays(kTable, "MemAvailable: 2097152 kB\n", "/dev/vdb1") == nullptr);
  EXPECT_TRUE(whySwapStays(kTable, "MemAvailable: 0 kB\n", "/dev/vdb2") == nullptr);
  EXPECT_EQ(
      "2048 MiB of memory are on /dev/vdb1, and 1024 MiB of memory are available",
      whySwapStays(kTable, "MemAvailable: 1048576 kB\n", "/dev/vdb1").orDefault(kj::String()));
}

}  // namespace talos::machined
