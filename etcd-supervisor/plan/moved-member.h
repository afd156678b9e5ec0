// Members whose nodes have other addresses than the members know: a cluster that was switched off
// and carried to another network. Pure.
//
// etcd connects to the others at the peer URLs in its list of members, and only a quorum can change
// this list. If all nodes have new addresses, no member reaches another one, so there would never
// be a quorum again. The list itself is right: its members, and no others, vote. So it stays, and
// only the way to an address changes: etcd connects through a proxy of this node
// (control/member-proxy.h), which leads the connection for a recorded peer URL to the address at
// which that member is found now. When there is a quorum, each member changes its own URL
// (membership/peer-url.h), and then etcd is restarted without the proxy.
//
// No second cluster can come of this: no list of members is ever written without a quorum of the
// cluster, whatever is recorded or found, and no data is removed. A wrong route, made by an old
// record or by an attacker, ends at a peer that cannot prove with a certificate of cluster.etcd.ca
// that it has the recorded address, or that is not the member of the cluster that etcd calls: etcd
// compares the ids of cluster and member in every request.
//
// One direction is enough for two members: etcd sends messages to a peer over connections that
// either of them has made. So a member that comes back later, with a record of former addresses
// alone, finds the others; they keep their former addresses in their certificates for it.
#pragma once

#include "common/net/ip.h"
#include "etcd-supervisor/plan/membership-intent.h"

namespace talos::supervisor {

// Former addresses that are kept; the oldest is forgotten.
constexpr size_t kMostFormerAddresses = 4;

// A peer at this address whose certificate a CA of the cluster's etcd has signed, for these names
// and addresses.
struct FoundMember {
  kj::String address;
  kj::Vector<kj::String> names, addresses;
};

// Where the connections for the address of a peer URL lead. One of these is the member, if there
// are several: each new connection uses the next one.
struct MemberRoute {
  kj::String host;
  kj::Vector<kj::String> addresses;

  bool operator==(const MemberRoute& other) const;
};

// Returns true if the config advertises the URL's address, and etcd of this node listens there.
bool servesPeerUrl(kj::StringPtr url, const Config& config);

// Returns true if this node serves no recorded peer URL of this node's member, and the cluster has
// other members.
bool hasMoved(const Config& config, const Intent& intent);

// Returns the addresses that the certificates of this node's member have to name beside its present
// ones.
kj::Vector<kj::String> formerAddressesOf(const Config& config, const Intent& intent);

// Replaces the record of members by a list that a quorum has reported, and remembers the former
// address of this node's own URLs. Returns true if the intent is another one now. URLs that are not
// an address with etcd's port are not recorded.
bool recordMembers(Intent& intent, kj::ArrayPtr<const etcd::Member> members);

// Returns the addresses at which other members may be: the recorded ones, `named` (of the config,
// and nodes that Kubernetes knows), and all of the IPv4 subnets of the node's own addresses, of a
// large subnet the 1022 around the own address. Own and shared addresses are left out.
kj::Vector<kj::String> placesOfMembers(const Config& config, const Intent& intent,
                                       kj::ArrayPtr<const kj::String> named,
                                       kj::ArrayPtr<const Prefix> subnets);

// Returns the routes to the other members. A certificate that names the member counts before one
// that has its address, which may be another node's now.
kj::Vector<MemberRoute> routesTo(const Config& config, const Intent& intent,
                                 kj::ArrayPtr<const FoundMember> found);

// Returns the message of EtcdStatus: who was found where, and who was not.
kj::String movedMessage(const Config& config, const Intent& intent,
                        kj::ArrayPtr<const MemberRoute> routes);

}  // namespace talos::supervisor
