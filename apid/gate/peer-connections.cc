#include "apid/gate/peer-connections.h"

#include <capnp/membrane.h>

#include "common/base/error.h"
#include "common/base/waits.h"

namespace talos::apid {

namespace {

using Counts = kj::TreeMap<kj::String, unsigned>;

void increase(Counts& counts, kj::StringPtr key) {
  ++counts.findOrCreate(key, [&]() { return Counts::Entry{kj::str(key), 0}; });
}
// Returns true if the count has reached 0.
bool decrease(Counts& counts, kj::StringPtr key) {
  bool last = --KJ_ASSERT_NONNULL(counts.find(key)) == 0;
  if (last) counts.erase(key);
  return last;
}
unsigned countOf(Counts& counts, kj::StringPtr key) {
  return counts.find(key).map([](unsigned& n) { return n; }).orDefault(0);
}

}  // namespace

// Counts over all peers. They may outlive PeerConnections, because a peer may.
struct PeerConnections::Usage : kj::Refcounted {
  Counts clients;  // number of peers in which a client has a lease
  unsigned unverified = 0;
  kj::Maybe<PeerConnections&> connections;  // nullptr: destroyed
};

// The connection to one node. The peer exists while it is in the map or has leases.
class PeerConnections::Peer final : public kj::Refcounted {
 public:
  Peer(kj::Timer& timer, const Limits& limits, kj::Own<Usage> usage, kj::String address)
      : timer(timer),
        limits(limits),
        lastUse(timer.now()),
        usage(kj::mv(usage)),
        address(kj::mv(address)),
        calls(kj::refcounted<ForwardedCalls>(this->address, limits.forwarding)) {}
  ~Peer() noexcept(false) { hangUp(); }

  bool inUse() const { return leases > 0 || dialling; }
  kj::TimePoint lastUsed() const { return lastUse; }

  bool isUsedBy(kj::StringPtr client) { return countOf(users, client) > 0; }

  void take(kj::StringPtr client) {
    if (!isUsedBy(client)) increase(usage->clients, client);
    increase(users, client);
    ++leases;
    expiry = kj::READY_NOW;
  }
  void giveBack(kj::StringPtr client) {
    if (decrease(users, client)) decrease(usage->clients, client);
    lastUse = timer.now();
    if (--leases > 0) return;
    expiry = timer.afterDelay(limits.idle).then([this]() { hangUp(); }).eagerlyEvaluate(nullptr);
  }

  // Ensures that a connection exists; callers that arrive during a dial share it.
  kj::Promise<void> connect(Dial& dial, const OtherNode& target) {
    KJ_IF_MAYBE (c, connection) {
      // The node may have a new certificate by now.
      bool other =
          shown.verificationError != nullptr || (leases == 1 && errorFor(target) != nullptr);
      bool old = other && timer.now() - dialled >= limits.unverifiedFor;
      if ((*c)->alive() && !old) return kj::READY_NOW;
    }
    if (!dialling) {
      dialling = true;
      attempt = kj::evalNow([&]() { return dial(target.address); })
                    .then(
                        [this](Remote&& fresh) {
                          dialling = false;
                          hangUp();
                          connected(kj::mv(fresh));
                        },
                        [this](kj::Exception&& e) {
                          dialling = false;
                          kj::throwFatalException(kj::mv(e));
                        })
                    .fork();
    }
    return attempt.addBranch();
  }

  rpc::Cluster::Client& remote() { return cluster; }
  // Counts connections.
  unsigned number() const { return connections; }
  // Returns true if the connection with this number has ended.
  bool lost(unsigned number) {
    KJ_IF_MAYBE (c, connection) return number != connections || !(*c)->alive();
    return true;
  }
  ForwardedCalls& forwarded() { return *calls; }
  // Serial number of the node's certificate; empty: not verified.
  kj::StringPtr serial() const { return nodeSerial; }
  // Returns true if calls are not yet counted together with those to other addresses of the node.
  bool countsAlone() const { return alone; }
  void countWith(ForwardedCalls& other) {
    calls = kj::addRef(other);
    alone = false;
  }
  // Returns nullptr if the identity of the peer is verified.
  kj::Maybe<kj::String> error() const {
    return shown.verificationError.map([](const kj::String& error) { return kj::str(error); });
  }
  // Returns nullptr if the peer's certificate belongs to `target`.
  kj::Maybe<kj::String> errorFor(const OtherNode& target) const {
    return identityError(target, shown);
  }

  void hangUp() {
    cluster = nullptr;
    if (connection != nullptr && shown.verificationError != nullptr) --usage->unverified;
    connection = nullptr;
  }

 private:
  void connected(Remote fresh) {
    if (fresh.shown.verificationError != nullptr) {
      if (usage->unverified >= limits.unverified) {
        fail(ErrorKind::kResourceExhausted,
             kj::str("this node is connected to ", limits.unverified,
                     " hosts whose identity is not verified, which is the limit"));
      }
      ++usage->unverified;
    }
    ++connections;
    dialled = timer.now();
    shown = kj::mv(fresh.shown);
    if (nodeSerial != fresh.serial) {
      // A new node may have the address now.
      if (nodeSerial.size() > 0) calls = kj::refcounted<ForwardedCalls>(address, limits.forwarding);
      nodeSerial = kj::mv(fresh.serial);
      alone = true;
    }
    cluster = fresh.connection->bootstrap().castAs<rpc::Cluster>();
    // Runs in a later turn: the connection may be the caller.
    watching = fresh.connection->onDisconnect()
                   .catch_([](kj::Exception&&) {})
                   .then([this]() { return kj::evalLast([this]() { hangUp(); }); })
                   .eagerlyEvaluate(nullptr);
    connection = kj::mv(fresh.connection);
  }

  kj::Timer& timer;
  const Limits limits;
  kj::TimePoint lastUse, dialled = kj::origin<kj::TimePoint>();
  unsigned leases = 0, connections = 0;
  Counts users;  // leases of each client
  kj::Own<Usage> usage;
  const kj::String address;
  kj::Own<ForwardedCalls> calls;
  kj::String nodeSerial;
  bool alone = true;
  bool dialling = false;
  kj::Maybe<kj::Own<Connection>> connection;
  ShownCertificate shown;
  rpc::Cluster::Client cluster = nullptr;
  kj::ForkedPromise<void> attempt = nullptr;
  kj::Promise<void> expiry = kj::READY_NOW, watching = kj::READY_NOW;
};

// Marks a peer as in use while it exists, and holds the call that requested the peer's node, which
// counts as long.
class PeerConnections::Lease {
 public:
  Lease(kj::Own<Peer> p, ForwardedCalls::Client c, Wait wait)
      : peer(kj::mv(p)),
        client(kj::mv(c)),
        calls(kj::addRef(peer->forwarded())),
        call(calls->begin(client)),
        wait(kj::mv(wait)) {
    peer->take(client.name);
  }
  ~Lease() noexcept(false) { peer->giveBack(client.name); }
  KJ_DISALLOW_COPY_AND_MOVE(Lease);

  // The peer is connected: from now on the call counts for its node. Throws ResourceExhausted.
  void connected() {
    if (calls.get() == &peer->forwarded()) return;
    calls = kj::addRef(peer->forwarded());
    call = calls->begin(client);
  }

  kj::Own<Peer> peer;
  ForwardedCalls::Client client;
  kj::Own<ForwardedCalls> calls;

 private:
  kj::Own<ForwardedCalls::Call> call;
  Wait wait;
};

// A membrane that passes and counts every call. Every capability obtained through it refers to it,
// and so keeps the lease.
class PeerConnections::KeepInUse final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  explicit KeepInUse(kj::Own<Lease> lease) : lease(kj::mv(lease)) {}
  // Passes each call through the membrane once more, then directly.
  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t, uint16_t,
                                                   capnp::Capability::Client target) override {
    if (passes) {
      passes = false;
      return nullptr;
    }
    return lease->calls->counted(capnp::membrane(kj::mv(target), addRef()), lease->client.clone(),
                                 passes);
  }
  kj::Maybe<capnp::Capability::Client> outboundCall(uint64_t, uint16_t,
                                                    capnp::Capability::Client target) override {
    auto& account = lease->client.account;
    if (passes || account.get() == nullptr) {
      passes = false;
      return nullptr;
    }
    return charged(capnp::reverseMembrane(kj::mv(target), addRef()), kj::addRef(*account), passes);
  }
  kj::Own<capnp::MembranePolicy> addRef() override { return kj::addRef(*this); }

 private:
  kj::Own<Lease> lease;
  bool passes = false;  // The current call was counted.
};

PeerConnections::PeerConnections(kj::Timer& timer, Dial dial, Limits limits)
    : timer(timer), dial(kj::mv(dial)), limits(limits), usage(kj::refcounted<Usage>()) {
  usage->connections = *this;
}
PeerConnections::PeerConnections(kj::Timer& timer, Dial dial)
    : PeerConnections(timer, kj::mv(dial), Limits()) {}
PeerConnections::~PeerConnections() noexcept(false) {
  usage->connections = nullptr;
  // A sink that the other node still has keeps its peer in use, and the peer the connection over
  // which the sink is exported.
  for (auto& entry : byAddress) entry.value->hangUp();
}

void PeerConnections::makeRoom() {
  while (byAddress.size() >= limits.targets) {
    kj::Maybe<decltype(byAddress)::Entry&> oldest;
    for (auto& entry : byAddress) {
      if (entry.value->inUse()) continue;
      KJ_IF_MAYBE (o, oldest) {
        if (o->value->lastUsed() <= entry.value->lastUsed()) continue;
      }
      oldest = entry;
    }
    KJ_IF_MAYBE (o, oldest) {
      auto key = kj::str(o->key);
      byAddress.erase(key);
    } else {
      fail(ErrorKind::kResourceExhausted, kj::str("this node is connected to ", limits.targets,
                                                  " other nodes, which is the limit"));
    }
  }
}

kj::Own<PeerConnections::Peer> PeerConnections::peerAt(const Ip& address, kj::StringPtr client) {
  auto key = address.toString();
  auto known = byAddress.find(key);
  bool uses =
      known.map([&](kj::Own<Peer>& peer) { return peer->isUsedBy(client); }).orDefault(false);
  if (!uses && countOf(usage->clients, client) >= limits.perClient) {
    fail(ErrorKind::kResourceExhausted, kj::str(client, " uses connections to ", limits.perClient,
                                                " other nodes, which is the limit for one client"));
  }
  KJ_IF_MAYBE (peer, known) {
    return kj::addRef(**peer);
  }
  makeRoom();
  auto peer = kj::refcounted<Peer>(timer, limits, kj::addRef(*usage), kj::str(key));
  auto result = kj::addRef(*peer);
  byAddress.insert(kj::mv(key), kj::mv(peer));
  return result;
}

// Addresses of one node share its limits.
void PeerConnections::countByNode(Peer& peer) {
  if (!peer.countsAlone() || peer.serial().size() == 0) return;
  kj::Maybe<Peer&> same;
  for (auto& entry : byAddress) {
    Peer& other = *entry.value;
    if (!other.countsAlone() && other.serial() == peer.serial()) same = other;
  }
  peer.countWith(same.orDefault(peer).forwarded());
}

PeerConnections::Client PeerConnections::Client::clone() {
  auto copies = KJ_MAP(role, roles) {
    return kj::str(role);
  };
  return {.name = kj::str(name),
          .address = kj::str(address),
          .roles = kj::mv(copies),
          .request = kj::str(request),
          .privileged = privileged,
          .account = account.get() == nullptr ? kj::Own<Budget::Account>() : kj::addRef(*account)};
}

kj::Promise<rpc::Node::Client> PeerConnections::node(OtherNode target, Client client) {
  auto again = [usage = kj::addRef(*usage), target = target.clone(),
                client = client.clone()]() mutable -> kj::Promise<ConnectedNode> {
    KJ_IF_MAYBE (connections, usage->connections) {
      return connections->reach(target.clone(), client.clone());
    }
    return error(ErrorKind::kUnavailable, "the API server of this node is exiting");
  };
  auto reached = co_await reach(kj::mv(target), kj::mv(client));
  co_return repeatingNode(kj::addRef(*repeatable), kj::mv(reached), kj::mv(again));
}

kj::Promise<ConnectedNode> PeerConnections::reach(OtherNode target, Client client) {
  auto address = target.address.toString();
  auto peer = peerAt(target.address, client.name);
  auto lease = kj::heap<Lease>(
      kj::addRef(*peer),
      ForwardedCalls::Client{kj::str(client.name), client.privileged, kj::mv(client.account)},
      Wait(kj::str("request ", client.request, " of ", client.name, ", ", client.address, " to ",
                   address)));
  co_await peer->connect(dial, target);
  // Checked before anything is sent, including the roles and the name of the client.
  KJ_IF_MAYBE (e, peer->errorFor(target)) fail(ErrorKind::kFailedPrecondition, *e);
  countByNode(*peer);
  lease->connected();

  auto withRoles = peer->remote().withRolesRequest();
  auto list = withRoles.initRoles(client.roles.size());
  for (size_t i = 0; i < client.roles.size(); ++i) list.set(i, client.roles[i]);
  auto caller = withRoles.initCaller();
  caller.setName(client.name);
  caller.setAddress(client.address);
  auto asked = withRoles.send().getCluster().nodeRequest();
  asked.setRequest(client.request);
  auto node = asked.send().getNode();
  auto error = peer->error();
  auto lost = [peer = kj::addRef(*peer), number = peer->number()]() mutable {
    return peer->lost(number);
  };
  node = capnp::membrane(kj::mv(node), kj::refcounted<KeepInUse>(kj::mv(lease)));
  KJ_IF_MAYBE (e, error) {
    node = joiningNode(kj::mv(node), kj::mv(address), kj::mv(*e));
  }
  co_return ConnectedNode{kj::mv(node), kj::mv(lost)};
}

}  // namespace talos::apid
