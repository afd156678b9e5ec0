#include "machined/disk/devices/storage-server.h"

#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/folder.h"
#include "common/kernel/sysfs-attributes.h"
#include "common/memory/secret-array.h"
#include "common/text/foreign-text.h"
#include "machined/disk/devices/meta-values.h"

namespace talos::machined {
namespace {

// Returns the first non-empty line of these files.
kj::String firstOf(kj::StringPtr device, std::initializer_list<kj::StringPtr> names) {
  for (auto name : names) {
    auto text = readAttributeLine(device, name).orDefault(kj::String());
    if (text.size() > 0) return fieldText(text);
  }
  return kj::String();
}

// Returns 0 for a file without a number.
uint64_t numberOf(kj::StringPtr device, kj::StringPtr name) {
  return firstOf(device, {name}).tryParseAs<uint64_t>().orDefault(0);
}

rpc::Disk::Type typeOf(kj::StringPtr name, kj::StringPtr device) {
  if (name.startsWith("nvme")) return rpc::Disk::Type::NVME;
  // eMMC is soldered on; devices named SD can be pulled out.
  if (firstOf(device, {"device/type"_kj}) == "SD") return rpc::Disk::Type::SD;
  auto rotates = firstOf(device, {"queue/rotational"_kj});
  return rotates == "1"   ? rpc::Disk::Type::HDD
         : rotates == "0" ? rpc::Disk::Type::SSD
                          : rpc::Disk::Type::UNKNOWN;
}

// Returns the target of a relative link without the ".." at its beginning, such as
// "/devices/virtual/block/dm-0".
kj::Maybe<kj::String> targetOf(kj::StringPtr link) {
  char target[4096];
  ssize_t size = readlink(link.cStr(), target, sizeof(target));
  if (size <= 0 || size == sizeof(target)) return nullptr;
  auto path = kj::heapString(target, static_cast<size_t>(size));
  kj::StringPtr rest = path;
  while (rest.startsWith("../")) rest = rest.slice(3);
  return fieldText(kj::str("/", rest));
}

// Returns the path of the first controller of a disk that has several paths, and so no place on a
// bus.
kj::Maybe<kj::String> pathOfController(kj::StringPtr sys, kj::StringPtr subsystem) {
  auto folder = kj::str(sys, "/devices", subsystem);
  kj::Maybe<kj::String> first;
  for (auto& name : namesIn(folder)) {
    if (!name.startsWith("nvme") || targetOf(kj::str(folder, "/", name)) == nullptr) continue;
    bool before = true;
    KJ_IF_MAYBE (other, first) before = comesBefore(name, *other);
    if (before) first = kj::str(name);
  }
  KJ_IF_MAYBE (name, first) return targetOf(kj::str(folder, "/", *name));
  return nullptr;
}

kj::String busPathOf(kj::StringPtr sys, kj::StringPtr name) {
  constexpr auto kDevices = "/devices"_kj, kSeveral = "/virtual/nvme-subsystem/"_kj;
  auto target = targetOf(kj::str(sys, "/class/block/", name)).orDefault(kj::String());
  if (!target.startsWith(kDevices)) return kj::String();
  auto path = kj::str(target.slice(kDevices.size()));
  auto own = kj::str("/block/", name);
  if (path.endsWith(own)) return kj::str(path.slice(0, path.size() - own.size()), "/");
  if (path.startsWith(kSeveral)) {
    auto subsystem = kj::str(path.slice(0, path.findLast('/').orDefault(0)));
    KJ_IF_MAYBE (controller, pathOfController(sys, subsystem)) {
      return kj::str(*controller, "/", name);
    }
  }
  return path;
}

class StorageServer final : public rpc::Storage::Server {
 public:
  StorageServer(ReadPool& pool, MetaPartition& meta, NewRecoveryKey recovery,
                WipeDevices wipeDevices, kj::Own<ClientCalls> calls, kj::StringPtr sys)
      : pool(pool),
        meta(meta),
        recovery(kj::mv(recovery)),
        wipeDevices(kj::mv(wipeDevices)),
        calls(kj::mv(calls)),
        sys(kj::str(sys)) {}

  kj::Promise<void> disks(DisksContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto found = co_await pool.of(calls->number()).run("reading the disks", [sys = kj::str(sys)]() {
      return readDisks(sys);
    });
    fillList(context.getResults().initDisks(found.size()), found,
             [](auto out, const DiskFacts& disk) {
               out.setDevice(kj::str("/dev/", disk.name));
               out.setSize(disk.bytes);
               out.setModel(disk.model);
               out.setSerial(disk.serial);
               out.setModalias(disk.modalias);
               out.setUuid(disk.uuid);
               out.setWwid(disk.wwid);
               out.setName(disk.ownName);
               out.setBusPath(disk.busPath);
               out.setType(disk.type);
             });
  }

  kj::Promise<void> readMeta(ReadMetaContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto key = context.getParams().getKey();
    auto all = co_await meta.read(pool.of(calls->number()), key);
    kj::Vector<MetaValue> found;
    for (auto& value : all) {
      if (key != 0 || !isSystemRecord(value.key)) found.add(kj::mv(value));
    }
    fillList(context.getResults().initValues(found.size()), found, [](auto out, MetaValue& value) {
      out.setKey(value.key);
      out.setValue(value.value);
    });
  }

  kj::Promise<void> writeMeta(WriteMetaContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto params = context.getParams();
    auto key = params.getKey();
    auto value = secretArray(params.getValue());
    zeroizeReceived(params.getValue());
    context.releaseParams();
    requireKeyOfUsers(key);
    co_await meta.write(pool.of(calls->number()), key, kj::mv(value));
  }

  kj::Promise<void> deleteMeta(DeleteMetaContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto key = context.getParams().getKey();
    requireKeyOfUsers(key);
    co_await meta.remove(pool.of(calls->number()), key);
  }

  kj::Promise<void> newRecoveryKey(NewRecoveryKeyContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto params = context.getParams();
    auto passphrase = co_await recovery(kj::str(params.getVolume()), params.getSlot());
    KJ_DEFER(zeroize(passphrase));
    context.getResults().setPassphrase(passphrase);
  }

  kj::Promise<void> wipe(WipeContext context) override {
    auto slot = calls->enter(CallKind::kRead);
    auto params = context.getParams();
    kj::Vector<kj::String> names;
    for (auto name : params.getDevices()) names.add(kj::str(name));
    kj::Maybe<rpc::ByteSink::Client> sink;
    if (params.hasProgress()) sink = params.getProgress();
    // The lines are few. A client that does not read them does not delay the work.
    kj::Promise<void> sent = kj::READY_NOW;
    auto say = [&sent, &sink](kj::StringPtr line) {
      KJ_IF_MAYBE (to, sink) {
        sent = sent.then([to = *to, text = kj::str(line, "\n")]() mutable {
                     auto request = to.writeRequest();
                     request.setBytes(text.asBytes());
                     return request.send();
                   })
                   .catch_([](kj::Exception&&) {})
                   .eagerlyEvaluate(nullptr);
      }
    };
    co_await wipeDevices(kj::mv(names), params.getZeroes(), kj::mv(say));
    co_await kj::mv(sent);
  }

 private:
  // A record of the system changed by hand can erase the disk at the next boot, or lift the refusal
  // of older systems.
  static void requireKeyOfUsers(uint32_t key) {
    if (!isSystemRecord(key)) return;
    fail(ErrorKind::kFailedPrecondition,
         kj::str("META: ", key, " is a record of the system, which only the system changes"));
  }

  ReadPool& pool;
  MetaPartition& meta;
  NewRecoveryKey recovery;
  WipeDevices wipeDevices;
  kj::Own<ClientCalls> calls;
  kj::String sys;
};

}  // namespace

kj::StringPtr DiskFacts::transport() const {
  if (name.startsWith("nvme")) return "nvme";
  if (name.startsWith("vd")) return "virtio";
  if (name.startsWith("mmcblk")) return "mmc";
  auto isOn = [&](const char* bus) { return strstr(busPath.cStr(), bus) != nullptr; };
  if (isOn("/usb")) return "usb";
  if (isOn("/ata")) return "sata";
  if (isOn("/virtio")) return "virtio";
  return "";
}

kj::String serialOfPage(kj::ArrayPtr<const char> page) {
  constexpr size_t kHead = 4;
  if (page.size() < kHead || page[1] != '\x80') return kj::String();
  size_t announcedSize =
      static_cast<unsigned char>(page[2]) << 8 | static_cast<unsigned char>(page[3]);
  auto text = page.slice(kHead, kHead + kj::min(announcedSize, page.size() - kHead));
  size_t begin = 0, end = text.size();
  auto blank = [](char c) { return c == ' ' || c == 0; };
  while (begin < end && blank(text[begin])) ++begin;
  while (end > begin && blank(text[end - 1])) --end;
  return fieldText(kj::heapString(text.slice(begin, end)));
}

kj::Vector<DiskFacts> readDisks(kj::StringPtr sys) {
  kj::Vector<DiskFacts> disks;
  for (auto& device : readBlockDevices(sys)) {
    if (!device.whole || device.cdrom || device.bytes == 0) continue;
    auto path = kj::str(sys, "/class/block/", device.name);
    DiskFacts disk;
    disk.bytes = device.bytes;
    disk.model = firstOf(path, {"device/model"_kj});
    disk.serial = firstOf(path, {"serial"_kj, "device/serial"_kj});
    if (disk.serial == nullptr) {
      KJ_IF_MAYBE (page, readAttribute(path, "device/vpd_pg80")) disk.serial = serialOfPage(*page);
    }
    disk.modalias = firstOf(path, {"device/modalias"_kj, "device/device/modalias"_kj});
    disk.uuid = firstOf(path, {"uuid"_kj, "device/uuid"_kj});
    disk.wwid = firstOf(path, {"wwid"_kj, "device/wwid"_kj});
    disk.ownName = firstOf(path, {"device/name"_kj});
    disk.busPath = busPathOf(sys, device.name);
    disk.type = typeOf(device.name, path);
    disk.ioSize = numberOf(path, "queue/minimum_io_size");
    disk.sectorSize = numberOf(path, "queue/logical_block_size");
    disk.readOnly = device.readOnly;
    disk.name = kj::mv(device.name);
    disks.add(kj::mv(disk));
  }
  return disks;
}

rpc::Storage::Client serveNoStorage() {
  class NoStorage final : public rpc::Storage::Server {
   public:
    kj::Promise<void> disks(DisksContext context) override {
      context.getResults().initDisks(0);
      return kj::READY_NOW;
    }
    kj::Promise<void> readMeta(ReadMetaContext) override { return noMeta(); }
    kj::Promise<void> writeMeta(WriteMetaContext) override { return noMeta(); }
    kj::Promise<void> deleteMeta(DeleteMetaContext) override { return noMeta(); }
    kj::Promise<void> newRecoveryKey(NewRecoveryKeyContext) override {
      return error(ErrorKind::kFailedPrecondition, "a node in a container has no encrypted disks");
    }
    kj::Promise<void> wipe(WipeContext context) override {
      auto names = context.getParams().getDevices();
      if (names.size() == 0) return error(ErrorKind::kInvalidArgument, "no device is named");
      return error(ErrorKind::kNotFound, kj::str("blockdevice ", jsonString(names[0]),
                                                 " not found: a node in a container has no disks"));
    }

   private:
    static kj::Promise<void> noMeta() {
      return error(ErrorKind::kFailedPrecondition, "a node in a container has no partition META");
    }
  };
  return kj::heap<NoStorage>();
}

rpc::Storage::Client serveStorage(ReadPool& pool, MetaPartition& meta, NewRecoveryKey recovery,
                                  WipeDevices wipe, kj::Own<ClientCalls> calls, kj::StringPtr sys) {
  return kj::heap<StorageServer>(pool, meta, kj::mv(recovery), kj::mv(wipe), kj::mv(calls), sys);
}

}  // namespace talos::machined
