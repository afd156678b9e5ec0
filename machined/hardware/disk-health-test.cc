// The health of disks: their answers, and the resources that are made from them.
#include "machined/hardware/disk-health.h"

#include <gmock/gmock.h>
#include <string.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "common/testing/test-tree.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/hardware/readings-controllers.h"
#include "rpc/hardware-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

kj::Array<kj::byte> logPage(kj::byte warning = 0, kj::byte used = 3) {
  auto page = kj::heapArray<kj::byte>(kNvmeHealthBytes);
  memset(page.begin(), 0, page.size());
  page[0] = warning;
  page[1] = 0x43;  // 323 K
  page[2] = 0x01;
  page[3] = 100;
  page[4] = 10;
  page[5] = used;
  page[32] = 2;
  page[48] = 3;
  page[112] = 17;
  page[128] = 0x10;
  page[129] = 0x27;
  page[144] = 4;
  page[160] = 5;
  page[176] = 6;
  return page;
}

// Returns sense data like libata: SPC-4 descriptors, one of them with the registers.
kj::Array<kj::byte> senseWith(kj::byte middle, kj::byte high) {
  auto sense = kj::heapArray<kj::byte>(22);
  memset(sense.begin(), 0, sense.size());
  sense[0] = 0x72;
  sense[1] = 0x01;
  sense[7] = 14;
  sense[8] = 0x09;
  sense[9] = 0x0c;
  sense[17] = middle;
  sense[19] = high;
  return sense;
}

// Catches: a figure from another place or in another unit.
TEST(DiskHealth, TheLogPageOfNvme) {
  auto health = KJ_ASSERT_NONNULL(decodeNvmeHealth(logPage()));
  EXPECT_EQ(health.temperature, 50);
  EXPECT_EQ(kj::str(unsigned(health.spare), " ", unsigned(health.spareThreshold), " ",
                    unsigned(health.used)),
            "100 10 3");
  EXPECT_EQ(kj::str(health.bytesRead, " ", health.bytesWritten), "1024000 1536000");
  EXPECT_EQ(kj::str(health.powerCycles, " ", health.powerOnHours, " ", health.unsafeShutdowns, " ",
                    health.mediaErrors, " ", health.errorLogEntries),
            "17 10000 4 5 6");
  EXPECT_EQ(warningsOf(health).size(), 0u);
}

// Catches: a counter of 128 bits that wraps, or overflows as bytes.
TEST(DiskHealth, CountersThatAreTooLarge) {
  auto page = logPage();
  page[48 + 7] = 0xff;
  page[112 + 8] = 1;
  auto health = KJ_ASSERT_NONNULL(decodeNvmeHealth(page));
  EXPECT_EQ(health.bytesWritten, uint64_t(kj::maxValue));
  EXPECT_EQ(health.powerCycles, uint64_t(kj::maxValue));
}

// Catches: a page of zeros, from a broken driver, that counts as a healthy disk at -273 C.
TEST(DiskHealth, WhatIsNoLogPage) {
  EXPECT_TRUE(decodeNvmeHealth(nullptr) == nullptr);
  EXPECT_TRUE(decodeNvmeHealth(logPage().slice(0, kNvmeHealthBytes - 1)) == nullptr);
  auto zeros = logPage();
  memset(zeros.begin(), 0, zeros.size());
  EXPECT_TRUE(decodeNvmeHealth(zeros) == nullptr);
}

// Catches: a warning with another warning's text; a lost warning of a later standard.
TEST(DiskHealth, EachWarningOfNvme) {
  std::set<std::string> texts;
  for (unsigned bit = 0; bit < 8; ++bit) {
    auto warnings = warningsOf(KJ_ASSERT_NONNULL(decodeNvmeHealth(logPage(kj::byte(1 << bit)))));
    ASSERT_EQ(warnings.size(), 1u) << bit;
    texts.insert(warnings[0].cStr());
  }
  EXPECT_EQ(texts.size(), 8u);
  EXPECT_THAT(texts, testing::Contains("media are read-only"));
  auto readOnly = warningsOf(KJ_ASSERT_NONNULL(decodeNvmeHealth(logPage(1 << 3))));
  EXPECT_EQ(readOnly[0], "media are read-only");
  EXPECT_EQ(warningsOf(KJ_ASSERT_NONNULL(decodeNvmeHealth(logPage(0x05)))).size(), 2u);
}

// Catches: a failing disk that passes, in either format; an answer without registers that counts as
// a status.
TEST(DiskHealth, AtaStatusIsReadInBothFormats) {
  auto verdict = [](kj::ArrayPtr<const kj::byte> sense) -> std::string {
    KJ_IF_MAYBE (v, decodeAtaVerdict(sense)) {
      return *v == AtaVerdict::kPassed ? "passed" : "failing";
    }
    return "none";
  };
  EXPECT_EQ(verdict(senseWith(0x4f, 0xc2)), "passed");
  EXPECT_EQ(verdict(senseWith(0xf4, 0x2c)), "failing");
  EXPECT_EQ(verdict(senseWith(0, 0)), "none");
  EXPECT_EQ(verdict(senseWith(0x4f, 0x2c)), "none");
  auto fixed = senseWith(0, 0);
  fixed[0] = 0x70;
  fixed[10] = 0xf4;
  fixed[11] = 0x2c;
  EXPECT_EQ(verdict(fixed), "failing");
  auto other = senseWith(0x4f, 0xc2);
  other[8] = 0x02;
  EXPECT_EQ(verdict(other), "none");
  auto whole = senseWith(0x4f, 0xc2);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(verdict(whole.slice(0, size)), "none") << size;
  }
}

class FakeDisks final : public DiskRequests {
 public:
  std::map<std::string, kj::Array<kj::byte>> answers;
  // A request to the disk of this name hangs until release().
  std::string hangs;
  void release() {
    std::lock_guard lock(mutex);
    released = true;
    changed.notify_all();
  }
  bool hanging() const {
    std::lock_guard lock(mutex);
    return inRequest;
  }

  kj::Array<kj::byte> nvmeHealth(kj::StringPtr disk) const override { return answer("nvme", disk); }
  kj::Array<kj::byte> ataStatus(kj::StringPtr disk) const override { return answer("ata", disk); }

 private:
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  mutable bool inRequest = false;
  bool released = false;

  kj::Array<kj::byte> answer(kj::StringPtr protocol, kj::StringPtr disk) const {
    if (hangs == disk.cStr()) {
      std::unique_lock lock(mutex);
      inRequest = true;
      changed.wait(lock, [this] { return released; });
    }
    auto found = answers.find(kj::str(protocol, " ", disk).cStr());
    if (found == answers.end()) fail(ErrorKind::kUnavailable, kj::str("no answer of ", disk));
    return kj::heapArray(found->second.asPtr());
  }
};

struct DiskHealthTest : public ConfigTest {
  ~DiskHealthTest() noexcept override {}
  TestTree tree;
  kj::Own<FakeDisks> disks = kj::refcounted<FakeDisks>();
  kj::Maybe<ReadPool> pool;

  void disk(kj::StringPtr name, kj::StringPtr vendor = "", kj::StringPtr bus = "ata1/host0") {
    auto folder = kj::str("sys/class/block/", name);
    auto device = kj::str("sys/devices/pci0000:00/", bus, "/", name);
    tree.directory(folder);
    tree.directory(device);
    tree.link(kj::str(folder, "/device"), kj::str("../../../../", device));
    tree.file(kj::str(folder, "/size"), "2048\n");
    tree.file(kj::str(folder, "/ro"), "0\n");
    if (vendor.size() > 0) tree.file(kj::str(folder, "/device/vendor"), vendor);
  }
  void begin() {
    auto& reads =
        pool.emplace(timer, ReadPool::Options{.hangingPerClient = 1}, [](kj::StringPtr) {});
    runtime.add(diskHealthController(timer, reads, kj::addRef(*disks), tree.at("sys")));
    runtime.add(sensorsController(timer, reads, tree.at("sys")));
    settle();
  }
  void settle() { runtime.whenIdle().wait(io.waitScope); }
  // Lets the pool's threads work; the clock of the controllers does not advance.
  template <typename F>
  bool until(F&& done) {
    for (int i = 0; i < 10000 && !done(); ++i) {
      io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return done();
  }
  kj::String shown(kj::StringPtr id) {
    KJ_IF_MAYBE (health, store.tryGet<rpc::DiskHealthSpec>(id)) {
      return kj::str(health->getProtocol(), " ", health->getHealth(), " ", health->getWear(), " ",
                     health->getWarnings().size(), " ", health->getError());
    }
    return kj::str("none");
  }
};

// Catches: a command to a disk on USB; a failing disk that passes; a disk without an answer that
// passes, or that blocks the other disks' answers.
TEST_F(DiskHealthTest, EachDiskByItself) {
  disk("nvme0n1");
  disk("nvme1n1");
  disk("nvme2n1");
  disk("sda", "ATA     \n");
  disk("sdb", "ATA\n");
  disk("sdc", "Generic\n", "usb1/host1");
  disk("sdd", "ATA\n", "usb1/host2");                     // the bridge passes on the disk's name
  disk("sde", "ATA\n", "host3/port-3:0/end_device-3:0");  // on a controller of SAS
  disk("vda");
  disks->answers["nvme nvme0n1"] = logPage();
  disks->answers["nvme nvme1n1"] = logPage(1 << 2, 104);
  disks->answers["ata sda"] = senseWith(0xf4, 0x2c);
  disks->answers["ata sdb"] = senseWith(0, 0);
  begin();
  EXPECT_EQ(shown("nvme0n1"), "NVMe passed 3% 0 ");
  EXPECT_EQ(shown("nvme1n1"), "NVMe failing 104% 1 ");
  EXPECT_EQ(shown("nvme2n1"), "NVMe unknown  0 no answer of nvme2n1");
  EXPECT_EQ(shown("sda"), "ATA failing  1 ");
  EXPECT_TRUE(shown("sdb").startsWith("ATA unknown  0 the disk's answer")) << shown("sdb").cStr();
  for (auto other : {"sdc", "sdd", "sde"}) EXPECT_EQ(shown(other), "none") << other;
  EXPECT_EQ(shown("vda"), "none");
  auto health = KJ_ASSERT_NONNULL(store.tryGet<rpc::DiskHealthSpec>("nvme0n1"));
  EXPECT_EQ(health.getNvme().getPowerOnHours(), 10000u);
  EXPECT_FALSE(KJ_ASSERT_NONNULL(store.tryGet<rpc::DiskHealthSpec>("sda")).hasNvme());
}

// Catches: an old verdict that passes for the current one; a removed disk that stays healthy; a new
// disk without a request for ten minutes.
TEST_F(DiskHealthTest, FollowsTheDisks) {
  disk("nvme0n1");
  disks->answers["nvme nvme0n1"] = logPage();
  begin();
  EXPECT_EQ(shown("nvme0n1"), "NVMe passed 3% 0 ");
  disks->answers["nvme nvme0n1"] = logPage(1);
  timer.advanceTo(timer.now() + kDiskHealthInterval - 1 * kj::SECONDS);
  poll();
  settle();
  EXPECT_EQ(shown("nvme0n1"), "NVMe passed 3% 0 ");
  timer.advanceTo(timer.now() + 2 * kj::SECONDS);
  poll();
  settle();
  EXPECT_EQ(shown("nvme0n1"), "NVMe failing 3% 1 ");
  removeTree(tree.at("sys/class/block/nvme0n1"));
  disk("sda", "ATA\n");
  disks->answers["ata sda"] = senseWith(0x4f, 0xc2);
  putRecord<rpc::DiscoveredVolumeSpec>(store, "sda", [](auto) {});
  settle();
  EXPECT_EQ(shown("nvme0n1"), "none");
  EXPECT_EQ(shown("sda"), "ATA passed  0 ");
}

// Catches: a hanging disk that passes with its last answer, or that blocks the other disks and the
// sensors.
TEST_F(DiskHealthTest, HangingDiskFailsAloneAndDoesNotBlock) {
  tree.directory("sys/class/hwmon/hwmon0");
  tree.file("sys/class/hwmon/hwmon0/name", "coretemp\n");
  tree.file("sys/class/hwmon/hwmon0/temp1_input", "41000\n");
  disk("nvme0n1");
  disk("nvme1n1");
  disks->answers["nvme nvme0n1"] = logPage();
  disks->answers["nvme nvme1n1"] = logPage();
  begin();
  EXPECT_EQ(shown("nvme0n1"), "NVMe passed 3% 0 ");
  disks->hangs = "nvme0n1";
  KJ_DEFER(disks->release());
  disks->answers["nvme nvme1n1"] = logPage(0, 4);
  timer.advanceTo(timer.now() + kDiskHealthInterval);
  ASSERT_TRUE(until([&] { return disks->hanging(); }));
  // The pool has two threads: this runs when the other disk has answered.
  KJ_ASSERT_NONNULL(pool).run("waiting for the other disk", [] {}, 0).wait(io.waitScope);
  timer.advanceTo(timer.now() + kReadingDeadline);
  EXPECT_TRUE(until([&] { return shown("nvme1n1") == "NVMe passed 4% 0 "; }));
  EXPECT_EQ(shown("nvme0n1"), "NVMe unknown  0 the disk does not answer");
  for (int i = 0; i < 20; ++i) {
    tree.file("sys/class/hwmon/hwmon0/temp1_input", kj::str(50 + i, "000\n"));
    settle();  // both controllers wait for the next round
    timer.advanceTo(timer.now() + kDiskHealthInterval);
    auto shows = [&] {
      auto sensor = store.tryGet<rpc::SensorReadingSpec>("hwmon0-temp1");
      return sensor.map([&](auto spec) { return spec.getValue() == 50 + i; }).orDefault(false);
    };
    ASSERT_TRUE(until(shows)) << i;
  }
  EXPECT_TRUE(until([&] {
    return shown("nvme0n1").startsWith(
        "NVMe unknown  0 1 read of this client hangs already (asking");
  })) << shown("nvme0n1").cStr();
  EXPECT_EQ(shown("nvme1n1"), "NVMe passed 4% 0 ");
}

// Catches: a hanging chip whose last values pass for current ones.
TEST_F(DiskHealthTest, ASensorThatHangs) {
  tree.directory("sys/class/block");
  tree.directory("sys/class/hwmon/hwmon0");
  tree.file("sys/class/hwmon/hwmon0/name", "coretemp\n");
  tree.file("sys/class/hwmon/hwmon0/temp1_input", "41000\n");
  begin();
  auto known = [&] { return store.tryGet<rpc::SensorReadingSpec>("hwmon0-temp1") != nullptr; };
  EXPECT_TRUE(known());
  auto file = tree.at("sys/class/hwmon/hwmon0/temp1_input");
  KJ_SYSCALL(unlink(file.cStr()));
  KJ_SYSCALL(mkfifo(file.cStr(), 0600));  // whose open(2) waits for a writer
  timer.advanceTo(timer.now() + kSensorInterval);
  kj::AutoCloseFd writer;
  // Succeeds when a reader waits for a writer.
  ASSERT_TRUE(until([&] {
    int fd = open(file.cStr(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) writer = kj::AutoCloseFd(fd);
    return fd >= 0;
  }));
  EXPECT_TRUE(known());
  timer.advanceTo(timer.now() + kReadingDeadline);
  EXPECT_TRUE(until([&] { return !known(); }));
}

// Catches: a sensor that is read only once; a removed sensor that keeps its last value.
TEST_F(DiskHealthTest, FollowsTheSensors) {
  tree.directory("sys/class/hwmon/hwmon0");
  tree.directory("sys/class/block");
  tree.file("sys/class/hwmon/hwmon0/name", "coretemp\n");
  tree.file("sys/class/hwmon/hwmon0/temp1_input", "41000\n");
  tree.directory("sys/devices/system/edac/mc/mc0");
  tree.file("sys/devices/system/edac/mc/mc0/ce_count", "7\n");
  begin();
  auto value = [&] {
    return store.tryGet<rpc::SensorReadingSpec>("hwmon0-temp1")
        .map([](auto spec) { return kj::str(spec.getValue(), spec.getUnit(), spec.getState()); })
        .orDefault(kj::str("none"));
  };
  EXPECT_EQ(value(), "41Cok");
  EXPECT_EQ(KJ_ASSERT_NONNULL(store.tryGet<rpc::MemoryErrorCountSpec>("mc0")).getCorrected(), 7u);
  tree.file("sys/class/hwmon/hwmon0/temp1_input", "43000\n");
  auto later = [&] {
    timer.advanceTo(timer.now() + kSensorInterval);
    poll();
    settle();
  };
  later();
  EXPECT_EQ(value(), "43Cok");
  removeTree(tree.at("sys/class/hwmon/hwmon0"));
  later();
  EXPECT_EQ(value(), "none");
}

}  // namespace
}  // namespace talos::machined
