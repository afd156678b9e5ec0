// The gate of apid: gives each authenticated client a Cluster that does no more than its roles
// allow.
//
// Roles are the entries of the certificate's O that begin with "os:". The membrane of
// common/wire/roles.h guards the capabilities of this node: a call without the role is denied and
// logged (for each client in a bounded number of lines, common/wire/log-line-limit.h), and a call
// that changes something is recorded in the node's audit log. Calls for another node are checked
// and recorded there, with the roles and the name of the client. Another apid has the role
// os:impersonator and may only request the Cluster of given roles, which is never forwarded again,
// so there are no loops. Only such an apid may name the client for which it calls.
//
// A client is identified by its certificate, over any number of connections. It has one connection
// to machined, so it does not share machined's limits of calls
// (machined/process1/client-call-limits.h), and one account of bytes (common/wire/budget.h).
//
// The gate must outlive all capabilities that it gave out. Nothing survives a restart: clients call
// again.
#pragma once

#include <kj/function.h>

#include "apid/gate/audit-log.h"
#include "apid/gate/call-counts.h"
#include "apid/gate/local-node.h"
#include "apid/gate/peer-connections.h"
#include "apid/identity/call-target.h"
#include "apid/identity/node-identity.h"
#include "common/tls/tls.h"
#include "common/wire/budget.h"
#include "common/wire/request-id.h"
#include "common/wire/roles.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

// Maintenance mode: while a node has no config, clients without a certificate are admitted.
class MaintenanceMode {
 public:
  // Returns true if the node has no config, as far as this process knows.
  virtual bool active() = 0;
  // Resolves when the connections of anonymous clients must be closed.
  virtual kj::Promise<void> ended() = 0;
  // Returns this node's Node for each request of an anonymous client, charged to its account.
  virtual NodeOfRequest node(kj::Own<Budget::Account> account) = 0;

 protected:
  ~MaintenanceMode() noexcept(false) = default;
};

// Maintenance mode of this node, which ends with the certificates of the identity. The arguments
// outlive it.
class NodeMaintenance final : public MaintenanceMode {
 public:
  NodeMaintenance(NodeIdentity& identity, kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                  kj::StringPtr machinedSocket)
      : identity(identity), lowLevel(lowLevel), timer(timer), machinedSocket(machinedSocket) {}

  bool active() override { return identity.inMaintenance(); }
  kj::Promise<void> ended() override;
  NodeOfRequest node(kj::Own<Budget::Account> account) override;

 private:
  NodeIdentity& identity;
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::Timer& timer;
  kj::StringPtr machinedSocket;
};

// 32 MiB are a config of the largest size on its way to eight nodes. With three such clients, and a
// thousand connections besides, apid uses some 230 MiB (its limit: machined/brain/daemon-table.cc).
// The reserve is for clients with os:operator or os:admin: a config to five nodes at once.
constexpr Budget::Limits kClientBudget = {
    .perClient = 32u << 20, .inTotal = 96u << 20, .reserve = 24u << 20};
// For anonymous clients: one config of the largest size at a time, so that only many clients
// together could use up the total.
constexpr size_t kAnonymousBudget = 10u << 20;

class Gate {
 public:
  // `localNode` makes a separate connection to machined for each client, including the clients of
  // another apid, so that one client's calls do not count against another's limits; `self` is read
  // at each call. `budget` is shared by all connections of this program. Without `maintenance`,
  // clients without a certificate are always refused. `calls` counts the calls of all clients;
  // `ids` names the requests to which the client has given no id.
  Gate(const kj::MonotonicClock& clock, LocalNode localNode, PeerConnections& peers, Budget& budget,
       AuditLog& audit, RequestIds& ids, const Self& self,
       kj::Maybe<MaintenanceMode&> maintenance = nullptr, kj::Maybe<CallCounts&> calls = nullptr);
  ~Gate() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Gate);

  SessionParams open(const Peer& peer);

 private:
  struct Client;
  struct Forwarded;
  struct ClientConnection;
  struct Clients;
  class ClientCluster;
  class Impersonator;
  class AnonymousCluster;
  LocalNode localNode;
  PeerConnections& peers;
  Budget& budget;
  AuditLog& audit;
  RequestIds& ids;
  const Self& self;
  kj::Maybe<MaintenanceMode&> maintenance;
  kj::Maybe<CallCounts&> calls;
  Rules rules;
  kj::Own<Clients> clients;

  SessionParams openSession(const Peer& peer);
  kj::Own<ClientConnection> connectionOf(const Peer& peer);
  rpc::Cluster::Client clusterOf(kj::Own<ClientConnection> client, Caller caller,
                                 kj::Array<kj::String> roles, bool forwards);
  SessionParams openAnonymous(MaintenanceMode& maintenance, kj::Own<ClientConnection> client);
};

// Returns the roles of either list that the other list includes.
kj::Array<kj::String> commonRoles(kj::ArrayPtr<const kj::String> held,
                                  kj::ArrayPtr<const kj::String> asked);

}  // namespace talos::apid
