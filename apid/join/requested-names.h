// The names that a certificate request contains, also after trustd has refused some. Pure.
#pragma once

#include "apid/join/joiner.h"

namespace talos::apid {

// The names of a certificate request. Every request contains the node's address; after each refusal
// by trustd the next request contains fewer names. kAddresses: the proved addresses, for a trustd
// that signs no names yet.
enum class Names { kAll, kHostNames, kHostName, kAddresses, kAddress };

// Selects from the config's DNS names. kHostNames: the host name with and without its domain;
// kHostName: without it.
kj::Vector<kj::String> dnsNamesOf(const JoinConfig& config, Names names);
// Returns the names to request after trustd refused `names`: the next smaller part that holds a
// host name, or else the address alone.
Names lessThan(const JoinConfig& config, Names names);
kj::StringPtr describe(Names names);

// Builds the request (PEM) for these names and addresses: the address that the node calls from, and
// its other addresses that are proved.
kj::String certificateRequest(const JoinConfig& config, Names requested, kj::StringPtr key,
                              const Ip& local, kj::ArrayPtr<const Ip> proven);

}  // namespace talos::apid
