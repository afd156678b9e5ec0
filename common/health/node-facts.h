// Version, status and services of nodes, and whether they are registered in Kubernetes, each read
// in one round trip. A node that is down costs only its deadline.
#pragma once

#include <kj/timer.h>
#include <kj/vector.h>

#include "rpc/node.capnp.h"

namespace talos {

struct NodeFacts {
  kj::String node;                // as the caller named it
  kj::Maybe<kj::String> silence;  // why the node did not answer; the rest is empty then
  rpc::Version::Reader version;
  rpc::Status::Reader status;
  capnp::List<rpc::Service>::Reader services;
  kj::Own<void> held;  // owns the memory of these
  // Components of the Kubernetes control plane that the node's config disables. Empty, too, if the
  // node did not say so.
  kj::Vector<kj::String> disabled = {};
  bool unregistered = false;  // the config keeps the node out of Kubernetes
};

struct FactAnswers {
  capnp::Response<rpc::Version> version;
  capnp::Response<rpc::Status> status;
  capnp::Response<rpc::Services::ListResults> services;
};
kj::Promise<kj::Own<FactAnswers>> askNode(rpc::Node::Client node);

NodeFacts silentFacts(kj::StringPtr name, kj::StringPtr error);

// Never rejects. `late`: the silence of a node that has not answered within the deadline.
kj::Promise<NodeFacts> factsOf(kj::Timer& timer, rpc::Node::Client node, kj::String name,
                               kj::Duration deadline, kj::String late);

}  // namespace talos
