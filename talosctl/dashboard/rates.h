// Rates from counters of the kernel (proc(5): /proc/stat, /proc/diskstats, /proc/net/dev) that were
// read twice. Foreign bytes; pure. A counter that went backwards (a device that is new, a reset)
// gives 0; a line that is not as the kernel writes it is left out.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::talosctl::dashboard {

// At most so many of each: a node may say anything.
constexpr size_t kMostDevices = 512;

struct CoreTimes {
  kj::String name;  // cpu0
  uint64_t busy, all;
};
kj::Vector<CoreTimes> readCores(kj::StringPtr stat);

struct DiskCounts {
  kj::String name;  // whole disks: no partitions, loops or ramdisks
  uint64_t readBytes, writtenBytes, busyMs;
};
kj::Vector<DiskCounts> readDisks(kj::StringPtr diskstats);

struct LinkCounts {
  kj::String name;
  uint64_t received, sent, errors, dropped;
};
kj::Vector<LinkCounts> readLinks(kj::StringPtr netDev);

// A second, of a difference in so many ms.
uint64_t perSecond(uint64_t before, uint64_t now, uint64_t elapsedMs);
// In 1/10 %, of what was possible.
uint16_t shareOf(uint64_t before, uint64_t now, uint64_t possible);

// By name; none: it was not there before.
template <typename Counts>
kj::Maybe<const Counts&> sameName(const kj::Vector<Counts>& all, kj::StringPtr name) {
  for (auto& one : all) {
    if (one.name == name) return one;
  }
  return nullptr;
}

}  // namespace talos::talosctl::dashboard
