// Rates from counters of the kernel (proc(5): /proc/stat, /proc/diskstats, /proc/net/dev) that were
// read twice. Foreign bytes; pure. A counter that decreased (a new device, a reset) gives 0; a line
// in another form than the kernel's is skipped.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::talosctl::dashboard {

// Limit for each kind, because a node may send any number.
constexpr size_t kMostDevices = 512;

struct CoreTimes {
  kj::String name;  // such as cpu0
  uint64_t busy, all;
};
kj::Vector<CoreTimes> readCores(kj::StringPtr stat);

struct DiskCounts {
  kj::String name;  // whole disks, without partitions, loops or ramdisks
  uint64_t readBytes, writtenBytes, busyMs;
};
kj::Vector<DiskCounts> readDisks(kj::StringPtr diskstats);

struct LinkCounts {
  kj::String name;
  uint64_t received, sent, errors, dropped;
};
kj::Vector<LinkCounts> readLinks(kj::StringPtr netDev);

// Returns the rate per second of a difference over `elapsedMs`.
uint64_t perSecond(uint64_t before, uint64_t now, uint64_t elapsedMs);
// Returns the share of the possible difference, in 1/10 %.
uint16_t shareOf(uint64_t before, uint64_t now, uint64_t possible);

// Finds the earlier counts by name; nullptr if they did not exist.
template <typename Counts>
kj::Maybe<const Counts&> sameName(const kj::Vector<Counts>& all, kj::StringPtr name) {
  for (auto& one : all) {
    if (one.name == name) return one;
  }
  return nullptr;
}

}  // namespace talos::talosctl::dashboard
