// What an authenticated client gets: a Cluster that does no more than the client's roles allow.
//
// Roles are the entries of the certificate's O that begin with "os:". Capabilities of this node are
// inside of the membrane of common/wire/roles.h: a call without the role is denied and logged (for
// each client so many lines a minute, common/base/line-limit.h), and a call that changes something
// is recorded in the node's audit log. Calls for another node are checked and recorded there, with
// the roles and the name of the client. Another apid has the role os:impersonator and may only ask
// for the Cluster of given roles, which is never forwarded again: there are no loops. Only such an
// apid may say for whom it calls.
//
// A client is who its certificate says, over however many connections: it has one connection to
// machined, whose limits of calls are its own (machined/process1/client-call-limits.h), and one
// account of bytes (common/wire/budget.h).
//
// Must outlive everything that it handed out. Nothing survives a restart: clients call again.
#pragma once

#include <kj/function.h>

#include "apid/gate/audit-log.h"
#include "apid/gate/peer-connections.h"
#include "apid/identity/call-target.h"
#include "common/tls/tls.h"
#include "common/wire/budget.h"
#include "common/wire/roles.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

// 32 MiB are a config of the largest size on its way to eight nodes. Of three such clients, with a
// thousand connections besides, apid has some 230 MiB (its limit: machined/brain/daemon-table.cc).
constexpr Budget::Limits kClientBudget = {.perClient = 32u << 20, .inTotal = 96u << 20};
// Nobody knows who they are: one config of the largest size at a time, so that many of them have to
// come together to have it all.
constexpr size_t kVisitorBudget = 10u << 20;

// This machine's Node for a client: held against this account, and by this name for machined.
using LocalNode =
    kj::Function<rpc::Node::Client(kj::Own<Budget::Account> account, kj::StringPtr client)>;
// How clients come in that nobody can authenticate, and how long they stay.
struct MaintenanceDoor {
  kj::Function<bool()> open;                 // the machine has no config, as far as is known here
  kj::Function<kj::Promise<void>()> closed;  // when connections that came in by it are to end
  LocalNode localNode;                       // by which machined knows what it is for
};

class Gate {
 public:
  // `localNode` makes a connection of its own to machined for each client, those that another
  // machine calls for among them, so that one client's calls do not count against another's limits;
  // `self` is read at each call. `budget` is that of
  // all connections of this program.
  // Without a door, a client without a certificate is always refused.
  Gate(const kj::MonotonicClock& clock, LocalNode localNode, Fleet& fleet, Budget& budget,
       AuditLog& audit, const Self& self, kj::Maybe<MaintenanceDoor> door = nullptr);
  ~Gate() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Gate);

  Welcome open(const Peer& peer);

 private:
  struct Client;
  struct Forwarded;
  struct Connected;
  struct Clients;
  class Roles;
  class Impersonator;
  class Visitor;
  LocalNode localNode;
  Fleet& fleet;
  Budget& budget;
  AuditLog& audit;
  const Self& self;
  kj::Maybe<MaintenanceDoor> door;
  Rules rules;
  kj::Own<Clients> clients;

  kj::Own<Connected> connected(const Peer& peer);
  rpc::Cluster::Client clusterOf(kj::Own<Connected> client, Caller caller,
                                 kj::Array<kj::String> roles, bool forwards);
  Welcome openToVisitor(MaintenanceDoor& door, kj::Own<Connected> client);
};

// This machine's Node: a connection of its own to machined, dialled when it is first used and again
// when machined was restarted.
rpc::Node::Client localNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                            kj::StringPtr machinedSocket, kj::Own<Budget::Account> account,
                            kj::StringPtr client);
// The same for visitors in maintenance mode.
rpc::Node::Client maintenanceNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                  kj::StringPtr machinedSocket, kj::Own<Budget::Account> account);

// machined itself, dialled when it is first used and again when it was restarted.
rpc::Machined::Client machinedOf(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                 kj::StringPtr machinedSocket);

// The rights that both have: a role of either that the other includes.
kj::Array<kj::String> commonRoles(kj::ArrayPtr<const kj::String> held,
                                  kj::ArrayPtr<const kj::String> asked);

}  // namespace talos::apid
