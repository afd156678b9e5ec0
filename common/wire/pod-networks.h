// The networks of a node's pods, as a client of the node finds them: for each pod with a network
// namespace of its own, a process in it and the namespace's number.
//
// Pods on the node's own network have none and are left out, and so are pods that end meanwhile.
// Errors are those of Containers.list, Files.list and Machine.netstat; ResourceExhausted for a node
// that lists more than anybody has. Nothing is kept, and nothing of the node changes.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/node.capnp.h"

namespace talos {

// So many calls are open at once: a few of the reads that a node lets a client have open.
constexpr size_t kPodsAtOnce = 4;

struct PodNetwork {
  kj::String pod;   // <namespace>/<pod>
  kj::String name;  // the number of the namespace, as lsns(8) shows it
  int32_t process = 0;
};

// Sorted by pod, as the node lists them.
kj::Promise<kj::Vector<PodNetwork>> podNetworks(rpc::Node::Client node);
// The same of pods that were listed already; the list outlives the promise.
kj::Promise<kj::Vector<PodNetwork>> podNetworks(rpc::Node::Client node,
                                                capnp::List<rpc::Container>::Reader listed);

// The sockets of the network that a process of a pod is in; none when it has ended.
using PodSockets = kj::Maybe<capnp::Response<rpc::Machine::NetstatResults>>;
kj::Promise<PodSockets> podSockets(rpc::Node::Client node, int32_t process);

}  // namespace talos
