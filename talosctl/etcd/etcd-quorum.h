// The effect of a change of etcd's members on the number of members that may fail. Pure.
#pragma once

#include <kj/string.h>

#include "rpc/etcd.capnp.h"

namespace talos::talosctl {

using EtcdMembers = capnp::List<rpc::Etcd::Member>::Reader;

// "etcd has 3 voters, which tolerate 1 failure (1 does not answer)".
kj::String quorumText(EtcdMembers members);

// The same of what is left without this member: an id in hexadecimal or a name; empty: the one of
// the node that answered. "without master-2 it has 2 voters, which tolerate no failure".
kj::String quorumTextWithout(EtcdMembers members, kj::StringPtr member);

// Of the member of the node that answered, before the node is erased or restarted: what the cluster
// tolerates now, and then.
enum class EtcdDeparture {
  kLeaves,    // it leaves before
  kErased,    // it does not: the others go on counting it
  kRestarts,  // it comes back as it was
  kRejoins,   // it leaves, and joins again with a new disk
};
kj::String departureText(EtcdMembers members, EtcdDeparture departure);

// "8e9e05c52164694d".
kj::String memberIdText(uint64_t id);

}  // namespace talos::talosctl
