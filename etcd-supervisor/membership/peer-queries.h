// Asking other nodes: all of them at once, and never failing: who does not answer has not answered.
#pragma once

#include "etcd-supervisor/membership/membership-dependencies.h"

namespace talos::supervisor {

struct Hosts {
  kj::Vector<kj::String> peers, shared;
};

// Names or addresses that this node knows from elsewhere are peers like those that its config
// names, unless they are its own, or shared.
void addPeers(Config& config, kj::ArrayPtr<const kj::String> hosts);

// The other nodes of the config, without those that are excepted. InvalidArgument for an exception
// that names none of them.
Hosts othersOf(const Config& config, kj::ArrayPtr<const kj::String> without);

// A name counts with every address that it has, this node's own ones left out. `asker`: as of
// Peers::standing().
kj::Promise<kj::Array<Asked>> askAll(Edges& edges, const Config& config, Hosts hosts,
                                     kj::StringPtr asker = nullptr);

// Addresses of etcd's members as other nodes' APIs tell them, own ones left out.
kj::Promise<kj::Vector<kj::String>> membersAt(Edges& edges, const Config& config,
                                              kj::ArrayPtr<const Asked> asked);

// Addresses of members, that of the local one last.
kj::Vector<kj::String> withLocal(kj::ArrayPtr<const kj::String> known, bool running);

// Where a change of members is asked for: `through`, then the other voters but `except`, this node
// among them. etcd
// refuses one by what the member that is asked has seen of its connections to the others. A
// connection that came back may count as lost there until the next one is lost, and another member
// knows better.
kj::Vector<etcd::Etcd*> doorsFor(Edges& edges, const Config& config, etcd::Etcd& through,
                                 kj::ArrayPtr<const etcd::Member> members,
                                 etcd::MemberId except = 0);

// Whether another member, or the same one later, may take a change that failed so.
bool mayPass(const kj::Exception& failure);
// Of several such failures the first one that is an answer: it says why.
void keepReason(kj::Maybe<kj::Exception>& kept, kj::Exception&& failure);

// Where members are reached, own addresses left out.
void addHosts(kj::Vector<kj::String>& to, const Config& config, const etcd::Member& member);
// The same of initial-cluster.
void addHosts(kj::Vector<kj::String>& to, const Config& config, kj::StringPtr cluster);
// Loopback addresses are every node's own.
bool isOwn(const Config& config, kj::StringPtr address);

}  // namespace talos::supervisor
