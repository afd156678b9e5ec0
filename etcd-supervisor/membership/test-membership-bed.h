// Nodes with disks, a machined that runs etcd by its spec, model clusters, a network that fails,
// and etcd-supervisors that may die at any write; for tests. Time and chance are the test's.
//
// Violations are recorded in `violations`: a second cluster, an etcd that is started without its
// data, data that is removed while it is needed, a quorum lost by a change of members, a member
// that leaves while its node holds a shared address.
//
// The behaviour is in test-supervisor-life.h, which test-operator-calls.h includes; tests include
// the latter.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/etcd/test-etcd.h"
#include "etcd-supervisor/membership/membership-reconciler.h"

namespace talos::supervisor {

// Discards the log lines of thousands of schedules.
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

class Testbed;

constexpr kj::StringPtr kSharedAddress = "10.0.0.100"_kj;

struct Disk {
  Data data = Data::kNone;
  etcd::ModelCluster* cluster = nullptr;  // cluster of the data
  etcd::MemberId member = 0;
  Intent intent;
  bool snapshot = false;
};

class Process;

struct Node {
  explicit Node(Testbed& bed, unsigned number);
  Testbed& bed;
  Config config;
  Disk disk;
  // State of this boot.
  bool on = false;
  kj::Maybe<Wanted> wanted;  // machined's store
  bool running = false;      // service etcd
  kj::Vector<Argument> runsBy;
  bool killed = false;  // the test killed etcd's process
  uint64_t freeBytes = 1 << 30;
  bool cutOff = false;                       // etcd is cut off only from the other members
  bool storeFails = false;                   // machined's store fails for the spec
  bool failsLate = false;                    // writes take effect and report a failure
  bool holds = false;                        // vipd holds a shared address as a member
  bool vipdHangs = false;                    // and does not give it up
  std::vector<std::string> kubernetesNodes;  // addresses, in machined's store
  std::map<std::string, std::string> ways;   // of the proxy: an address for a peer URL's host
  kj::Promise<void> vipd = nullptr;
  Signal changed;  // for machined
  kj::Promise<void> machined = nullptr;
  kj::Own<Process> process;  // etcd-supervisor; null while it restarts
  Status status;
  std::string message;

  kj::String address() const { return kj::str(config.addresses[0]); }
  // Returns true if etcd answers here.
  bool serves() const;
  FoundMember certificate() const;
  void wake();
};

class Testbed : private kj::TaskSet::ErrorHandler {
 public:
  // Nodes that configs name: all other nodes; or, for strangers, only the shared address, as in
  // configs of `talosctl gen config`, and then the talosconfig names every node.
  enum class Knowing { kAll, kStrangers };

  explicit Testbed(unsigned seed, unsigned count, Knowing knowing = Knowing::kAll)
      : random(seed), tasks(*this) {
    for (unsigned i = 1; i <= count; ++i) nodes.push_back(kj::heap<Node>(*this, i));
    if (knowing == Knowing::kStrangers) {
      for (auto& node : nodes) {
        node->config.shared.add(kj::str(kSharedAddress));
        talosconfig.push_back(node->address().cStr());
      }
      return;
    }
    for (auto& node : nodes) {
      for (auto& other : nodes) {
        if (other.get() != node.get()) node->config.peers.add(other->address());
      }
    }
  }
  ~Testbed() noexcept {
    for (auto& node : nodes) powerOff(*node);
  }

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::mt19937 random;
  std::vector<kj::Own<etcd::ModelCluster>> clusters;
  std::vector<kj::Own<Node>> nodes;
  std::vector<std::string> violations;
  std::vector<std::string> talosconfig;                // the operator's
  std::set<std::pair<const Node*, const Node*>> cuts;  // in both directions
  double crashes = 0;                                  // probability that a write is the last
  double losses = 0;                                   // probability that an answer is lost
  double failures = 0;                                 // probability that a write fails
  bool unpackFails = false;                            // unpacking a snapshot fails
  bool followUpFails = false;                          // following up a restored snapshot fails
  unsigned followedUp = 0;                             // number of follow-ups
  std::map<const Node*, kj::Duration> slow;            // answers of these nodes take longer
  std::set<const Node*> reruns;                        // nodes whose etcd is being restarted
  unsigned deaths = 0;                                 // number of deaths of etcds
  unsigned pending = 0;                                // number of operations that have not ended
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
      // vipd steps down when its etcd is not healthy.
      if (address == kSharedAddress && node->holds && node->serves()) return node.get();
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

  // Makes an operator's call at a node and records its outcome.
  template <typename T>
  void ask(Node& node, kj::StringPtr what,
           kj::Function<kj::Promise<T>(MembershipReconciler&)> call);

  // Lets time pass, event by event; processes that died are removed in between.
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
  bool eventually(kj::Duration timeout, F&& condition) {
    auto end = timer.now() + timeout;
    while (!condition()) {
      if (timer.now() >= end) return false;
      pass(1 * kj::SECONDS);
    }
    return true;
  }

  // --- the one cluster ---

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
  // Returns true if there would be a quorum without this node.
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
  bool reachesQuorum(Node& node, bool proxied);
  void reviveIfReaching(Node& node, const Wanted& by);
  kj::Promise<bool> hasTurn(Node& node);
  kj::Promise<void> reportFailure(Node& node);
  void giveTurnBack(Node& node, bool asWanted);
};

}  // namespace talos::supervisor
