// Plans the changes that give a link's driver the settings of the config: pure, minimal.
//
// A setting that is not in the config stays as it is, also when the document with it leaves the
// config: nothing has remembered the value before.
//
// A driver may take a value without having it afterwards: it rounds the size of a ring, or does not
// switch a feature on while another one is off. So a plan that is made after the steps of another
// one may have steps again, which are the values that the driver does not have.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "common/netlink/netlink-ethtool.h"
#include "networkd/plan/network-status.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

// The settings of a link as the config has them.
struct WantedEthernet {
  using Values = std::vector<netlink::SetEthernet::Value>;
  std::string link = {};
  uint64_t version = 0;  // of the spec
  Values rings = {}, channels = {}, features = {};
  std::optional<std::vector<std::string>> wakeOnLan = {};  // empty: off; nullopt: unchanged
};
WantedEthernet wantedEthernet(kj::StringPtr link, uint64_t version,
                              rpc::EthernetSpecSpec::Reader spec);

struct EthernetPlan {
  std::vector<netlink::SetEthernet> steps;  // in order, each of another group
  kj::Vector<kj::String> problems;          // values that no step can set, and why
};
EthernetPlan plan(const WantedEthernet& wanted, const netlink::EthernetState& found,
                  unsigned index);

// Returns the problems of steps whose values the driver does not have although it has accepted
// them.
kj::Vector<kj::String> notTaken(kj::ArrayPtr<const netlink::SetEthernet> steps,
                                const netlink::EthernetState& found);

// Adds the status of a link. `version`: of the spec that the problems are about; 0 without a spec.
void addEthernetStatus(Records& records, kj::StringPtr link, const netlink::EthernetState& found,
                       uint64_t version, kj::ArrayPtr<const kj::String> problems);

}  // namespace talos::networkd
