// What networkd shows of the kernel's network without configuring it: routing rules and neighbours.
//
// Neighbours change their state all the time, and in a large network there are thousands of them.
// So they are heard of by a monitor of their own, never by the controller's: there their noise
// would make it look at everything again and again, and overrun what it must not miss. Of this
// monitor a notice says no more than that it is time to look. Its buffer is small and left unread
// during the pause that follows every notice: what does not fit the kernel drops, which costs
// nobody anything, because the tables are read anew anyway. An overrun is a notice like any other.
//
// The pause is a second, and longer the more there is to read and to write (kPerRead, kPerWrite), a
// minute at most. So a state that changes back and forth is written at most once a second, and
// however many there are, not more than a hundred records a second on average. Nothing is written
// when nothing differs. At most kMost of each are shown, those with the lowest priorities or links
// and addresses; the record "more" and the log say how many are not.
//
// After a crash all is read and told anew; what is in the store already is not written again.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include <string>
#include <vector>

#include "common/netlink/netlink.h"
#include "networkd/plan/network-status.h"

namespace talos::networkd {

constexpr size_t kMostBystanders = 4096;

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
// those that nobody has asked for yet.
ShownNeighbours shownNeighbours(const kj::Vector<netlink::Link>& links,
                                kj::Vector<netlink::Neighbour> neighbours);

// Ids: "inet4/100", with "/1", "/2" ... behind it where several have this priority.
Records ruleStatuses(const ShownRules& shown);
// Ids: "eth0/10.5.0.1".
Records neighbourStatuses(const ShownNeighbours& shown);

// --- the loop
class Bystanders {
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

  // `monitor` is of kSubjects, and nobody else's.
  Bystanders(netlink::Kernel& kernel, netlink::Monitor& monitor, kj::Timer& timer, Publish publish);

  // Runs until dropped.
  kj::Promise<void> run();

 private:
  struct Look;
  netlink::Kernel& kernel;
  netlink::Monitor& monitor;
  kj::Timer& timer;
  Publish publish;
  kj::Maybe<ShownRules> toldRules;  // none: nothing yet
  kj::Maybe<ShownNeighbours> toldNeighbours;
  bool cut = false;

  Look look();
  kj::Promise<bool> tell(Look& look);
  void logCut(size_t more);
};

}  // namespace talos::networkd
