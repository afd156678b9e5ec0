// For tests: nodes with disks, a machined that runs etcd as it is told, model clusters, a network
// that fails, and etcd-supervisors that may die at any write. Time and chance are the test's.
//
// What must never happen is noted in `violations`: a second cluster, an etcd that is started
// without its data, data that goes while it is needed, a quorum lost by a change of members, a
// member that leaves while its node holds a shared address.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "etcd-supervisor/membership/keeper.h"
#include "etcd-supervisor/membership/test-routed-etcd.h"

namespace talos::supervisor {

// What supervisors log while thousands of schedules run is of no interest.
class Quiet {
 public:
  Quiet() : saved(dup(2)) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, 2);
    close(null);
  }
  ~Quiet() {
    dup2(saved, 2);
    close(saved);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Quiet);

 private:
  int saved;
};

class World;

struct Disk {
  Data data = Data::kNone;
  etcd::ModelCluster* cluster = nullptr;  // of the data
  etcd::MemberId member = 0;
  Intent intent;
  bool snapshot = false;
};

class Process;

struct Node {
  explicit Node(World& world, unsigned number);
  World& world;
  Config config;
  Disk disk;
  // Of this boot.
  bool on = false;
  kj::Maybe<Wanted> wanted;  // machined's store
  bool running = false;      // service etcd
  bool killed = false;       // etcd's process, by the test
  bool cutOff = false;       // etcd from the other members only
  bool failsLate = false;    // writes take effect and are told to have failed
  bool holds = false;        // vipd a shared address: whenever the node is a member
  bool vipdHangs = false;    // and keeps it
  kj::Promise<void> vipd = nullptr;
  Signal changed;  // for machined
  kj::Promise<void> machined = nullptr;
  kj::Own<Process> process;  // etcd-supervisor; none: it is restarted
  Status status;
  std::string message;

  kj::String address() const { return kj::str(config.addresses[0]); }
  // etcd answers here.
  bool serves() const;
  void wake();
};

class World : private kj::TaskSet::ErrorHandler {
 public:
  explicit World(unsigned seed, unsigned count) : random(seed), tasks(*this) {
    for (unsigned i = 1; i <= count; ++i) nodes.push_back(kj::heap<Node>(*this, i));
    for (auto& node : nodes) {
      for (auto& other : nodes) {
        if (other.get() != node.get()) node->config.peers.add(other->address());
      }
    }
  }
  ~World() noexcept {
    for (auto& node : nodes) powerOff(*node);
  }

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::mt19937 random;
  std::vector<kj::Own<etcd::ModelCluster>> clusters;
  std::vector<kj::Own<Node>> nodes;
  std::vector<std::string> violations;
  std::set<std::pair<const Node*, const Node*>> cuts;  // both ways
  double crashes = 0;                                  // how likely a write is the last
  double losses = 0;                                   // how likely an answer is lost
  double failures = 0;                                 // how likely a write fails
  std::map<const Node*, kj::Duration> slow;            // answers of these take longer
  unsigned deaths = 0;                                 // of etcds, counted
  unsigned pending = 0;                                // operations that have not ended
  std::vector<std::string> outcomes;

  double chance() { return std::uniform_real_distribution<double>(0, 1)(random); }
  unsigned pick(unsigned count) {
    return std::uniform_int_distribution<unsigned>(0, count - 1)(random);
  }
  kj::Promise<void> delay(kj::Duration most) {
    return timer.afterDelay(int64_t(chance() * double(most / kj::MICROSECONDS)) * kj::MICROSECONDS);
  }
  bool reach(const Node& a, const Node& b) const {
    return &a == &b || (a.on && b.on && !cuts.contains({&a, &b}) && !cuts.contains({&b, &a}));
  }
  Node* at(kj::StringPtr address) {
    for (auto& node : nodes) {
      if (node->config.addresses[0] == address) return node.get();
    }
    return nullptr;
  }
  void never(kj::StringPtr what) { violations.push_back(what.cStr()); }

  void powerOn(Node& node);
  void powerOff(Node& node);
  void reinstall(Node& node) {
    powerOff(node);
    node.disk = Disk();
    powerOn(node);
  }
  void crash(Node& node);

  // An operator's call at that node: its outcome is noted.
  template <typename T>
  void ask(Node& node, kj::StringPtr what, kj::Function<kj::Promise<T>(Keeper&)> call);

  // Lets time pass, event by event; processes that died go in between.
  void pass(kj::Duration by) {
    auto end = timer.now() + by;
    for (;;) {
      scope.poll();
      bury();
      auto next = timer.nextEvent().orDefault(end);
      if (next >= end) break;
      timer.advanceTo(next);
    }
    timer.advanceTo(end);
    scope.poll();
    bury();
  }
  template <typename F>
  bool eventually(kj::Duration patience, F&& condition) {
    auto end = timer.now() + patience;
    while (!condition()) {
      if (timer.now() >= end) return false;
      pass(1 * kj::SECONDS);
    }
    return true;
  }

  // --- of the one cluster ---

  bool quorum() const {
    if (clusters.empty()) return false;
    unsigned voters = 0, alive = 0;
    for (auto& [id, state] : clusters[0]->members) {
      if (state.member.learner) continue;
      ++voters;
      if (state.alive) ++alive;
    }
    return alive > voters / 2;
  }
  // There would be one without this node.
  bool quorumWithout(const Node& node) const {
    if (clusters.empty()) return false;
    unsigned voters = 0, alive = 0;
    for (auto& [id, state] : clusters[0]->members) {
      if (state.member.learner) continue;
      ++voters;
      if (state.alive && !(id == node.disk.member && node.disk.data == Data::kWhole)) ++alive;
    }
    return alive > voters / 2;
  }
  bool isMember(const Node& node) const {
    return node.disk.data == Data::kWhole && node.disk.cluster->members.contains(node.disk.member);
  }
  bool votes(const Node& node) const {
    return isMember(node) && node.serves() &&
           !node.disk.cluster->members.at(node.disk.member).member.learner;
  }

 private:
  kj::TaskSet tasks;

  void taskFailed(kj::Exception&& e) override { never(kj::str("a task failed: ", e)); }
  void start(Node& node);
  void bury();
  kj::Promise<void> machined(Node& node);
  kj::Promise<bool> startEtcd(Node& node, const Wanted& wanted);
};

// One life of etcd-supervisor, with its edges. After its last write it does nothing any more.
class Process final : public Files, public Board, public Peers, public Doors, public kj::Clock {
 public:
  Process(World& world, Node& node)
      : world(world),
        node(node),
        keeper(Edges{world.timer, *this, [&world] { return world.chance(); }, *this, *this, *this,
                     *this}) {
    runs = keeper.run().eagerlyEvaluate([&](kj::Exception&& e) {
      // A disk that is full ends it: the next one tries again.
      bool full = messageOf(e) == kFull;
      if (!dead && !full) world.never(kj::str(node.config.name, " has failed: ", messageOf(e)));
      dead = true;
    });
  }

  ~Process() noexcept(false) {
    dead = true;
    canceler.cancel("etcd-supervisor died");
  }

  World& world;
  Node& node;
  bool dead = false;

  // --- Files ---
  Data data() override {
    requireAlive();
    return node.disk.data;
  }
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
    if (node.running) world.never("data was removed under a running etcd");
    if (world.isMember(node)) world.never("the data of a member was removed");
    node.disk.data = Data::kPartial;
    mayDie();
    node.disk.data = Data::kNone;
    node.disk.cluster = nullptr;
  }
  kj::StringPtr snapshot() override { return "/snapshot"_kj; }
  void removeSnapshot() override { node.disk.snapshot = false; }

  // --- Board ---
  kj::Maybe<const Config&> config() override { return node.config; }
  bool running() override { return node.running; }
  kj::Maybe<const Wanted&> wanted() override {
    KJ_IF_MAYBE (wanted, node.wanted) return *wanted;
    return nullptr;
  }
  kj::Promise<void> want(Wanted next) override {
    co_await world.delay(5 * kj::MILLISECONDS);
    if (dead) co_await kj::Promise<void>(kj::NEVER_DONE);
    node.wanted = kj::mv(next);
    node.changed.raise();
    keeper.wake();
  }
  kj::Promise<void> tell(const Status& status, kj::ArrayPtr<const etcd::Member>) override {
    node.status.phase = status.phase;
    node.message = status.message.cStr();
    followPhase();
    return kj::READY_NOW;
  }

  kj::Vector<kj::String> sharedAddresses() override {
    kj::Vector<kj::String> addresses;
    if (node.holds) addresses.add(kj::str("10.0.0.100"));
    return addresses;
  }

  // --- Peers ---
  kj::Promise<kj::Array<kj::String>> resolve(kj::StringPtr host) override {
    return kj::arr(kj::str(host));
  }
  kj::Promise<Standing> standing(kj::StringPtr address) override {
    auto& other = *world.at(address);
    co_await arrive(other);
    auto said = other.process->keeper.standing();
    co_await answer();
    if (world.slow.contains(&other)) co_await world.timer.afterDelay(world.slow.at(&other));
    co_return kj::mv(said);
  }
  kj::Promise<kj::Array<etcd::Member>> members(kj::StringPtr address) override {
    auto& other = *world.at(address);
    co_await arrive(other);
    auto seen = co_await other.process->canceler.wrap(other.process->keeper.look());
    co_await answer();
    co_return KJ_MAP(one, seen.members) {
      return clone(one.member);
    };
  }

  // --- Doors ---
  etcd::Etcd& at(kj::StringPtr address) override {
    auto& door = doors[address.cStr()];
    if (door.get() == nullptr) door = kj::heap<RoutedEtcd>(*this, address);
    return *door;
  }

  // --- Clock ---
  kj::Date now() const override {
    return kj::UNIX_EPOCH + 20000 * kj::DAYS + (world.timer.now() - kj::origin<kj::TimePoint>());
  }

  kj::Canceler canceler;  // of what others wait for
  std::map<std::string, kj::Own<RoutedEtcd>> doors;
  Keeper keeper;
  kj::Promise<void> runs = nullptr;

 private:
  static constexpr kj::StringPtr kFull = "the disk is full"_kj;

  // What vipd does.
  void followPhase() {
    if (node.status.phase == "member") node.holds = true;
    bool goes = node.status.phase == "leaving" || node.status.phase == "left";
    if (!node.holds || !goes || node.vipdHangs) return;
    node.vipd = world.delay(500 * kj::MILLISECONDS)
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
    if (world.chance() >= world.crashes) return;
    dead = true;
    fail(ErrorKind::kInternal, "died");
  }
  void mayFail() {
    if (world.chance() < world.failures) fail(ErrorKind::kInternal, kFull);
  }
  kj::Promise<void> arrive(Node& other) {
    co_await world.delay(50 * kj::MILLISECONDS);
    if (dead || world.chance() < world.losses) {
      co_await world.timer.afterDelay(5 * kj::SECONDS);
      fail(ErrorKind::kUnavailable, "no answer within 5 s");
    }
    bool up = world.reach(node, other) && other.process.get() != nullptr && !other.process->dead;
    if (!up) fail(ErrorKind::kUnavailable, "connection refused");
  }
  kj::Promise<void> answer() {
    if (world.chance() < world.losses) {
      co_await world.timer.afterDelay(5 * kj::SECONDS);
      fail(ErrorKind::kUnavailable, "no answer within 5 s");
    }
    co_await world.delay(200 * kj::MILLISECONDS);
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

inline Node::Node(World& world, unsigned number) : world(world) {
  config.name = kj::str("n", number);
  config.addresses.add(kj::str("10.0.0.", number));
}

inline bool Node::serves() const {
  return on && running && disk.data == Data::kWhole &&
         disk.cluster->members.contains(disk.member) && disk.cluster->alive(disk.member);
}

inline void Node::wake() {
  if (process.get() != nullptr && !process->dead) process->keeper.wake();
}

template <typename T, typename F>
kj::Promise<T> RoutedEtcd::route(F&& call) {
  auto& world = process.world;
  if (process.dead) return kj::NEVER_DONE;
  auto* node = address == kLocal ? &process.node : world.at(address);
  if (node == nullptr || !world.reach(process.node, *node) || !node->serves()) {
    return error(ErrorKind::kUnavailable, kj::str(ownName, ": Connection refused"));
  }
  models.push_back(kj::heap<etcd::ModelEtcd>(*node->disk.cluster, node->disk.member));
  auto& model = *models.back();
  model.faults.answersLost = world.chance() < world.losses;
  model.faults.effectAfter = int64_t(2 + world.chance() * 20) * kj::MILLISECONDS;
  return call(model);
}

inline kj::Promise<etcd::RangeResult> RoutedEtcd::range(etcd::Range r) {
  auto* node = process.world.at(address);
  if (node != nullptr && node->cutOff && !r.serializable) {
    return error(ErrorKind::kUnavailable, kj::str(ownName, ": etcdserver: no leader"));
  }
  return route<etcd::RangeResult>([&](auto& e) { return e.range(kj::mv(r)); });
}

inline kj::Promise<kj::Array<etcd::Member>> RoutedEtcd::removeMember(etcd::MemberId id) {
  auto& node = process.node;
  if (node.disk.member == id && node.holds && !node.vipdHangs && process.world.isMember(node)) {
    process.world.never(kj::str(node.config.name, " leaves and holds a shared address"));
  }
  return changing(route<kj::Array<etcd::Member>>([&](auto& e) { return e.removeMember(id); }));
}

template <typename T>
kj::Promise<T> RoutedEtcd::changing(kj::Promise<T> change) {
  auto& world = process.world;
  bool before = world.quorum();
  auto deaths = world.deaths;
  auto result = co_await change;
  if (before && !world.quorum() && world.deaths == deaths) {
    world.never("a change of members has cost the quorum");
  }
  co_return kj::mv(result);
}

inline void World::powerOn(Node& node) {
  node.on = true;
  node.wanted = nullptr;
  node.running = node.killed = node.holds = false;
  node.machined = machined(node).eagerlyEvaluate(
      [this](kj::Exception&& e) { never(kj::str("machined failed: ", e)); });
  start(node);
}

inline void World::powerOff(Node& node) {
  if (!node.on) return;
  node.on = false;
  node.process = nullptr;
  node.machined = nullptr;
  node.vipd = nullptr;
  ++deaths;
  if (isMember(node)) node.disk.cluster->kill(node.disk.member);
  node.running = false;
}

inline void World::start(Node& node) {
  node.process = kj::heap<Process>(*this, node);
}

inline void World::crash(Node& node) {
  if (node.process.get() != nullptr) node.process->dead = true;
}

inline void World::bury() {
  for (auto& node : nodes) {
    if (node->process.get() == nullptr || !node->process->dead) continue;
    node->process = nullptr;
    tasks.add(delay(2 * kj::SECONDS).then([this, &node = *node] {
      if (node.on && node.process.get() == nullptr) start(node);
    }));
  }
}

template <typename T>
void World::ask(Node& node, kj::StringPtr what, kj::Function<kj::Promise<T>(Keeper&)> call) {
  if (!node.on || node.process.get() == nullptr || node.process->dead) return;
  ++pending;
  auto note = [this, text = std::string(kj::str(node.config.name, " ", what).cStr())](
                  kj::StringPtr outcome) {
    --pending;
    outcomes.push_back(text + ": " + outcome.cStr());
  };
  auto promise = kj::evalNow([&] { return call(node.process->keeper); });
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

// As machined runs the service: it reads what is wanted before each start.
inline kj::Promise<void> World::machined(Node& node) {
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
      Wanted by{kj::String(), kj::String(), {}, kj::str(wanted->recoverFrom), false};
      for (auto& a : wanted->arguments)
        by.arguments.add(Argument{kj::str(a.key), kj::str(a.value)});
      by.image = kj::str(wanted->image);
      node.running = true;
      node.killed = false;
      node.wake();
      if (co_await startEtcd(node, by)) {
        for (;;) {
          auto next = node.changed.next();
          bool goes = node.killed || !isMember(node);
          auto& now = KJ_ASSERT_NONNULL(node.wanted);
          goes |= now.waitsFor.size() > 0 || !same(now.arguments, by.arguments);
          if (goes) break;
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

inline kj::Promise<bool> World::startEtcd(Node& node, const Wanted& wanted) {
  auto& disk = node.disk;
  std::map<std::string, std::string> arguments;
  for (auto& a : wanted.arguments) arguments[a.key.cStr()] = a.value.cStr();
  co_await delay(300 * kj::MILLISECONDS);
  if (disk.data == Data::kWhole) {
    if (!isMember(node)) co_return false;  // "the member has been permanently removed"
    disk.cluster->revive(disk.member);
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
      // It checks that the list that it was given is the cluster's.
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
