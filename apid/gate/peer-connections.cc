#include "apid/gate/peer-connections.h"

#include <capnp/membrane.h>

#include "common/base/error.h"

namespace talos::apid {

namespace {

using Counts = kj::TreeMap<kj::String, unsigned>;

void increase(Counts& counts, kj::StringPtr key) {
  ++counts.findOrCreate(key, [&]() { return Counts::Entry{kj::str(key), 0}; });
}
// True: it was the last one.
bool decrease(Counts& counts, kj::StringPtr key) {
  bool last = --KJ_ASSERT_NONNULL(counts.find(key)) == 0;
  if (last) counts.erase(key);
  return last;
}
unsigned countOf(Counts& counts, kj::StringPtr key) {
  return counts.find(key).map([](unsigned& n) { return n; }).orDefault(0);
}

}  // namespace

// What all lines have together. A line can outlive the fleet.
struct Fleet::Tally : kj::Refcounted {
  Counts clients;  // in how many lines each of them has a lease
  unsigned strangers = 0;
};

// One target. Lives in the map, and while it has leases.
class Fleet::Line final : public kj::Refcounted {
 public:
  Line(kj::Timer& timer, const Limits& limits, kj::Own<Tally> tally)
      : timer(timer), limits(limits), lastUse(timer.now()), tally(kj::mv(tally)) {}
  ~Line() noexcept(false) { hangUp(); }

  bool inUse() const { return leases > 0 || dialling; }
  kj::TimePoint lastUsed() const { return lastUse; }

  bool isUsedBy(kj::StringPtr client) { return countOf(users, client) > 0; }

  void take(kj::StringPtr client) {
    if (!isUsedBy(client)) increase(tally->clients, client);
    increase(users, client);
    ++leases;
    expiry = kj::READY_NOW;
  }
  void giveBack(kj::StringPtr client) {
    if (decrease(users, client)) decrease(tally->clients, client);
    lastUse = timer.now();
    if (--leases > 0) return;
    expiry = timer.afterDelay(limits.idle).then([this]() { hangUp(); }).eagerlyEvaluate(nullptr);
  }

  // A connection that is up; callers that come while it is being dialled share the outcome.
  kj::Promise<void> up(Dial& dial, const Ip& address) {
    KJ_IF_MAYBE (c, connection) {
      bool old = unproven != nullptr && timer.now() - dialled >= limits.unproven;
      if ((*c)->alive() && !old) return kj::READY_NOW;
    }
    if (!dialling) {
      dialling = true;
      attempt = kj::evalNow([&]() { return dial(address); })
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
  // Why it is not known who that is.
  kj::Maybe<kj::String> whyUnproven() const {
    return unproven.map([](const kj::String& why) { return kj::str(why); });
  }

  void hangUp() {
    cluster = nullptr;
    if (connection != nullptr && unproven != nullptr) --tally->strangers;
    connection = nullptr;
  }

 private:
  void connected(Remote fresh) {
    if (fresh.unproven != nullptr) {
      if (tally->strangers >= limits.strangers) {
        fail(ErrorKind::kResourceExhausted,
             kj::str("this node is connected to ", limits.strangers,
                     " hosts whose identity is not verified, which is the limit"));
      }
      ++tally->strangers;
    }
    dialled = timer.now();
    unproven = kj::mv(fresh.unproven);
    cluster = fresh.connection->bootstrap().castAs<rpc::Cluster>();
    // Not at once: this may be running below something that the connection called.
    watching = fresh.connection->onDisconnect()
                   .catch_([](kj::Exception&&) {})
                   .then([this]() { return kj::evalLast([this]() { hangUp(); }); })
                   .eagerlyEvaluate(nullptr);
    connection = kj::mv(fresh.connection);
  }

  kj::Timer& timer;
  const Limits limits;
  kj::TimePoint lastUse, dialled = kj::origin<kj::TimePoint>();
  unsigned leases = 0;
  Counts users;  // leases of each client
  kj::Own<Tally> tally;
  bool dialling = false;
  kj::Maybe<kj::Own<Connection>> connection;
  kj::Maybe<kj::String> unproven;
  rpc::Cluster::Client cluster = nullptr;
  kj::ForkedPromise<void> attempt = nullptr;
  kj::Promise<void> expiry = kj::READY_NOW, watching = kj::READY_NOW;
};

// Says that a line is in use, for as long as it exists.
class Fleet::Lease {
 public:
  Lease(kj::Own<Line> line, kj::StringPtr client) : line(kj::mv(line)), client(kj::str(client)) {
    this->line->take(client);
  }
  ~Lease() noexcept(false) { line->giveBack(client); }
  KJ_DISALLOW_COPY_AND_MOVE(Lease);

 private:
  kj::Own<Line> line;
  kj::String client;
};

// A membrane that lets everything through. Whatever came by it holds a reference to it, and so the
// lease.
class Fleet::KeepInUse final : public capnp::MembranePolicy, public kj::Refcounted {
 public:
  explicit KeepInUse(kj::Own<Lease> lease) : lease(kj::mv(lease)) {}
  kj::Maybe<capnp::Capability::Client> inboundCall(uint64_t, uint16_t,
                                                   capnp::Capability::Client) override {
    return nullptr;
  }
  kj::Maybe<capnp::Capability::Client> outboundCall(uint64_t, uint16_t,
                                                    capnp::Capability::Client) override {
    return nullptr;
  }
  kj::Own<capnp::MembranePolicy> addRef() override { return kj::addRef(*this); }

 private:
  kj::Own<Lease> lease;
};

Fleet::Fleet(kj::Timer& timer, Dial dial, Limits limits)
    : timer(timer), dial(kj::mv(dial)), limits(limits), tally(kj::refcounted<Tally>()) {}
Fleet::Fleet(kj::Timer& timer, Dial dial) : Fleet(timer, kj::mv(dial), Limits()) {}
Fleet::~Fleet() noexcept(false) {
  // A sink that the other side still has holds its line in use, and the line the connection that
  // the sink is exported by.
  for (auto& line : lines) line.value->hangUp();
}

void Fleet::makeRoom() {
  while (lines.size() >= limits.targets) {
    kj::Maybe<decltype(lines)::Entry&> oldest;
    for (auto& entry : lines) {
      if (entry.value->inUse()) continue;
      KJ_IF_MAYBE (o, oldest) {
        if (o->value->lastUsed() <= entry.value->lastUsed()) continue;
      }
      oldest = entry;
    }
    KJ_IF_MAYBE (o, oldest) {
      auto key = kj::str(o->key);
      lines.erase(key);
    } else {
      fail(ErrorKind::kResourceExhausted, kj::str("this node is connected to ", limits.targets,
                                                  " other nodes, which is the limit"));
    }
  }
}

kj::Own<Fleet::Line> Fleet::lineTo(const Ip& address, kj::StringPtr client) {
  auto key = address.toString();
  auto known = lines.find(key);
  bool uses =
      known.map([&](kj::Own<Line>& line) { return line->isUsedBy(client); }).orDefault(false);
  if (!uses && countOf(tally->clients, client) >= limits.perClient) {
    fail(ErrorKind::kResourceExhausted, kj::str(client, " uses connections to ", limits.perClient,
                                                " other nodes, which is the limit for one client"));
  }
  KJ_IF_MAYBE (line, known) {
    return kj::addRef(**line);
  }
  makeRoom();
  auto line = kj::refcounted<Line>(timer, limits, kj::addRef(*tally));
  auto result = kj::addRef(*line);
  lines.insert(kj::mv(key), kj::mv(line));
  return result;
}

kj::Promise<rpc::Node::Client> Fleet::node(Ip address, Client client) {
  auto line = lineTo(address, client.name);
  auto lease = kj::heap<Lease>(kj::addRef(*line), client.name);
  co_await line->up(dial, address);

  auto withRoles = line->remote().withRolesRequest();
  auto list = withRoles.initRoles(client.roles.size());
  for (size_t i = 0; i < client.roles.size(); ++i) list.set(i, client.roles[i]);
  auto caller = withRoles.initCaller();
  caller.setName(client.name);
  caller.setAddress(client.address);
  auto node = withRoles.send().getCluster().nodeRequest().send().getNode();
  auto unproven = line->whyUnproven();
  node = capnp::membrane(kj::mv(node), kj::refcounted<KeepInUse>(kj::mv(lease)));
  KJ_IF_MAYBE (why, unproven) {
    co_return joiningNode(kj::mv(node), address.toString(), kj::mv(*why));
  }
  co_return kj::mv(node);
}

}  // namespace talos::apid
