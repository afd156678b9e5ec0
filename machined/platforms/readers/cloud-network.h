// Reads the network configuration of cloud-init ("Networking config Version 1" and "Version 2" of
// its documentation), as far as a node applies it. Each key that a node does not apply, and each
// value that is not valid, is a problem that names the link.
#pragma once

#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/platform-facts.h"

namespace talos::platforms {

// `root`: with or without the key "network" around it. InvalidArgument for a version other than 1
// and 2.
void readCloudNetwork(Value root, PlatformFacts& facts);

// Read one version each.
void readVersion1(Value network, PlatformFacts& facts);
void readVersion2(Value network, PlatformFacts& facts);

// Helpers for both versions; `where` is the link, and the key around the mapping.
constexpr kj::StringPtr kNetworkConfig = "network-config"_kj;
void checkKeys(kj::StringPtr where, Value mapping, kj::ArrayPtr<const kj::StringPtr> known,
               PlatformFacts& facts);
unsigned numberOf(kj::StringPtr where, Value mapping, kj::StringPtr key, PlatformFacts& facts);
bool flagOf(kj::StringPtr where, Value mapping, kj::StringPtr key, PlatformFacts& facts);
// The names of a version for the parameters of a bond; a missing parameter leaves the value
// unchanged.
struct BondKeys {
  kj::StringPtr mode, lacpRate, hashPolicy, miimon, upDelay, downDelay;
};
void readBondParameters(kj::StringPtr link, Value parameters, const BondKeys& keys, Bond& bond,
                        PlatformFacts& facts);
struct CloudRoute {
  kj::StringPtr destination, mask, gateway;  // "default" is a destination
  unsigned metric = 0;                       // 0: that of the gateway's family
  bool onlink = false;
};
void addCloudRoute(Interface& link, const CloudRoute& route, PlatformFacts& facts);

}  // namespace talos::platforms
