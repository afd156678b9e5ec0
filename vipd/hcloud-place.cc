#include "vipd/hcloud-place.h"

#include "common/base/error.h"
#include "common/text/texts.h"

namespace talos::vipd {
namespace {

bool hasAddressOf(const HcloudServer& server, const Machine& self) {
  for (auto& prefix : server.addresses) {
    for (auto& address : self.addresses) {
      if (prefix.contains(address)) return true;
    }
  }
  return false;
}

const HcloudServer& serverWithId(kj::StringPtr id, kj::ArrayPtr<const HcloudServer> servers) {
  for (auto& server : servers) {
    if (id == kj::str(server.id)) return server;
  }
  fail(ErrorKind::kNotFound, kj::str("the project of the API token has no server with the id ", id,
                                     " of this machine; use a token of the right project"));
}

const HcloudServer& thisServer(const Machine& self, kj::ArrayPtr<const HcloudServer> servers) {
  if (self.instance.size() > 0) return serverWithId(self.instance, servers);
  const HcloudServer* found = nullptr;
  for (auto& server : servers) {
    if (!hasAddressOf(server, self)) continue;
    if (found != nullptr) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the servers ", found->id, " and ", server.id,
                   " both have an address of this node; with talos.platform=hcloud the node knows "
                   "its id"));
    }
    found = &server;
  }
  if (found == nullptr) {
    fail(ErrorKind::kNotFound,
         "no server in the project of the API token has an address of this node");
  }
  return *found;
}

}  // namespace

HcloudPlace findHcloudPlace(const Ip& address, const Machine& self,
                            kj::ArrayPtr<const HcloudServer> servers,
                            kj::ArrayPtr<const HcloudFloatingIp> floatingIps,
                            kj::ArrayPtr<const HcloudNetwork> networks) {
  auto& server = thisServer(self, servers);
  for (auto& ip : floatingIps) {
    if (ip.address.contains(address)) return {.server = server.id, .floatingIp = ip.id};
  }
  for (auto& network : networks) {
    if (!network.range.contains(address)) continue;
    for (auto& attachment : server.networks) {
      if (attachment.network == network.id) return {.server = server.id, .network = network.id};
    }
  }
  fail(ErrorKind::kNotFound,
       kj::str(address,
               " is neither a floating IP in the project of the API token nor in a "
               "network of this server"));
}

kj::Vector<HcloudAliases> aliasChanges(const Ip& address, const HcloudPlace& place,
                                       kj::ArrayPtr<const HcloudServer> servers) {
  kj::Vector<HcloudAliases> changes;
  kj::Maybe<HcloudAliases> ours;
  bool attached = false;
  for (auto& server : servers) {
    for (auto& attachment : server.networks) {
      if (attachment.network != place.network) continue;
      HcloudAliases after{.server = server.id, .aliases = {}};
      bool has = false;
      for (auto& alias : attachment.aliases) {
        if (alias == address) {
          has = true;
        } else {
          after.aliases.add(alias);
        }
      }
      if (server.id != place.server) {
        if (has) changes.add(kj::mv(after));
        continue;
      }
      attached = true;
      if (has) continue;
      after.aliases.add(address);
      ours = kj::mv(after);
    }
  }
  if (!attached) {
    fail(ErrorKind::kNotFound,
         kj::str("this server is not in network ", place.network, " any more"));
  }
  KJ_IF_MAYBE (change, ours) changes.add(kj::mv(*change));
  return changes;
}

}  // namespace talos::vipd
