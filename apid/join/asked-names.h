// The names that are asked for in a certificate, when trustd refuses some. Pure.
#pragma once

#include "apid/join/joiner.h"

namespace talos::apid {

// Of what a certificate is to name: the node's address always, and the less of the rest the more of
// it trustd has refused. kAddresses: those that are proved, for a trustd that signs no names yet.
enum class Names { kAll, kHostNames, kHostName, kAddresses, kAddress };

// Of the config's DNS names. kHostNames: the host name with and without its domain; kHostName:
// without it.
kj::Vector<kj::String> dnsNamesOf(const JoinConfig& config, Names names);
// Of what was refused, the next smaller part that holds a host name; or else the address alone.
Names lessThan(const JoinConfig& config, Names names);
kj::StringPtr describe(Names names);

// The request (PEM) for these names and addresses: the one that the node calls from, and those of
// its others that are proved.
kj::String certificateRequest(const JoinConfig& config, Names asked, kj::StringPtr key,
                              const Ip& local, kj::ArrayPtr<const Ip> proven);

}  // namespace talos::apid
