// Models of a node's capabilities for tests of the gRPC API; they record the calls that they
// receive.
#pragma once

#include <signal.h>

#include "apid/grpc/grpc-api.h"
#include "apid/grpc/test-grpc-api.h"
#include "common/base/resource.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::grpcapi {

// The calls that the models of a node received, and their faults.
struct Record {
  int killed = 0;
  std::string image, query;  // arguments of an upgrade
  std::string kubelet;       // its image; empty: no kubelet
  int64_t tail = 0;
  uint32_t filler = 0;  // bytes of the host's name; 0: a usual name
  bool follow = false, ended = false, failsLate = false;
  kj::Vector<rpc::LogSink::Client> sinks;
  kj::Maybe<kj::Promise<void>> held;  // a write to the kernel log's sink
  kj::Vector<kj::Promise<void>> burst;
};

class ModelMachine final : public rpc::Machine::Server {
 public:
  ModelMachine(kj::StringPtr tag, Record& record) : tag(kj::str(tag)), record(record) {}

 protected:
  kj::Promise<void> version(VersionContext context) override {
    auto r = context.getResults();
    r.setTag(tag);
    r.setSha(tag);
    // Fails after the answers of all others.
    for (unsigned i = 0; record.failsLate && i < 50; ++i) co_await kj::evalLater([]() {});
    if (record.failsLate) fail(ErrorKind::kUnavailable, "it went away");
    r.setHostname(record.filler == 0 ? kj::str("master-1")
                                     : kj::str(kj::repeat('h', record.filler)));
    r.setOs("linux");
    r.setMode("metal");
  }
  kj::Promise<void> mounts(MountsContext context) override {
    auto list = context.getResults().initMounts(60'000);
    for (auto m : list) m.setFilesystem("/dev/disk/by-partlabel/EPHEMERAL/and/more/of/it");
    return kj::READY_NOW;
  }
  kj::Promise<void> shutdown(ShutdownContext context) override { return kj::READY_NOW; }
  kj::Promise<void> reboot(RebootContext context) override {
    fail(ErrorKind::kPermissionDenied, "Machine.reboot needs the role os:operator");
  }

 private:
  kj::String tag;
  Record& record;
};

class ModelServices final : public rpc::Services::Server {
 public:
  explicit ModelServices(Record& record) : record(record) {}

 protected:
  kj::Promise<void> list(ListContext context) override {
    auto list = context.getResults().initServices(2);
    list[0].setId("apid");
    list[0].setState(rpc::ServiceState::RUNNING);
    auto event = list[0].initEvents(1)[0];
    event.setState(rpc::ServiceState::PREPARING);
    event.setMessage("Starting");
    event.setTime(1'500'000'000);
    auto health = list[0].initHealth();
    health.setUnknown(false);
    health.setHealthy(true);
    list[1].setId("kubelet");
    list[1].getHealth().setUnknown(false);
    return kj::READY_NOW;
  }
  kj::Promise<void> start(StartContext context) override {
    auto id = context.getParams().getId();
    if (id != "apid") fail(ErrorKind::kNotFound, kj::str("service \"", id, "\" is not registered"));
    context.getResults().setResponse("Service \"apid\" started");
    return kj::READY_NOW;
  }
  kj::Promise<void> kill(KillContext context) override {
    auto id = context.getParams().getId();
    auto signal = context.getParams().getSignal();
    bool suspends =
        signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    if (signal < 1 || signal > SIGRTMAX || suspends) {
      fail(ErrorKind::kInvalidArgument, kj::str(signal, " is not a signal for a service"));
    }
    if (id == "etcd") fail(ErrorKind::kFailedPrecondition, "etcd does not run");
    if (id != "apid") fail(ErrorKind::kNotFound, "no service");
    record.killed = context.getParams().getSignal();
    return kj::READY_NOW;
  }

 private:
  Record& record;
};

class ModelLogs final : public rpc::Logs::Server {
 public:
  explicit ModelLogs(Record& record) : record(record) {}

 protected:
  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    auto id = params.getId();
    if (id != "apid" && id != "kubelet" && id != "machined") {
      fail(ErrorKind::kNotFound, kj::str("log \"", id, "\" was not registered"));
    }
    record.tail = params.getTailLines();
    record.follow = params.getFollow();
    auto sink = params.getSink();
    record.sinks.add(sink);
    for (auto line : {"one\ntwo\n", "three\n"}) {
      auto request = sink.writeRequest();
      request.setBytes(kj::StringPtr(line).asBytes());
      co_await request.send();
    }
    KJ_DEFER(record.ended = true);
    if (record.follow) co_await kj::Promise<void>(kj::NEVER_DONE);
  }
  kj::Promise<void> kernel(KernelContext context) override {
    auto sink = context.getParams().getSink();
    if (context.getParams().getFollow()) {  // Behaves like a distant node.
      auto line = sink.writeRequest();
      line.setBytes("kern: info: a\n"_kj.asBytes());
      record.held = line.send();
      co_await kj::Promise<void>(kj::NEVER_DONE);
    }
    auto request = sink.writeRequest();
    request.setBytes("kern: info: a\nkern: info: b\nkern:"_kj.asBytes());
    co_await request.send();
    fail(ErrorKind::kInternal, "the kernel log broke");
  }

 private:
  Record& record;
};

class ModelFiles final : public rpc::Files::Server {
 public:
  explicit ModelFiles(Record& record) : record(record) {}

 protected:
  // Behaves like a distant node: it has sent everything before the client has taken anything.
  kj::Promise<void> read(ReadContext context) override {
    auto sink = context.getParams().getSink();
    for (auto part : {"a", "b", "c"}) {
      auto request = sink.writeRequest();
      request.setBytes(kj::StringPtr(part).asBytes());
      record.burst.add(request.send().eagerlyEvaluate(nullptr));
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> copy(CopyContext context) override {
    auto sink = context.getParams().getSink();
    for (auto part : {"arch", "ive"}) {
      auto request = sink.writeRequest();
      request.setBytes(kj::StringPtr(part).asBytes());
      record.burst.add(request.send().eagerlyEvaluate(nullptr));
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> list(ListContext context) override {
    auto params = context.getParams();
    EXPECT_EQ(2u, params.getTypes().size());
    EXPECT_EQ(0u, params.getDepth());
    auto request = params.getSink().filesRequest();
    auto files = request.initFiles(2);
    files[0].setName("/var");
    files[0].setMode(040755);
    files[1].setName("/var/log");
    files[1].setMode(0100600);
    files[1].setSize(17);
    co_await request.send();
  }

 private:
  Record& record;
};

class ModelNetwork final : public rpc::Network::Server {
 protected:
  kj::Promise<void> routes(RoutesContext context) override {
    auto routes = context.getResults().initRoutes(2);
    routes[0].setScope("link");
    routes[1].setScope("global");
    return kj::READY_NOW;
  }
};

class ModelUpgrades final : public rpc::Upgrades::Server {
 public:
  explicit ModelUpgrades(Record& record) : record(record) {}

 protected:
  kj::Promise<void> upgrade(UpgradeContext context) override {
    record.image = context.getParams().getImage().cStr();
    record.query = context.getParams().getQuery().cStr();
    if (record.image == "private") {
      fail(ErrorKind::kPermissionDenied, "the registry wants credentials");
    }
    return kj::READY_NOW;
  }

 private:
  Record& record;
};

class ModelContainers final : public rpc::Containers::Server {
 protected:
  kj::Promise<void> images(ImagesContext context) override {
    auto images = context.getResults().initImages(3);
    images[0].setName("registry.example/kubelet:v1");
    images[0].setDigest("sha256:1");
    images[1].setName("registry.example/kubelet@sha256:1");
    images[1].setDigest("sha256:1");
    images[2].setName("registry.example/pause:3");
    images[2].setDigest("sha256:3");
    return kj::READY_NOW;
  }
  kj::Promise<void> pull(PullContext context) override { return kj::READY_NOW; }
};

// Serves only the kubelet's spec.
class ModelKubelet final : public rpc::Resources::Server {
 public:
  explicit ModelKubelet(Record& record) : record(record) {}

 protected:
  kj::Promise<void> get(GetContext context) override {
    if (context.getParams().getKind().getType() != typeName<rpc::KubeletSpecSpec>()) {
      kj::throwFatalException(KJ_EXCEPTION(UNIMPLEMENTED, "the model has no other resource"));
    }
    if (record.kubelet.size() == 0) fail(ErrorKind::kNotFound, "no such resource");
    auto spec = context.getResults().initResource().initSpec().initAs<rpc::KubeletSpecSpec>();
    spec.setImage(record.kubelet);
    return kj::READY_NOW;
  }

 private:
  Record& record;
};

class ModelNode final : public rpc::Node::Server {
 public:
  ModelNode(kj::StringPtr tag, Record& record) : tag(kj::str(tag)), record(record) {}

 protected:
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<ModelMachine>(tag, record));
    return kj::READY_NOW;
  }
  kj::Promise<void> network(NetworkContext context) override {
    context.getResults().setNetwork(kj::heap<ModelNetwork>());
    return kj::READY_NOW;
  }
  kj::Promise<void> containers(ContainersContext context) override {
    context.getResults().setContainers(kj::heap<ModelContainers>());
    return kj::READY_NOW;
  }
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(kj::heap<ModelKubelet>(record));
    return kj::READY_NOW;
  }
  kj::Promise<void> upgrades(UpgradesContext context) override {
    context.getResults().setUpgrades(kj::heap<ModelUpgrades>(record));
    return kj::READY_NOW;
  }
  kj::Promise<void> services(ServicesContext context) override {
    context.getResults().setServices(kj::heap<ModelServices>(record));
    return kj::READY_NOW;
  }
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setLogs(kj::heap<ModelLogs>(record));
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext context) override {
    context.getResults().setFiles(kj::heap<ModelFiles>(record));
    return kj::READY_NOW;
  }

 private:
  kj::String tag;
  Record& record;
};

struct CallTest : testing::GrpcApiTest {
  ~CallTest() noexcept override { handler = nullptr; }
  Record local, other;
  CallTest() {
    cluster->nodes.insert({"", kj::heap<ModelNode>("v1.0.0", local)});
    cluster->nodes.insert({"10.0.0.2", kj::heap<ModelNode>("v2.0.0", other)});
  }
};

}  // namespace talos::grpcapi
