// Models of a node's capabilities for tests of methods with code; they record their calls.
#pragma once

#include "apid/grpc/test-grpc-api.h"
#include "common/base/resource.h"
#include "common/kube/kubeconfig.h"
#include "common/tls/pki.h"
#include "common/wire/test-pods.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::grpcapi {

// The calls that the models received, and their answers.
struct Testbed {
  rpc::ApplyMode mode = rpc::ApplyMode::AUTO;
  std::string document;
  bool dryRun = false;
  uint64_t tryTimeoutMs = 0, lifetimeS = 0;
  std::vector<std::string> labels, roles;
  std::string refusedRequest = "none";  // certificate request that was refused
  int resets = 0;
  std::string wiped;  // "zero vdb vdc"
  bool graceful = false, reboot = false;
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  kj::Maybe<rpc::EventSink::Client> events;
  kj::Maybe<rpc::ResourceSink::Client> statuses;
  std::vector<std::string> tails;  // "last -1, once", for each watch of events
  using EventsOfSink = capnp::StreamingRequest<rpc::EventSink::EventsParams>;
  kj::Maybe<kj::Function<void(EventsOfSink&)>> past;  // Fills in the past events.
  uint64_t updated = 0;                               // time of the machine's status, ns since 1970
  uint64_t leftOut = 0;                               // omitted sockets
  uint32_t items = 0;                                 // items of a list; 0: the usual ones
  ModelPods pods;
  bool admin = true;  // The caller is an administrator.
  std::string kubeconfig = usualKubeconfig();
  kj::ForkedPromise<void> snapshotGate =
      kj::Promise<void>(kj::READY_NOW).fork();  // the machine's status

  std::string usualKubeconfig() {
    auto admin =
        pki::issue(authority.certificate, authority.key, {.commonName = "admin", .server = false});
    pki::Pem text =
        kube::writeKubeconfig({.cluster = "c1",
                               .server = "https://10.5.0.1:6443",
                               .authority = authority.certificate,
                               .user = "admin@c1",
                               .credentials = kube::ClientPair{admin.certificate, admin.key},
                               .context = "admin@c1",
                               .nameSpace = "default"});
    return kj::StringPtr(text).cStr();
  }
};

class FakeMachine final : public rpc::Machine::Server {
 public:
  explicit FakeMachine(Testbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> memory(MemoryContext context) override {
    auto fields = context.getResults().initFields(kj::max(bed.items, 4u));
    auto set = [&](unsigned i, const char* name, uint64_t value) {
      fields[i].setName(name);
      fields[i].setValue(value);
    };
    set(0, "MemTotal", 100);
    set(1, "Active(anon)", 9);
    set(2, "HugePages_Total", 41);
    set(3, "SecPageTables", 7);  // a field newer than Talos
    return kj::READY_NOW;
  }
  kj::Promise<void> netstat(NetstatContext context) override {
    if (bed.pods.sockets(context.getParams().getProcess(), context.getResults())) {
      return kj::READY_NOW;
    }
    context.getResults().setLeftOut(bed.leftOut);
    auto sockets = context.getResults().initSockets(kj::max(bed.items, 3u));
    sockets[0].setProtocol("tcp");
    sockets[0].setState("LISTEN");
    sockets[0].setLocalPort(50000);
    sockets[1].setProtocol("tcp");
    sockets[1].setState("ESTABLISHED");
    sockets[1].setRemotePort(443);
    sockets[1].setPid(7);
    sockets[1].setProgram("kubelet");
    sockets[2].setProtocol("udp");
    return kj::READY_NOW;
  }
  kj::Promise<void> dependencies(DependenciesContext context) override {
    auto controller = context.getResults().initControllers(1)[0];
    controller.setName("networkd");
    auto input = controller.initReads(1)[0];
    input.setNamespace("network");
    input.setType("LinkSpecs.net.talos.dev");
    controller.initWrites(1).set(0, "LinkStatuses.net.talos.dev");
    return kj::READY_NOW;
  }
  kj::Promise<void> counters(CountersContext context) override {
    auto one = [&](const char* text) { context.getResults().initFiles(1)[0].setText(text); };
    switch (context.getParams().getOf()) {
      case rpc::Counter::LOAD:
        one("0.5 0.25 0.125 1/1 1\n");
        break;
      case rpc::Counter::SYSTEM:
        one("ctxt 7\n");
        break;
      case rpc::Counter::PROCESSORS:
        one("processor: 0\nsiblings: 4\n");
        break;
      case rpc::Counter::NETWORK:
        one("eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
        break;
      case rpc::Counter::DISKS:
        fail(ErrorKind::kPermissionDenied, "Machine.counters needs the role os:reader");
      case rpc::Counter::FREQUENCIES:
      case rpc::Counter::KERNEL:
        break;
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> kubeconfig(KubeconfigContext context) override {
    context.getResults().setKubeconfig(
        kj::arrayPtr(bed.kubeconfig.data(), bed.kubeconfig.size()).asBytes());
    return kj::READY_NOW;
  }
  kj::Promise<void> clientCertificate(ClientCertificateContext context) override {
    auto params = context.getParams();
    pki::LeafOptions options;
    for (auto role : params.getRoles()) bed.roles.push_back(role.cStr());
    bed.lifetimeS = params.getLifetimeS();
    auto results = context.getResults();
    auto request = kj::heapString(params.getRequest().asChars());
    if (!bed.admin) {
      bed.refusedRequest = request.cStr();
      fail(ErrorKind::kPermissionDenied, "Machine.clientCertificate needs the role os:admin");
    }
    results.setCa(bed.authority.certificate.asBytes());
    results.setCertificate(
        pki::signRequest(bed.authority.certificate, bed.authority.key, request, kj::mv(options))
            .asBytes());
    return kj::READY_NOW;
  }
  kj::Promise<void> reset(ResetContext context) override {
    auto params = context.getParams();
    ++bed.resets;
    bed.graceful = params.getGraceful();
    bed.reboot = params.getReboot();
    for (auto label : params.getLabels()) bed.labels.push_back(label.cStr());
    return kj::READY_NOW;
  }

 private:
  Testbed& bed;
};

class FakeConfiguration final : public rpc::Configuration::Server {
 public:
  explicit FakeConfiguration(Testbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> apply(ApplyContext context) override {
    auto request = context.getParams().getRequest();
    bed.mode = request.getMode();
    bed.document =
        std::string(request.getDocument().asChars().begin(), request.getDocument().size());
    bed.dryRun = request.getDryRun();
    bed.tryTimeoutMs = request.getTryTimeoutMs();
    auto result = context.getResults().initResult();
    bool automatic = request.getMode() == rpc::ApplyMode::AUTO;
    result.setMode(automatic ? rpc::ApplyMode::NO_REBOOT : request.getMode());
    result.setRevertsInMs(bed.tryTimeoutMs);
    result.initWarnings(1).set(0, "a warning");
    result.setDiff("- a\n+ b\n");
    return kj::READY_NOW;
  }
  kj::Promise<void> generate(GenerateContext context) override {
    auto request = context.getParams().getRequest();
    EXPECT_STREQ("one", request.getClusterName().cStr());
    EXPECT_STREQ("https://10.0.0.1:6443", request.getEndpoint().cStr());
    EXPECT_STREQ("/dev/vda", request.getInstallDisk().cStr());
    auto documents = context.getResults().initDocuments(3);
    auto set = [&](unsigned i, const char* name) {
      documents[i].setName(name);
      documents[i].setContent(kj::str("content of ", name).asBytes());
    };
    set(0, "controlplane.yaml");
    set(1, "join.yaml");
    set(2, "talosconfig");
    return kj::READY_NOW;
  }

 private:
  Testbed& bed;
};

class FakeStorage final : public rpc::Storage::Server {
 public:
  explicit FakeStorage(Testbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> wipe(WipeContext context) override {
    auto params = context.getParams();
    bed.wiped = params.getZeroes() ? "zero" : "wipe";
    for (auto name : params.getDevices()) bed.wiped += std::string(" ") + name.cStr();
    return kj::READY_NOW;
  }

 private:
  Testbed& bed;
};

class FakeFiles final : public rpc::Files::Server {
 public:
  explicit FakeFiles(Testbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> list(ListContext context) override { return bed.pods.links(context); }
  kj::Promise<void> copy(CopyContext context) override {
    auto request = context.getParams().getSink().writeRequest();
    request.setBytes("archive"_kj.asBytes());
    co_await request.send();
    if (context.getParams().getPath() == "/proc") {
      context.getResults().initUnreadable(1).set(0, "/proc/kmsg");
    }
  }

 private:
  Testbed& bed;
};

class FakeContainers final : public rpc::Containers::Server {
 public:
  explicit FakeContainers(Testbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> list(ListContext context) override {
    EXPECT_TRUE(context.getParams().getKubernetes());
    bed.pods.list(context.getResults().initContainers(2 * bed.pods.pods.size()));
    return kj::READY_NOW;
  }

 private:
  Testbed& bed;
};

class FakeEvents final : public rpc::Events::Server {
 public:
  explicit FakeEvents(Testbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> watch(WatchContext context) override {
    auto params = context.getParams();
    auto tail = params.getTail();
    constexpr size_t kEventId = 20;
    if (tail.isAfter() && tail.getAfter().size() != kEventId) {
      fail(ErrorKind::kInvalidArgument, kj::str("\"", tail.getAfter(), "\" is not an event id"));
    }
    auto text = tail.isLast()      ? kj::str("last ", tail.getLast())
                : tail.isSeconds() ? kj::str("seconds ", tail.getSeconds())
                : tail.isAfter()   ? kj::str("after ", tail.getAfter())
                                   : kj::str("none");
    bed.tails.push_back(kj::str(text, params.getOnce() ? ", once" : "").cStr());
    if (!params.getOnce()) {
      bed.events = params.getSink();
      co_await kj::Promise<void>(kj::NEVER_DONE);
    }
    auto sink = params.getSink();
    KJ_IF_MAYBE (fill, bed.past) {
      auto request = sink.eventsRequest();
      (*fill)(request);
      co_await request.send();
    }
  }

 private:
  Testbed& bed;
};

class FakeResources final : public rpc::Resources::Server {
 public:
  explicit FakeResources(Testbed& bed) : bed(bed) {}
  static void fill(rpc::Resource::Builder resource, const char* stage, bool ready,
                   uint64_t updated) {
    auto metadata = resource.initMetadata();
    metadata.setId("machine");
    metadata.setUpdated(updated);
    auto spec = resource.initSpec().initAs<rpc::MachineStatusSpec>();
    spec.setStage(stage);
    spec.setReady(ready);
  }

 protected:
  kj::Promise<void> watch(WatchContext context) override {
    if (context.getParams().getKind().getType() != typeName<rpc::MachineStatusSpec>()) {
      kj::throwFatalException(KJ_EXCEPTION(UNIMPLEMENTED, "the model has no other resource"));
    }
    EXPECT_STREQ("machine", context.getParams().getId().cStr());
    auto sink = context.getParams().getSink();
    bed.statuses = sink;
    co_await bed.snapshotGate.addBranch();
    auto request = sink.snapshotRequest();
    fill(request.initResources(1)[0], "running", true, bed.updated);
    co_await request.send();
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }

 private:
  Testbed& bed;
};

class FakeNode final : public rpc::Node::Server {
 public:
  explicit FakeNode(Testbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<FakeMachine>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> sensitiveResources(SensitiveResourcesContext context) override {
    if (!bed.admin) {
      fail(ErrorKind::kPermissionDenied, "Node.sensitiveResources needs the role os:admin");
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> configuration(ConfigurationContext context) override {
    context.getResults().setConfiguration(kj::heap<FakeConfiguration>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext context) override {
    context.getResults().setFiles(kj::heap<FakeFiles>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> storage(StorageContext context) override {
    context.getResults().setStorage(kj::heap<FakeStorage>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> containers(ContainersContext context) override {
    context.getResults().setContainers(kj::heap<FakeContainers>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> events(EventsContext context) override {
    context.getResults().setEvents(kj::heap<FakeEvents>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(kj::heap<FakeResources>(bed));
    return kj::READY_NOW;
  }

 private:
  Testbed& bed;
};

struct MachineMethodsTest : testing::GrpcApiTest {
  Testbed bed;
  MachineMethodsTest() {
    for (auto name : {"", "node"}) cluster->nodes.insert({name, kj::heap<FakeNode>(bed)});
  }
  ~MachineMethodsTest() noexcept override {
    handler = nullptr;
    bed.events = nullptr;
    bed.statuses = nullptr;
  }
};

}  // namespace talos::grpcapi
