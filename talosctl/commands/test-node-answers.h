// The answers of a node in the test's own process: its state, which tests change.
#pragma once

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/resource.h"
#include "common/tls/pki.h"
#include "common/wire/test-pods.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/machine.capnp.h"
#include "rpc/network.capnp.h"
#include "rpc/node.capnp.h"
#include "rpc/stream.capnp.h"
#include "talosctl/commands/test-node-config.h"
#include "talosctl/commands/test-node-upgrades.h"

namespace talos::talosctl {

constexpr kj::StringPtr kKubeconfig =
    "apiVersion: v1\nkind: Config\ncurrent-context: admin@c1\n"
    "clusters: [{name: c1, cluster: {server: 'https://10.0.0.2:6443'}}]\n"
    "contexts: [{name: admin@c1, context: {cluster: c1, user: admin@c1}}]\n"
    "users: [{name: admin@c1, user: {}}]\n"_kj;

inline void fillSockets(rpc::Machine::NetstatResults::Builder out) {
  auto sockets = out.initSockets(3);
  auto fill = [](auto s, auto protocol, auto local, auto port, auto remote, auto state) {
    s.setProtocol(protocol), s.setLocalAddress(local), s.setLocalPort(port);
    s.setRemoteAddress(remote), s.setState(state);
  };
  fill(sockets[0], "tcp", "0.0.0.0", 50000, "0.0.0.0", "LISTEN");
  fill(sockets[1], "tcp", "10.0.0.2", 50000, "10.0.0.9", "ESTABLISHED");
  fill(sockets[2], "udp6", "::", 68, "::", "");
  sockets[1].setRemotePort(4711), sockets[1].setSendQueue(12);
  sockets[1].setPid(7), sockets[1].setProgram("apid");
  sockets[1].setUid(50), sockets[1].setInode(99);
}

inline void fillCgroups(rpc::Machine::CgroupsResults::Builder out) {
  auto groups = out.initGroups(3);
  groups[1].setPath("system");
  groups[2].setPath("system/apid");
  groups[2].setProcesses(2);
  auto memory = groups[2].initMemory();
  memory.setCurrent(12'000'000), memory.setMax(-1), memory.setPeak(13'000'000);
  memory.setSwapCurrent(rpc::Cgroup::UNCOUNTED);
  auto cpu = groups[2].initCpu();
  cpu.setUsageUs(1'500'000), cpu.setQuotaUs(150'000), cpu.setPeriodUs(100'000);
  cpu.setWeight(rpc::Cgroup::UNCOUNTED), cpu.setThrottledUs(rpc::Cgroup::UNCOUNTED);
  auto cpuset = groups[2].initCpuset();
  cpuset.setCpus("0-1,3"), cpuset.setEffectiveCpus("0-1");
  cpuset.setEffectiveMemoryNodes("0");
  auto pressure = groups[2].initPressure(1)[0];
  pressure.setResource("memory"), pressure.setSomeAvg60(1.25);
}

inline void fillDependencies(rpc::Machine::DependenciesResults::Builder out) {
  auto all = out.initControllers(2);
  all[0].setName("config.MachineTypeController");
  auto read = all[0].initReads(1)[0];
  read.setNamespace("config"), read.setType(typeName<rpc::MachineConfigSpec>());
  read.setId("v1alpha1");
  all[0].initWrites(1).set(0, typeName<rpc::MachineTypeSpec>());
  all[1].setName("vipd");
  all[1].setDaemon(true);
  auto type = all[1].initReads(1)[0];
  type.setNamespace("config"), type.setType(typeName<rpc::MachineTypeSpec>());
}

class FakeNetwork final : public rpc::Network::Server {
 public:
  explicit FakeNetwork(kj::String& captured) : captured(captured) {}

  kj::Promise<void> interfaces(InterfacesContext context) override {
    context.getResults().initInterfaces(0);
    return kj::READY_NOW;
  }
  kj::Promise<void> routes(RoutesContext context) override {
    auto route = context.getResults().initRoutes(1)[0];
    route.setInterface("eth0"), route.setDestination("0.0.0.0/0"), route.setGateway("10.5.0.1/32");
    return kj::READY_NOW;
  }
  kj::Promise<void> capture(CaptureContext context) override {
    auto params = context.getParams();
    captured = kj::str(params.getLink(), " ", params.getSnapLength(), " ", params.getDurationMs(),
                       " ", params.getFilter().size());
    if (params.getLink() == "nowhere") fail(ErrorKind::kNotFound, "there is no link \"nowhere\"");
    auto write = params.getSink().writeRequest();
    write.setBytes("pcap"_kj.asBytes());
    co_await write.send();
    context.getResults().setPackets(3);
    if (params.getLink() == "busy") context.getResults().setDropped(1);
  }

 private:
  kj::String& captured;
};

struct FakeKubernetes {
  kj::String release;  // release of its components, "1.34.4"; empty: no components
  kj::Maybe<rpc::Survey::Reader> survey;  // answer of kubed
};

class FakeKubernetesServer final : public rpc::Kubernetes::Server {
 public:
  explicit FakeKubernetesServer(FakeKubernetes& node) : node(node) {}

  kj::Promise<void> survey(SurveyContext context) override {
    KJ_IF_MAYBE (known, node.survey) {
      context.getResults().setSurvey(*known);
      return kj::READY_NOW;
    }
    fail(ErrorKind::kFailedPrecondition, "this node is a worker");
  }

 private:
  FakeKubernetes& node;
};

// Fills in the resource from which the node creates this component. Returns false if the requested
// resource is of another type.
inline bool fillPart(const FakeKubernetes& node, rpc::Resources::GetParams::Reader asked,
                     rpc::Resources::GetResults::Builder answer) {
  if (node.release.size() == 0) return false;
  auto type = asked.getKind().getType();
  auto id = asked.getId();
  auto resource = answer.initResource();
  resource.initMetadata().setVersion(1);
  auto image = [&](kj::StringPtr name) {
    return kj::str("registry.k8s.io/", name, ":v", node.release);
  };
  if (type == typeName<rpc::BootstrapStatusSpec>()) {
    resource.getSpec().initAs<rpc::BootstrapStatusSpec>();
  } else if (type == typeName<rpc::KubeletSpecSpec>()) {
    resource.getSpec().initAs<rpc::KubeletSpecSpec>().setImage(image("kubelet"));
  } else if (type == typeName<rpc::ControlPlaneConfigSpec>()) {
    auto spec = resource.getSpec().initAs<rpc::ControlPlaneConfigSpec>();
    if (id == "kube-apiserver") spec.initApiServer().setImage(image(id));
    if (id == "kube-controller-manager") spec.initControllerManager().setImage(image(id));
    if (id == "kube-scheduler") spec.initScheduler().setImage(image(id));
    if (id == "system-manifests") {
      spec.initSystemManifests().setProxyEnabled(true);
      spec.getSystemManifests().setProxyImage(image("kube-proxy"));
    }
  } else {
    return false;
  }
  return true;
}

class FakeContainers final : public rpc::Containers::Server {
 public:
  FakeContainers(ModelPods& pods, bool pullsHang) : pods(pods), pullsHang(pullsHang) {}

  kj::Promise<void> list(ListContext context) override {
    auto containers = context.getResults().initContainers(1 + 2 * pods.pods.size());
    pods.list(containers, 1);
    auto container = containers[0];
    container.setNamespace("k8s.io"), container.setId("kube-system/coredns-x");
    container.setImage("registry.k8s.io/pause:3.10"), container.setStatus("SANDBOX_READY");
    return kj::READY_NOW;
  }
  kj::Promise<void> stats(StatsContext context) override {
    auto stat = context.getResults().initStats(1)[0];
    stat.setNamespace("k8s.io"), stat.setId("kube-system/coredns-x");
    return kj::READY_NOW;
  }
  kj::Promise<void> restart(RestartContext context) override { return kj::READY_NOW; }
  kj::Promise<void> images(ImagesContext context) override {
    auto images = context.getResults().initImages(2);
    images[0].setName("registry.k8s.io/kubelet:v1.34.4"), images[0].setSize(35'000'000);
    images[0].setDigest("sha256:7209247b54c4ef2c696ef85d674d6f1bd6fa26d88828c7c96fa78ac7fd054d28");
    auto image = images[1];
    image.setName("registry.k8s.io/pause:3.10"), image.setSize(320'000);
    image.setDigest("sha256:278fb9dbcca9518083ad1e11276933a2e96f23de604a3a08cc3c80002767d24c");
    return kj::READY_NOW;
  }
  kj::Promise<void> pull(PullContext context) override {
    return pullsHang ? kj::Promise<void>(kj::NEVER_DONE) : kj::READY_NOW;
  }

 private:
  ModelPods& pods;
  bool pullsHang;
};

// The answers of a node; a test changes the answers that it needs.
struct FakeNode {
  kj::String bootId = kj::str("boot-1");
  rpc::Status::Stage stage = rpc::Status::Stage::RUNNING;
  kj::Function<void(rpc::Status::Builder)> fillStatus = [](rpc::Status::Builder) {};
  bool unverified = false;     // the endpoint reaches it, but it has no certificate of the cluster
  bool withoutConfig = false;  // it refuses the calls of operators
  int lastSignal = 0;
  kj::String lastLevel;  // service and number of the level
  kj::String lastCores;  // "apid on"
  kj::String removedCrash;
  kj::String buildId = kj::str("0a16");  // build id of its programs
  kj::Vector<kj::String> serviceIds;
  kj::Array<kj::byte> archive;                             // answer of copy()
  kj::Maybe<kj::StringPtr> unreadable = "/etc/shadow"_kj;  // path that copy() leaves out
  kj::Vector<kj::String> logLines;
  kj::Vector<kj::String> kernelLines;  // lines with their line ends
  struct Issued {
    kj::StringPtr caller, notAfter;
  };
  kj::Vector<Issued> issued;               // certificates issued by its trustd
  kj::Vector<kj::String> requestedEvents;  // arguments of the calls for events
  bool resourcesRefused = false;           // refuses resources, as for os:reader
  kj::StringPtr unknownType;               // type of resources that it does not know
  bool hangs = false;                      // never answers a call
  bool memoryHangs = false;                // never answers memory()
  bool off = false;                        // the endpoint cannot reach it
  bool pullsHang = false;                  // pulls of images never end
  unsigned answersUntilReboot = 0;         // answers of version() between reboot() and the reboot
  bool rebooting = false, shuttingDown = false, notInstalled = false;
  kj::Vector<kj::String> resets;  // the requests
  bool endlessFiles = false;      // its lists of files never end
  kj::Vector<kj::String> listed;  // levels of the requested lists: "0", "all 2", "all 0"
  unsigned etcdVoters = 0;
  bool etcdWaits = false;       // its etcd waits for a cluster
  kj::String pastControlPlane;  // its list of the control plane; empty: it has no such file
  unsigned calls = 0;
  bool logsFail = false, logsAbsent = false;
  kj::Vector<rpc::LogSink::Client> keptSinks;  // sinks of failed log calls
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> follows;
  kj::Vector<uint64_t> logFrom;           // `from` of each read()
  kj::Vector<kj::String> requestedLines;  // "age 300000 with a text", "time 1", "always"
  FakeConfig config;
  FakeMeta meta;
  FakeUpgrades upgrades;
  FakeKubernetes kubernetes;
  ModelPods pods;
  uint64_t processMemory = 0, processCpuMs = 0;
  int process = -1;     // process whose sockets were requested
  kj::String captured;  // link, snap length, duration and instructions of the filter
  kj::String kubeconfig = kj::str(kKubeconfig);
  // Port that the node reports; nullptr: the node has no control plane.
  kj::Maybe<uint16_t> apiServerPort;
  kj::String timeServer;  // requested time server
  bool timeless = false;  // no time server answers the node
  int64_t clock = 1'615'000'000'000'000'001;
  uint64_t serviceEvent = 0;  // time of a service event, 1 s before the request; 0: no event
  const pki::CertificateAndKey* authority = nullptr;  // CA whose key the node has
  kj::String requestedCertificate;                    // "os:reader for 3600 s"
};

// The logs of a node in the test's own process.
inline kj::String requestedLines(rpc::LogSince::Reader since, kj::StringPtr contains) {
  auto with = contains.size() > 0 ? kj::str(" with ", contains) : kj::String();
  if (since.isAge()) return kj::str("age ", since.getAge(), with);
  if (since.isTime()) return kj::str("time ", since.getTime(), with);
  return kj::str("always", with);
}

class FakeLogs final : public rpc::Logs::Server {
 public:
  explicit FakeLogs(FakeNode& node) : node_(node) {}

  kj::Promise<void> list(ListContext context) override {
    if (node_.hangs) return kj::NEVER_DONE;
    auto ids = context.getResults().initIds(2);
    ids.set(0, "apid");
    ids.set(1, "../etcd");  // the node has no such log
    return kj::READY_NOW;
  }
  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    node_.logFrom.add(params.getFrom());
    node_.requestedLines.add(requestedLines(params.getSince(), params.getContains()));
    if (params.getId() != "apid" || node_.logsAbsent)
      fail(ErrorKind::kNotFound, kj::str("no log \"", params.getId(), "\""));
    auto sink = params.getSink();
    if (node_.logsFail) {
      node_.keptSinks.add(kj::mv(sink));
      fail(ErrorKind::kPermissionDenied, "not for you");
    }
    for (uint64_t i = params.getFrom(); i < node_.logLines.size(); ++i) {
      if (!containsText(node_.logLines[i], params.getContains())) continue;
      auto request = sink.writeRequest();
      request.setBytes(kj::str(node_.logLines[i], "\n").asBytes());
      request.setNext(i + 1);
      co_await request.send();
    }
    if (params.getFollow()) {
      auto paf = kj::newPromiseAndFulfiller<void>();
      node_.follows.add(kj::mv(paf.fulfiller));
      co_await paf.promise;
    }
  }

  kj::Promise<void> kernel(KernelContext context) override {
    node_.requestedLines.add(
        requestedLines(context.getParams().getSince(), context.getParams().getContains()));
    auto request = context.getParams().getSink().writeRequest();
    auto text = kj::str("kern: info: [2021-03-06T03:06:40Z]: Linux version 6.12\n",
                        kj::strArray(node_.kernelLines, ""));
    request.setBytes(text.asBytes());
    co_await request.send();
  }
  kj::Promise<void> previous(PreviousContext context) override {
    auto params = context.getParams();
    auto request = params.getSink().writeRequest();
    auto line =
        kj::str(params.getId(), " of boot \"", params.getBoot(), "\", last ", params.getTailLines(),
                params.getContains().size() > 0 ? " with " : "", params.getContains(), "\n");
    request.setBytes(line.asBytes());
    co_await request.send();
  }

 private:
  [[maybe_unused]] FakeNode& node_;
};

}  // namespace talos::talosctl
