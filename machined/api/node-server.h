// The capabilities on machined's socket: Machined for daemons of this machine, and in it Node, the
// machine's API, for daemons with the right to it (apid, which attenuates it for its clients).
#pragma once

#include "common/wire/roles.h"
#include "common/wire/rpc-server.h"
#include "machined/process1/client-call-limits.h"
#include "rpc/local.capnp.h"
#include "rpc/node.capnp.h"

namespace talos::machined {

struct NodeParts {
  rpc::Machine::Client machine;
  rpc::Services::Client services;
  rpc::Events::Client events;
  rpc::Logs::Client logs;
  rpc::Files::Client files;
  rpc::Resources::Client resources;           // without sensitive types
  rpc::Resources::Client sensitiveResources;  // all types
  rpc::Networkd::Client networkd;             // dialled again after a restart of networkd
  rpc::Configuration::Client configuration;
  rpc::Storage::Client storage;
  rpc::Containers::Client containers;
  rpc::Upgrades::Client upgrades;
  rpc::EtcdSupervisor::Client etcdSupervisor;  // the same
  rpc::Kubed::Client kubed;                    // the same
};

// Wraps the capability of a daemon's Network, Etcd or Kubernetes for one client: its calls are
// counted (CallKind::kDaemon), and a call beyond the limit does not reach the daemon.
capnp::Capability::Client countedDaemon(capnp::Capability::Client daemon,
                                        kj::Own<ClientCalls> calls);

// Returns the Node of one request (common/wire/request-id.h), whose ID goes with its calls to other
// daemons; empty: no ID.
rpc::Node::Client serveNode(NodeParts parts, kj::StringPtr request = "");

// Returns true for the uids that may have the Node: root (for a debugging tool) and apid.
bool mayHaveNode(unsigned uid);

// Serves the node to clients without a verified identity: while `open` returns true, because the
// machine has no config, and then only methods that are marked $maintenance. `rules` are those of
// Node and must outlive the result.
rpc::Node::Client serveMaintenance(const Rules& rules, rpc::Node::Client node,
                                   kj::Function<bool()> open);

// Returns true for the uids that may write to the log `audit`: only apid.
bool mayAudit(unsigned uid);

// Returns the Node for the calls of one request, by its ID.
using NodeOfRequest = kj::Function<rpc::Node::Client(kj::StringPtr request)>;

// Serves one connection. `store` has the access of this uid to resources; `audit` records a call,
// `callsFor` gets the client that the calls are counted for. Without `ofRequest`, requests with an
// ID get `node`, too; `maintenanceOfRequest` is the same for `maintenanceNode`.
rpc::Machined::Client serveMachined(
    const UnixPeer& peer, rpc::Node::Client node, rpc::Node::Client maintenanceNode,
    rpc::Store::Client store, kj::Function<void(rpc::AuditRecord::Reader)> audit,
    kj::Function<void(kj::StringPtr)> callsFor = [](auto) {},
    rpc::LogFeed::Client logFeed = nullptr,  // of logd; null if it does not run
    kj::Maybe<NodeOfRequest> ofRequest = nullptr,
    kj::Maybe<NodeOfRequest> maintenanceOfRequest = nullptr,
    rpc::EtcdSupervisor::Client etcdSupervisor = nullptr);  // for trustd; null without etcd

}  // namespace talos::machined
