#include "machined/disk/installer/device-wipe.h"

#include <string.h>

#include "common/disk/empty-partition.h"
#include "machined/disk/devices/block-devices.h"
#include "machined/disk/installer/locked-disk.h"

namespace talos::install {
namespace {

// The copy of a GPT, and what arrays and pools of disks keep at the end of a device.
constexpr uint64_t kWipedEnd = kMiB;

}  // namespace

kj::Vector<WipedRange> rangesToWipe(uint64_t bytes, kj::ArrayPtr<const WipedRange> partitions,
                                    bool zeroes) {
  kj::Vector<WipedRange> ranges;
  if (zeroes) {
    ranges.add(WipedRange{0, bytes});
    return ranges;
  }
  auto addEnds = [&](uint64_t offset, uint64_t size) {
    auto end = kj::min(size, kWipedEnd);
    ranges.add(WipedRange{offset + size - end, end});
    ranges.add(WipedRange{offset, emptyHeadOf(size)});
  };
  for (auto& p : partitions) {
    if (p.offset < bytes) addEnds(p.offset, kj::min(p.size, bytes - p.offset));
  }
  addEnds(0, bytes);
  return ranges;
}

void wipeDevice(kj::StringPtr path, bool zeroes, Say& say, Confinement& confinement) {
  bool whole = true;
  kj::Vector<WipedRange> partitions;
  for (auto& device : machined::readBlockDevices()) {
    auto node = device.node();
    if (!device.whole && node == path) whole = false;
    bool within = !device.whole && kj::str("/dev/", device.disk) == path;
    if (within) partitions.add(WipedRange{device.begin, device.bytes});
  }
  Disk disk(path);
  confinement.enter(StepKind::kDisk, {});
  say(kj::str("wiping ", path));
  auto bytes = disk.size() / disk.sectorSize() * disk.sectorSize();
  auto ranges = rangesToWipe(bytes, partitions, zeroes);
  uint64_t total = 0, before = 0;
  for (auto& range : ranges) total += range.size;
  WipeProgress progress(total, kj::systemPreciseMonotonicClock());
  for (auto& range : ranges) {
    disk.zero(range.offset, range.size, [&](uint64_t done) {
      KJ_IF_MAYBE (line, progress.at(before + done)) say(kj::str("wiping ", path, ": ", *line));
    });
    before += range.size;
  }
  if (whole) disk.rereadPartitions();
}

}  // namespace talos::install
