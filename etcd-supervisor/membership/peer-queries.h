// Queries other nodes, all at once. Never rejects: silence is an answer.
#pragma once

#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

struct Hosts {
  kj::Vector<kj::String> peers, shared;
};

// Adds peers that the config need not name, unless they are the node's own or shared addresses.
void addPeers(Config& config, kj::ArrayPtr<const kj::String> hosts);

// Returns the other nodes of the config, without the excepted ones. Throws InvalidArgument for an
// exception that is not one of them.
Hosts othersOf(const Config& config, kj::ArrayPtr<const kj::String> without);

// Queries every address of each name, without local ones. `asker`: as in Peers::bootstrapState().
kj::Promise<kj::Array<PeerAnswer>> queryPeers(Dependencies& deps, const Config& config, Hosts hosts,
                                              kj::StringPtr asker = nullptr);

// Returns the addresses of etcd's members that other nodes' APIs report, without local ones.
kj::Promise<kj::Vector<kj::String>> membersAt(Dependencies& deps, const Config& config,
                                              kj::ArrayPtr<const PeerAnswer> asked);

// Returns the addresses of members, with the local one last.
kj::Vector<kj::String> withLocal(kj::ArrayPtr<const kj::String> known, bool running);

// Returns the endpoints for a change of members: `through`, then the other voters except `except`,
// including this node. etcd judges a change by the connections of the called member. That member
// may consider a restored connection lost until the next loss; another member knows better.
kj::Vector<etcd::Etcd*> endpointsFor(Dependencies& deps, const Config& config, etcd::Etcd& through,
                                     kj::ArrayPtr<const etcd::Member> members,
                                     etcd::MemberId except = 0);

// Returns true if another member, or the same one later, may accept a change that failed with this
// error.
bool mayPass(const kj::Exception& failure);
// Keeps the first error that is an answer, because it names the cause.
void keepError(kj::Maybe<kj::Exception>& kept, kj::Exception&& failure);

// Adds the addresses at which members are reached, without local ones.
void addHosts(kj::Vector<kj::String>& to, const Config& config, const etcd::Member& member);
// Does the same for the text of initial-cluster.
void addHosts(kj::Vector<kj::String>& to, const Config& config, kj::StringPtr cluster);
// Returns true for the node's addresses; loopback addresses belong to every node.
bool isOwn(const Config& config, kj::StringPtr address);

}  // namespace talos::supervisor
