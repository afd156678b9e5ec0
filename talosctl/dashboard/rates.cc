#include "talosctl/dashboard/rates.h"

#include <cmath>

#include "common/base/lines.h"
#include "common/text/ascii.h"
#include "common/text/fields.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr uint64_t kSector = 512;

bool startsWith(kj::ArrayPtr<const char> text, kj::StringPtr prefix) {
  return text.size() >= prefix.size() && text.slice(0, prefix.size()) == prefix.asArray();
}

// Returns true for sda1, nvme0n1p2, mmcblk0p1: the name of a whole disk that precedes it in the
// file, and digits.
bool isPartOf(kj::StringPtr name, kj::StringPtr disk) {
  if (!name.startsWith(disk) || name.size() == disk.size()) return false;
  auto rest = name.slice(disk.size());
  if (rest[0] == 'p') rest = rest.slice(1);
  if (rest.size() == 0) return false;
  for (char c : rest) {
    if (!isDigit(c)) return false;
  }
  return true;
}

bool isWholeDisk(kj::StringPtr name, const kj::Vector<DiskCounts>& before) {
  for (auto other : {"loop"_kj, "ram"_kj, "zram"_kj, "dm-"_kj, "sr"_kj, "fd"_kj}) {
    if (name.startsWith(other)) return false;
  }
  for (auto& disk : before) {
    if (isPartOf(name, disk.name)) return false;
  }
  return true;
}

}  // namespace

kj::Vector<CoreTimes> readCores(kj::StringPtr stat) {
  kj::Vector<CoreTimes> all;
  for (auto line : Lines(stat)) {
    Fields fields(line);
    auto name = fields.next();
    if (!startsWith(name, "cpu") || name.size() == 3 || all.size() == kMostDevices) continue;
    // The kernel counts guest time in user time as well.
    constexpr unsigned kIdle = 3, kIowait = 4, kGuest = 8;
    uint64_t sum = 0, idle = 0;
    for (unsigned at = 0; at < kGuest; ++at) {
      auto value = numberIn<uint64_t>(fields.next());
      sum += value;
      if (at == kIdle || at == kIowait) idle += value;
    }
    all.add(CoreTimes{kj::heapString(name), sum - idle, sum});
  }
  return all;
}

kj::Vector<DiskCounts> readDisks(kj::StringPtr diskstats) {
  kj::Vector<DiskCounts> all;
  for (auto line : Lines(diskstats)) {
    Fields fields(line);
    fields.next(), fields.next();  // major, minor
    auto name = kj::heapString(fields.next());
    if (name.size() == 0 || all.size() == kMostDevices || !isWholeDisk(name, all)) continue;
    uint64_t values[10] = {};
    for (auto& value : values) value = numberIn<uint64_t>(fields.next());
    all.add(DiskCounts{kj::mv(name), values[2] * kSector, values[6] * kSector, values[9]});
  }
  return all;
}

kj::Vector<LinkCounts> readLinks(kj::StringPtr netDev) {
  kj::Vector<LinkCounts> all;
  for (auto line : Lines(netDev)) {
    KJ_IF_MAYBE (link, namedFields(line)) {
      if (all.size() == kMostDevices) break;
      uint64_t values[12] = {};
      for (auto& value : values) value = numberIn<uint64_t>(link->fields.next());
      all.add(LinkCounts{kj::heapString(link->name), values[0], values[8], values[2] + values[10],
                         values[3] + values[11]});
    }
  }
  return all;
}

uint64_t perSecond(uint64_t before, uint64_t now, uint64_t elapsedMs) {
  // Faster than any device, and products cannot overflow.
  constexpr uint64_t kMost = uint64_t(1) << 50;
  if (now < before || elapsedMs == 0) return 0;
  return kj::min(now - before, kMost) * 1000 / elapsedMs;
}

uint16_t shareOf(uint64_t before, uint64_t now, uint64_t possible) {
  if (now < before || possible == 0) return 0;
  return uint16_t(std::lround(kj::min(double(now - before) * 1000 / double(possible), 1000.0)));
}

}  // namespace talos::talosctl::dashboard
