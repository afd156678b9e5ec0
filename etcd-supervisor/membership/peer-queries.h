// Asks other nodes, all of them at once. Never rejects: silence is an answer.
#pragma once

#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

struct Hosts {
  kj::Vector<kj::String> peers, shared;
};

// Adds peers that the config need not name, unless they are its own addresses, or shared.
void addPeers(Config& config, kj::ArrayPtr<const kj::String> hosts);

// The other nodes of the config, without the excepted ones. InvalidArgument for an exception that
// is none of them.
Hosts othersOf(const Config& config, kj::ArrayPtr<const kj::String> without);

// Asks every address of each name, without local ones. `asker`: as of Peers::nodeState().
kj::Promise<kj::Array<Asked>> askAll(Dependencies& deps, const Config& config, Hosts hosts,
                                     kj::StringPtr asker = nullptr);

// Addresses of etcd's members as other nodes' APIs report them, without local ones.
kj::Promise<kj::Vector<kj::String>> membersAt(Dependencies& deps, const Config& config,
                                              kj::ArrayPtr<const Asked> asked);

// Addresses of members, that of the local one last.
kj::Vector<kj::String> withLocal(kj::ArrayPtr<const kj::String> known, bool running);

// The endpoints for a change of members: `through`, then the other voters but `except`, this node
// among them. etcd judges a change by the connections of the member that is asked. A connection
// that came back may count as lost there until the next one is lost, and another member knows
// better.
kj::Vector<etcd::Etcd*> endpointsFor(Dependencies& deps, const Config& config, etcd::Etcd& through,
                                     kj::ArrayPtr<const etcd::Member> members,
                                     etcd::MemberId except = 0);

// True if another member, or the same one later, may accept a change that failed so.
bool mayPass(const kj::Exception& failure);
// Keeps the first of several errors that is an answer: it names the cause.
void keepError(kj::Maybe<kj::Exception>& kept, kj::Exception&& failure);

// Addresses at which members are reached, without local ones.
void addHosts(kj::Vector<kj::String>& to, const Config& config, const etcd::Member& member);
// The same for the text of initial-cluster.
void addHosts(kj::Vector<kj::String>& to, const Config& config, kj::StringPtr cluster);
// Loopback addresses are every node's own.
bool isOwn(const Config& config, kj::StringPtr address);

}  // namespace talos::supervisor
