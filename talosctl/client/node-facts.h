// What nodes say of themselves, asked all at once: version, status and services, in one round trip
// each. A node that is down costs its deadline and nothing else.
#pragma once

#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {

struct NodeFacts {
  kj::String node;                // as it was asked for
  kj::Maybe<kj::String> silence;  // why it did not answer; the rest is empty then
  rpc::Version::Reader version;
  rpc::Status::Reader status;
  capnp::List<rpc::Service>::Reader services;
  kj::Own<void> held;  // what these are in
};

// One round trip to one node; there is a connection.
struct FactAnswers {
  capnp::Response<rpc::Version> version;
  capnp::Response<rpc::Status> status;
  capnp::Response<rpc::Services::ListResults> services;
};
kj::Promise<kj::Own<FactAnswers>> askNode(Client& client, kj::StringPtr node);

// In the order of `nodes`. Dials within the same deadline if there is no connection: without one,
// every node is silent, for that reason.
kj::Promise<kj::Array<NodeFacts>> askFacts(Client& client, kj::ArrayPtr<const kj::String> nodes,
                                           kj::Duration deadline);

}  // namespace talos::talosctl
