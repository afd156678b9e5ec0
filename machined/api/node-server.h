// The capabilities on machined's socket: Machined for daemons of this machine, and in it Node, the
// machine's API, for those that may have it (apid, which attenuates it for its clients).
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
  rpc::Networkd::Client networkd;             // dials again when networkd was restarted
  rpc::Configuration::Client configuration;
  rpc::Storage::Client storage;
  rpc::Containers::Client containers;
  rpc::Upgrades::Client upgrades;
  rpc::EtcdSupervisor::Client etcdSupervisor;  // the same
  rpc::Kubed::Client kubed;                    // the same
};

// A daemon whose Network, Etcd or Kubernetes this client uses: its calls count (CallKind::kDaemon),
// and one beyond the limit does not reach the daemon.
capnp::Capability::Client countedDaemon(capnp::Capability::Client daemon,
                                        kj::Own<ClientCalls> calls);

// The Node of one request (common/wire/request-id.h), whose id goes with its calls to other
// daemons; empty: none.
rpc::Node::Client serveNode(NodeParts parts, kj::StringPtr request = "");

// The uids that may have the Node: root (for a debugging tool) and apid.
bool mayHaveNode(unsigned uid);

// The node for clients that nobody could authenticate: serves while `open` says that the machine
// has no config, and then only what is marked $maintenance. `rules` are those of Node and must
// outlive it.
rpc::Node::Client serveMaintenance(const Rules& rules, rpc::Node::Client node,
                                   kj::Function<bool()> open);

// The uids that may write into the log `audit`: apid alone.
bool mayAudit(unsigned uid);

// The Node for the calls of one request, by its id.
using NodeOfRequest = kj::Function<rpc::Node::Client(kj::StringPtr request)>;

// For one connection. `store` gives what this uid may do with resources; `audit` keeps a record,
// `callsFor` gets the client that the calls are counted for. Without `ofRequest`, requests with an
// id get `node`, too; `maintenanceOfRequest` is the same for `maintenanceNode`.
rpc::Machined::Client serveMachined(
    const UnixPeer& peer, rpc::Node::Client node, rpc::Node::Client maintenanceNode,
    rpc::Store::Client store, kj::Function<void(rpc::AuditRecord::Reader)> audit,
    kj::Function<void(kj::StringPtr)> callsFor = [](auto) {},
    rpc::LogFeed::Client logFeed = nullptr,  // of logd; null: there is none
    kj::Maybe<NodeOfRequest> ofRequest = nullptr,
    kj::Maybe<NodeOfRequest> maintenanceOfRequest = nullptr,
    rpc::EtcdSupervisor::Client etcdSupervisor = nullptr);  // for trustd; null: there is none

}  // namespace talos::machined
