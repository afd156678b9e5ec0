// Documents of volumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/documents/test-documents.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPlace = "provisioning: {diskSelector: {match: '!system_disk'}, ";

std::string userVolume(const std::string& name, const std::string& keys) {
  return oneDocument("kind: UserVolumeConfig, name: " + name + ", " + keys);
}
std::string data(const std::string& size, const std::string& more = "") {
  return userVolume("data", kPlace + size + "}" + more);
}

}  // namespace

TEST(VolumeDocuments, UserVolumeIsAPartitionOfItsSize) {
  auto config = parsed(mainDocument() + data("minSize: 10GiB, maxSize: 20GiB, grow: true",
                                             ", mount: {secure: false, disableAccessTime: true}"));
  EXPECT_EQ(1u, config.get().getDocuments().size());
  auto volumes = config.get().getMachine().getVolumes();
  ASSERT_EQ(1u, volumes.size());
  auto volume = volumes[0];
  EXPECT_STREQ("u-data", volume.getId().cStr());
  EXPECT_EQ(StorageVolume::Kind::PARTITION, volume.getKind());
  EXPECT_STREQ("!system_disk", volume.getSelector().cStr());
  EXPECT_STREQ("/var/mnt/data", volume.getMountpoint().cStr());
  EXPECT_EQ(uint64_t{10} << 30, volume.getSize().getLeast());
  EXPECT_EQ(uint64_t{20} << 30, volume.getSize().getMost());
  EXPECT_TRUE(volume.getSize().getGrows());
  EXPECT_TRUE(volume.getInsecure());
  EXPECT_TRUE(volume.getNoAccessTimes());
  EXPECT_FALSE(volume.hasEncryption());
}

// Catches: a size that is read as another one; a fraction of a percentage that is not cut.
TEST(VolumeDocuments, SizesAreBytesPercentagesAndWhatStaysFree) {
  auto sizeOf = [](const char* size) {
    auto config = parsed(mainDocument() + data(size));
    EXPECT_EQ("", problemsIn(mainDocument() + data(size))) << size;
    auto found = config.get().getMachine().getVolumes()[0].getSize();
    return kj::str(found.getLeast() >> 20, " ", found.getMost() >> 20, " ", found.getMostPercent(),
                   "% ", found.getLeavesMost() ? "left" : "");
  };
  EXPECT_EQ("100 20480 0% ", sizeOf("maxSize: 20GiB"));
  EXPECT_EQ("100 0 80% ", sizeOf("maxSize: 80.9%"));
  EXPECT_EQ("100 5120 0% left", sizeOf("maxSize: -5GiB"));
  EXPECT_EQ("100 0 10% left", sizeOf("maxSize: '-10%'"));
  EXPECT_EQ("1024 0 0% ", sizeOf("minSize: 1GiB"));
  EXPECT_EQ("50 50 0% ", sizeOf("maxSize: 50MiB"));
  // A partition has whole MiB, and no volume is below what its file system needs.
  EXPECT_EQ("9536 9536 0% ", sizeOf("minSize: 10GB, maxSize: 10GB"));
  EXPECT_EQ("32 0 0% ", sizeOf("minSize: 1MiB"));
}

struct MistakeRow {
  std::string document;
  const char* problem;
};

// Catches: a document that a node accepts and cannot carry out.
TEST(VolumeDocuments, WhatTheNodeCannotDoIsAnError) {
  std::string size = "minSize: 1GiB";
  const MistakeRow rows[] = {
      {userVolume("da_ta", kPlace + size + "}"), "[da_ta].name: \"da_ta\" is not a valid name"},
      {userVolume(std::string(35, 'a'), kPlace + size + "}"), "use 1 to 34 letters"},
      {userVolume("''", kPlace + size + "}"), "use 1 to 34 letters"},
      {userVolume("data", "provisioning: {minSize: 1GiB}"), "needs a selector of its disk"},
      {data("grow: true"), "UserVolumeConfig[data].provisioning: a volume needs a size"},
      {data("minSize: -1GiB"), ".minSize: \"-1GiB\" is not a valid size"},
      {data("minSize: 2GiB, maxSize: 1GiB"), ".minSize: it is larger than maxSize"},
      {data("maxSize: 31MiB"),
       ".maxSize: \"31MiB\" is too small for this volume; use at least 32MiB"},
      {data("maxSize: 63MiB", ", encryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}"),
       ".maxSize: \"63MiB\" is too small for this volume; use at least 64MiB"},
      {data("maxSize: '-100%'"), ".maxSize: \"-100%\" leaves the volume nothing; use at most -99%"},
      {oneDocument("kind: VolumeConfig, name: EPHEMERAL, provisioning: {maxSize: 519MiB}"),
       ".maxSize: \"519MiB\" is too small for this volume; use at least 520MiB"},
      {data("maxSize: 101%"), ".maxSize: \"101%\" is not a valid size"},
      {data("maxSize: 0"), ".maxSize: \"0\" is not a valid size"},
      {userVolume("data", "provisioning: {diskSelector: {match: 'disk.sise > 1u'}, minSize: 1GiB}"),
       ".diskSelector.match: in the expression, at \"disk.sise > 1u\": there is no variable "
       "disk.sise "
       "(did you mean disk.size?); for example !system_disk && disk.size > 100u * GiB"},
      {userVolume("data", "volumeType: disk"), ".volumeType: this system does not make a file"},
      {userVolume("data", "volumeType: tape"), ".volumeType: \"tape\" is not a valid type"},
      {userVolume("data", "volumeType: directory, filesystem: {type: xfs}"),
       ".filesystem: a directory is on EPHEMERAL"},
      {data(size, ", filesystem: {type: btrfs}"), "does not make \"btrfs\" file systems; use xfs"},
      {data(size, ", filesystem: {projectQuotaSupport: true}"),
       ".projectQuotaSupport: this system"},
      {data(size, ", encryption: {provider: luks2, keys: [{tpm: {options: {pcrs: [7, 24]}}}]}"),
       ".encryption.keys[0].tpm.options.pcrs[1]: 24 is not a register of a TPM"},
      {data(size, ", encryption: {provider: luks2, keys: [{slot: 0, kms: {endpoint: a}}]}"),
       "UserVolumeConfig[data].encryption.keys[0].kms.endpoint: \"a\" is not a valid endpoint"},
      {data(size,
            ", encryption: {provider: luks2, keys: [{slot: 0, nodeID: {}, lockToState: true}]}"),
       ".encryption.keys[0].lockToState: this system"},
      {data(size, ", encryption: {provider: luks3, keys: [{slot: 0, nodeID: {}}]}"),
       "UserVolumeConfig[data].encryption.provider: \"luks3\" is not supported"},
      {data(size, ", encryption: {provider: luks2, keys: [{slot: 0}]}"),
       ".encryption.keys[0]: kind of the key is missing; use nodeID: {}, static: {passphrase: "
       "…}, kms: {endpoint: …} or tpm: {}"},
      {data(size, ", encryption: {provider: luks2, allowDiscards: true, keys: [{nodeID: {}}]}"),
       ".encryption.allowDiscards: this system"},
      {data(size, ", mount: {readOnly: true}"), ".mount.readOnly: an empty volume"},
      {data(size, ", filesystem: {xfs: {minAllocationGroupSize: 0}}"), ".filesystem.xfs: this"},
      {data(size, ", scrub: {}"), "UserVolumeConfig[data].scrub: this system has no program"},
      {data(size, ", trim: {interval: soon}"),
       "UserVolumeConfig[data].trim.interval: \"soon\" is not a valid duration; for example 168h"},
      {oneDocument("kind: FilesystemTrimConfig, interval: -1h"),
       "FilesystemTrimConfig.interval: \"-1h\" is not a valid duration"},
      {userVolume("data", "volumeType: directory, trim: {interval: 1h}"),
       "UserVolumeConfig[data].trim: a directory is on EPHEMERAL"},
      {oneDocument("kind: VolumeConfig, name: ETCD"),
       "VolumeConfig[ETCD].name: this system has no"},
      {oneDocument("kind: VolumeConfig, name: STATE, provisioning: {grow: true}"),
       "VolumeConfig[STATE].provisioning: STATE always has 100 MiB"},
      {oneDocument("kind: VolumeConfig, name: EPHEMERAL, provisioning: {maxSize: 20GiB, "
                   "diskSelector: {match: disk.rotational}}"),
       ".diskSelector.match: EPHEMERAL is the partition after STATE"},
      {oneDocument("kind: VolumeConfig, name: EPHEMERAL, mount: {secure: false}"),
       ".mount.secure: the volumes of the system"},
      {oneDocument("kind: VolumeConfig, name: EPHEMERAL, mount: {disableAccessTime: false}"),
       ".mount.disableAccessTime: the volumes of the system are always mounted with noatime"},
      {oneDocument("kind: VolumeConfig, name: STATE, mount: {secure: true}"),
       "VolumeConfig[STATE].mount: how STATE is mounted cannot be set"},
      {oneDocument("kind: ZswapConfig, maxPoolPercent: 101"), "101 is not a valid percentage"},
      {oneDocument(std::string("kind: SwapVolumeConfig, name: a, ") + kPlace + size +
                   "}, encryption: {provider: luks2, keys: []}"),
       "SwapVolumeConfig[a].encryption: this system encrypts only"},
      {oneDocument(
           "kind: ExistingVolumeConfig, name: a, discovery: {volumeSelector: {match: 'x'}}"),
       ".volumeSelector.match: in the expression, at \"x\": there is no variable x; there are "
       "disk.…, "
       "system_disk, volume.…; for example volume.partition_label == \"data\""},
      {oneDocument(
           "kind: ExistingVolumeConfig, name: a_b, discovery: {volumeSelector: {match: 'true'}}"),
       "ExistingVolumeConfig[a_b].name: \"a_b\" is not a valid name of a volume; use letters"},
  };
  for (auto& row : rows) {
    EXPECT_THAT(problemsIn(mainDocument() + row.document), HasSubstr(row.problem)) << row.document;
  }
}

// Catches: an interval of one volume that counts for all, a volume that is trimmed although its own
// block is off, an interval of 0 that trims without an end.
TEST(VolumeDocuments, TrimsHaveRules) {
  auto rules = [](const std::string& documents) {
    auto text = mainDocument() + documents;
    EXPECT_EQ("", problemsIn(text));
    auto config = parsed(text);
    std::string shown;
    for (auto rule : config.get().getMachine().getTrims()) {
      shown +=
          std::string(rule.getMountpoint().cStr()) + " " + std::to_string(rule.getSeconds()) + "\n";
    }
    return shown;
  };
  std::string size = "minSize: 1GiB";
  EXPECT_EQ(" 604800\n", rules(oneDocument("kind: FilesystemTrimConfig, interval: 168h0m0s")));
  EXPECT_EQ("", rules(oneDocument("kind: FilesystemTrimConfig, interval: 0s")));
  EXPECT_EQ("", rules(oneDocument("kind: FilesystemTrimConfig")));
  EXPECT_EQ(" 3600\n/var/mnt/data 0\n/system/state 86400\n",
            rules(oneDocument("kind: FilesystemTrimConfig, interval: 1h") +
                  data(size, ", trim: {enabled: false, interval: 2h}") +
                  oneDocument("kind: VolumeConfig, name: STATE, trim: {interval: 24h}") +
                  oneDocument("kind: VolumeConfig, name: EPHEMERAL, trim: {}")));
}

// Catches: an error for a key that is off or empty, which some tools write.
TEST(VolumeDocuments, WhatIsOffOrEmptyIsNoError) {
  std::string size = "minSize: 1GiB", keys = "keys: [{slot: 0, nodeID: {}, lockToState: false}]";
  for (auto& document :
       {data(size, ", encryption: {provider: luks2, allowDiscards: false, " + keys + "}"),
        data(size, ", filesystem: {type: xfs, projectQuotaSupport: false, xfs: {}}"),
        data(size,
             ", mount: {readOnly: false, secure: true}, trim: {enabled: false}, scrub: "
             "{enabled: false}"),
        data(size, ", trim: {}"),
        data(size, ", encryption: {provider: luks2, keys: [{nodeID: {}, tpm: null, kms: null}]}"),
        userVolume("data", "volumeType: directory, provisioning: {}, filesystem: {}, mount: {}"),
        oneDocument("kind: VolumeConfig, name: STATE, mount: {}, provisioning: {}, filesystem: {}"),
        oneDocument("kind: VolumeConfig, name: EPHEMERAL, mount: {readOnly: false, secure: true, "
                    "disableAccessTime: true}"),
        userVolume(std::string(34, 'a'), kPlace + size + "}"),
        oneDocument("kind: ExistingVolumeConfig, name: " + std::string(80, 'a') +
                    ", discovery: {volumeSelector: {match: 'true'}}"),
        data("minSize: 1MiB, maxSize: 32MiB")}) {
    EXPECT_EQ("", problemsIn(mainDocument() + document)) << document;
  }
}

// Catches: a document that mounts over the partition of machine.disks.
TEST(VolumeDocuments, MountPointOfMachineDisksIsTaken) {
  auto disks = "  disks: [{device: /dev/vdb, partitions: [{mountpoint: /var/mnt/data/}]}]\n";
  auto text = mainDocument() + disks + data("minSize: 1GiB");
  EXPECT_THAT(problemsIn(text),
              HasSubstr("UserVolumeConfig[data].name: machine.disks[0].partitions[0] is mounted at "
                        "/var/mnt/data, too; give it another name"));
  EXPECT_EQ(0u, parsed(text).get().getMachine().getVolumes().size()) << "in a kept config";
}

// Catches: two volumes at one place, of which one hides the other.
TEST(VolumeDocuments, OneMountPointHasOneVolume) {
  auto existing = oneDocument(
      "kind: ExistingVolumeConfig, name: data, discovery: {volumeSelector: {match: 'volume.size > "
      "1u'}}");
  EXPECT_THAT(problemsIn(mainDocument() + data("minSize: 1GiB") + existing),
              HasSubstr("ExistingVolumeConfig[data].name: UserVolumeConfig[data] is mounted at "
                        "/var/mnt/data, too"));
}

// Catches: keys of an encrypted volume that are lost, or that belong to another slot.
TEST(VolumeDocuments, EncryptionHasTheKeysOfTheDocument) {
  auto text =
      mainDocument() +
      data("minSize: 1GiB",
           ", encryption: {provider: luks2, keys: [{slot: 3, nodeID: {}}, {slot: 4, static: "
           "{passphrase: secret}}, {slot: 5, tpm: {checkSecurebootStatusOnEnroll: true, options: "
           "{pcrs: [4]}}}, {slot: 6, tpm: {}}, {slot: 7, tpm: {options: {}}}, {slot: 8, kms: "
           "{endpoint: 'a:1'}}]}");
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto keys = config.get().getMachine().getVolumes()[0].getEncryption().getKeys();
  ASSERT_EQ(6u, keys.size());
  EXPECT_EQ("a:1", keys[5].getKms().getEndpoint());
  EXPECT_TRUE(keys[2].getTpm().getCheckSecurebootStatusOnEnroll());
  ASSERT_EQ(1u, keys[2].getTpm().getOptions().getPcrs().size());
  EXPECT_EQ(4u, keys[2].getTpm().getOptions().getPcrs()[0]);
  EXPECT_TRUE(keys[3].hasTpm() && !keys[3].getTpm().hasOptions()) << "the default registers";
  EXPECT_TRUE(keys[4].getTpm().hasOptions()) << "none";
  EXPECT_EQ(3u, keys[0].getSlot());
  EXPECT_TRUE(keys[0].hasNodeID());
  EXPECT_FALSE(keys[0].hasStatic());
  EXPECT_EQ(4u, keys[1].getSlot());
  EXPECT_FALSE(keys[1].hasNodeID());
  EXPECT_STREQ("secret", keys[1].getStatic().getPassphrase().cStr());
}

TEST(VolumeDocuments, VolumesOfTheSystemAreThoseOfTheMainDocument) {
  auto encryption = ", encryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}";
  auto text = mainDocument() +
              oneDocument(std::string("kind: VolumeConfig, name: STATE") + encryption) +
              oneDocument(std::string("kind: VolumeConfig, name: EPHEMERAL, mount: {secure: true}, "
                                      "provisioning: {maxSize: 20GiB}") +
                          encryption);
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto machine = config.get().getMachine();
  EXPECT_TRUE(machine.getSystemDiskEncryption().getState().getKeys()[0].hasNodeID());
  EXPECT_TRUE(machine.getSystemDiskEncryption().getEphemeral().getKeys()[0].hasNodeID());
  EXPECT_EQ(uint64_t{20} << 30, machine.getEphemeralSize().getMost());
  EXPECT_EQ(uint64_t{2} << 30, machine.getEphemeralSize().getLeast());
  EXPECT_TRUE(machine.getEphemeralSize().getGrows()) << "the default of EPHEMERAL alone";
  std::string documents;
  for (auto document : config.get().getDocuments()) documents += std::string(document.cStr()) + " ";
  EXPECT_EQ("VolumeConfig VolumeConfig[EPHEMERAL].encryption VolumeConfig[STATE].encryption ",
            documents);
}

// Catches: a kept config that encrypts a volume of the system by a document with a mistake.
TEST(VolumeDocuments, DocumentWithAMistakeLeavesTheSystemAsItIs) {
  auto text = mainDocument() +
              oneDocument(
                  "kind: VolumeConfig, name: EPHEMERAL, provisioning: {maxSize: 1%, minSize: x}, "
                  "encryption: {provider: luks2, keys: [{slot: 0, nodeID: {}}]}");
  EXPECT_NE("", problemsIn(text));
  auto machine = parsed(text).get().getMachine();
  EXPECT_FALSE(machine.hasSystemDiskEncryption());
  EXPECT_FALSE(machine.hasEphemeralSize());
}

// Catches: a mistake in the keys that is shown at a place of the main document.
TEST(VolumeDocuments, MistakesInKeysAreThoseOfTheDocument) {
  EXPECT_THAT(problemsIn(mainDocument() +
                         oneDocument("kind: VolumeConfig, name: EPHEMERAL, encryption: {provider: "
                                     "luks2, keys: [{slot: 40, nodeID: {}}]}")),
              HasSubstr("VolumeConfig[EPHEMERAL].encryption.keys[0].slot: 40 is not a valid slot"));
}

TEST(VolumeDocuments, ZswapIsSetInSysfs) {
  auto config = parsed(mainDocument() + oneDocument("kind: ZswapConfig, maxPoolPercent: 30"));
  auto list = config.get().getMachine().getSysfs();
  ASSERT_EQ(3u, list.size());
  EXPECT_STREQ("module.zswap.parameters.max_pool_percent", list[0].getKey().cStr());
  EXPECT_STREQ("30", list[0].getValue().cStr());
  EXPECT_STREQ("N", list[1].getValue().cStr());
  EXPECT_STREQ("Y", list[2].getValue().cStr());
}

// Catches: a disk that is not the selected one; an installation that keeps or erases what is on the
// disk against the document; a main document that loses its own machine.install.
TEST(VolumeDocuments, InstallationIsThatOfTheMainDocument) {
  auto document = [](const std::string& keys) {
    return oneDocument("kind: UnattendedInstallConfig, " + keys);
  };
  std::string place = "provisioning: {diskSelector: {match: disk.rotational}}";
  auto config = parsed(mainDocument() + document(place + ", installer: {image: x.org/i:v1}"));
  auto install = config.get().getMachine().getInstall();
  EXPECT_STREQ("disk.rotational", install.getDiskMatch().cStr());
  EXPECT_STREQ("x.org/i:v1", install.getImage().cStr());
  EXPECT_TRUE(install.getWipe());
  EXPECT_TRUE(install.getBootloader());
  EXPECT_EQ(0u, install.getDisk().size());
  auto keeps = parsed(mainDocument() +
                      document("provisioning: {diskSelector: {match: 'true'}, wipe: false}, "
                               "reboot: true"));
  EXPECT_FALSE(keeps.get().getMachine().getInstall().getWipe());
  EXPECT_EQ("", problemsIn(mainDocument() + document(place)));
  const MistakeRow rows[] = {
      {document("installer: {image: x.org/i:v1}"), "provisioning: required key is missing"},
      {document("provisioning: {wipe: false}"), "diskSelector: required key is missing"},
      {document("provisioning: {diskSelector: {match: disk.sise}}"),
       "UnattendedInstallConfig.provisioning.diskSelector.match: in the expression, "},
      {document(place + ", reboot: false"),
       "UnattendedInstallConfig.reboot: a node reboots into the system that it has installed"},
      {document(place) + document(place), "there is another such document"},
  };
  for (auto& row : rows) {
    EXPECT_THAT(problemsIn(mainDocument() + row.document), HasSubstr(row.problem)) << row.document;
  }
  auto both = mainDocument() + "  install: {disk: /dev/sda, wipe: false}\n" + document(place);
  EXPECT_THAT(problemsIn(both), HasSubstr("machine.install is set as well; remove one of the two"));
  auto kept = parsed(both);
  auto main = kept.get().getMachine().getInstall();
  EXPECT_STREQ("/dev/sda", main.getDisk().cStr());
  EXPECT_EQ(0u, main.getDiskMatch().size());
  EXPECT_FALSE(main.getWipe());
}

}  // namespace talos::config
