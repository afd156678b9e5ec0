// A client's side of a conversation with apid (rpc Cluster): its own node, another node with fewer
// roles, a log.
#pragma once

#include "rpc/node.capnp.h"
#include "tests/testbeds/conversation.h"

namespace talos::testbeds {

// Returns a conversation in which the client requests the version of another machine, 10.0.0.9; the
// call fails if there is no such machine.
inline kj::Array<kj::byte> clusterConversation() {
  Conversation c;
  c.call<rpc::Cluster, rpc::Cluster::NodeParams>(1, 0, 0);
  c.call<rpc::Cluster, rpc::Cluster::WithRolesParams>(
      2, 0, 1, [](auto params) { params.initRoles(1).set(0, "os:admin"); });
  c.call<rpc::Cluster, rpc::Cluster::NodeParams>(
      3, 2, 0, [](auto params) { params.setAddress("10.0.0.9"); });
  c.call<rpc::Node, rpc::Node::MachineParams>(4, 1, 0);
  c.call<rpc::Machine, rpc::Machine::VersionParams>(5, 4, 0);
  c.call<rpc::Node, rpc::Node::LogsParams>(6, 1, 3);
  c.call<rpc::Logs, rpc::Logs::ReadParams>(7, 6, 1, [](auto params) {
    params.setId("x");
    params.setSink(Conversation::sink<rpc::LogSink>());
  });
  c.answer(0);
  return c.finish();
}

}  // namespace talos::testbeds
