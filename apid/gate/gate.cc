#include "apid/gate/gate.h"

#include <kj/map.h>

#include "common/base/error.h"
#include "common/base/line-limit.h"
#include "common/base/log.h"
#include "common/base/texts.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"

namespace talos::apid {
namespace {

constexpr auto kMachinedPatience = 5 * kj::SECONDS;
constexpr size_t kMostRoles = 64;
constexpr size_t kLongestName = 256;  // of what another machine says of its client
// Clients of another machine's apid that are told apart at a time, each at the cost of a connection
// to machined; more of them share one.
constexpr size_t kMostForwarded = 32;

// As connections are counted (common/wire/rpc-server.h).
kj::String hostOf(kj::StringPtr address) {
  auto ip = Ip::parse(address);
  KJ_IF_MAYBE (i, ip) return (i->family() == AF_INET6 ? i->masked(64) : *i).toString();
  return kj::str(address);
}

kj::String shortened(kj::StringPtr text) {
  return kj::str(text.slice(0, kj::min(text.size(), kLongestName)));
}

// The texts that name a role which a client may have.
template <typename Texts>
kj::Array<kj::String> rolesIn(Texts&& texts) {
  kj::Vector<kj::String> roles;
  for (kj::StringPtr text : texts) {
    if (text.startsWith("os:") && text != kRoleImpersonator) roles.add(kj::str(text));
  }
  return roles.releaseAsArray();
}

// They are kept as long as the Cluster that they are asked for, hence not any number.
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

rpc::Node::Client nodeOf(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                         kj::StringPtr path, kj::Own<Budget::Account> account, kj::StringPtr client,
                         rpc::Node::Client (*ask)(rpc::Machined::Client, kj::StringPtr)) {
  return reconnecting([&lowLevel, &timer, path = kj::str(path), account = kj::mv(account),
                       client = kj::str(client), ask]() mutable {
           DialLimits limits;
           limits.account = kj::addRef(*account);
           return connectUnix(lowLevel, timer, path, kMachinedPatience, kj::mv(limits))
               .then([ask, client = kj::str(client)](kj::Own<Connection>&& connection) {
                 auto node = ask(connection->bootstrap().castAs<rpc::Machined>(), client);
                 return Dialed{kj::mv(connection), kj::mv(node)};
               });
         })
      .castAs<rpc::Node>();
}

rpc::Node::Client localNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                            kj::StringPtr machinedSocket, kj::Own<Budget::Account> account,
                            kj::StringPtr client) {
  return nodeOf(lowLevel, timer, machinedSocket, kj::mv(account), client,
                [](rpc::Machined::Client machined, kj::StringPtr client) {
                  auto request = machined.nodeRequest();
                  request.setClient(client);
                  return rpc::Node::Client(request.send().getNode());
                });
}

rpc::Node::Client maintenanceNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                  kj::StringPtr machinedSocket, kj::Own<Budget::Account> account) {
  return nodeOf(lowLevel, timer, machinedSocket, kj::mv(account), "",
                [](rpc::Machined::Client machined, kj::StringPtr) {
                  return rpc::Node::Client(machined.maintenanceNodeRequest().send().getNode());
                });
}

rpc::Machined::Client machinedOf(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                 kj::StringPtr path) {
  return reconnecting(lowLevel, timer, kj::str(path)).castAs<rpc::Machined>();
}

// One client, over all its connections.
struct Gate::Client : kj::Refcounted {
  kj::String name;
  kj::Own<Budget::Account> account;
  kj::Maybe<rpc::Node::Client> own;
  kj::TreeMap<kj::StringPtr, Forwarded*> forwarded;  // each removes itself
  Clients& all;
  bool known = true;  // in the table of all

  Client(Clients& all, kj::String name, kj::Own<Budget::Account> account)
      : name(kj::mv(name)), account(kj::mv(account)), all(all) {}
  ~Client() noexcept(false);

  rpc::Node::Client thisNode(LocalNode& connect) {
    KJ_IF_MAYBE (node, own) return *node;
    return own.emplace(connect(kj::addRef(*account), name));
  }
  // `whom`: for whom another machine's apid calls. What one of those may have open is no other
  // one's affair. None: they are too many.
  kj::Maybe<kj::Own<Forwarded>> thisNodeFor(LocalNode& connect, kj::StringPtr whom);
};

// The connection to machined of one whom another machine's apid calls for. It goes with the last
// thing that he has by it, since that other apid stays connected for as long as it likes.
struct Gate::Forwarded : kj::Refcounted {
  kj::Own<Client> client;
  kj::String whom;
  kj::Maybe<rpc::Node::Client> node;

  Forwarded(kj::Own<Client> client, kj::StringPtr whom, rpc::Node::Client node)
      : client(kj::mv(client)), whom(kj::str(whom)), node(kj::mv(node)) {
    this->client->forwarded.insert(this->whom, this);
  }
  ~Forwarded() noexcept(false);
};

kj::Maybe<kj::Own<Gate::Forwarded>> Gate::Client::thisNodeFor(LocalNode& connect,
                                                              kj::StringPtr whom) {
  KJ_IF_MAYBE (known, forwarded.find(whom)) return kj::addRef(**known);
  if (forwarded.size() >= kMostForwarded) return nullptr;
  return kj::refcounted<Forwarded>(kj::addRef(*this), whom,
                                   connect(kj::addRef(*account), kj::str(name, " for ", whom)));
}

// One connection of a client. Referenced by the membrane, and so by everything that the client
// holds: the connection to machined stays as long as anything that came by it.
struct Gate::Connected : kj::Refcounted {
  kj::Own<Client> client;
  kj::String address, commonName;
  Clients& all;

  Connected(kj::Own<Client> client, const Peer& peer)
      : client(kj::mv(client)),
        address(kj::str(peer.address)),
        commonName(kj::str(peer.commonName)),
        all(this->client->all) {}

  // One client gets only so many lines, over all its connections.
  bool mayBeTold(kj::StringPtr whom) const;

  void tellVisitor(kj::StringPtr method) {
    if (!mayBeTold(address)) return;
    log::warn("call refused in maintenance mode", {{"peer", address}, {"method", method}});
  }

  void tellDenied(const Caller& caller, kj::ArrayPtr<const kj::String> roles, kj::StringPtr method,
                  kj::StringPtr needed) const {
    auto list = kj::strArray(roles, ",");
    bool direct = caller.via.size() == 0;
    if (!mayBeTold(direct ? kj::str(address) : kj::str(address, " for ", caller.name))) return;
    if (direct) {
      log::warn("call denied", {{"peer", address},
                                {"cn", caller.name},
                                {"method", method},
                                {"needed", needed},
                                {"roles", list}});
    } else {
      log::warn("call denied", {{"peer", address},
                                {"for", caller.name},
                                {"at", caller.address},
                                {"method", method},
                                {"needed", needed},
                                {"roles", list}});
    }
  }
};

// Those that are connected, and the connections to machined that they leave behind.
struct Gate::Clients final : private kj::TaskSet::ErrorHandler {
  explicit Clients(const kj::MonotonicClock& clock) : lines(clock) {}
  kj::HashMap<kj::StringPtr, Client*> table;  // by name; each removes itself
  LineLimit lines;                            // about what they are refused
  kj::TaskSet retired{*this};

  // In a later turn of the loop: the last thing that held a client may be a sink that machined just
  // gave back, and then this runs below the very connection that is to go.
  void retire(rpc::Node::Client node) {
    retired.add(kj::evalLast([node = kj::mv(node)]() {}));
  }

 private:
  void taskFailed(kj::Exception&&) override {}
};

bool Gate::Connected::mayBeTold(kj::StringPtr whom) const {
  return all.lines.admits(whom);
}

// The Cluster of somebody with roles. What it gives of this machine is inside the membrane.
class Gate::Roles final : public rpc::Cluster::Server {
 public:
  Roles(Gate& gate, kj::Own<Connected> client, Caller caller, kj::Array<kj::String> roles,
        bool forwards)
      : gate(gate),
        client(kj::mv(client)),
        caller(kj::mv(caller)),
        roles(kj::mv(roles)),
        forwards(forwards) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    check(kNode);
    auto target = resolveTarget(context.getParams().getAddress(), gate.self);
    if (target.is<ThisNode>()) {
      context.getResults().setNode(thisNode());
      return kj::READY_NOW;
    }
    auto address = target.get<Ip>();
    if (!forwards) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(address.toString(), " is not an address of this node; a call that another node ",
                   "forwarded is not forwarded again"));
    }
    return gate.fleet.node(address, {kj::str(caller.name), kj::str(caller.address), copyOf(roles)})
        .then([context](rpc::Node::Client&& node) mutable {
          context.getResults().setNode(kj::mv(node));
        });
  }

  kj::Promise<void> withRoles(WithRolesContext context) override {
    check(kWithRoles);
    auto common = commonRoles(roles, rolesOf(context.getParams()));
    context.getResults().setCluster(
        gate.clusterOf(kj::addRef(*client), caller.clone(), kj::mv(common), forwards));
    return kj::READY_NOW;
  }

 private:
  static constexpr uint16_t kNode = 0, kWithRoles = 1;  // ordinals in rpc/node.capnp
  Gate& gate;
  kj::Own<Connected> client;
  Caller caller;
  kj::Array<kj::String> roles;
  bool forwards;

  void check(uint16_t method) const {
    auto rule = gate.rules.find(capnp::typeId<rpc::Cluster>(), method);
    if (permits(roles, rule.needed)) return;
    client->tellDenied(caller, roles, rule.method, rule.needed);
    kj::throwFatalException(roleMissing(rule, roles));
  }

  rpc::Node::Client thisNode() {
    auto& all = *client->client;
    kj::Maybe<kj::Own<Forwarded>> link;
    if (caller.via.size() > 0) link = all.thisNodeFor(gate.localNode, caller.name);
    rpc::Node::Client node = nullptr;
    KJ_IF_MAYBE (l, link) {
      node = KJ_ASSERT_NONNULL((*l)->node);
    } else {
      node = all.thisNode(gate.localNode);
    }
    // Lives as long as anything that comes through the membrane.
    auto denied = [client = kj::addRef(*client), link = kj::mv(link), caller = caller.clone(),
                   held = copyOf(roles)](kj::StringPtr method, kj::StringPtr needed) {
      client->tellDenied(caller, held, method, needed);
    };
    return attenuate(gate.rules, kj::mv(node), copyOf(roles), kj::mv(denied),
                     gate.audit.trail(caller.clone(), roles))
        .castAs<rpc::Node>();
  }
};

// Another machine's apid.
class Gate::Impersonator final : public rpc::Cluster::Server {
 public:
  Impersonator(Gate& gate, kj::Own<Connected> client) : gate(gate), client(kj::mv(client)) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    auto held = kj::arr(kj::str(kRoleImpersonator));
    client->tellDenied({kj::str(client->commonName), kj::str(client->address), kj::str()}, held,
                       "Cluster.node", kRoleReader);
    fail(ErrorKind::kPermissionDenied,
         "Cluster.node needs the role os:reader; this caller has os:impersonator, which may only "
         "call Cluster.withRoles");
  }
  kj::Promise<void> withRoles(WithRolesContext context) override {
    auto params = context.getParams();
    auto of = params.getCaller();
    Caller caller{shortened(of.getName()), shortened(of.getAddress()), kj::str(client->address)};
    context.getResults().setCluster(
        gate.clusterOf(kj::addRef(*client), kj::mv(caller), rolesOf(params), false));
    return kj::READY_NOW;
  }

 private:
  Gate& gate;
  kj::Own<Connected> client;
};

// The Cluster of a client without a certificate, in maintenance mode; inside the membrane.
class Gate::Visitor final : public rpc::Cluster::Server {
 public:
  Visitor(Gate& gate, MaintenanceDoor& door, kj::Own<Connected> client)
      : gate(gate), door(door), client(kj::mv(client)) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    auto target = resolveTarget(context.getParams().getAddress(), gate.self);
    KJ_IF_MAYBE (address, target.tryGet<Ip>()) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(address->toString(), " is not an address of this node; a node in maintenance ",
                   "mode does not forward calls"));
    }
    context.getResults().setNode(client->client->thisNode(door.localNode));
    return kj::READY_NOW;
  }

 private:
  Gate& gate;
  MaintenanceDoor& door;
  kj::Own<Connected> client;
};

Gate::Client::~Client() noexcept(false) {
  if (!known) return;  // the gate is going, and took the node
  all.table.erase(name);
  KJ_IF_MAYBE (node, own) all.retire(kj::mv(*node));
}

Gate::Forwarded::~Forwarded() noexcept(false) {
  client->forwarded.erase(whom);
  if (!client->known) return;
  KJ_IF_MAYBE (n, node) client->all.retire(kj::mv(*n));
}

Gate::Gate(const kj::MonotonicClock& clock, LocalNode localNode, Fleet& fleet, Budget& budget,
           AuditLog& audit, const Self& self, kj::Maybe<MaintenanceDoor> door)
    : localNode(kj::mv(localNode)),
      fleet(fleet),
      budget(budget),
      audit(audit),
      self(self),
      door(kj::mv(door)),
      rules(capnp::Schema::from<rpc::Cluster>()),
      clients(kj::heap<Clients>(clock)) {}

Gate::~Gate() noexcept(false) {
  // A sink that machined still has holds its client, and the client the connection that the sink is
  // exported by.
  while (clients->table.size() > 0) {
    auto client = kj::addRef(*clients->table.begin()->value);
    clients->table.erase(client->name);
    client->known = false;
    client->own = nullptr;
    kj::Vector<kj::Own<Forwarded>> links;  // each may be the last thing that holds another
    for (auto& entry : client->forwarded) links.add(kj::addRef(*entry.value));
    for (auto& link : links) link->node = nullptr;
  }
}

rpc::Cluster::Client Gate::clusterOf(kj::Own<Connected> client, Caller caller,
                                     kj::Array<kj::String> roles, bool forwards) {
  return kj::heap<Roles>(*this, kj::mv(client), kj::mv(caller), kj::mv(roles), forwards);
}

Welcome Gate::openToVisitor(MaintenanceDoor& door, kj::Own<Connected> client) {
  auto account = kj::addRef(*client->client->account);
  auto inner = kj::heap<Visitor>(*this, door, kj::addRef(*client));
  auto trail = audit.trail({kj::str(), kj::str(client->address), kj::str()}, nullptr);
  auto denied = [client = kj::mv(client)](kj::StringPtr method, kj::StringPtr) mutable {
    client->tellVisitor(method);
  };
  return {attenuateToMaintenance(
              rules, rpc::Cluster::Client(kj::mv(inner)), [&door]() { return door.open(); },
              kj::mv(denied), kj::mv(trail)),
          door.closed(), nullptr, kj::addRef(*account)};
}

// A visitor is its host: who has a network of IPv6 has as many addresses as he likes. Another
// machine has the calls of all its clients, so its account has twice what any of those may have
// there.
kj::Own<Gate::Connected> Gate::connected(const Peer& peer) {
  auto name = peer.anonymous ? kj::str("visitor ", hostOf(peer.address)) : kj::str(peer.serial);
  KJ_IF_MAYBE (known, clients->table.find(name)) {
    return kj::refcounted<Connected>(kj::addRef(**known), peer);
  }
  bool impersonates = false;
  for (auto& entry : peer.organizations) impersonates = impersonates || entry == kRoleImpersonator;
  auto most = peer.anonymous ? kVisitorBudget : (impersonates ? 2 : 1) * kClientBudget.perClient;
  auto account = budget.account(name, most);
  auto client = kj::refcounted<Client>(*clients, kj::mv(name), kj::mv(account));
  clients->table.insert(client->name, client.get());
  return kj::refcounted<Connected>(kj::mv(client), peer);
}

Welcome Gate::open(const Peer& peer) {
  auto client = connected(peer);
  auto account = kj::addRef(*client->client->account);
  if (peer.anonymous) {
    // The handshake may have begun in a maintenance mode that is over.
    KJ_IF_MAYBE (d, door) {
      if (d->open()) return openToVisitor(*d, kj::mv(client));
    }
    fail(ErrorKind::kUnauthenticated,
         "this node has a config now; connect with a client certificate");
  }
  auto roles = rolesIn(peer.organizations);
  bool impersonates = false;
  for (auto& entry : peer.organizations) impersonates = impersonates || entry == kRoleImpersonator;
  if (impersonates && roles.size() == 0) {
    return {rpc::Cluster::Client(kj::heap<Impersonator>(*this, kj::mv(client))), kj::NEVER_DONE,
            nullptr, kj::mv(account)};
  }
  if (roles.size() == 0 && client->mayBeTold(peer.address)) {
    log::warn("client has no role: its certificate names none in O",
              {{"peer", peer.address}, {"cn", peer.commonName}});
  }
  Caller caller{
      peer.commonName.size() > 0 ? kj::str(peer.commonName) : kj::str("serial ", peer.serial),
      kj::str(peer.address), kj::str()};
  return {clusterOf(kj::mv(client), kj::mv(caller), kj::mv(roles), true), kj::NEVER_DONE, nullptr,
          kj::mv(account)};
}

}  // namespace talos::apid
