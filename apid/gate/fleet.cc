#include "apid/gate/fleet.h"

#include <capnp/membrane.h>

#include "common/base/error.h"

namespace talos::apid {

// One target. Lives in the map, and while it has leases.
class Fleet::Line final : public kj::Refcounted {
 public:
  Line(kj::Timer& timer, const Limits& limits)
      : timer(timer), limits(limits), lastUse(timer.now()) {}

  bool inUse() const { return leases > 0 || dialling; }
  kj::TimePoint lastUsed() const { return lastUse; }

  void take() {
    ++leases;
    expiry = kj::READY_NOW;
  }
  void giveBack() {
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
                          dialled = timer.now();
                          unproven = kj::mv(fresh.unproven);
                          cluster = fresh.connection->bootstrap().castAs<rpc::Cluster>();
                          connection = kj::mv(fresh.connection);
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
    connection = nullptr;
  }

 private:
  kj::Timer& timer;
  const Limits limits;
  kj::TimePoint lastUse, dialled = kj::origin<kj::TimePoint>();
  unsigned leases = 0;
  bool dialling = false;
  kj::Maybe<kj::Own<Connection>> connection;
  kj::Maybe<kj::String> unproven;
  rpc::Cluster::Client cluster = nullptr;
  kj::ForkedPromise<void> attempt = nullptr;
  kj::Promise<void> expiry = kj::READY_NOW;
};

// Says that a line is in use, for as long as it exists.
class Fleet::Lease {
 public:
  explicit Lease(kj::Own<Line> line) : line(kj::mv(line)) { this->line->take(); }
  ~Lease() noexcept(false) { line->giveBack(); }
  KJ_DISALLOW_COPY_AND_MOVE(Lease);

 private:
  kj::Own<Line> line;
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
    : timer(timer), dial(kj::mv(dial)), limits(limits) {}
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

kj::Own<Fleet::Line> Fleet::lineTo(const Ip& address) {
  auto key = address.toString();
  KJ_IF_MAYBE (line, lines.find(key)) {
    return kj::addRef(**line);
  }
  makeRoom();
  auto line = kj::refcounted<Line>(timer, limits);
  auto result = kj::addRef(*line);
  lines.insert(kj::mv(key), kj::mv(line));
  return result;
}

kj::Promise<rpc::Node::Client> Fleet::node(Ip address, Client client) {
  auto line = lineTo(address);
  auto lease = kj::heap<Lease>(kj::addRef(*line));
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
