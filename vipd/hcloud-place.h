// Where a shared address is in a project of Hetzner Cloud, and what has to change so that it is at
// this server. Pure.
#pragma once

#include "vipd/hcloud-answers.h"
#include "vipd/provider.h"

namespace talos::vipd {

// The address is a floating IP, or an alias IP in a network that this server is attached to.
struct HcloudPlace {
  uint64_t server = 0;      // the id of this server
  uint64_t floatingIp = 0;  // 0: it is in `network`
  uint64_t network = 0;
};

// Throws NotFound if this server is not in the list, or the address is neither of the two;
// FailedPrecondition if several servers have addresses of this machine.
HcloudPlace findHcloudPlace(const Ip& address, const Machine& self,
                            kj::ArrayPtr<const HcloudServer> servers,
                            kj::ArrayPtr<const HcloudFloatingIp> floatingIps,
                            kj::ArrayPtr<const HcloudNetwork> networks);

// The aliases that a server has to get in the network; the API replaces its list.
struct HcloudAliases {
  uint64_t server = 0;
  kj::Vector<Ip> aliases;
};
// Returns the changes in their order: other servers lose the address before this one gets it. Other
// aliases stay. The lists may have changed after the first change: look again before the next one.
// Returns none if this server alone has it. Throws NotFound if this server is not in the network
// any more.
kj::Vector<HcloudAliases> aliasChanges(const Ip& address, const HcloudPlace& place,
                                       kj::ArrayPtr<const HcloudServer> servers);

}  // namespace talos::vipd
