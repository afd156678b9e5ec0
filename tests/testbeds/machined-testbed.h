// The whole server of machined.sock: the store, logs, events, services, facts and files of machined
// around a model of process 1, and its clients' side of a conversation (rpc Machined).
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "machined/api/audit-line.h"
#include "machined/api/files-server.h"
#include "machined/api/kmsg.h"
#include "machined/api/machine-server.h"
#include "machined/api/node-server.h"
#include "machined/logs/events-and-logs-server.h"
#include "machined/process1/read-pool.h"
#include "machined/process1/test-process1.h"
#include "machined/resources/store-server.h"
#include "machined/services/services-server.h"
#include "machined/services/supervisor.h"
#include "rpc/network-resources.capnp.h"
#include "tests/testbeds/conversation.h"

namespace talos::testbeds {

class MachinedTestbed final : private kj::Clock {
 public:
  MachinedTestbed(kj::AsyncIoContext& io, kj::Timer& timer)
      : pool(io.provider->getTimer(), {}, [](kj::StringPtr) {}),
        events(*this, process1),
        logs(process1, io.unixEventPort),
        store(registry, *this),
        supervisor(machined::Supervisor::Dependencies{
            .process1 = process1,
            .timer = timer,
            .clock = *this,
            .random = []() { return 0.5; },
            .output = [this](kj::StringPtr id) { return logs.writer(id); },
            .announce =
                [this](rpc::ServiceStateEvent::Reader event) {
                  events.publish([&](rpc::Event::Builder e) { e.setService(event); });
                }}),
        node(machined::serveNode(
            {.machine = makeMachine(timer),
             .services = machined::serveServices(supervisor),
             .events = machined::serveEvents(events, noEvents, kj::addRef(*calls)),
             .logs = machined::serveLogs(logs, emptyKernelLog, noLog, kj::addRef(*calls)),
             .files = kj::heap<machined::FilesServer>(pool, timer, kj::addRef(*calls)),
             .resources = machined::serveResources(store, false, kj::addRef(*calls)),
             .sensitiveResources = machined::serveResources(store, true, kj::addRef(*calls)),
             .networkd = KJ_EXCEPTION(DISCONNECTED, "networkd does not run"),
             .configuration = KJ_EXCEPTION(DISCONNECTED, "no config is kept here"),
             .storage = KJ_EXCEPTION(DISCONNECTED, "there are no disks here"),
             .containers = KJ_EXCEPTION(DISCONNECTED, "there are no containers here"),
             .upgrades = KJ_EXCEPTION(DISCONNECTED, "there is no system to upgrade here"),
             .etcdSupervisor = KJ_EXCEPTION(DISCONNECTED, "there is no etcd here"),
             .kubed = KJ_EXCEPTION(DISCONNECTED, "there is no Kubernetes here")})) {
    store.attachJournal(process1).wait(io.waitScope);
    supervisor.loadSelf("machined");
    machined::ServiceDefinition probe;
    probe.id = kj::str("probe");
    probe.command = kj::str("probe");
    probe.argv = kj::arr(kj::str("/probe"));
    supervisor.load(kj::mv(probe));
    logs.append("machined", "a line\n"_kj.asArray());
    // Full rings do not grow any more.
    for (size_t i = 0; i < machined::kEventRing; ++i) events.phase("probe", rpc::Action::START);
    emptyStore();  // each kind exists
    writeFileAtomically(kj::str(directory, "/file"), "content"_kj.asArray(), 0600);
  }
  ~MachinedTestbed() noexcept(false) { removeTree(directory); }
  KJ_DISALLOW_COPY_AND_MOVE(MachinedTestbed);

  // Opens a connection of a client with this uid, which has the rights of root, or of networkd.
  capnp::Capability::Client open(unsigned uid = 0) {
    return machined::serveMachined(
        UnixPeer{1, uid, uid}, node, node, machined::serveStore(store, uid),
        [](rpc::AuditRecord::Reader record) { (void)machined::auditLine(record, kj::UNIX_EPOCH); });
  }

  // Records that a permitted client has put into the store are not a leak.
  void emptyStore() {
    for (auto ns : Registry::namespaces()) {
      if (ns == "meta") continue;
      for (auto type : store.types()) emptyKind(ns, type);
    }
  }

  // Makes the honest call: through the machine's facts and through the store.
  static kj::Promise<void> use(capnp::Capability::Client bootstrap) {
    auto machined = bootstrap.castAs<rpc::Machined>();
    auto machine = machined.nodeRequest().send().getNode().machineRequest().send().getMachine();
    auto version = machine.versionRequest().send();
    auto request = machined.storeRequest().send().getStore().listRequest();
    request.initKind().setType("hostnamespec");
    auto list = request.send();
    auto answer = co_await version;
    KJ_ASSERT(answer.getTag() == "probe");
    co_await list.ignoreResult();
  }

  // Returns the calls of networkd, of apid, and of an operator through apid.
  kj::Array<kj::byte> conversation() const {
    Conversation c;
    c.call<rpc::Machined, rpc::Machined::NodeParams>(1, 0, 0);
    c.call<rpc::Machined, rpc::Machined::StoreParams>(2, 0, 1);
    sayStore(c);
    sayNode(c);
    for (unsigned i = 0; i < 8; ++i) c.answer(i);
    return c.finish();
  }
  // Numbers of answers to its calls; the signal is refused, because the service is not up that
  // quickly.
  static constexpr unsigned kResults = 24, kFailures = 2;
  // Number of requested reboots and shutdowns.
  unsigned reboots = 0, shutdowns = 0;

 private:
  ReadPool pool;
  kj::Own<machined::ClientCalls> calls = machined::ClientCalls::alone();
  machined::FakeMachine machine;
  machined::FakeProcess1 process1{machine};
  machined::Events events;
  machined::Logs logs;
  Registry registry;
  machined::Store store;
  machined::Supervisor supervisor;
  struct Operations final : machined::MachineOperations {
    explicit Operations(MachinedTestbed& bed) : bed(bed) {}
    MachinedTestbed& bed;
    kj::Promise<void> reboot() override {
      ++bed.reboots;
      return kj::READY_NOW;
    }
    kj::Promise<void> shutdown() override {
      ++bed.shutdowns;
      return kj::READY_NOW;
    }
    void fillStatus(rpc::Status::Builder status) override { status.setPhase("probe"); }
    kj::Vector<machined::ServiceCgroup> runningServices() override { return {}; }
    kj::Promise<machined::TimeAnswer> queryTime(kj::String server) override {
      return machined::TimeAnswer{kj::mv(server), kj::UNIX_EPOCH, kj::UNIX_EPOCH};
    }
    kj::Maybe<pki::CertificateAndKey> authority() override { return nullptr; }
    kj::Promise<machined::ResetFacts> previewReset(kj::Vector<kj::String>, bool) override {
      return machined::ResetFacts{kj::str("/dev/vda"), {}};
    }
    kj::Promise<void> reset(kj::Vector<kj::String>, bool, bool) override {
      ++bed.reboots;
      return kj::READY_NOW;
    }
    kj::Promise<pki::Pem> kubeconfig() override { return pki::Pem(kj::str("probe")); }
    kj::Vector<machined::ControllerLinks> dependencies() override { return {}; }
    void fillSamples(uint64_t, rpc::Machine::SamplesResults::Builder) override {}
  };
  Operations operations{*this};
  rpc::Node::Client node;
  kj::String directory = makeDirectory();

  void emptyKind(kj::StringPtr ns, kj::StringPtr type) {
    for (;;) {
      auto found = store.list(ns, type);
      if (found.empty()) return;
      capnp::MallocMessageBuilder message;
      message.setRoot(found[0].getMetadata());
      auto metadata = message.getRoot<rpc::Metadata>().asReader();
      for (auto f : metadata.getFinalizers()) store.removeFinalizer(ns, type, metadata.getId(), f);
      store.destroy(ns, type, metadata.getId(), metadata.getOwner());
    }
  }

  kj::Date now() const override { return kj::UNIX_EPOCH + 1'700'000'000 * kj::SECONDS; }
  static kj::String makeDirectory() {
    char name[] = "/tmp/hostile-XXXXXX";
    KJ_ASSERT(mkdtemp(name) != nullptr);
    return kj::str(name);
  }
  static kj::Promise<void> emptyKernelLog(rpc::Logs::KernelParams::Reader) { return kj::READY_NOW; }
  static kj::Promise<void> noLog(rpc::Logs::PreviousParams::Reader) {
    return KJ_EXCEPTION(DISCONNECTED, "there is no disk here");
  }
  static kj::Promise<void> noEvents(rpc::Events::PreviousParams::Reader) {
    return KJ_EXCEPTION(DISCONNECTED, "there is no disk here");
  }
  rpc::Machine::Client makeMachine(kj::Timer& timer) {
    machined::MachineIdentity identity;
    identity.tag = kj::str("probe");
    return kj::heap<machined::MachineServer>(pool, timer, kj::mv(identity), operations,
                                             kj::addRef(*calls));
  }

  static constexpr kj::StringPtr kKind = "HostnameSpecs.net.talos.dev"_kj;
  template <typename Params>
  static void name(Params params, kj::StringPtr id = "x") {
    params.initKind().setType(kKind);
    params.setId(id);
  }

  static void sayStore(Conversation& c) {
    c.call<rpc::Resources, rpc::Resources::WatchParams>(20, 2, 3, [](auto params) {
      name(params, "");
      params.setSink(Conversation::sink<rpc::ResourceSink>());
    });
    c.call<rpc::Resources, rpc::Resources::TypesParams>(21, 2, 0);
    c.call<rpc::Store, rpc::Store::PutParams>(22, 2, 0, [](auto params) {
      auto resource = params.initResource();
      auto metadata = resource.initMetadata();
      metadata.setType(kKind);
      metadata.setId("x");
      metadata.setOwner("probe");
      resource.getSpec().template initAs<rpc::HostnameSpecSpec>().setHostname("a");
    });
    c.call<rpc::Resources, rpc::Resources::GetParams>(23, 2, 1, [](auto params) { name(params); });
    c.call<rpc::Resources, rpc::Resources::ListParams>(
        24, 2, 2, [](auto params) { params.initKind().setType("hostnamespec"); });
    c.call<rpc::Store, rpc::Store::AddFinalizerParams>(25, 2, 3, [](auto params) {
      name(params);
      params.setFinalizer("f");
    });
    c.call<rpc::Store, rpc::Store::TeardownParams>(26, 2, 2, [](auto params) {
      name(params);
      params.setOwner("probe");
    });
    c.call<rpc::Store, rpc::Store::RemoveFinalizerParams>(27, 2, 4, [](auto params) {
      name(params);
      params.setFinalizer("f");
    });
    c.call<rpc::Store, rpc::Store::DestroyParams>(28, 2, 1, [](auto params) {
      name(params);
      params.setOwner("probe");
    });
  }

  void sayNode(Conversation& c) const {
    c.call<rpc::Node, rpc::Node::MachineParams>(30, 1, 0);
    c.call<rpc::Node, rpc::Node::ServicesParams>(31, 1, 1);
    c.call<rpc::Node, rpc::Node::EventsParams>(32, 1, 2);
    c.call<rpc::Node, rpc::Node::LogsParams>(33, 1, 3);
    c.call<rpc::Node, rpc::Node::FilesParams>(34, 1, 4);
    c.call<rpc::Node, rpc::Node::SensitiveResourcesParams>(35, 1, 7);
    c.call<rpc::Events, rpc::Events::WatchParams>(36, 32, 0, [](auto params) {
      params.initTail().setLast(3);
      params.setSink(Conversation::sink<rpc::EventSink>());
    });
    c.call<rpc::Logs, rpc::Logs::ReadParams>(37, 33, 1, [](auto params) {
      params.setId("machined");
      params.setFollow(true);
      params.setSink(Conversation::sink<rpc::LogSink>());
    });
    c.call<rpc::Files, rpc::Files::ListParams>(38, 34, 0, [this](auto params) {
      params.setRoot(directory);
      params.setRecurse(true);
      params.setSink(Conversation::sink<rpc::FileSink>());
    });
    c.call<rpc::Files, rpc::Files::ReadParams>(39, 34, 2, [this](auto params) {
      params.setPath(kj::str(directory, "/file"));
      params.setSink(Conversation::sink<rpc::ByteSink>());
    });
    c.call<rpc::Machine, rpc::Machine::VersionParams>(40, 30, 0);
    c.call<rpc::Machine, rpc::Machine::StatusParams>(41, 30, 1);
    c.call<rpc::Services, rpc::Services::ListParams>(42, 31, 0);
    c.call<rpc::Services, rpc::Services::StartParams>(43, 31, 1,
                                                      [](auto params) { params.setId("probe"); });
    c.call<rpc::Services, rpc::Services::KillParams>(44, 31, 4, [](auto params) {
      params.setId("probe");
      params.setSignal(15);
    });
    c.call<rpc::Services, rpc::Services::SetLogLevelParams>(
        48, 31, 5, [](auto params) { params.setId("probe"); });
    c.call<rpc::Services, rpc::Services::StopParams>(45, 31, 2,
                                                     [](auto params) { params.setId("probe"); });
    c.call<rpc::Logs, rpc::Logs::ListParams>(46, 33, 0);
    c.call<rpc::Resources, rpc::Resources::ListParams>(
        47, 35, 2, [](auto params) { params.initKind().setType("apicertificates"); });
  }
};

}  // namespace talos::testbeds
