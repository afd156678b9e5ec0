// Behaviour of test-membership-bed.h: lives of etcd-supervisor, machined's handling of the service,
// and etcd's at its start.
#pragma once

#include "common/text/texts.h"
#include "etcd-supervisor/membership/test-membership-bed.h"
#include "etcd-supervisor/membership/test-routed-etcd.h"

namespace talos::supervisor {

// One life of etcd-supervisor, with its dependencies. After its last write it does nothing.
class Process final : public Files,
                      public MembershipStore,
                      public Peers,
                      public EtcdEndpoints,
                      public MemberRoutes,
                      public kj::Clock {
 public:
  Process(Testbed& bed, Node& node)
      : bed(bed),
        node(node),
        reconciler(Dependencies{.timer = bed.timer,
                                .clock = *this,
                                .chance = [&bed] { return bed.chance(); },
                                .files = *this,
                                .store = *this,
                                .peers = *this,
                                .endpoints = *this,
                                .routes = *this,
                                .recovered = KJ_BIND_METHOD(*this, recovered)}) {
    runs = reconciler.run().eagerlyEvaluate([&](kj::Exception&& e) {
      // A full disk ends it: the next process tries again.
      bool full = messageOf(e) == kFull;
      if (!dead && !full) bed.never(kj::str(node.config.name, " has failed: ", messageOf(e)));
      dead = true;
    });
  }

  ~Process() noexcept(false) {
    dead = true;
    canceler.cancel("etcd-supervisor died");
  }

  Testbed& bed;
  Node& node;
  bool dead = false;

  kj::Promise<void> recovered(etcd::Etcd&) {
    if (bed.followUpFails) fail(ErrorKind::kUnavailable, "etcd: fault");
    if (node.disk.cluster->members.size() > 1) bed.never("a node joined what is still recovered");
    mayDie();
    ++bed.followedUp;
    return kj::READY_NOW;
  }

  // --- Files ---
  Data data() override {
    requireAlive();
    return node.disk.data;
  }
  uint64_t freeBytes() override { return node.freeBytes; }
  Intent load() override {
    requireAlive();
    return node.disk.intent.clone();
  }
  void store(const Intent& intent) override {
    requireAlive();
    mayDie();
    mayFail();
    node.disk.intent = intent.clone();
    mayFail();
    if (node.failsLate) fail(ErrorKind::kInternal, kFull);
    mayDie();
  }
  void removeData() override {
    requireAlive();
    if (node.running) bed.never("data was removed under a running etcd");
    if (bed.isMember(node)) bed.never("the data of a member was removed");
    node.disk.data = Data::kPartial;
    mayDie();
    node.disk.data = Data::kNone;
    node.disk.cluster = nullptr;
  }
  kj::StringPtr snapshot() override { return "/snapshot"_kj; }
  void removeSnapshot() override { node.disk.snapshot = false; }

  // --- MembershipStore ---
  kj::Maybe<const Config&> config() override { return node.config; }
  bool running() override { return node.running; }
  kj::Maybe<const Wanted&> wanted() override {
    KJ_IF_MAYBE (wanted, node.wanted) return *wanted;
    return nullptr;
  }
  kj::Promise<void> want(Wanted next) override {
    co_await bed.delay(5 * kj::MILLISECONDS);
    if (dead) co_await kj::Promise<void>(kj::NEVER_DONE);
    if (node.storeFails) fail(ErrorKind::kUnavailable, "machined is starting");
    node.wanted = kj::mv(next);
    node.changed.raise();
    reconciler.wake();
  }
  kj::Promise<void> publish(const Status& status, kj::ArrayPtr<const etcd::Member>) override {
    node.status.phase = status.phase;
    node.message = status.message.cStr();
    followPhase();
    return kj::READY_NOW;
  }

  kj::Vector<kj::String> sharedAddresses() override {
    kj::Vector<kj::String> addresses;
    if (node.holds) addresses.add(kj::str(kSharedAddress));
    return addresses;
  }

  kj::Vector<kj::String> kubernetesNodes() override {
    kj::Vector<kj::String> addresses;
    for (auto& one : node.kubernetesNodes) addresses.add(kj::str(one.c_str()));
    return addresses;
  }

  kj::Vector<Prefix> subnets() override {
    kj::Vector<Prefix> all;
    all.add(Prefix{Ip::require(node.config.addresses[0]), 27});
    return all;
  }

  // --- Peers ---
  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) override {
    return kj::arr(kj::str(host));
  }
  kj::Promise<BootstrapState> bootstrapState(kj::StringPtr address, kj::StringPtr asker) override {
    auto from = kj::str(asker);
    auto& other = *co_await arrive(kj::str(address));
    auto said = other.process->reconciler.bootstrapState(from);
    co_await answer();
    if (bed.slow.contains(&other)) co_await bed.timer.afterDelay(bed.slow.at(&other));
    co_return kj::mv(said);
  }
  kj::Promise<kj::Array<etcd::Member>> members(kj::StringPtr address) override {
    auto& other = *co_await arrive(kj::str(address));
    auto observed = co_await other.process->canceler.wrap(other.process->reconciler.look());
    co_await answer();
    co_return KJ_MAP(one, observed.members) {
      return clone(one.member);
    };
  }

  // --- EtcdEndpoints ---
  etcd::Etcd& at(kj::StringPtr address) override {
    auto& endpoint = endpoints[address.cStr()];
    if (endpoint.get() == nullptr) endpoint = kj::heap<RoutedEtcd>(*this, address);
    return *endpoint;
  }

  // --- MemberRoutes ---
  kj::Promise<kj::Array<FoundMember>> find(kj::Vector<kj::String> places) override {
    co_await bed.delay(2 * kj::SECONDS);
    kj::Vector<FoundMember> found;
    for (auto& place : places) {
      auto* other = bed.at(place);
      bool shows = other != nullptr && other != &node && bed.reach(node, *other) &&
                   other->running && other->disk.data == Data::kWhole;
      if (shows) found.add(other->certificate());
    }
    co_return found.releaseAsArray();
  }
  void lead(kj::Vector<MemberRoute> routes) override {
    node.ways.clear();
    for (auto& route : routes) node.ways[route.host.cStr()] = route.addresses[0].cStr();
    node.changed.raise();
  }

  // --- Clock ---
  kj::Date now() const override {
    return kj::UNIX_EPOCH + 20000 * kj::DAYS + (bed.timer.now() - kj::origin<kj::TimePoint>());
  }

  kj::Canceler canceler;  // for promises that others wait for
  std::map<std::string, kj::Own<RoutedEtcd>> endpoints;
  MembershipReconciler reconciler;
  kj::Promise<void> runs = nullptr;
  kj::Own<void> turn;  // turn to restart etcd that machined holds

 private:
  static constexpr kj::StringPtr kFull = "the disk is full"_kj;

  // Takes and gives up the shared address as vipd does.
  void followPhase() {
    if (node.status.phase == "member") node.holds = true;
    bool goes = node.status.phase == "leaving" || node.status.phase == "left";
    if (!node.holds || !goes || node.vipdHangs) return;
    node.vipd = bed.delay(500 * kj::MILLISECONDS)
                    .then([&node = node] {
                      node.holds = false;
                      node.wake();
                    })
                    .eagerlyEvaluate(nullptr);
  }

  void requireAlive() {
    if (dead) fail(ErrorKind::kInternal, "dead");
  }
  void mayDie() {
    if (bed.chance() >= bed.crashes) return;
    dead = true;
    fail(ErrorKind::kInternal, "died");
  }
  void mayFail() {
    if (bed.chance() < bed.failures) fail(ErrorKind::kInternal, kFull);
  }
  kj::Promise<Node*> arrive(kj::String address) {
    co_await bed.delay(50 * kj::MILLISECONDS);
    if (dead || bed.chance() < bed.losses) {
      co_await bed.timer.afterDelay(5 * kj::SECONDS);
      fail(ErrorKind::kUnavailable, "no answer within 5 s");
    }
    auto* other = bed.at(address);
    bool up = other != nullptr && bed.reach(node, *other) && other->process.get() != nullptr &&
              !other->process->dead;
    if (!up) fail(ErrorKind::kUnavailable, "connection refused");
    co_return other;
  }
  kj::Promise<void> answer() {
    if (bed.chance() < bed.losses) {
      co_await bed.timer.afterDelay(5 * kj::SECONDS);
      fail(ErrorKind::kUnavailable, "no answer within 5 s");
    }
    co_await bed.delay(200 * kj::MILLISECONDS);
  }
};

// --- inline ---

inline bool same(const kj::Vector<Argument>& a, const kj::Vector<Argument>& b) {
  if (a.size() != b.size()) return false;
  for (auto i : kj::indices(a)) {
    if (!(a[i] == b[i])) return false;
  }
  return true;
}

inline Node::Node(Testbed& bed, unsigned number) : bed(bed) {
  config.name = kj::str("n", number);
  config.addresses.add(kj::str("10.0.0.", number));
}

inline bool Node::serves() const {
  return on && running && disk.data == Data::kWhole &&
         disk.cluster->members.contains(disk.member) && disk.cluster->alive(disk.member);
}

inline FoundMember Node::certificate() const {
  FoundMember own;
  own.address = address();
  own.names.add(kj::str(config.name));
  own.addresses.add(address());
  KJ_IF_MAYBE (spec, wanted) {
    for (auto& former : spec->formerAddresses) own.addresses.add(kj::str(former));
  }
  return own;
}

inline void Node::wake() {
  if (process.get() != nullptr && !process->dead) process->reconciler.wake();
}

template <typename T, typename F>
kj::Promise<T> RoutedEtcd::route(F&& call) {
  auto& bed = process.bed;
  if (process.dead) return kj::NEVER_DONE;
  auto* node = address == kLocal ? &process.node : bed.at(address);
  if (node == nullptr || !bed.reach(process.node, *node) || !node->serves()) {
    return error(ErrorKind::kUnavailable, kj::str(ownName, ": Connection refused"));
  }
  models.push_back(kj::heap<etcd::ModelEtcd>(*node->disk.cluster, node->disk.member));
  auto& model = *models.back();
  model.faults.answersLost = bed.chance() < bed.losses;
  model.faults.effectAfter = int64_t(2 + bed.chance() * 20) * kj::MILLISECONDS;
  return call(model);
}

inline kj::Promise<etcd::RangeResult> RoutedEtcd::range(etcd::Range r) {
  auto* node = process.bed.at(address);
  if (node != nullptr && node->cutOff && !r.serializable) {
    return error(ErrorKind::kUnavailable, kj::str(ownName, ": etcdserver: no leader"));
  }
  return route<etcd::RangeResult>([&](auto& e) { return e.range(kj::mv(r)); });
}

inline kj::Promise<kj::Array<etcd::Member>> RoutedEtcd::removeMember(etcd::MemberId id) {
  auto& node = process.node;
  if (node.disk.member == id && node.holds && !node.vipdHangs && process.bed.isMember(node)) {
    process.bed.never(kj::str(node.config.name, " leaves and holds a shared address"));
  }
  auto* asked = address == kLocal ? &node : process.bed.at(address);
  bool itself = asked != nullptr && asked->disk.member == id;
  auto left = co_await changing(
      route<kj::Array<etcd::Member>>([&](auto& e) { return e.removeMember(id); }));
  if (itself) {  // a removed member ends, and answers nothing
    co_await process.bed.timer.afterDelay(30 * kj::SECONDS);
    fail(ErrorKind::kUnavailable, kj::str(ownName, ": no answer"));
  }
  co_return kj::mv(left);
}

template <typename T>
kj::Promise<T> RoutedEtcd::changing(kj::Promise<T> change) {
  auto& bed = process.bed;
  bool before = bed.quorum();
  auto deaths = bed.deaths;
  auto result = co_await change;
  if (before && !bed.quorum() && bed.deaths == deaths) {
    bed.never("a change of members has cost the quorum");
  }
  co_return kj::mv(result);
}

// Returns true if the node's etcd reaches a quorum. A member that the others know at the node's
// address is taken to reach them.
inline bool Testbed::reachesQuorum(Node& node, bool proxied) {
  auto& members = node.disk.cluster->members;
  if (hostOf(members.at(node.disk.member).member.peerUrls[0]) == node.address()) return true;
  unsigned voters = 0, reached = 0;
  for (auto& [id, state] : members) {
    if (state.member.learner) continue;
    ++voters;
    auto host = hostOf(state.member.peerUrls[0]);
    auto way = node.ways.find(host.cStr());
    bool led = proxied && way != node.ways.end();
    auto* other = at(led ? way->second.c_str() : host.cStr());
    bool answers = other != nullptr && other->running && other->disk.member == id &&
                   reach(node, *other) && contains(other->certificate().addresses, host);
    if (id == node.disk.member || answers) ++reached;
  }
  return reached > voters / 2;
}

inline void Testbed::powerOn(Node& node) {
  node.on = true;
  node.wanted = nullptr;
  node.ways.clear();
  node.running = node.killed = node.holds = false;
  node.machined = machined(node).eagerlyEvaluate(
      [this](kj::Exception&& e) { never(kj::str("machined failed: ", e)); });
  start(node);
}

inline void Testbed::powerOff(Node& node) {
  if (!node.on) return;
  node.on = false;
  node.process = nullptr;
  node.machined = nullptr;
  node.vipd = nullptr;
  ++deaths;
  if (isMember(node)) node.disk.cluster->kill(node.disk.member);
  node.running = false;
}

inline void Testbed::start(Node& node) {
  node.process = kj::heap<Process>(*this, node);
}

inline void Testbed::crash(Node& node) {
  if (node.process.get() != nullptr) node.process->dead = true;
}

inline void Testbed::bury() {
  for (auto& node : nodes) {
    if (node->process.get() == nullptr || !node->process->dead) continue;
    node->process = nullptr;
    tasks.add(delay(2 * kj::SECONDS).then([this, &node = *node] {
      if (node.on && node.process.get() == nullptr) start(node);
    }));
  }
}

template <typename T>
void Testbed::ask(Node& node, kj::StringPtr what,
                  kj::Function<kj::Promise<T>(MembershipReconciler&)> call) {
  if (!node.on || node.process.get() == nullptr || node.process->dead) return;
  ++pending;
  auto note = [this, text = std::string(kj::str(node.config.name, " ", what).cStr())](
                  kj::StringPtr outcome) {
    --pending;
    outcomes.push_back(text + ": " + outcome.cStr());
  };
  auto promise = kj::evalNow([&] { return call(node.process->reconciler); });
  kj::Promise<void> ended = nullptr;
  if constexpr (kj::isSameType<T, void>()) {
    ended = kj::mv(promise);
  } else {
    ended = promise.ignoreResult();
  }
  tasks.add(
      node.process->canceler.wrap(kj::mv(ended))
          .then([note]() { note("done"); }, [note](kj::Exception&& e) { note(messageOf(e)); }));
}

// Gives the turn back if etcd was started with the desired spec.
inline void Testbed::giveTurnBack(Node& node, bool asWanted) {
  if (!asWanted) return;
  reruns.erase(&node);
  if (node.process.get() != nullptr) node.process->turn = nullptr;
}

inline kj::Promise<bool> Testbed::hasTurn(Node& node) {
  if (node.process.get() == nullptr || node.process->dead) co_return false;
  auto& process = *node.process;
  bool has = false;
  co_await process.canceler.wrap(process.reconciler.rerun())
      .then(
          [&](kj::Own<void>&& turn) {
            process.turn = kj::mv(turn);
            has = true;
          },
          [](kj::Exception&&) {});
  if (!has) co_await timer.afterDelay(5 * kj::SECONDS);
  co_return has;
}

// Reports that the snapshot cannot be unpacked.
inline kj::Promise<void> Testbed::reportFailure(Node& node) {
  if (node.process.get() == nullptr || node.process->dead) co_return;
  auto& process = *node.process;
  co_await process.canceler.wrap(process.reconciler.recoveryFailed("etcdutl: fault"))
      .catch_([](kj::Exception&&) {});
}

// Lets a member that was started answer as soon as its etcd reaches a quorum.
inline void Testbed::reviveIfReaching(Node& node, const Wanted& by) {
  auto& disk = node.disk;
  bool answers = disk.data != Data::kWhole || disk.cluster->alive(disk.member);
  if (answers || !reachesQuorum(node, by.proxy.size() > 0)) return;
  disk.cluster->revive(disk.member);
  node.wake();
}

// Runs the service as machined does: reads the spec before each start.
inline kj::Promise<void> Testbed::machined(Node& node) {
  for (;;) {
    auto changed = node.changed.next();
    bool waits = true;
    KJ_IF_MAYBE (wanted, node.wanted) waits = wanted->waitsFor.size() > 0;
    if (waits) {
      co_await changed;
      continue;
    }
    co_await delay(1 * kj::SECONDS);
    KJ_IF_MAYBE (wanted, node.wanted) {
      if (wanted->waitsFor.size() > 0) continue;
      Wanted by;
      by.recoverFrom = kj::str(wanted->recoverFrom);
      for (auto& a : wanted->arguments)
        by.arguments.add(Argument{kj::str(a.key), kj::str(a.value)});
      by.image = kj::str(wanted->image);
      by.proxy = kj::str(wanted->proxy);
      if (by.recoverFrom.size() > 0 && node.disk.data == Data::kNone && unpackFails) {
        co_await reportFailure(node);
        co_await delay(5 * kj::SECONDS);
        continue;
      }
      node.runsBy.clear();
      for (auto& a : by.arguments) node.runsBy.add(Argument{kj::str(a.key), kj::str(a.value)});
      node.running = true;
      node.killed = false;
      node.wake();
      if (co_await startEtcd(node, by)) {
        for (;;) {
          auto next = node.changed.next();
          bool goes = node.killed || !isMember(node);
          auto& now = KJ_ASSERT_NONNULL(node.wanted);
          if (goes || now.waitsFor.size() > 0) break;
          reviveIfReaching(node, by);
          bool asWanted = same(now.arguments, by.arguments) && now.proxy == by.proxy;
          giveTurnBack(node, asWanted);
          if (!asWanted && co_await hasTurn(node)) {
            reruns.insert(&node);
            break;
          }
          co_await next.exclusiveJoin(timer.afterDelay(1 * kj::SECONDS));
        }
      }
      co_await delay(500 * kj::MILLISECONDS);
      ++deaths;
      if (isMember(node)) node.disk.cluster->kill(node.disk.member);
      node.running = false;
      node.wake();
      co_await delay(3 * kj::SECONDS);
    }
  }
}

inline kj::Promise<bool> Testbed::startEtcd(Node& node, const Wanted& wanted) {
  auto& disk = node.disk;
  std::map<std::string, std::string> arguments;
  for (auto& a : wanted.arguments) arguments[a.key.cStr()] = a.value.cStr();
  co_await delay(300 * kj::MILLISECONDS);
  if (node.freeBytes < 64 << 20) co_return false;
  if (disk.data == Data::kWhole) {
    if (!isMember(node)) co_return false;  // "the member has been permanently removed"
    auto& clientUrls = disk.cluster->members.at(disk.member).member.clientUrls;
    clientUrls = kj::arr(kj::str(arguments["advertise-client-urls"].c_str()));
    reviveIfReaching(node, wanted);
    node.wake();
    co_return true;
  }
  auto peerUrl = urlOf(node.address(), 2380), clientUrl = urlOf(node.address(), 2379);
  auto state = arguments["initial-cluster-state"];
  if (state != "existing") {
    if (state != "new") never("etcd was started without data and without being told how");
    disk.data = Data::kPartial;
    co_await delay(50 * kj::MILLISECONDS);
    if (!clusters.empty()) never(kj::str(node.config.name, " has made a second cluster"));
    etcd::ModelCluster::Options options;
    options.minTtl = 2 * kj::SECONDS;
    clusters.push_back(
        kj::heap<etcd::ModelCluster>(timer, node.config.name, peerUrl, clientUrl, options));
    disk.cluster = clusters.back().get();
    disk.member = disk.cluster->leader;
    disk.data = Data::kWhole;
    node.wake();
    co_return true;
  }
  for (auto& cluster : clusters) {
    for (auto& [id, member] : cluster->members) {
      if (member.member.peerUrls[0] != peerUrl || member.member.name.size() > 0) continue;
      // etcd checks that its list of members is the cluster's.
      size_t urls = 1, at = 0;
      auto& list = arguments["initial-cluster"];
      while ((at = list.find(',', at)) != std::string::npos) ++urls, ++at;
      bool reachable = false;
      for (auto& other : nodes) {
        reachable |= other.get() != &node && other->serves() && reach(node, *other);
      }
      if (urls != cluster->members.size() || !reachable) co_return false;
      disk.data = Data::kPartial;
      auto own = id;
      co_await delay(50 * kj::MILLISECONDS);
      if (!cluster->members.contains(own)) co_return false;
      disk.data = Data::kWhole;
      disk.cluster = cluster.get();
      disk.member = own;
      cluster->start(own, node.config.name, clientUrl);
      cluster->members.at(own).inSync = false;
      tasks.add(delay(5 * kj::SECONDS).then([&cluster, own] {
        auto found = cluster->members.find(own);
        if (found != cluster->members.end()) found->second.inSync = true;
      }));
      node.wake();
      co_return true;
    }
  }
  co_return false;
}

}  // namespace talos::supervisor
