// A machine with two disks, in memory, and the volumes of its config on them, for tests.
#pragma once

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
#include "machined/disk/volumes/data-volumes.h"
#include "machined/disk/volumes/test-volume-fakes.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {

using testing::HasSubstr;

constexpr const char* kPartitionId = "aaaaaaaa-0000-4000-8000-000000000001";
constexpr const char* kDiskId = "dddddddd-0000-4000-8000-000000000001";
constexpr kj::StringPtr kUuid = "00112233-4455-6677-8899-aabbccddeeff"_kj;

// A machine with two disks, in memory: vda, with data of others, and vdb.
struct DataVolumesTest : testing::Test {
  ~DataVolumesTest() noexcept override {}
  struct Partition {
    std::string name;
    uint64_t begin, bytes;
    bool made = false;  // it has a file system
    bool unfinished = false;
    const char* id = kPartitionId;
  };
  std::vector<Partition> parts;  // of vdb
  FileSystem contentOfParts = FileSystem::kXfs;
  std::string log, said;
  unsigned calls = 0, failAt = 0;
  bool effective = false;  // the failing call has had its effect
  std::string held, silent, silentParts;
  bool hangs = false;  // to look at a disk
  bool unreadable = false;
  bool unlisted = false;      // the disks
  bool keepsHeaders = false;  // backups of headers, in the folder luks
  std::vector<kj::StringPtr> diskNames = {"vda"_kj, "vdb"_kj};

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
      if (p.name == name.cStr()) return p;
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
        EXPECT_EQ(1u, readVolumeRecords(test.tree.at("volumes")).size()) << "without a record";
        test.step("finish", [&] { part.unfinished = false; });
        return true;
      }
      if (request.isFormat()) {
        auto& part = test.parts.at(0);
        EXPECT_TRUE(part.unfinished) << "a volume in use is formatted";
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
      test.step("add", [&] {
        for (auto& p : test.parts) {
          if (p.name != request.getName().cStr()) continue;
          EXPECT_TRUE(p.unfinished) << "a volume in use is emptied";
          p.made = false;
          return;
        }
        test.parts.push_back({.name = request.getName().cStr(),
                              .begin = request.getOffset(),
                              .bytes = request.getSize(),
                              .unfinished = true});
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
        whole.problem = kj::str(test.silent.c_str());
      }
      for (auto i : kj::indices(test.parts)) {
        auto& part = all.add();
        part.device.name = kj::str("vdb", i + 1);
        part.device.disk = kj::str("vdb");
        part.device.partitionName = kj::str(test.parts[i].name.c_str());
        part.device.whole = false;
        part.device.begin = test.parts[i].begin;
        part.device.bytes = test.parts[i].bytes;
        part.problem = kj::str(test.silentParts.c_str());
        bool known = test.parts[i].made && test.silentParts.empty();
        if (known) part.content = Superblock{test.contentOfParts, kj::str()};
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
    std::map<std::string, std::string> places;
    std::string closed;
    void report(kj::StringPtr label, const VolumeReport& report) override {
      if (report.phase == VolumePhase::kClosed) closed += kj::str(label, " ").cStr();
      places[label.cStr()] = kj::str(report.mountLocation, " ", report.target).cStr();
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
                               .backups = [this]() -> kj::Maybe<kj::String> {
                                 if (!keepsHeaders) return nullptr;
                                 return tree.at("luks");
                               }}};
  kj::String mounts = tree.at("mountinfo"), memory = tree.at("meminfo");
  DataVolumes data{{.uv = uv,
                    .timer = timer,
                    .store = store,
                    .volumes = volumes,
                    .installer = installer,
                    .partitions = partitions,
                    .reports = reports,
                    .disks = [this]() -> kj::Promise<kj::Vector<DiskFacts>> {
                      if (unlisted) fail(ErrorKind::kUnavailable, "all threads hang");
                      kj::Vector<DiskFacts> disks;
                      for (auto name : diskNames) {
                        auto& disk = disks.add();
                        disk.name = kj::str(name);
                        disk.bytes = 20 * kGiB;
                      }
                      return kj::mv(disks);
                    },
                    .look = [this](kj::StringPtr disk) -> kj::Promise<FoundOnDisk> {
                      if (hangs) return kj::NEVER_DONE;
                      if (unreadable) fail(ErrorKind::kUnavailable, "it cannot be read");
                      FoundOnDisk found;
                      if (disk == "/dev/vda") {
                        found.volumes.add(FoundOnDisk::Volume{kj::str("ext4"), kj::str("photos")});
                      } else if (!parts.empty()) {
                        found.table = kj::str("gpt");
                        found.tableId = kj::str(kDiskId);
                        for (auto& p : parts) {
                          found.partitions.add(kj::str(p.name.c_str()));
                          found.places.add(FoundOnDisk::Place{
                              .number = static_cast<unsigned>(found.places.size() + 1),
                              .begin = p.begin,
                              .bytes = p.bytes,
                              .id = kj::str(p.id),
                              .name = kj::str(p.name.c_str()),
                              .attributes = p.unfinished ? kUnfinishedVolume : 0});
                        }
                      }
                      return kj::mv(found);
                    },
                    .stateDevice = []() -> kj::Maybe<kj::String> { return nullptr; },
                    .records = [this]() -> kj::Maybe<kj::String> { return tree.at("volumes"); },
                    .attach = [this](SystemPartitions::Mountable ready, kj::String target,
                                     MountOptions, bool) -> kj::Promise<void> {
                      log +=
                          kj::str(log.empty() ? "" : " ", "mount:", ready.node, ":", target).cStr();
                      return kj::READY_NOW;
                    },
                    .say = [this](kj::StringPtr line) { said += kj::str(line, "\n").cStr(); },
                    .alarm = [this](kj::StringPtr line) { said += kj::str(line, "\n").cStr(); },
                    .held = [this]() -> kj::Maybe<kj::String> {
                      if (held.empty()) return nullptr;
                      return kj::str(held.c_str());
                    },
                    .mountinfo = mounts,
                    .swaps = mounts,
                    .meminfo = memory}};
  capnp::MallocMessageBuilder message;
  config::Machine::Builder machine = message.initRoot<config::Machine>();

  DataVolumesTest() {
    tree.file("mountinfo", "");
    tree.file("meminfo", "");
  }
  config::StorageVolume::Builder want(kj::StringPtr id, kj::StringPtr selector = "true") {
    auto volume = machine.initVolumes(1)[0];
    volume.setId(id);
    volume.setSelector(selector);
    volume.setMountpoint(kj::str("/var/mnt/", id.slice(2)));
    volume.initSize().setLeast(kGiB);
    volume.getSize().setMost(2 * kGiB);
    return volume;
  }
  // Waits until the pass of a timer has made the volume ready.
  void expectReadyAfter(kj::Duration pause, const char* id = "u-data") {
    auto& report = reports.volumes[id];
    timer.advanceTo(timer.now() + pause);
    for (int i = 0; i < 200 && report.rfind("ready", 0) != 0; ++i) {
      io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    EXPECT_THAT(report, testing::StartsWith("ready")) << "no timer";
  }
  void pass(DataVolumes::Occasion occasion = DataVolumes::Occasion::kAsked) {
    log.clear();
    calls = 0;
    data.reconcile(machine.asReader(), occasion).wait(io.waitScope);
  }
};

}  // namespace talos::machined
