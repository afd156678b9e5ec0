// Faults of a cluster: their cost to a client that writes to the API through the shared address,
// and evidence that the cluster heals without help: three control-plane nodes and two workers, one
// fault after the other.
//
// After each fault all nodes are Ready with a status newer than the fault, every pod runs again,
// the controller manager and the scheduler have leaders that are alive, the killed program runs
// again, and no pod has restarted that the fault does not explain. In the end each acknowledged
// write exists. The cost of each fault is printed, and is no condition: it depends on the machine.
//
//   KUBE_FAULTS=all   every fault, and a reboot of every node (default: one of each sort)
#include <gmock/gmock.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <chrono>
#include <set>
#include <sstream>

#include "common/netlink/netlink.h"
#include "tests/kubernetes/api-writer.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::eventually;

constexpr double kWell = 420;  // seconds, on a busy machine
const char* const kVip = "10.5.0.50";

struct Fault {
  // kFreeze: its program does nothing any more until the address has moved.
  enum class How { kKill, kFreeze, kPowerOff, kReboot };
  // Holder of the shared address; leader of etcd; holder of a lease of Kubernetes; a control-plane
  // node that is neither of the first two, if there is one.
  enum class Whom { kHolder, kEtcdLeader, kLeaseHolder, kOther, kWorker, kNumber };

  const char* name;
  const char* program = nullptr;  // that is killed
  Whom whom = Whom::kHolder;
  How how = How::kKill;
  bool always = false;
  bool staticPod = false;  // the program is one's: its container restarts, and no other
  size_t number = 0;
};

using Whom = Fault::Whom;
using How = Fault::How;

const Fault kFaults[] = {
    {.name = "containerd killed", .program = "containerd", .always = true},
    {.name = "containerd of a worker killed", .program = "containerd", .whom = Whom::kWorker},
    {.name = "kubelet killed", .program = "kubelet"},
    {.name = "kubelet of a worker killed", .program = "kubelet", .whom = Whom::kWorker},
    {.name = "kube-apiserver killed",
     .program = "kube-apiserver",
     .always = true,
     .staticPod = true},
    {.name = "kube-apiserver frozen until the address has moved",
     .program = "kube-apiserver",
     .how = How::kFreeze,
     .staticPod = true},
    {.name = "leading kube-controller-manager killed",
     .program = "kube-controller-manager",
     .whom = Whom::kLeaseHolder,
     .staticPod = true},
    {.name = "leading kube-scheduler killed",
     .program = "kube-scheduler",
     .whom = Whom::kLeaseHolder,
     .staticPod = true},
    {.name = "machined's brain killed", .program = "machined", .always = true},
    {.name = "apid killed", .program = "apid"},
    {.name = "trustd killed", .program = "trustd"},
    {.name = "networkd killed", .program = "networkd"},
    {.name = "etcd-supervisor killed", .program = "etcd-supervisor"},
    {.name = "kubed killed", .program = "kubed"},
    {.name = "vipd killed", .program = "vipd", .always = true},
    {.name = "etcd killed that leads",
     .program = "etcd",
     .whom = Whom::kEtcdLeader,
     .always = true},
    {.name = "power cut of the address's holder", .how = How::kPowerOff, .always = true},
    {.name = "power cut of etcd's leader", .whom = Whom::kEtcdLeader, .how = How::kPowerOff},
    {.name = "power cut of another control plane", .whom = Whom::kOther, .how = How::kPowerOff},
    {.name = "power cut of a worker", .whom = Whom::kWorker, .how = How::kPowerOff},
    {.name = "reboot of the address's holder", .how = How::kReboot, .always = true},
    {.name = "reboot of a control plane", .whom = Whom::kNumber, .how = How::kReboot, .number = 0},
    {.name = "reboot of a control plane", .whom = Whom::kNumber, .how = How::kReboot, .number = 1},
    {.name = "reboot of a control plane", .whom = Whom::kNumber, .how = How::kReboot, .number = 2},
    {.name = "reboot of a worker", .whom = Whom::kNumber, .how = How::kReboot, .number = 3},
    {.name = "reboot of a worker", .whom = Whom::kNumber, .how = How::kReboot, .number = 4},
};

// Returns the current time in the format of Kubernetes' leases.
std::string timeNow() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  gmtime_r(&now.tv_sec, &parts);
  char day[32], all[64];
  strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(all, sizeof all, "%s.%06ldZ", day, now.tv_nsec / 1000);
  return all;
}

// The part of the name that the pods of one DaemonSet, or of one ReplicaSet, have in common.
std::string setOf(const std::string& pod) {
  return pod.substr(0, pod.rfind('-'));
}

// Pods by their name, as the fault leaves them.
struct Struck {
  std::set<std::string> killed;    // have to restart
  std::set<std::string> may;       // may
  std::set<std::string> replaced;  // are ended with their node, and others come in their place
};

class KubernetesFaults : public KubeHost {
 protected:
  void run(bool all);

 private:
  std::unique_ptr<KubeCluster> cluster;
  std::unique_ptr<ApiWriter> writer;
  std::map<std::string, KubePod> known;  // since the last look, so that no restart is missed
  std::string table;

  void TearDown() override {
    writer = nullptr;
    cluster = nullptr;
    KubeHost::TearDown();
  }
  void one(const Fault& fault);
  void strike(const Fault& fault, const KubeNode& node);
  const KubeNode& victim(const Fault& fault) const;
  const KubeNode& holder() const;
  const KubeNode& etcdLeader() const;
  const KubeNode& named(const std::string& name) const;
  std::map<std::string, std::string> leases(const std::string& path) const;
  Struck struckBy(const Fault& fault, const KubeNode& node) const;
  std::string unwell(const std::string& since, const Struck& struck) const;
  std::string unwellPods(const Struck& struck) const;
  std::string restarted(const Struck& struck);
  void freeze(const Fault& fault, const KubeNode& node);
  void awaitWrites(unsigned more) const;
};

void KubernetesFaults::run(bool all) {
  cluster = std::make_unique<KubeCluster>("faults", 3, 2, std::vector<std::string>{"--use-vip"});
  cluster->awaitSystem();
  cluster->apply(kWebServers);
  cluster->apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " +
                 std::string(ApiWriter::kObject) + "}\n");
  cluster->awaitPods("default", "app=web", cluster->nodes.size(), kPodsUp);
  if (HasFailure()) return;
  known = cluster->pods();
  ASSERT_GE(known.size(), 20u) << cluster->overview();
  writer = std::make_unique<ApiWriter>(placeOf(cluster->segment()),
                                       harness::slurp(cluster->kubeconfigPath()));
  awaitWrites(4);
  for (auto& fault : kFaults) {
    if (!HasFailure() && (all || fault.always)) one(fault);
  }
  fprintf(stderr,
          "| fault | calls | failed | no answer for at most | all well after | restarted | load |\n"
          "|---|---|---|---|---|---|---|\n%s",
          table.c_str());
  if (HasFailure()) return;
  checkPodNetwork(*cluster);
  writer->checkWritten(*cluster);
}

void KubernetesFaults::one(const Fault& fault) {
  auto& node = victim(fault);
  SCOPED_TRACE(std::string(fault.name) + " at " + node.name);
  writer->take();
  auto since = timeNow();
  auto began = std::chrono::steady_clock::now();
  strike(fault, node);
  auto struck = struckBy(fault, node);
  std::string problem;
  bool well = eventually(
      [&] {
        problem = unwell(since, struck);
        return problem.empty();
      },
      kWell, 1);
  EXPECT_TRUE(well) << problem << " " << kWell << " s after " << fault.name << "\n"
                    << cluster->overview();
  awaitWrites(4);
  double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  auto figures = writer->take();
  auto pods = restarted(struck);
  double load = NAN;
  getloadavg(&load, 1);
  char row[1000];
  snprintf(row, sizeof row, "| %s | %u | %u | %.1f s | %.0f s | %s | %.0f |\n", fault.name,
           figures.calls, figures.failed, figures.longest, took, pods.c_str(), load);
  table += row;
  fprintf(stderr, "%s%s%s%s", row,
          figures.error.empty() ? "" : "    last failure: ", figures.error.c_str(),
          figures.error.empty() ? "" : "\n");
}

// It holds its connections, and the address as long as vipd does not notice.
void KubernetesFaults::freeze(const Fault& fault, const KubeNode& node) {
  auto pid = cluster->talos.program(node.name, fault.program);
  ASSERT_GT(pid, 0) << fault.program << " does not run";
  auto began = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  EXPECT_TRUE(eventually([&] { return holder().name != node.name; }, kWell))
      << "the address has not moved\n"
      << cluster->overview();
  fprintf(stderr, "    the address has moved after %.1f s\n",
          std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  awaitWrites(4);
  ::kill(pid, SIGCONT);  // unless its kubelet has ended it by now
}

// A kubelet that is told of a shutdown ends its pods, except static pods; the pods of a node whose
// power was cut continue where they were. Until they have restarted, the API's record of them is
// older than the fault.
Struck KubernetesFaults::struckBy(const Fault& fault, const KubeNode& node) const {
  Struck struck;
  for (auto& [name, pod] : known) {
    bool fixed = name.ends_with("-" + node.name);
    bool own =
        fault.staticPod && name == "kube-system/" + std::string(fault.program) + "-" + node.name;
    if (fault.how == How::kKill) {
      if (own) struck.killed.insert(name);
    } else if (pod.node == node.name) {
      // Clients that waited for a frozen program may have given up.
      if (fault.how == How::kFreeze) {
        struck.may.insert(name);
      } else if (fault.how == How::kReboot && !fixed) {
        struck.replaced.insert(name);
      } else {
        struck.killed.insert(name);
      }
    }
  }
  return struck;
}

// Makes the fault and returns when the program or the node runs again.
void KubernetesFaults::strike(const Fault& fault, const KubeNode& node) {
  if (fault.how == How::kFreeze) return freeze(fault, node);
  if (fault.how == How::kKill) {
    auto old = cluster->talos.program(node.name, fault.program);
    ASSERT_GT(old, 0) << fault.program << " does not run";
    ASSERT_EQ(::kill(old, SIGKILL), 0);
    EXPECT_TRUE(eventually(
        [&] {
          auto now = cluster->talos.program(node.name, fault.program);
          return now != 0 && now != old;
        },
        kWell))
        << fault.program << " was not started again\n"
        << cluster->overview();
    return;
  }
  auto before = cluster->bootId(node);
  ASSERT_NE(before, "") << "the node does not answer";
  if (fault.how == How::kPowerOff) {
    cluster->talos.ok({"cluster", "node", "kill", node.name});
    awaitWrites(4);  // the others do without it
    cluster->talos.ok({"cluster", "node", "start", node.name});
  } else {
    cluster->talos.ok(cluster->at(node, {"reboot"}), kWell);
  }
  EXPECT_TRUE(eventually(
      [&] {
        auto now = cluster->bootId(node);
        return now != "" && now != before;
      },
      kWell, 0.5))
      << "the node is not back";
}

const KubeNode& KubernetesFaults::named(const std::string& name) const {
  for (auto& node : cluster->nodes) {
    if (node.name == name) return node;
  }
  KJ_FAIL_REQUIRE("there is no such node", name.c_str());
}

// Finds the holder by the kernels of the nodes.
const KubeNode& KubernetesFaults::holder() const {
  const KubeNode* found = nullptr;
  bool one = eventually(
      [&] {
        for (auto& node : cluster->nodes) {
          auto place = placeOf(cluster->talos.process(node.name));
          auto kernel = inside(place, [] { return netlink::openKernel(); });
          for (auto& each : kernel->addresses()) {
            if (each.prefix.address == Ip::require(kVip)) found = &node;
          }
        }
        return found != nullptr;
      },
      kWell);
  KJ_REQUIRE(one, "no node has the shared address");
  return *found;
}

const KubeNode& KubernetesFaults::etcdLeader() const {
  std::vector<std::string> addresses;
  for (auto& node : cluster->nodes) {
    if (node.controlPlane) addresses.push_back(node.address);
  }
  std::string leads;
  eventually([&] { return (leads = cluster->talos.etcdLeader(addresses)) != ""; }, kWell);
  for (auto& node : cluster->nodes) {
    if (node.address == leads) return node;
  }
  KJ_FAIL_REQUIRE("no node's etcd leads");
}

const KubeNode& KubernetesFaults::victim(const Fault& fault) const {
  switch (fault.whom) {
    case Whom::kHolder:
      return holder();
    case Whom::kEtcdLeader:
      return etcdLeader();
    case Whom::kLeaseHolder: {
      auto holds = leases("{.spec.holderIdentity}")[std::string("kube-system/") + fault.program];
      return named(holds.substr(0, holds.find('_')));
    }
    case Whom::kOther: {
      auto &one = holder(), &other = etcdLeader();
      for (auto& node : cluster->nodes) {
        if (node.name != one.name && node.name != other.name) return node;
      }
      break;
    }
    case Whom::kWorker:
      return cluster->nodes.back();
    case Whom::kNumber:
      return cluster->nodes.at(fault.number);
  }
  KJ_UNREACHABLE;
}

// Returns the leases by "namespace/name".
std::map<std::string, std::string> KubernetesFaults::leases(const std::string& path) const {
  std::map<std::string, std::string> all;
  for (auto& line : cluster->each("leases", "{.metadata.namespace}/{.metadata.name} " + path)) {
    std::istringstream words(line);
    std::string name, value;
    words >> name >> value;
    all[name] = value;
  }
  return all;
}

// Names the parts that have not recovered yet; empty if all have.
std::string KubernetesFaults::unwell(const std::string& since, const Struck& struck) const {
  auto renewed = leases("{.spec.renewTime}");
  std::vector<std::string> alive = {"kube-system/kube-controller-manager",
                                    "kube-system/kube-scheduler"};
  for (auto& node : cluster->nodes) alive.push_back("kube-node-lease/" + node.name);
  for (auto& name : alive) {
    if (renewed[name] <= since) return "the lease " + name + " was not renewed";
  }
  size_t ready = 0;
  for (auto& line : cluster->each("nodes", "{.status.conditions[?(@.type==\"Ready\")].status}")) {
    ready += line == "True";
  }
  if (ready != cluster->nodes.size()) return "not all nodes are Ready";
  return unwellPods(struck);
}

std::string KubernetesFaults::unwellPods(const Struck& struck) const {
  auto pods = cluster->pods();
  std::map<std::string, int> more;  // pods than before, by their set
  for (auto& [name, pod] : pods) {
    if (pod.over) continue;
    if (!pod.good) return "the pod " + name + " does not run";
    ++more[setOf(name)];
  }
  for (auto& [name, before] : known) {
    --more[setOf(name)];
    auto now = pods.find(name);
    bool there = now != pods.end() && !now->second.over;
    if (!there && !struck.replaced.contains(name)) return "the pod " + name + " is not there";
    if (struck.killed.contains(name) && now->second.restarts == before.restarts) {
      return "the pod " + name + " has not restarted";
    }
  }
  for (auto& [set, count] : more) {
    if (count != 0) return "there are not as many pods of " + set + " as before";
  }
  return "";
}

// Returns how many pods have restarted; the test fails for a restart that the fault does not
// explain.
std::string KubernetesFaults::restarted(const Struck& struck) {
  auto now = cluster->pods();
  size_t count = 0;
  for (auto& [name, pod] : now) {
    auto before = known.find(name);
    auto times = pod.restarts - (before == known.end() ? 0 : before->second.restarts);
    if (times == 0 || pod.over) continue;
    ++count;
    EXPECT_TRUE(struck.killed.contains(name) || struck.may.contains(name))
        << name << " at " << pod.node << " restarted, " << times << " times\n"
        << cluster->overview();
  }
  known.clear();
  for (auto& [name, pod] : now) {
    if (!pod.over) known.emplace(name, pod);
  }
  if (count == 0) return "none";
  return count == 1 ? "one pod" : std::to_string(count) + ", all of the node";
}

void KubernetesFaults::awaitWrites(unsigned more) const {
  unsigned enough = writer->succeeded + more;
  EXPECT_TRUE(eventually([&] { return writer->succeeded >= enough; }, kWell))
      << "the client's writes do not succeed\n"
      << cluster->overview();
}

// Catches: a program whose death stops the control plane, or restarts pods; a node that is not back
// after a power cut or a reboot, or not with all of its pods; an address that stays away; a write
// that was answered and is lost.
TEST_F(KubernetesFaults, NobodyHasToHelp) {
  auto which = getenv("KUBE_FAULTS");
  run(which != nullptr && std::string(which) == "all");
}

}  // namespace
}  // namespace talos
