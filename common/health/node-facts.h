// Version, status and services of nodes, each read in one round trip. A node that is down costs its
// deadline and nothing else.
#pragma once

#include <kj/timer.h>

#include "rpc/node.capnp.h"

namespace talos {

struct NodeFacts {
  kj::String node;                // as it was asked for
  kj::Maybe<kj::String> silence;  // why it did not answer; the rest is empty then
  rpc::Version::Reader version;
  rpc::Status::Reader status;
  capnp::List<rpc::Service>::Reader services;
  kj::Own<void> held;  // what these are in
};

struct FactAnswers {
  capnp::Response<rpc::Version> version;
  capnp::Response<rpc::Status> status;
  capnp::Response<rpc::Services::ListResults> services;
};
kj::Promise<kj::Own<FactAnswers>> askNode(rpc::Node::Client node);

NodeFacts silentFacts(kj::StringPtr name, kj::StringPtr error);

// Never rejects. `late`: why it is silent when it has not answered within the deadline.
kj::Promise<NodeFacts> factsOf(kj::Timer& timer, rpc::Node::Client node, kj::String name,
                               kj::Duration deadline, kj::String late);

}  // namespace talos
