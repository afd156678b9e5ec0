// Networks of a node's pods, as a client of the node finds them: for each pod that has its own
// network namespace, a process in it and the namespace's number.
//
// Pods on the node's network are left out, and so are pods that end meanwhile. Errors are those of
// Containers.list, Files.list and Machine.netstat; ResourceExhausted if a node lists more pods than
// a real node has. Keeps no state and changes nothing on the node.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/node.capnp.h"

namespace talos {

// Calls that are open at once: a few of the reads that a node lets a client have open.
constexpr size_t kPodsAtOnce = 4;

struct PodNetwork {
  kj::String pod;   // <namespace>/<pod>
  kj::String name;  // number of the namespace, as lsns(8) shows it
  int32_t process = 0;
};

// Returns the networks sorted by pod, the order in which the node lists them.
kj::Promise<kj::Vector<PodNetwork>> podNetworks(rpc::Node::Client node);
// Does the same for pods that were listed already; the list must outlive the promise.
kj::Promise<kj::Vector<PodNetwork>> podNetworks(rpc::Node::Client node,
                                                capnp::List<rpc::Container>::Reader listed);

// Sockets of the network of a pod's process; nullptr if the process has ended.
using PodSockets = kj::Maybe<capnp::Response<rpc::Machine::NetstatResults>>;
kj::Promise<PodSockets> podSockets(rpc::Node::Client node, int32_t process);

}  // namespace talos
