#include "machined/disk/devices/block-devices.h"

#include <kj/debug.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/kernel/sysfs-attributes.h"

namespace talos::machined {
namespace {

// Returns the value of a line "KEY=value" of uevent.
kj::String ofUevent(kj::StringPtr uevent, kj::StringPtr key) {
  auto wanted = kj::str(key, "=");
  for (auto line : Lines(uevent)) {
    if (line.size() < wanted.size() || line.slice(0, wanted.size()) != wanted.asArray()) continue;
    return kj::heapString(line.slice(wanted.size(), line.size()));
  }
  return kj::String();
}

// Returns the disk of a partition: the partition's folder is in the disk's folder, and the entries
// of /sys/class/block are links to these folders: "../../devices/…/block/vda/vda1".
kj::String diskOf(kj::StringPtr entry, kj::StringPtr name) {
  char target[4096];
  ssize_t size = readlink(entry.cStr(), target, sizeof(target) - 1);
  if (size <= 0) return kj::str(name);
  target[size] = 0;
  kj::StringPtr path = target;
  KJ_IF_MAYBE (last, path.findLast('/')) {
    auto above = kj::heapString(path.slice(0, *last));
    KJ_IF_MAYBE (before, above.findLast('/')) return kj::heapString(above.slice(*before + 1));
  }
  return kj::str(name);
}

kj::Maybe<BlockDevice> readOne(kj::StringPtr sys, kj::StringPtr name) {
  auto entry = kj::str(sys, "/class/block/", name);
  BlockDevice device;
  device.name = kj::str(name);
  KJ_IF_MAYBE (sectors, readAttributeLine(entry, "size")) {
    device.bytes = sectors->tryParseAs<uint64_t>().orDefault(0) * 512;  // always units of 512
  } else {
    return nullptr;
  }
  // Skips one of several paths to an NVMe disk, which has no node.
  if (readAttributeLine(entry, "hidden").orDefault(kj::String()) == "1") return nullptr;
  device.whole = readAttributeLine(entry, "partition") == nullptr;
  KJ_IF_MAYBE (sector, readAttributeLine(entry, "start")) {
    device.begin = sector->tryParseAs<uint64_t>().orDefault(0) * 512;
  }
  device.disk = device.whole ? kj::str(name) : diskOf(entry, name);
  KJ_IF_MAYBE (number, readAttributeLine(entry, device.whole ? "diskseq" : "../diskseq")) {
    device.sequence = number->tryParseAs<uint64_t>().orDefault(0);
  }
  device.readOnly = readAttributeLine(entry, "ro").orDefault(kj::String()) == "1";
  device.cdrom = name.startsWith("sr");
  device.held = !namesIn(kj::str(entry, "/holders"), 1).empty();
  KJ_IF_MAYBE (uevent, readAttributeLine(entry, "uevent")) {
    device.partitionName = ofUevent(*uevent, "PARTNAME");
  }
  return kj::mv(device);
}

kj::Vector<kj::String> blockDevicesIn(kj::StringPtr sys) {
  return namesIn(kj::str(sys, "/class/block"));
}

void sortByName(kj::Vector<BlockDevice>& devices) {
  std::sort(devices.begin(), devices.end(),
            [](auto& a, auto& b) { return comesBefore(a.name, b.name); });
}

}  // namespace

bool isDiskName(kj::StringPtr name) {
  for (auto other : {"loop"_kj, "ram"_kj, "zram"_kj, "dm-"_kj, "md"_kj, "sg"_kj, "nbd"_kj}) {
    if (name.startsWith(other)) return false;
  }
  return !(name.startsWith("fd") && name.size() <= 3);
}

bool comesBefore(kj::StringPtr a, kj::StringPtr b) {
  // Compares runs of letters and runs of digits in turn; the shorter run is the smaller one.
  size_t i = 0, j = 0;
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  while (i < a.size() && j < b.size()) {
    size_t ai = i, bj = j;
    bool number = digit(a[i]);
    if (number != digit(b[j])) return a[i] < b[j];
    while (i < a.size() && digit(a[i]) == number) ++i;
    while (j < b.size() && digit(b[j]) == number) ++j;
    if (i - ai != j - bj) return i - ai < j - bj;
    int order = memcmp(a.begin() + ai, b.begin() + bj, i - ai);
    if (order != 0) return order < 0;
  }
  return j < b.size();
}

kj::Vector<kj::String> readMappings(kj::StringPtr sys) {
  kj::Vector<kj::String> mappings;
  for (auto& name : blockDevicesIn(sys)) {
    if (!name.startsWith("dm-")) continue;
    auto device = kj::str(sys, "/class/block/", name);
    KJ_IF_MAYBE (mapping, readAttributeLine(device, "dm/name")) mappings.add(kj::mv(*mapping));
  }
  return mappings;
}

kj::Vector<BlockDevice> readOpenVolumes(kj::StringPtr sys) {
  kj::Vector<BlockDevice> devices;
  for (auto& name : blockDevicesIn(sys)) {
    if (!name.startsWith("dm-")) continue;
    auto entry = kj::str(sys, "/class/block/", name);
    // libcryptsetup gives its mappings this prefix; other mappings are ignored.
    if (!readAttributeLine(entry, "dm/uuid").orDefault(kj::String()).startsWith("CRYPT-")) continue;
    KJ_IF_MAYBE (mapping, readAttributeLine(entry, "dm/name")) {
      KJ_IF_MAYBE (device, readOne(sys, name)) {
        device->mapping = kj::mv(*mapping);
        for (auto& below : namesIn(kj::str(entry, "/slaves"))) device->openedFrom = kj::mv(below);
        devices.add(kj::mv(*device));
      }
    }
  }
  sortByName(devices);
  return devices;
}

kj::Vector<BlockDevice> readBlockDevices(kj::StringPtr sys) {
  kj::Vector<BlockDevice> devices;
  for (auto& name : blockDevicesIn(sys)) {
    if (!isDiskName(name)) continue;
    KJ_IF_MAYBE (device, readOne(sys, name)) devices.add(kj::mv(*device));
  }
  sortByName(devices);
  return devices;
}

}  // namespace talos::machined
