// A node in the test's own process: its servers.
#pragma once

#include <signal.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/lines.h"
#include "common/base/node-messages.h"
#include "common/base/resource.h"
#include "common/base/version.h"
#include "common/tls/pki.h"
#include "common/wire/resource-registry.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/node.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "talosctl/commands/test-node-answers.h"

namespace talos::talosctl {

class FakeMachine final : public rpc::Machine::Server {
 public:
  explicit FakeMachine(FakeNode& node) : node_(node) {}

  kj::Promise<void> version(VersionContext context) override {
    ++node_.calls;
    if (node_.hangs) return kj::NEVER_DONE;
    if (node_.withoutConfig) {
      fail(ErrorKind::kUnimplemented, kj::str("Cluster.withRoles", messages::kInMaintenance));
    }
    if (node_.rebooting && node_.answersUntilReboot-- == 0) {
      node_.rebooting = false;
      node_.bootId = kj::str("boot-2");
    }
    if (node_.shuttingDown && node_.answersUntilReboot-- == 0) node_.off = true;
    auto v = context.getResults();
    v.setTag(node_.unverified ? kj::str("v0.9.0 (", kNotAuthenticated, ")") : kj::str("v0.9.0"));
    v.setOs("linux");
    v.setArch("amd64");
    v.setBootId(node_.upgrades.rebooted ? "boot-2"_kj : node_.bootId.asPtr());
    return kj::READY_NOW;
  }
  kj::Promise<void> status(StatusContext context) override {
    context.getResults().setStage(node_.stage);
    node_.fillStatus(context.getResults());
    return kj::READY_NOW;
  }
  kj::Promise<void> memory(MemoryContext context) override {
    if (node_.hangs || node_.memoryHangs) return kj::NEVER_DONE;
    auto field = context.getResults().initFields(1)[0];
    field.setName("MemTotal");
    field.setValue(2048);
    field.setUnit("kB");
    return kj::READY_NOW;
  }
  kj::Promise<void> mounts(MountsContext context) override {
    auto mount = context.getResults().initMounts(1)[0];
    mount.setFilesystem("/dev/vda6"), mount.setMountedOn("/var"), mount.setSize(6'000'000'000);
    return kj::READY_NOW;
  }
  kj::Promise<void> stats(StatsContext context) override {
    context.getResults().initStats(1)[0].setId("apid");
    return kj::READY_NOW;
  }
  kj::Promise<void> processes(ProcessesContext context) override {
    ++node_.calls;
    if (node_.hangs) return kj::NEVER_DONE;
    auto process = context.getResults().initProcesses(1)[0];
    process.setPid(7), process.setState("S"), process.setCommand("apid");
    process.setResidentMemory(node_.processMemory), process.setCpuTimeMs(node_.processCpuMs);
    return kj::READY_NOW;
  }
  kj::Promise<void> netstat(NetstatContext context) override {
    node_.process = context.getParams().getProcess();
    if (!node_.pods.sockets(node_.process, context.getResults())) fillSockets(context.getResults());
    return kj::READY_NOW;
  }
  kj::Promise<void> cgroups(CgroupsContext context) override {
    fillCgroups(context.getResults());
    return kj::READY_NOW;
  }
  kj::Promise<void> dependencies(DependenciesContext context) override {
    fillDependencies(context.getResults());
    return kj::READY_NOW;
  }
  kj::Promise<void> kubeconfig(KubeconfigContext context) override {
    context.getResults().setKubeconfig(node_.kubeconfig.asBytes());
    return kj::READY_NOW;
  }
  kj::Promise<void> time(TimeContext context) override {
    node_.timeServer = kj::str(context.getParams().getServer());
    if (node_.timeless) fail(ErrorKind::kUnavailable, "no time server answers");
    auto answer = context.getResults().initAnswer();
    answer.setServer(node_.timeServer.size() > 0 ? node_.timeServer.asPtr() : "10.5.0.1"_kj);
    answer.setLocal(node_.clock);
    answer.setRemote(1'615'000'000'250'000'000);
    return kj::READY_NOW;
  }
  kj::Promise<void> clientCertificate(ClientCertificateContext context) override {
    if (node_.authority == nullptr) fail(ErrorKind::kFailedPrecondition, "no key here");
    auto params = context.getParams();
    pki::LeafOptions options;
    options.organizations = textsOf(params.getRoles());
    options.lifetime = params.getLifetimeS() * kj::SECONDS;
    node_.requestedCertificate =
        kj::str(kj::strArray(params.getRoles(), ","), " for ", params.getLifetimeS(), " s");
    auto request = kj::heapString(params.getRequest().asChars());
    KJ_ASSERT(strstr(request.cStr(), "PRIVATE") == nullptr);
    auto name = pki::inspectRequest(request).commonName;
    options.commonName = name;
    auto signed_ = pki::signRequest(node_.authority->certificate, node_.authority->key, request,
                                    kj::mv(options));
    context.getResults().setCa(node_.authority->certificate.asBytes());
    context.getResults().setCertificate(signed_.asBytes());
    return kj::READY_NOW;
  }
  kj::Promise<void> reboot(RebootContext context) override {
    if (node_.hangs) return kj::NEVER_DONE;
    context.getResults().setBootId(node_.bootId);
    node_.rebooting = true;
    return kj::READY_NOW;
  }
  kj::Promise<void> shutdown(ShutdownContext context) override {
    context.getResults().setBootId(node_.bootId);
    node_.shuttingDown = true;
    return kj::READY_NOW;
  }
  kj::Promise<void> previewReset(PreviewResetContext context) override {
    if (node_.notInstalled) fail(ErrorKind::kFailedPrecondition, "this node has no partition META");
    auto out = context.getResults();
    out.setDisk("/dev/vda");
    auto target = out.initTargets(1)[0];
    target.setLabel("STATE");
    target.setDevice("/dev/vda5");
    target.setSize(100 << 20);
    bool graceful = context.getParams().getGraceful();
    if (node_.etcdVoters == 1 && graceful) {
      fail(ErrorKind::kFailedPrecondition, "this node is the only voter");
    }
    auto members = out.initEtcd(node_.etcdVoters);
    for (auto member : members) {
      member.setName("m");
      member.setId(7);
      member.setLocal(true);
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> reset(ResetContext context) override {
    auto params = context.getParams();
    context.getResults().setBootId(node_.bootId);
    node_.resets.add(kj::str(kj::strArray(params.getLabels(), "+"),
                             params.getGraceful() ? " graceful" : "",
                             params.getReboot() ? " reboot" : ""));
    (params.getReboot() ? node_.rebooting : node_.shuttingDown) = true;
    return kj::READY_NOW;
  }

 private:
  [[maybe_unused]] FakeNode& node_;
};

class FakeServices final : public rpc::Services::Server {
 public:
  explicit FakeServices(FakeNode& node) : node_(node) {}

  kj::Promise<void> list(ListContext context) override {
    auto services = context.getResults().initServices(node_.serviceIds.size());
    for (size_t i = 0; i < node_.serviceIds.size(); ++i) {
      services[i].setId(node_.serviceIds[i]);
      services[i].setState(rpc::ServiceState::RUNNING);
      services[i].getHealth().setUnknown(false);
      services[i].getHealth().setHealthy(true);
      if (node_.serviceEvent == 0) continue;
      constexpr uint64_t kUptime = 60'000'000'000, kSecond = 1'000'000'000;
      services[i].setUptime(kUptime);
      auto event = services[i].initEvents(1)[0];
      event.setTime(node_.serviceEvent), event.setUptime(kUptime - kSecond);
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> restart(RestartContext context) override {
    requireKnown(context.getParams().getId());
    context.getResults().setResponse(
        kj::str("Service \"", context.getParams().getId(), "\" restarted"));
    return kj::READY_NOW;
  }
  kj::Promise<void> kill(KillContext context) override {
    auto params = context.getParams();
    auto signal = params.getSignal();
    bool suspends =
        signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    if (signal < 1 || signal > SIGRTMAX || suspends) {
      fail(ErrorKind::kInvalidArgument, kj::str(signal, " is not a signal for a service"));
    }
    requireKnown(params.getId());
    node_.lastSignal = signal;
    return kj::READY_NOW;
  }
  kj::Promise<void> setLogLevel(SetLogLevelContext context) override {
    auto params = context.getParams();
    requireKnown(params.getId());
    if (params.getId() == "cri") fail(ErrorKind::kFailedPrecondition, "cri has no log level");
    node_.lastLevel = kj::str(params.getId(), " ", static_cast<unsigned>(params.getLevel()));
    return kj::READY_NOW;
  }
  kj::Promise<void> keepCores(KeepCoresContext context) override {
    auto params = context.getParams();
    requireKnown(params.getId());
    if (params.getId() == "cri") fail(ErrorKind::kFailedPrecondition, "cri has no cores");
    node_.lastCores = kj::str(params.getId(), params.getKeep() ? " on" : " off");
    return kj::READY_NOW;
  }
  // Sends "core" in a zstd frame.
  kj::Promise<void> core(CoreContext context) override {
    requireReport(context.getParams().getReport());
    static constexpr unsigned char kFrame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x04, 0x21,
                                               0x00, 0x00, 'c',  'o',  'r',  'e'};
    context.getResults().setCore(kj::arrayPtr(kFrame, sizeof kFrame));
    return kj::READY_NOW;
  }
  kj::Promise<void> removeCrash(RemoveCrashContext context) override {
    requireReport(context.getParams().getReport());
    node_.removedCrash = kj::str(context.getParams().getReport());
    return kj::READY_NOW;
  }
  kj::Promise<void> stack(StackContext context) override {
    requireKnown(context.getParams().getId());
    if (context.getParams().getId() == "cri") fail(ErrorKind::kFailedPrecondition, "no stack");
    auto stack = context.getResults().initStack();
    stack.setProgram("apid");
    stack.setBuildId(node_.buildId);
    stack.setPid(42);
    auto frames = stack.initFrames(2);
    frames.set(0, "0x401010");
    frames.set(1, "0x300000");
    auto wait = stack.initWaits(1)[0];
    wait.setSinceMs(1500);
    wait.setText("call Logs.read of admin");
    return kj::READY_NOW;
  }

 private:
  [[maybe_unused]] FakeNode& node_;

  static void requireReport(kj::StringPtr report) {
    if (report == "apid-20210301T120000Z") return;
    fail(ErrorKind::kNotFound, kj::str("there is no crash report \"", report, "\""));
  }
  void requireKnown(kj::StringPtr id) const {
    for (auto usual :
         {"apid"_kj, "cri"_kj, "etcd"_kj, "kubelet"_kj, "machined"_kj, "networkd"_kj, "vipd"_kj}) {
      if (id == usual) return;
    }
    for (auto& known : node_.serviceIds) {
      if (id == known) return;
    }
    fail(ErrorKind::kNotFound, kj::str("service \"", id, "\" is not known on this node"));
  }
};

class FakeFiles final : public rpc::Files::Server {
 public:
  explicit FakeFiles(FakeNode& node) : node_(node) {}

  kj::Promise<void> list(ListContext context) override {
    if (context.getParams().getRoot().startsWith("/proc/")) {
      co_return co_await node_.pods.links(context);
    }
    auto params = context.getParams();
    node_.listed.add(kj::str(params.getRecurse() ? "all " : "", params.getDepth()));
    for (unsigned sent = 0; node_.endlessFiles;) {
      if (sent++ == kEndlessParts) co_await kj::Promise<void>(kj::NEVER_DONE);
      auto part = context.getParams().getSink().filesRequest();
      for (auto file : part.initFiles(kEndlessRows)) file.setRelativeName(endlessName());
      co_await part.send();
    }
    auto request = context.getParams().getSink().filesRequest();
    auto files = request.initFiles(3);
    files[0].setRelativeName(".");
    files[1].setRelativeName("hostname");
    files[2].setName("/etc/shadow");
    files[2].setError("permission denied");
    co_await request.send();
  }
  // Reports /var, and below it a folder that cannot be read.
  kj::Promise<void> diskUsage(DiskUsageContext context) override {
    for (unsigned sent = 0; node_.endlessFiles;) {
      if (sent++ == kEndlessParts) co_await kj::Promise<void>(kj::NEVER_DONE);
      auto part = context.getParams().getSink().usagesRequest();
      for (auto usage : part.initUsages(kEndlessRows)) usage.setRelativeName(endlessName());
      co_await part.send();
    }
    for (auto path : context.getParams().getPaths()) {
      auto request = context.getParams().getSink().usagesRequest();
      auto usages = request.initUsages(path == "/var" ? 2 : 1);
      if (path == "/var") {
        usages[0].setName("/var/private"), usages[0].setRelativeName("private");
        usages[0].setError("Permission denied");
        usages[1].setSize(4096);
      } else {
        usages[0].setError("No such file or directory");
      }
      usages[usages.size() - 1].setName(path);
      usages[usages.size() - 1].setRelativeName(".");
      co_await request.send();
    }
  }
  kj::Promise<void> read(ReadContext context) override {
    auto request = context.getParams().getSink().writeRequest();
    if (context.getParams().getPath() == "/system/state/control-plane-nodes") {
      if (node_.pastControlPlane.size() == 0) fail(ErrorKind::kNotFound, "no such file");
      request.setBytes(node_.pastControlPlane.asBytes());
    } else {
      request.setBytes("a\x1b[2Jb\n"_kj.asBytes());
    }
    co_await request.send();
  }
  kj::Promise<void> copy(CopyContext context) override {
    auto sink = context.getParams().getSink();
    kj::ArrayPtr<const kj::byte> rest = node_.archive;
    while (rest.size() > 0) {
      auto request = sink.writeRequest();
      size_t n = kj::min(rest.size(), size_t(4096));
      request.setBytes(rest.slice(0, n));
      rest = rest.slice(n, rest.size());
      co_await request.send();
    }
    KJ_IF_MAYBE (path, node_.unreadable) context.getResults().initUnreadable(1).set(0, *path);
  }

 private:
  // 2 MiB of names in total.
  static constexpr unsigned kEndlessParts = 8, kEndlessRows = 256, kEndlessName = 1024;
  [[maybe_unused]] FakeNode& node_;

  static kj::String endlessName() { return kj::str(kj::repeat('x', kEndlessName)); }
};

class FakeEvents final : public rpc::Events::Server {
 public:
  explicit FakeEvents(FakeNode& node) : node_(node) {}

  kj::Promise<void> watch(WatchContext context) override {
    auto tail = context.getParams().getTail();
    if (tail.isAfter() && !isEventId(tail.getAfter())) {
      fail(ErrorKind::kInvalidArgument, kj::str("not a valid event id: ", tail.getAfter()));
    }
    node_.requestedEvents.add(tail.isLast()      ? kj::str("last ", tail.getLast())
                              : tail.isSeconds() ? kj::str("seconds ", tail.getSeconds())
                              : tail.isAfter()   ? kj::str("after ", tail.getAfter())
                                                 : kj::str("new ones"));
    auto request = context.getParams().getSink().eventsRequest();
    auto event = request.initEvents(1)[0];
    event.setId("dc4etspca8ssq00002cg");
    event.setTime(1'615'000'000'000'000'000);
    event.initPhase().setName("etc");
    event.getPhase().setAction(rpc::Action::START);
    co_await request.send();
    auto missed = context.getParams().getSink().missedRequest();
    missed.setCount(7);
    co_await missed.send();
    if (context.getParams().getOnce()) co_return;
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }
  kj::Promise<void> previous(PreviousContext context) override {
    node_.requestedEvents.add(kj::str("boot ", context.getParams().getBoot()));
    auto request = context.getParams().getSink().eventsRequest();
    auto event = request.initEvents(1)[0];
    event.setId("dc4etspca8ssq00002c0");
    event.initPhase().setName("earlier");
    co_await request.send();
  }

 private:
  FakeNode& node_;

  static bool isEventId(kj::StringPtr text) {
    constexpr size_t kCharacters = 20;
    return text.size() == kCharacters &&
           strspn(text.cStr(), "0123456789abcdefghijklmnopqrstuv") == kCharacters;
  }
};

class FakeResources final : public rpc::Resources::Server {
 public:
  FakeResources(FakeNode& node, bool sensitive) : node_(node), sensitive(sensitive) {}

  // Lists two services, and one machine type.
  kj::Promise<void> list(ListContext context) override {
    auto type = typeOf(context.getParams().getKind());
    if (type == node_.unknownType) fail(ErrorKind::kNotFound, kj::str("no type ", type));
    if (type == typeName<rpc::ServiceSpec>()) {
      auto list = context.getResults().initResources(2);
      fillService(list[0], "apid", 3);
      fillService(list[1], "machined", 1);
    } else if (type == typeName<rpc::MachineTypeSpec>()) {
      auto resource = context.getResults().initResources(1)[0];
      fill(resource.initMetadata(), "config", type, "machine-type", 1);
      resource.getSpec().initAs<rpc::MachineTypeSpec>().setType(rpc::MachineType::CONTROLPLANE);
    } else if (type == typeName<rpc::MachineConfigSpec>()) {
      auto resource = context.getResults().initResources(1)[0];
      fill(resource.initMetadata(), "config", type, "v1alpha1", node_.config.version);
      resource.getSpec().initAs<rpc::MachineConfigSpec>().setDocument(node_.config.document);
    } else if (type == typeName<rpc::EtcdStatusSpec>() && node_.etcdWaits) {
      auto resource = context.getResults().initResources(1)[0];
      fill(resource.initMetadata(), "etcd", type, "etcd", 1);
      auto spec = resource.getSpec().initAs<rpc::EtcdStatusSpec>();
      spec.setPhase("waiting"), spec.setMessage("waiting for a cluster: run talosctl bootstrap");
    } else if (type == typeName<rpc::IssuedCertificateSpec>()) {
      auto list = context.getResults().initResources(node_.issued.size());
      for (auto i : kj::indices(node_.issued)) {
        fill(list[i].initMetadata(), "runtime", type, kj::str(i), 1);
        auto spec = list[i].getSpec().initAs<rpc::IssuedCertificateSpec>();
        spec.setCaller(node_.issued[i].caller), spec.setNotAfter(node_.issued[i].notAfter);
      }
    } else if (type == typeName<rpc::CrashReportSpec>()) {
      auto resource = context.getResults().initResources(1)[0];
      fill(resource.initMetadata(), "runtime", type, "apid-20210301T120000Z", 1);
      auto report = resource.getSpec().initAs<rpc::CrashReportSpec>();
      report.setService("apid");
      report.setSignal("SIGSEGV");
      report.setBuildId(node_.buildId);
      report.setAddress("0x8");
      report.initStack(1).set(0, "0x401010");
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> get(GetContext context) override {
    auto params = context.getParams();
    auto type = typeOf(params.getKind());
    if (type == typeName<rpc::MachineConfigSpec>()) {
      if (params.getId() != "v1alpha1") fail(ErrorKind::kNotFound, "resource doesn't exist");
      ++node_.config.readings;
      auto resource = context.getResults().initResource();
      fill(resource.initMetadata(), "config", type, "v1alpha1", node_.config.version);
      resource.getSpec().initAs<rpc::MachineConfigSpec>().setDocument(node_.config.document);
      return kj::READY_NOW;
    }
    if (fillPart(node_.kubernetes, params, context.getResults())) return kj::READY_NOW;
    KJ_IF_MAYBE (port, node_.apiServerPort) {
      auto spec = context.getResults().initResource().getSpec();
      if (type == typeName<rpc::ControlPlaneConfigSpec>()) {
        spec.initAs<rpc::ControlPlaneConfigSpec>().initApiServer().setLocalPort(*port);
        return kj::READY_NOW;
      }
      spec.initAs<rpc::BootstrapStatusSpec>();
      if (type == typeName<rpc::BootstrapStatusSpec>()) return kj::READY_NOW;
    }
    if (type == typeName<rpc::UpgradeStatusSpec>()) {
      auto status = context.getResults().initResource().getSpec().initAs<rpc::UpgradeStatusSpec>();
      status.setStage(node_.upgrades.stage);
      status.setReason(node_.upgrades.reason);
      status.setSlot("B");
      status.setVersion("v2");
      status.setCanStage(node_.upgrades.canStage);
      return kj::READY_NOW;
    }
    if (type == typeName<rpc::OperationSpec>()) {
      auto& states = node_.config.operationStates;
      auto state = states.empty() ? kj::str("done") : kj::str(states.front());
      if (!states.empty()) {
        kj::Vector<kj::String> rest;
        for (auto& later : states.asPtr().slice(1, states.size())) rest.add(kj::mv(later));
        states = kj::mv(rest);
      }
      auto resource = context.getResults().initResource();
      fill(resource.initMetadata(), "runtime", type, "apply-config", 1);
      auto operation = resource.getSpec().initAs<rpc::OperationSpec>();
      operation.setNumber(node_.config.operation);
      operation.setState(state == "running" || state == "done" ? state.asPtr() : "failed"_kj);
      operation.setStep("adding the key of slot 5");
      bool reboots = node_.config.mode == rpc::ApplyMode::REBOOT;
      operation.setMode(reboots ? "reboot"_kj : "no-reboot"_kj);
      operation.setError(state);
      return kj::READY_NOW;
    }
    if (params.getId() != "apid")
      fail(ErrorKind::kNotFound, kj::str("resource \"", params.getId(), "\" doesn't exist"));
    fillService(context.getResults().initResource(), "apid", 3);
    return kj::READY_NOW;
  }
  kj::Promise<void> watch(WatchContext context) override {
    typeOf(context.getParams().getKind());
    auto sink = context.getParams().getSink();
    auto first = sink.snapshotRequest();
    fillService(first.initResources(1)[0], "apid", 3);
    co_await first.send();
    auto change = sink.changesRequest();
    auto one = change.initChanges(1)[0];
    one.setEvent(rpc::Change::Event::DESTROYED);
    fillService(one.initResource(), "apid", 3);
    co_await change.send();
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }

 private:
  [[maybe_unused]] FakeNode& node_;
  bool sensitive;
  Registry registry;

  // Returns the name of the type, or fails as a node does.
  kj::StringPtr typeOf(rpc::Kind::Reader kind) const {
    auto& type = registry.find(kind.getType());
    bool exists = kind.getNamespace().size() == 0;
    for (auto known : Registry::namespaces()) exists = exists || known == kind.getNamespace();
    if (!exists) fail(ErrorKind::kNotFound, kj::str("unknown namespace ", kind.getNamespace()));
    if (type.sensitive && !sensitive) {
      fail(ErrorKind::kPermissionDenied,
           kj::str("reading ", type.name, " needs the role os:admin"));
    }
    return type.name;
  }
  static void fill(rpc::Metadata::Builder metadata, kj::StringPtr ns, kj::StringPtr type,
                   kj::StringPtr id, uint64_t version) {
    metadata.setNamespace(ns);
    metadata.setType(type);
    metadata.setId(id);
    metadata.setVersion(version);
  }
  static void fillService(rpc::Resource::Builder resource, kj::StringPtr id, uint64_t version) {
    fill(resource.initMetadata(), "runtime", typeName<rpc::ServiceSpec>(), id, version);
    auto spec = resource.getSpec().initAs<rpc::ServiceSpec>();
    spec.setRunning(true);
    spec.setHealthy(id == "apid");
  }
};

class FakeNodeServer final : public rpc::Node::Server {
 public:
  explicit FakeNodeServer(FakeNode& node) : node_(node) {}

  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<FakeMachine>(node_));
    return kj::READY_NOW;
  }
  kj::Promise<void> services(ServicesContext context) override {
    context.getResults().setServices(kj::heap<FakeServices>(node_));
    return kj::READY_NOW;
  }
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setLogs(kj::heap<FakeLogs>(node_));
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext context) override {
    context.getResults().setFiles(kj::heap<FakeFiles>(node_));
    return kj::READY_NOW;
  }
  kj::Promise<void> events(EventsContext context) override {
    context.getResults().setEvents(kj::heap<FakeEvents>(node_));
    return kj::READY_NOW;
  }
  kj::Promise<void> containers(ContainersContext context) override {
    context.getResults().setContainers(kj::heap<FakeContainers>(node_.pods, node_.pullsHang));
    return kj::READY_NOW;
  }
  kj::Promise<void> network(NetworkContext context) override {
    context.getResults().setNetwork(kj::heap<FakeNetwork>(node_.captured));
    return kj::READY_NOW;
  }
  kj::Promise<void> configuration(ConfigurationContext context) override {
    if (node_.hangs) return kj::NEVER_DONE;
    context.getResults().setConfiguration(
        kj::heap<FakeConfiguration>(node_.config, node_.bootId, node_.rebooting));
    return kj::READY_NOW;
  }
  kj::Promise<void> storage(StorageContext context) override {
    context.getResults().setStorage(kj::heap<FakeStorage>(node_.meta));
    return kj::READY_NOW;
  }
  kj::Promise<void> etcd(EtcdContext context) override {
    context.getResults().setEtcd(kj::heap<FakeEtcdServer>(node_.upgrades));
    return kj::READY_NOW;
  }
  kj::Promise<void> kubernetes(KubernetesContext context) override {
    context.getResults().setKubernetes(kj::heap<FakeKubernetesServer>(node_.kubernetes));
    return kj::READY_NOW;
  }
  kj::Promise<void> upgrades(UpgradesContext context) override {
    context.getResults().setUpgrades(kj::heap<FakeUpgradesServer>(node_.upgrades));
    return kj::READY_NOW;
  }
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(kj::heap<FakeResources>(node_, false));
    return kj::READY_NOW;
  }
  kj::Promise<void> sensitiveResources(SensitiveResourcesContext context) override {
    if (node_.resourcesRefused)
      fail(ErrorKind::kPermissionDenied, "Node.sensitiveResources needs os:admin");
    context.getResults().setResources(kj::heap<FakeResources>(node_, true));
    return kj::READY_NOW;
  }

 private:
  [[maybe_unused]] FakeNode& node_;
};

}  // namespace talos::talosctl
