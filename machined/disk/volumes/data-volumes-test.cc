#include "machined/disk/volumes/data-volumes.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/disk/volume-labels.h"
#include "common/testing/test-tree.h"
#include "machined/disk/encryption/test-model-luks.h"
#include "machined/disk/encryption/test-state-keys.h"
#include "machined/disk/volumes/test-volume-fakes.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = 1u << 20, kGiB = 1u << 30;
constexpr kj::StringPtr kUuid = "00112233-4455-6677-8899-aabbccddeeff"_kj;

// A machine with two disks, in memory: vda, with data of others, and vdb.
struct DataVolumesTest : testing::Test {
  ~DataVolumesTest() noexcept override {}
  struct Partition {
    std::string name;
    uint64_t begin, bytes;
    bool made = false;      // it has a file system
    std::string data = "";  // of a user
  };
  std::vector<Partition> parts;  // of vdb
  std::string log, said;
  unsigned calls = 0, failAt = 0;
  bool effective = false;  // the failing call has had its effect

  void step(std::string what, std::function<void()> effect) {
    bool fails = ++calls == failAt;
    if (!fails || effective) {
      effect();
      log += (log.empty() ? "" : " ") + what;
    }
    if (fails) fail(ErrorKind::kUnavailable, "the power is gone");
  }
  Partition& partNamed(kj::StringPtr name) {
    for (auto& p : parts) {
      if (p.name == name.cStr() || p.name == unfinishedVolume(name).cStr()) return p;
    }
    fail(ErrorKind::kFailedPrecondition, "there is no such partition");
  }

  struct ModelInstaller final : Installer {
    DataVolumesTest& test;
    explicit ModelInstaller(DataVolumesTest& test) : test(test) {}
    kj::Promise<void> slots(Fill, Hear, int) override { KJ_UNIMPLEMENTED("not in this test"); }
    kj::Promise<bool> run(Fill fill) override {
      capnp::MallocMessageBuilder message;
      auto builder = message.initRoot<rpc::InstallRequest>();
      fill(builder);
      auto request = builder.asReader();
      if (request.isAddPartition()) return add(request.getAddPartition());
      if (request.isFinishPartition()) {
        auto& part = test.partNamed(request.getFinishPartition().getName());
        test.step("finish", [&] { part.name = request.getFinishPartition().getName().cStr(); });
        return true;
      }
      if (request.isFormat()) {
        auto& part = test.parts.at(0);
        EXPECT_NE(std::string::npos, part.name.find(".unfinished"))
            << "a volume in use is formatted";
        test.step("format", [&] { part.made = true; });
        return true;
      }
      if (request.isGrowPartition()) {
        auto& part = test.partNamed(request.getGrowPartition().getName());
        test.step("grow", [&] { part.bytes = request.getGrowPartition().getSize(); });
        return true;
      }
      KJ_UNIMPLEMENTED("not in this test");
    }
    kj::Promise<bool> add(rpc::InstallRequest::AddPartition::Reader request) {
      EXPECT_EQ("/dev/vdb", request.getDisk());
      auto name = unfinishedVolume(request.getName());
      test.step("add", [&] {
        for (auto& p : test.parts) {
          if (p.name != name.cStr()) continue;
          p.made = false;
          return;
        }
        test.parts.push_back({name.cStr(), request.getOffset(), request.getSize()});
      });
      return true;
    }
  };
  struct ModelVolumes final : Volumes {
    DataVolumesTest& test;
    explicit ModelVolumes(DataVolumesTest& test) : test(test) {}
    kj::Promise<kj::Vector<Volume>> look() override {
      kj::Vector<Volume> all;
      for (auto disk : {"vda"_kj, "vdb"_kj}) {
        auto& whole = all.add();
        whole.device.name = kj::str(disk);
        whole.device.disk = kj::str(disk);
        whole.device.bytes = 20 * kGiB;
      }
      for (auto i : kj::indices(test.parts)) {
        auto& part = all.add();
        part.device.name = kj::str("vdb", i + 1);
        part.device.disk = kj::str("vdb");
        part.device.whole = false;
        part.device.begin = test.parts[i].begin;
        part.device.bytes = test.parts[i].bytes;
        if (test.parts[i].made) part.content = Superblock{FileSystem::kXfs, kj::str()};
      }
      return kj::mv(all);
    }
    kj::Promise<kj::Vector<Volume>> lookIntoOpen() override { return kj::Vector<Volume>(); }
    kj::Promise<kj::Maybe<VolumeFiles>> read(kj::StringPtr, kj::Array<kj::String>, size_t,
                                             kj::Duration) override {
      KJ_UNIMPLEMENTED("not in this test");
    }
    kj::Promise<kj::Maybe<VolumeFiles>> readDisc(kj::String, size_t, kj::Duration) override {
      KJ_UNIMPLEMENTED("not in this test");
    }
  };
  struct Reports final : VolumeReports {
    std::map<std::string, std::string> volumes;
    std::map<std::string, uint64_t> bytes;
    void report(kj::StringPtr label, const VolumeReport& report) override {
      volumes[label.cStr()] = kj::str(nameOf(report.phase), " ", report.error).cStr();
      bytes[label.cStr()] = report.bytes;
    }
    void reportKeys(kj::StringPtr, const KeysReport&) override {}
    void reportFailure(kj::StringPtr label, kj::StringPtr problem) override {
      volumes[label.cStr()] = kj::str("failed ", problem).cStr();
    }
    void reportTarget(kj::StringPtr label, kj::StringPtr target) override {
      volumes[label.cStr()] += target.cStr();
    }
  };

  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestTree tree;
  TestClock clock;
  Registry registry;
  Store store{registry, clock};
  ModelLuks luks;
  ModelStateKeys stateKeys;
  ModelMarks marks;
  ModelInstaller installer{*this};
  ModelVolumes volumes{*this};
  Reports reports;
  SystemPartitions partitions{{.luks = luks,
                               .stateKeys = stateKeys,
                               .installer = installer,
                               .marks = marks,
                               .mappings = []() { return kj::Vector<kj::String>(); },
                               .uuid = []() { return kj::str(kUuid); },
                               .say = [this](kj::StringPtr line) { said += line.cStr(); },
                               .reports = reports,
                               .backups = []() -> kj::Maybe<kj::String> { return nullptr; }}};
  kj::String mounts = tree.at("mountinfo");
  DataVolumes data{{.uv = uv,
                    .timer = timer,
                    .store = store,
                    .volumes = volumes,
                    .installer = installer,
                    .partitions = partitions,
                    .reports = reports,
                    .disks = []() -> kj::Promise<kj::Vector<DiskFacts>> {
                      kj::Vector<DiskFacts> disks;
                      for (auto name : {"vda"_kj, "vdb"_kj}) {
                        auto& disk = disks.add();
                        disk.name = kj::str(name);
                        disk.bytes = 20 * kGiB;
                      }
                      return kj::mv(disks);
                    },
                    .look = [this](kj::StringPtr disk) -> kj::Promise<FoundOnDisk> {
                      FoundOnDisk found;
                      if (disk == "/dev/vda") {
                        found.volumes.add(FoundOnDisk::Volume{kj::str("ext4"), kj::str("photos")});
                      } else if (!parts.empty()) {
                        found.table = kj::str("gpt");
                        for (auto& p : parts) found.partitions.add(kj::str(p.name.c_str()));
                      }
                      return kj::mv(found);
                    },
                    .stateDevice = []() -> kj::Maybe<kj::String> { return nullptr; },
                    .attach = [this](SystemPartitions::Mountable ready, kj::String target,
                                     MountOptions, bool) -> kj::Promise<void> {
                      log +=
                          kj::str(log.empty() ? "" : " ", "mount:", ready.node, ":", target).cStr();
                      return kj::READY_NOW;
                    },
                    .say = [this](kj::StringPtr line) { said += kj::str(line, "\n").cStr(); },
                    .alarm = [this](kj::StringPtr line) { said += kj::str(line, "\n").cStr(); },
                    .mountinfo = mounts,
                    .swaps = mounts}};
  capnp::MallocMessageBuilder message;
  config::Machine::Builder machine = message.initRoot<config::Machine>();

  DataVolumesTest() { tree.file("mountinfo", ""); }
  config::StorageVolume::Builder want(kj::StringPtr id, kj::StringPtr selector = "true") {
    auto volume = machine.initVolumes(1)[0];
    volume.setId(id);
    volume.setSelector(selector);
    volume.setMountpoint(kj::str("/var/mnt/", id.slice(2)));
    volume.initSize().setLeast(kGiB);
    volume.getSize().setMost(2 * kGiB);
    return volume;
  }
  void pass() {
    log.clear();
    calls = 0;
    data.reconcile(machine.asReader()).wait(io.waitScope);
  }
};

}  // namespace

TEST_F(DataVolumesTest, VolumeIsMadeOnTheEmptyDiskAndMounted) {
  want("u-data");
  auto plan = data.plan(machine.asReader()).wait(io.waitScope);
  EXPECT_EQ("makes partition u-data of 2 GiB on /dev/vdb", kj::strArray(plan, "\n"));
  EXPECT_EQ("", log) << "a plan writes";
  pass();
  EXPECT_EQ("add format finish mount:/dev/vdb1:/var/mnt/data", log);
  EXPECT_EQ("ready /var/mnt/data", reports.volumes["u-data"]);
  ASSERT_EQ(1u, parts.size());
  EXPECT_EQ("u-data", parts[0].name);
  pass();
  EXPECT_EQ("mount:/dev/vdb1:/var/mnt/data", log) << "after a boot";
}

// Catches: a removed document whose partition goes with it, or that nothing says anything about.
TEST_F(DataVolumesTest, VolumeWithoutItsDocumentKeepsItsPartition) {
  putRecord<rpc::VolumeStatusSpec>(store, "u-old", [](auto out) {
    out.setPhase("ready");
    out.setLocation("/dev/vdb1");
    out.setTarget("/var/mnt/old");
  });
  parts.push_back({"u-old", kMiB, kGiB, true});
  auto plan = data.plan(machine.asReader()).wait(io.waitScope);
  EXPECT_EQ("stops the use of u-old; its data stay on /dev/vdb1", kj::strArray(plan, "\n"));
  pass();
  EXPECT_EQ("", log);
  EXPECT_EQ(1u, parts.size());
  EXPECT_THAT(said, HasSubstr("u-old: not used any more, because its document was removed; the "
                              "data stay on /dev/vdb1"));
  EXPECT_TRUE(store.tryGet<rpc::VolumeStatusSpec>("u-old") == nullptr);
}

// Catches: a cut after which no boot completes the volume, or one formats a volume with data.
TEST_F(DataVolumesTest, EachCutLeavesAStateFromWhichTheNextPassContinues) {
  want("u-data");
  for (unsigned at = 1; at <= 3; ++at) {
    for (bool late : {false, true}) {
      SCOPED_TRACE(at * 10 + late);
      parts.clear();
      luks.content = Luks::Content::EMPTY;
      failAt = at, effective = late;
      pass();
      EXPECT_THAT(reports.volumes["u-data"], HasSubstr("the power is gone"));
      failAt = 0;
      pass();
      EXPECT_EQ("ready /var/mnt/data", reports.volumes["u-data"]);
      ASSERT_EQ(1u, parts.size());
      EXPECT_TRUE(parts[0].made);
      EXPECT_EQ("u-data", parts[0].name);
    }
  }
}

TEST_F(DataVolumesTest, DiskWithDataOfOthersIsNotTaken) {
  want("u-data", "disk.dev_path == \"/dev/vda\"");
  pass();
  EXPECT_EQ("", log);
  EXPECT_EQ("waiting no disk can take it: /dev/vda: it holds ext4 \"photos\"",
            reports.volumes["u-data"]);
}

TEST_F(DataVolumesTest, PartitionGrowsBeforeItIsMounted) {
  parts.push_back({"u-data", kMiB, kGiB, true});
  auto volume = want("u-data");
  pass();
  EXPECT_EQ("mount:/dev/vdb1:/var/mnt/data", log) << "it does not grow without being asked to";
  volume.getSize().setGrows(true);
  pass();
  EXPECT_EQ("grow mount:/dev/vdb1:/var/mnt/data", log);
  EXPECT_EQ(2 * kGiB, parts[0].bytes);
  EXPECT_EQ(2 * kGiB, reports.bytes["u-data"]) << "the size before it has grown";
}

// Catches: a volume without a readable file system that is formatted although the installer, which
// looks at its head, refuses.
TEST_F(DataVolumesTest, VolumeWithoutAFileSystemIsNotFormattedIfItIsNotEmpty) {
  parts.push_back({"u-data", kMiB, kGiB, true});
  want("u-data");
  machine.getVolumes()[0].getSize().setGrows(true);
  parts[0].made = false;
  luks.content = Luks::Content::OTHER;
  failAt = 1;  // the installer refuses
  pass();
  EXPECT_THAT(reports.volumes["u-data"], HasSubstr("failed "));
  EXPECT_EQ("", log);
}

TEST_F(DataVolumesTest, StatusNamesTheDocumentAndTheReason) {
  want("u-data");
  EXPECT_EQ("UserVolumeConfig[data]: a node in a container has no disks",
            kj::strArray(volumesNotInEffect(store, machine.asReader(), true), "|"));
  EXPECT_EQ("UserVolumeConfig[data]: not made yet",
            kj::strArray(volumesNotInEffect(store, machine.asReader(), false), "|"));
}

}  // namespace talos::machined
