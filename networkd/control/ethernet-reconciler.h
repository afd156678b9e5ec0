// Gives the drivers of links the settings of the specs (rings, features, channels, Wake-on-LAN),
// and reports the settings that the drivers have.
//
// Checks at each change of the specs and of the links, and once a minute while there is a spec. A
// check reads the settings of every card and of every link with a spec, and sets only those that
// differ (ethernet-plan.h). A spec for a link that does not exist waits for the link. A setting
// that the kernel refuses is tried again after a second, then at growing intervals of up to a
// minute; a setting that the driver has accepted and does not have is not set again until the spec,
// the link or the driver's settings change, because a driver may take the link down to set it.
//
// The settings exist only in the kernel, so a crash at any line loses none. A networkd that starts
// later sets only what differs: once more what the driver did not take. A spec that is removed
// leaves the settings as they are. Until the specs have arrived, nothing is set.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/signal.h"
#include "common/netlink/netlink-ethtool.h"
#include "common/netlink/netlink.h"
#include "common/wire/store-adapter.h"
#include "networkd/control/network-pace.h"
#include "networkd/plan/ethernet-plan.h"

namespace talos::networkd {

struct EthernetInputs {
  // Returns nullptr until the specs have arrived.
  kj::Function<kj::Maybe<std::vector<WantedEthernet>>()> read;
  kj::Function<kj::Promise<void>(Records)> publish;
};

class EthernetReconciler {
 public:
  static constexpr netlink::Subjects kSubjects = {.addresses = false, .routes = false};
  static constexpr unsigned kMonitorBuffer = 64 << 10;
  static constexpr kj::Duration kPause = 60 * kj::SECONDS;
  // Pause after a change of the links, so that a storm of changes is read at once.
  static constexpr kj::Duration kLinkPause = 200 * kj::MILLISECONDS;

  // `monitor` is of kSubjects and must not be shared. The caller raises `work` when the specs have
  // changed, or have arrived.
  EthernetReconciler(netlink::Kernel& kernel, netlink::Monitor& monitor, netlink::Ethtool& ethtool,
                     kj::Timer& timer, Signal& work, EthernetInputs inputs);

  // Runs until dropped.
  kj::Promise<void> run();

 private:
  // The steps that the driver of a link has accepted without having their values afterwards, and
  // the settings that it had then.
  struct Settled {
    uint64_t version = 0;  // of the spec
    std::vector<netlink::SetEthernet> steps = {};
    netlink::EthernetState found = {};
  };
  struct Result;

  netlink::Kernel& kernel;
  netlink::Monitor& monitor;
  netlink::Ethtool& ethtool;
  kj::Timer& timer;
  Signal& work;
  EthernetInputs inputs;
  std::map<std::string, Settled> settled;  // by the link's name
  std::string logged;                      // last problems, logged once

  kj::Promise<NextCheck> check();
  Result reconcile(const std::vector<WantedEthernet>& specs);
  void readCard(const netlink::Link& link, Result& result);
  // `link` is nullptr if the link of the spec does not exist.
  void ensure(const WantedEthernet& wanted, const netlink::Link* link, Result& result);
  bool isSettled(const WantedEthernet& wanted, const netlink::SetEthernet& step,
                 const netlink::EthernetState& found) const;
  kj::Vector<kj::String> apply(const WantedEthernet& wanted, unsigned index,
                               netlink::EthernetState& found, Result& result);
  void logProblems(const Result& result);
};

// The stored specs, as inputs of an EthernetReconciler. Holds no state that a crash could lose.
class EthernetSpecs {
 public:
  explicit EthernetSpecs(StoreClient& store);
  KJ_DISALLOW_COPY_AND_MOVE(EthernetSpecs);

  // Raised at each change of a spec, and when the specs have arrived.
  Signal changed;

  // Returns inputs that are valid as long as this object.
  EthernetInputs inputs();

 private:
  StoreClient& store;
  StoreInputs watches;
  Watched<rpc::EthernetSpecSpec> specs;
};

}  // namespace talos::networkd
