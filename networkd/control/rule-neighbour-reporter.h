// Reports the parts of the kernel's network that networkd does not configure: routing rules and
// neighbours.
//
// Neighbours change their state all the time, and a large network has thousands of them. So they
// have a separate netlink monitor: in the reconciler's monitor their noise would make it read
// everything again and again, and overrun notices that it must not miss. A notice of this monitor
// only says that it is time to read the tables. Its buffer is small and left unread during the
// pause that follows every notice: the kernel drops notices beyond the buffer, which costs nothing,
// because the tables are read again anyway. An overrun is a notice like any other.
//
// The pause is a second, and longer the more there is to read and to write (kPerRead, kPerWrite), a
// minute at most. So a state that changes back and forth is written at most once a second, and all
// states together at most a hundred times a second on average. Unchanged records are not written.
// At most kMost of each kind are shown, those with the lowest priorities or links and addresses;
// the record "more" and the log give the number of the others.
//
// After a crash everything is read and reported again; records that the store already has are not
// written again.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include <string>
#include <vector>

#include "common/netlink/netlink.h"
#include "networkd/plan/network-status.h"

namespace talos::networkd {

constexpr size_t kMostShown = 4096;

// --- the pure part
struct ShownRules {
  std::vector<netlink::Rule> rules;  // in the order in which the kernel tries them
  size_t more = 0;                   // number of rules that are left out
  bool operator==(const ShownRules&) const = default;
};
struct ShownNeighbours {
  struct One {
    netlink::Neighbour neighbour;
    std::string link;  // name of the link
    auto operator<=>(const One&) const = default;
  };
  std::vector<One> neighbours;  // sorted by link and address
  size_t more = 0;
  bool operator==(const ShownNeighbours&) const = default;
};

ShownRules shownRules(kj::Vector<netlink::Rule> rules);
// Selects as `ip neigh` does: without neighbours computed from the address (noarp: multicast,
// loopback) and without neighbours not used yet.
ShownNeighbours shownNeighbours(const kj::Vector<netlink::Link>& links,
                                kj::Vector<netlink::Neighbour> neighbours);

// Ids: "inet4/100", followed by "/1", "/2" ... where several rules have this priority.
Records ruleStatuses(const ShownRules& shown);
// Ids: "eth0/10.5.0.1".
Records neighbourStatuses(const ShownNeighbours& shown);

// --- the loop
class RuleNeighbourReporter {
 public:
  struct Report {
    kj::Maybe<Records> rules = nullptr, neighbours = nullptr;  // nullptr: unchanged
  };
  using Publish = kj::Function<kj::Promise<void>(Report)>;

  static constexpr netlink::Subjects kSubjects = {
      .links = true,  // for the names of neighbours' links
      .addresses = false,
      .routes = false,
      .rules = true,
      .neighbours = true,
  };
  static constexpr unsigned kMonitorBuffer = 64 << 10;
  static constexpr kj::Duration kPause = 1 * kj::SECONDS, kLongestPause = 60 * kj::SECONDS,
                                kPerWrite = 10 * kj::MILLISECONDS,
                                kPerRead = 500 * kj::MICROSECONDS;

  // `monitor` is of kSubjects and must not be shared.
  RuleNeighbourReporter(netlink::Kernel& kernel, netlink::Monitor& monitor, kj::Timer& timer,
                        Publish publish);

  // Runs until dropped.
  kj::Promise<void> run();

 private:
  struct Look;
  netlink::Kernel& kernel;
  netlink::Monitor& monitor;
  kj::Timer& timer;
  Publish publish;
  kj::Maybe<ShownRules> publishedRules;  // nullptr: nothing published yet
  kj::Maybe<ShownNeighbours> publishedNeighbours;
  bool cut = false;

  Look look();
  kj::Promise<bool> report(Look& look);
  void logCut(size_t more);
};

}  // namespace talos::networkd
