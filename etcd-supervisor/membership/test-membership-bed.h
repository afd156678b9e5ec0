// For tests: nodes with disks, a machined that runs etcd by its spec, model clusters, a network
// that fails, and etcd-supervisors that may die at any write. Time and chance are the test's.
//
// Violations are recorded in `violations`: a second cluster, an etcd that is started without its
// data, data that is removed while it is needed, a quorum lost by a change of members, a member
// that leaves while its node holds a shared address.
//
// The behaviour is in test-supervisor-life.h, which test-operator-calls.h includes; tests include
// that.
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
  etcd::ModelCluster* cluster = nullptr;  // of the data
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
  // Of this boot.
  bool on = false;
  kj::Maybe<Wanted> wanted;  // machined's store
  bool running = false;      // service etcd
  kj::Vector<Argument> runsBy;
  bool killed = false;  // etcd's process, by the test
  uint64_t freeBytes = 1 << 30;
  bool cutOff = false;                       // etcd from the other members only
  bool storeFails = false;                   // machined's, for what is wanted
  bool failsLate = false;                    // writes take effect and report a failure
  bool holds = false;                        // vipd a shared address: whenever the node is a member
  bool vipdHangs = false;                    // and keeps it
  std::vector<std::string> kubernetesNodes;  // addresses, in machined's store
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

class Testbed : private kj::TaskSet::ErrorHandler {
 public:
  // Configs name the other nodes; those of strangers only the shared address, as those of
  // `talosctl gen config` do, and the talosconfig names every node.
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
  std::set<std::pair<const Node*, const Node*>> cuts;  // both ways
  double crashes = 0;                                  // how likely a write is the last
  double losses = 0;                                   // how likely an answer is lost
  double failures = 0;                                 // how likely a write fails
  bool unpackFails = false;                            // of a snapshot
  bool followUpFails = false;                          // of one that was restored
  unsigned followedUp = 0;                             // of these, counted
  std::map<const Node*, kj::Duration> slow;            // answers of these take longer
  std::set<const Node*> reruns;                        // whose etcd is restarted just now
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
      // vipd steps down when its etcd is ill.
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

  // An operator's call at that node: its outcome is noted.
  template <typename T>
  void ask(Node& node, kj::StringPtr what,
           kj::Function<kj::Promise<T>(MembershipReconciler&)> call);

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
  bool eventually(kj::Duration timeout, F&& condition) {
    auto end = timer.now() + timeout;
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
  kj::Promise<bool> hasTurn(Node& node);
  kj::Promise<void> reportFailure(Node& node);
  void giveTurnBack(Node& node, bool asWanted);
};

}  // namespace talos::supervisor
