#include "apid/gate/gate.h"

#include <kj/map.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/node-messages.h"
#include "common/base/waits.h"
#include "common/text/texts.h"
#include "common/wire/log-line-limit.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"

namespace talos::apid {
namespace {

// How long connections of anonymous clients stay open after maintenance mode: until then their
// calls fail with the cause.
constexpr auto kNotice = 2 * kj::SECONDS;

}  // namespace

kj::Promise<void> NodeMaintenance::ended() {
  return identity.maintenanceEnded().then([this] { return timer.afterDelay(kNotice); });
}

NodeOfRequest NodeMaintenance::node(kj::Own<Budget::Account> account) {
  return maintenanceNode(lowLevel, timer, machinedSocket, kj::mv(account));
}

namespace {

constexpr size_t kMostRoles = 64;
constexpr size_t kLongestName = 256;  // for a client of another apid
// Clients of another apid with separate connections to machined; clients beyond this number share
// one.
constexpr size_t kMostForwarded = 32;

// Returns the key by which connections are counted (common/wire/rpc-server.h).
kj::String hostOf(kj::StringPtr address) {
  auto ip = Ip::parse(address);
  KJ_IF_MAYBE (i, ip) return (i->family() == AF_INET6 ? i->masked(64) : *i).toString();
  return kj::str(address);
}

kj::String shortened(kj::StringPtr text) {
  return kj::str(text.slice(0, kj::min(text.size(), kLongestName)));
}

// Selects the texts that are roles of clients.
template <typename Texts>
kj::Array<kj::String> rolesIn(Texts&& texts) {
  kj::Vector<kj::String> roles;
  for (kj::StringPtr text : texts) {
    if (text.startsWith("os:") && text != kRoleImpersonator) roles.add(kj::str(text));
  }
  return roles.releaseAsArray();
}

// Returns the requested roles. Their number is limited, because they are kept as long as the
// resulting Cluster.
kj::Array<kj::String> rolesOf(rpc::Cluster::WithRolesParams::Reader params) {
  auto asked = params.getRoles();
  if (asked.size() > kMostRoles) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(asked.size(), " roles are too many; at most ", kMostRoles));
  }
  return rolesIn(asked);
}

}  // namespace

kj::Array<kj::String> commonRoles(kj::ArrayPtr<const kj::String> held,
                                  kj::ArrayPtr<const kj::String> asked) {
  kj::Vector<kj::String> common;
  for (auto& role : asked) {
    if (permits(held, role)) common.add(kj::str(role));
  }
  for (auto& role : held) {
    bool there = false;
    for (auto& other : common) there = there || other == role;
    if (!there && permits(asked, role)) common.add(kj::str(role));
  }
  return common.releaseAsArray();
}

// One client, over all its connections.
struct Gate::Client : kj::Refcounted {
  kj::String name;
  kj::Own<Budget::Account> account;
  kj::Maybe<NodeOfRequest> own;
  kj::TreeMap<kj::StringPtr, Forwarded*> forwarded;  // each removes itself
  Clients& all;
  bool known = true;  // in the table of all clients

  Client(Clients& all, kj::String name, kj::Own<Budget::Account> account)
      : name(kj::mv(name)), account(kj::mv(account)), all(all) {}
  ~Client() noexcept(false);

  using Connect = kj::FunctionParam<NodeOfRequest(kj::Own<Budget::Account>, kj::StringPtr)>;
  rpc::Node::Client thisNode(Connect connect, kj::StringPtr request) {
    KJ_IF_MAYBE (node, own) return (*node)(request);
    return own.emplace(connect(kj::addRef(*account), name))(request);
  }
  // Returns the connection for `name`, a client of another apid: each has separate limits. Returns
  // nullptr if there are too many.
  kj::Maybe<kj::Own<Forwarded>> thisNodeFor(LocalNode& connect, kj::StringPtr name);
};

// The connection to machined of a client of another apid. It is closed with the last capability
// obtained over it, since the other apid may stay connected for ever.
struct Gate::Forwarded : kj::Refcounted {
  kj::Own<Client> client;
  kj::String name;
  kj::Maybe<NodeOfRequest> node;

  Forwarded(kj::Own<Client> client, kj::StringPtr name, NodeOfRequest node)
      : client(kj::mv(client)), name(kj::str(name)), node(kj::mv(node)) {
    this->client->forwarded.insert(this->name, this);
  }
  ~Forwarded() noexcept(false);
};

kj::Maybe<kj::Own<Gate::Forwarded>> Gate::Client::thisNodeFor(LocalNode& connect,
                                                              kj::StringPtr forwardedName) {
  KJ_IF_MAYBE (known, forwarded.find(forwardedName)) return kj::addRef(**known);
  if (forwarded.size() >= kMostForwarded) return nullptr;
  return kj::refcounted<Forwarded>(
      kj::addRef(*this), forwardedName,
      connect(kj::addRef(*account), kj::str(name, " for ", forwardedName)));
}

// One connection of a client. The membrane, and so every capability of the client, refers to it:
// the connection to machined exists as long as any of them.
struct Gate::ClientConnection : kj::Refcounted {
  kj::Own<Client> client;
  kj::String address, commonName;
  Clients& all;

  ClientConnection(kj::Own<Client> client, const Peer& peer)
      : client(kj::mv(client)),
        address(kj::str(peer.address)),
        commonName(kj::str(peer.commonName)),
        all(this->client->all) {}

  // Limits the log lines about a client, over all its connections.
  bool mayLog(kj::StringPtr peer) const;

  void logAnonymousRefusal(kj::StringPtr method) {
    if (!mayLog(address)) return;
    log::warn("call refused in maintenance mode", {{"peer", address}, {"method", method}});
  }

  void logDenied(const Caller& caller, kj::ArrayPtr<const kj::String> roles, kj::StringPtr method,
                 kj::StringPtr needed) const {
    auto list = kj::strArray(roles, ",");
    bool direct = caller.via.size() == 0;
    if (!mayLog(direct ? kj::str(address) : kj::str(address, " for ", caller.name))) return;
    if (direct) {
      log::warn("call denied", {{"peer", address},
                                {"cn", caller.name},
                                {"request", caller.request},
                                {"method", method},
                                {"needed", needed},
                                {"roles", list}});
    } else {
      log::warn("call denied", {{"peer", address},
                                {"for", caller.name},
                                {"at", caller.address},
                                {"request", caller.request},
                                {"method", method},
                                {"needed", needed},
                                {"roles", list}});
    }
  }
};

// All connected clients, and the connections to machined of clients that have gone.
struct Gate::Clients final : private kj::TaskSet::ErrorHandler {
  explicit Clients(const kj::MonotonicClock& clock) : lines(clock) {}
  kj::HashMap<kj::StringPtr, Client*> table;  // each by its name; it removes itself
  LineLimit lines;                            // for lines about refused calls
  kj::TaskSet retired{*this};

  // Drops the node in a later turn of the loop: the last reference to a client may be a sink that
  // machined just released, and then this connection is the caller.
  void retire(NodeOfRequest node) {
    retired.add(kj::evalLast([node = kj::mv(node)]() {}));
  }

 private:
  void taskFailed(kj::Exception&&) override {}
};

bool Gate::ClientConnection::mayLog(kj::StringPtr peer) const {
  return all.lines.admits(peer);
}

// The Cluster of a client with roles. The membrane guards its capabilities of this node.
class Gate::ClientCluster final : public rpc::Cluster::Server {
 public:
  ClientCluster(Gate& gate, kj::Own<ClientConnection> client, Caller caller,
                kj::Array<kj::String> roles, bool forwards)
      : gate(gate),
        client(kj::mv(client)),
        caller(kj::mv(caller)),
        roles(kj::mv(roles)),
        forwards(forwards) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    auto params = context.getParams();
    auto traced = caller.clone();
    traced.request = gate.ids.orNext(params.getRequest());
    check(kNode, traced);
    auto target = resolveTarget(params.getAddress(), gate.self);
    logRequest(traced, params.getAddress());
    if (target.is<ThisNode>()) {
      context.getResults().setNode(thisNode(traced));
      return kj::READY_NOW;
    }
    auto& other = target.get<OtherNode>();
    if (!forwards) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(other.address.toString(),
                   " is not an address of this node; a call that another node ",
                   "forwarded is not forwarded again"));
    }
    return gate.peers
        .node(kj::mv(other), {.name = kj::str(caller.name),
                              .address = kj::str(caller.address),
                              .roles = copyOf(roles),
                              .request = kj::str(traced.request),
                              .privileged = permits(roles, kRoleOperator),
                              .account = kj::addRef(*client->client->account)})
        .then([context](rpc::Node::Client&& node) mutable {
          context.getResults().setNode(kj::mv(node));
        });
  }

  kj::Promise<void> withRoles(WithRolesContext context) override {
    check(kWithRoles, caller);
    auto common = commonRoles(roles, rolesOf(context.getParams()));
    context.getResults().setCluster(
        gate.clusterOf(kj::addRef(*client), caller.clone(), kj::mv(common), forwards));
    return kj::READY_NOW;
  }

 private:
  static constexpr uint16_t kNode = 0, kWithRoles = 1;  // ordinals of rpc/node.capnp
  Gate& gate;
  kj::Own<ClientConnection> client;
  Caller caller;
  kj::Array<kj::String> roles;
  bool forwards;

  void check(uint16_t method, const Caller& of) const {
    auto rule = gate.rules.find(capnp::typeId<rpc::Cluster>(), method);
    if (permits(roles, rule.needed)) return;
    client->logDenied(of, roles, rule.method, rule.needed);
    kj::throwFatalException(roleMissing(rule, roles));
  }

  // Logs a request's id with its client and its target node.
  static void logRequest(const Caller& traced, kj::StringPtr node) {
    if (!log::writes(log::Level::kDebug)) return;
    log::debug("request began", {{"request", traced.request},
                                 {"peer", traced.address},
                                 {"cn", traced.name},
                                 {"via", traced.via},
                                 {"node", node}});
  }

  static Wait waitOf(const Caller& traced) {
    return Wait(kj::str("request ", traced.request, " of ", traced.name, ", ", traced.address));
  }

  rpc::Node::Client thisNode(const Caller& traced) {
    auto& all = *client->client;
    kj::Maybe<kj::Own<Forwarded>> link;
    if (caller.via.size() > 0) link = all.thisNodeFor(gate.localNode, caller.name);
    rpc::Node::Client node = nullptr;
    KJ_IF_MAYBE (l, link) {
      node = KJ_ASSERT_NONNULL((*l)->node)(traced.request);
    } else {
      node = all.thisNode(gate.localNode, traced.request);
    }
    // Exists as long as any capability obtained through the membrane.
    auto denied = [client = kj::addRef(*client), link = kj::mv(link), traced = traced.clone(),
                   held = copyOf(roles),
                   wait = waitOf(traced)](kj::StringPtr method, kj::StringPtr needed) {
      client->logDenied(traced, held, method, needed);
    };
    return attenuate(gate.rules, kj::mv(node), copyOf(roles), kj::mv(denied),
                     gate.audit.trail(traced.clone(), roles))
        .castAs<rpc::Node>();
  }
};

// The Cluster of another apid.
class Gate::Impersonator final : public rpc::Cluster::Server {
 public:
  Impersonator(Gate& gate, kj::Own<ClientConnection> client) : gate(gate), client(kj::mv(client)) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    auto held = kj::arr(kj::str(kRoleImpersonator));
    client->logDenied({kj::str(client->commonName), kj::str(client->address), kj::str(), kj::str()},
                      held, "Cluster.node", kRoleReader);
    fail(ErrorKind::kPermissionDenied,
         "Cluster.node needs the role os:reader; this caller has os:impersonator, which may only "
         "call Cluster.withRoles");
  }
  kj::Promise<void> withRoles(WithRolesContext context) override {
    auto params = context.getParams();
    auto of = params.getCaller();
    Caller caller{shortened(of.getName()), shortened(of.getAddress()), kj::str(client->address),
                  kj::str()};
    context.getResults().setCluster(
        gate.clusterOf(kj::addRef(*client), kj::mv(caller), rolesOf(params), false));
    return kj::READY_NOW;
  }

 private:
  Gate& gate;
  kj::Own<ClientConnection> client;
};

// The Cluster of a client without a certificate, in maintenance mode. It gives only nodes, which
// the membrane guards.
class Gate::AnonymousCluster final : public rpc::Cluster::Server {
 public:
  AnonymousCluster(Gate& gate, MaintenanceMode& maintenance, kj::Own<ClientConnection> client)
      : gate(gate), maintenance(maintenance), client(kj::mv(client)) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    auto target = resolveTarget(context.getParams().getAddress(), gate.self);
    KJ_IF_MAYBE (other, target.tryGet<OtherNode>()) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(other->address.toString(),
                   " is not an address of this node; a node in maintenance ",
                   "mode does not forward calls"));
    }
    auto request = gate.ids.orNext(context.getParams().getRequest());
    auto node = client->client->thisNode(
        [this](kj::Own<Budget::Account> account, kj::StringPtr) {
          return maintenance.node(kj::mv(account));
        },
        request);
    // Each node has a separate trail, because a trail has the id of the request.
    auto trail = gate.audit.trail({kj::str(), kj::str(client->address), kj::str(), kj::mv(request)},
                                  nullptr);
    auto denied = [client = kj::addRef(*client)](kj::StringPtr method, kj::StringPtr) mutable {
      client->logAnonymousRefusal(method);
    };
    context.getResults().setNode(attenuateToMaintenance(
                                     gate.rules, kj::mv(node),
                                     [&m = maintenance]() { return m.active(); }, kj::mv(denied),
                                     kj::mv(trail))
                                     .castAs<rpc::Node>());
    return kj::READY_NOW;
  }
  kj::Promise<void> withRoles(WithRolesContext) override {
    client->logAnonymousRefusal("Cluster.withRoles");
    fail(ErrorKind::kUnimplemented, kj::str("Cluster.withRoles", messages::kInMaintenance));
  }

 private:
  Gate& gate;
  MaintenanceMode& maintenance;
  kj::Own<ClientConnection> client;
};

Gate::Client::~Client() noexcept(false) {
  if (!known) return;  // ~Gate() has taken the node
  all.table.erase(name);
  KJ_IF_MAYBE (node, own) all.retire(kj::mv(*node));
}

Gate::Forwarded::~Forwarded() noexcept(false) {
  client->forwarded.erase(name);
  if (!client->known) return;
  KJ_IF_MAYBE (n, node) client->all.retire(kj::mv(*n));
}

Gate::Gate(const kj::MonotonicClock& clock, LocalNode localNode, PeerConnections& peers,
           Budget& budget, AuditLog& audit, RequestIds& ids, const Self& self,
           kj::Maybe<MaintenanceMode&> maintenance, kj::Maybe<CallCounts&> calls)
    : localNode(kj::mv(localNode)),
      peers(peers),
      budget(budget),
      audit(audit),
      ids(ids),
      self(self),
      maintenance(maintenance),
      calls(calls),
      rules(capnp::Schema::from<rpc::Cluster>()),
      clients(kj::heap<Clients>(clock)) {}

Gate::~Gate() noexcept(false) {
  // A sink that machined still has keeps its client alive, and the client the connection over which
  // the sink is exported.
  while (clients->table.size() > 0) {
    auto client = kj::addRef(*clients->table.begin()->value);
    clients->table.erase(client->name);
    client->known = false;
    client->own = nullptr;
    kj::Vector<kj::Own<Forwarded>> links;  // One may hold the last reference to another.
    for (auto& entry : client->forwarded) links.add(kj::addRef(*entry.value));
    for (auto& link : links) link->node = nullptr;
  }
}

rpc::Cluster::Client Gate::clusterOf(kj::Own<ClientConnection> client, Caller caller,
                                     kj::Array<kj::String> roles, bool forwards) {
  return kj::heap<ClientCluster>(*this, kj::mv(client), kj::mv(caller), kj::mv(roles), forwards);
}

SessionParams Gate::openAnonymous(MaintenanceMode& maintenance, kj::Own<ClientConnection> client) {
  auto account = kj::addRef(*client->client->account);
  return {.bootstrap =
              rpc::Cluster::Client(kj::heap<AnonymousCluster>(*this, maintenance, kj::mv(client))),
          .until = maintenance.ended(),
          .account = kj::mv(account)};
}

// An anonymous client is identified by its host or IPv6 network. Another apid makes the calls of
// all its clients, so its account has twice the limit of a client there; it does not get the
// reserve, because it forwards readers' calls too.
kj::Own<Gate::ClientConnection> Gate::connectionOf(const Peer& peer) {
  auto name = peer.anonymous ? kj::str("anonymous ", hostOf(peer.address)) : kj::str(peer.serial);
  KJ_IF_MAYBE (known, clients->table.find(name)) {
    return kj::refcounted<ClientConnection>(kj::addRef(**known), peer);
  }
  bool impersonates = false;
  for (auto& entry : peer.organizations) impersonates = impersonates || entry == kRoleImpersonator;
  auto most = peer.anonymous ? kAnonymousBudget : (impersonates ? 2 : 1) * kClientBudget.perClient;
  bool privileged =
      !peer.anonymous && !impersonates && permits(rolesIn(peer.organizations), kRoleOperator);
  auto account =
      budget.account(name, most, privileged ? Budget::Rank::kPrivileged : Budget::Rank::kUsual);
  auto client = kj::refcounted<Client>(*clients, kj::mv(name), kj::mv(account));
  clients->table.insert(client->name, client.get());
  return kj::refcounted<ClientConnection>(kj::mv(client), peer);
}

SessionParams Gate::open(const Peer& peer) {
  auto session = openSession(peer);
  KJ_IF_MAYBE (c, calls) session.observer = c->observer(peer);
  return session;
}

SessionParams Gate::openSession(const Peer& peer) {
  auto client = connectionOf(peer);
  auto account = kj::addRef(*client->client->account);
  if (peer.anonymous) {
    // The handshake may have started before the end of maintenance mode.
    KJ_IF_MAYBE (m, maintenance) {
      if (m->active()) return openAnonymous(*m, kj::mv(client));
    }
    fail(ErrorKind::kUnauthenticated,
         "this node has a config now; connect with a client certificate");
  }
  auto roles = rolesIn(peer.organizations);
  bool impersonates = false;
  for (auto& entry : peer.organizations) impersonates = impersonates || entry == kRoleImpersonator;
  if (impersonates && roles.size() == 0) {
    return {.bootstrap = rpc::Cluster::Client(kj::heap<Impersonator>(*this, kj::mv(client))),
            .account = kj::mv(account)};
  }
  if (roles.size() == 0 && client->mayLog(peer.address)) {
    log::warn("client has no role: its certificate names none in O",
              {{"peer", peer.address}, {"cn", peer.commonName}});
  }
  Caller caller{
      peer.commonName.size() > 0 ? kj::str(peer.commonName) : kj::str("serial ", peer.serial),
      kj::str(peer.address), kj::str(), kj::str()};
  return {.bootstrap = clusterOf(kj::mv(client), kj::mv(caller), kj::mv(roles), true),
          .account = kj::mv(account)};
}

}  // namespace talos::apid
