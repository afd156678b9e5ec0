// Peer URL of this node's member: the URL at which the other members call it.
//
// etcd takes the URL from its arguments only at the first start of a member, and stores it with the
// list of members. So another address of the node (cluster.etcd.advertisedSubnets) is a change of
// members, in the order that etcd documents: first the URL is changed, then etcd restarts with its
// new arguments. The turn to restart (etcd-restart-turn.h) includes the change, so the other
// members call the new address only shortly before etcd listens there. settle() changes the URL of
// a member that has the new arguments without a turn: after a reboot, after a restart by an
// operator, after it was a learner, or because an earlier release kept the URL.
//
// A URL stays as long as the config advertises its address, also if another address is the first:
// that may depend only on which link of the node comes up first after a reboot, and the members
// must not get the address of a link that they do not reach.
//
// Nodes that were switched off may have got each other's addresses. etcd refuses a URL that another
// member has, so the first of them changes to another text of the same address
// ("https://[::ffff:10.0.0.2]:2380"), and later, when the other member has changed its URL, to the
// usual one.
//
// No state is stored. The URL that the members have is compared with the config's before each
// change, so a change whose answer was lost is not repeated. After a crash before the change,
// machined requests the turn again, because etcd's process differs from the spec, and the URL is
// changed in that turn. After a crash between the change and the restart, machined requests the
// turn too, and the restart follows without another change; meanwhile the member keeps its
// connections, and calls the others as before. If the config is reverted in between, etcd needs no
// restart, and settle() changes the URL back.
#pragma once

#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"

namespace talos::supervisor {

// Returns true if this node's member is a voter with a URL that the config does not advertise, or
// where etcd does not listen.
bool hasOtherPeerUrl(const etcd::Member& member, const Config& config);

// Returns a URL of the same address that is another text: etcd compares texts.
kj::String otherPeerUrlOf(kj::StringPtr address);

// Changes the peer URL of the member `own` to the first address of the config, if the list of
// members has another one (hasOtherPeerUrl()). Returns true if it was changed. Does nothing for a
// learner, which etcd would store as a voter. Errors of etcd keep their kind: FailedPrecondition if
// another member has the URL.
kj::Promise<bool> changePeerUrl(etcd::Etcd& through, const Config& config, etcd::MemberId own);

class PeerUrl {
 public:
  PeerUrl(Dependencies& deps, LocalMember& self, ClusterView& view)
      : deps(deps), self(self), view(view) {}
  KJ_DISALLOW_COPY_AND_MOVE(PeerUrl);

  // Changes the URL if etcd runs with the address of the config already, while no other node
  // changes members. `observed` and `known`, addresses of other members, are not used after the
  // call has returned. The message of EtcdStatus that an error has caused ends with the difference.
  kj::Promise<void> settle(const ObservedCluster& observed, kj::ArrayPtr<const kj::String> known);

 private:
  Dependencies& deps;
  LocalMember& self;
  ClusterView& view;
  bool differs = false;  // at the last settle(), so there may be a message
};

}  // namespace talos::supervisor
