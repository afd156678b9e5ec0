// Reports the parts of the kernel's network that networkd does not configure: routing rules and
// neighbours.
//
// Neighbours change their state all the time, and in a large network there are thousands of them.
// So they have a netlink monitor of their own, never the reconciler's: there their noise would make
// it read everything again and again, and overrun notices that it must not miss. Of this monitor a
// notice only means that it is time to look. Its buffer is small and left unread during the pause
// that follows every notice: notices beyond it are dropped by the kernel, which costs nothing,
// because the tables are read anew anyway. An overrun is a notice like any other.
//
// The pause is a second, and longer the more there is to read and to write (kPerRead, kPerWrite), a
// minute at most. So a state that changes back and forth is written at most once a second, and
// however many there are, not more than a hundred records a second on average. Nothing is written
// when nothing differs. At most kMost of each are shown, those with the lowest priorities or links
// and addresses; the record "more" and the log say how many are not.
//
// After a crash everything is read and reported anew; records that are in the store already are not
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
  std::vector<netlink::Rule> rules;  // in the order in which they are tried
  size_t more = 0;                   // that are not among them
  bool operator==(const ShownRules&) const = default;
};
struct ShownNeighbours {
  struct One {
    netlink::Neighbour neighbour;
    std::string link;  // its name
    auto operator<=>(const One&) const = default;
  };
  std::vector<One> neighbours;  // by link and address
  size_t more = 0;
  bool operator==(const ShownNeighbours&) const = default;
};

ShownRules shownRules(kj::Vector<netlink::Rule> rules);
// As `ip neigh`: without those that are computed from the address (noarp: multicast, loopback) and
// those that nobody has used yet.
ShownNeighbours shownNeighbours(const kj::Vector<netlink::Link>& links,
                                kj::Vector<netlink::Neighbour> neighbours);

// Ids: "inet4/100", with "/1", "/2" ... behind it where several have this priority.
Records ruleStatuses(const ShownRules& shown);
// Ids: "eth0/10.5.0.1".
Records neighbourStatuses(const ShownNeighbours& shown);

// --- the loop
class RuleNeighbourReporter {
 public:
  struct Report {
    kj::Maybe<Records> rules = nullptr, neighbours = nullptr;  // none: as before
  };
  using Publish = kj::Function<kj::Promise<void>(Report)>;

  static constexpr netlink::Subjects kSubjects = {
      .links = true,  // for their names
      .addresses = false,
      .routes = false,
      .rules = true,
      .neighbours = true,
  };
  static constexpr unsigned kMonitorBuffer = 64 << 10;
  static constexpr kj::Duration kPause = 1 * kj::SECONDS, kLongestPause = 60 * kj::SECONDS,
                                kPerWrite = 10 * kj::MILLISECONDS,
                                kPerRead = 500 * kj::MICROSECONDS;

  // `monitor` is of kSubjects, and no one else's.
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
  kj::Maybe<ShownRules> publishedRules;  // none: nothing yet
  kj::Maybe<ShownNeighbours> publishedNeighbours;
  bool cut = false;

  Look look();
  kj::Promise<bool> report(Look& look);
  void logCut(size_t more);
};

}  // namespace talos::networkd
