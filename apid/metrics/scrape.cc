#include "apid/metrics/scrape.h"

#include <kj/debug.h>

#include "apid/metrics/kernel-metrics.h"
#include "apid/metrics/node-metrics.h"
#include "common/base/error.h"
#include "common/base/within.h"

namespace talos::metrics {
namespace {

constexpr auto kPart = 5 * kj::SECONDS;  // deadline of one call

template <typename Results>
using Answer = kj::Maybe<capnp::Response<Results>>;

class Scrape {
 public:
  Scrape(kj::Timer& timer, rpc::Node::Client node, bool pods, MetricsText& out)
      : timer(timer),
        pods(pods),
        out(out),
        containers(node.containersRequest().send().getContainers()),
        machine(node.machineRequest().send().getMachine()),
        services(node.servicesRequest().send().getServices()),
        resources(node.resourcesRequest().send().getResources()),
        etcd(node.etcdRequest().send().getEtcd()) {}

  kj::Promise<void> run(kj::Date now, kj::Function<void(MetricsText&)>& own);

 private:
  kj::Timer& timer;
  bool pods;
  MetricsText& out;
  rpc::Containers::Client containers;
  rpc::Machine::Client machine;
  rpc::Services::Client services;
  rpc::Resources::Client resources;
  rpc::Etcd::Client etcd;
  struct Part {
    kj::StringPtr name;
    bool up;
  };
  kj::Vector<Part> parts;

  template <typename Results>
  using Asking = kj::Promise<Answer<Results>>;

  // `optional`: a part that a node may lack is not reported as down.
  template <typename Params, typename Results>
  Asking<Results> ask(kj::StringPtr part, capnp::Request<Params, Results> request,
                      bool optional = false) {
    auto sent = request.send().dropPipeline();
    return within(timer, kPart, kj::mv(sent), kj::str(part, " timed out"))
        .then(
            [this, part](capnp::Response<Results>&& answer) -> Answer<Results> {
              parts.add(Part{part, true});
              return kj::mv(answer);
            },
            [this, part, optional](kj::Exception&& e) -> Answer<Results> {
              if (!optional || kindOf(e) == ErrorKind::kDeadlineExceeded) {
                parts.add(Part{part, false});
              }
              return nullptr;
            })
        .eagerlyEvaluate(nullptr);
  }
  auto counters(kj::StringPtr part, rpc::Counter which) {
    auto request = machine.countersRequest();
    request.setOf(which);
    return ask(part, kj::mv(request));
  }
  template <typename Spec>
  Asking<rpc::Resources::ListResults> list() {
    auto request = resources.listRequest();
    auto type = typeName<Spec>();
    request.initKind().setType(type);
    return ask(type, kj::mv(request));
  }
  // Requests the names of containers, unless pods are left out. A node without containerd lists
  // no container.
  Asking<rpc::Containers::ListResults> askContainers() {
    if (!pods) return Answer<rpc::Containers::ListResults>(nullptr);
    auto request = containers.listRequest();
    request.setKubernetes(true);
    return ask("containers", kj::mv(request), true);
  }
  kj::Promise<void> writeGroups(Asking<rpc::Machine::CgroupsResults> asking,
                                Asking<rpc::Containers::ListResults> askingContainers);
  template <typename Write>
  kj::Promise<void> counted(Asking<rpc::Machine::CountersResults> asking, Write write) {
    KJ_IF_MAYBE (answer, co_await asking) {
      for (auto file : answer->getFiles()) write(out, file.getText().asArray());
    }
  }
  template <typename Write>
  kj::Promise<void> listed(Asking<rpc::Resources::ListResults> asking, Write write) {
    KJ_IF_MAYBE (answer, co_await asking) write(answer->getResources());
  }
  // Calls in progress whose answers are the state of the node and its hardware.
  using Listing = Asking<rpc::Resources::ListResults>;
  struct States {
    Asking<rpc::Etcd::StatusResults> member;
    Listing boots, times, upgrades, certificates, etcdStatuses, etcdMembers, etcdBackups, vips,
        nodes, localApis, sensors, health, memoryErrors, oomActions, logDestinations;
  };
  States askStates();
  kj::Promise<void> writeStates(States states, kj::Date now);
  void writeKernel(capnp::List<rpc::CounterFile>::Reader files);
  void writeParts();
};

void Scrape::writeKernel(capnp::List<rpc::CounterFile>::Reader files) {
  auto text = [&](kj::StringPtr path) -> FileText {
    for (auto file : files) {
      if (file.getPath() == path) return file.getText().asArray();
    }
    return nullptr;
  };
  writePressure(out, text("/proc/pressure/cpu"), text("/proc/pressure/memory"),
                text("/proc/pressure/io"));
  writeVmstat(out, text("/proc/vmstat"));
  writeFileHandles(out, text("/proc/sys/fs/file-nr"));
  writeSockets(out, text("/proc/net/sockstat"));
  writeProtocols(out, text("/proc/net/snmp"), text("/proc/net/netstat"));
  writeConnections(out, text("/proc/sys/net/netfilter/nf_conntrack_count"),
                   text("/proc/sys/net/netfilter/nf_conntrack_max"));
}

kj::Promise<void> Scrape::writeGroups(Asking<rpc::Machine::CgroupsResults> asking,
                                      Asking<rpc::Containers::ListResults> askingContainers) {
  auto groups = co_await asking;
  auto named = co_await askingContainers;
  KJ_IF_MAYBE (g, groups) {
    capnp::List<rpc::Container>::Reader list;
    KJ_IF_MAYBE (n, named) list = n->getContainers();
    writeCgroups(out, g->getGroups(), g->getLeftOut(), list, pods);
  }
}

void Scrape::writeParts() {
  out.family("talos_metrics_part_up", Type::kGauge,
             "1 if machined answered for this part of the metrics");
  for (auto& part : parts) out.add({{"part", part.name}}, part.up);
}

Scrape::States Scrape::askStates() {
  return {.member = ask("etcd", etcd.statusRequest(), true),
          .boots = list<rpc::BootRecordSpec>(),
          .times = list<rpc::TimeStatusSpec>(),
          .upgrades = list<rpc::UpgradeStatusSpec>(),
          .certificates = list<rpc::CertificateStatusSpec>(),
          .etcdStatuses = list<rpc::EtcdStatusSpec>(),
          .etcdMembers = list<rpc::EtcdMemberSpec>(),
          .etcdBackups = list<rpc::EtcdBackupStatusSpec>(),
          .vips = list<rpc::VipStatusSpec>(),
          .nodes = list<rpc::NodeStatusSpec>(),
          .localApis = list<rpc::LocalApiStatusSpec>(),
          .sensors = list<rpc::SensorReadingSpec>(),
          .health = list<rpc::DiskHealthSpec>(),
          .memoryErrors = list<rpc::MemoryErrorCountSpec>(),
          .oomActions = list<rpc::OomActionSpec>(),
          .logDestinations = list<rpc::LogDestinationStatusSpec>()};
}

kj::Promise<void> Scrape::writeStates(States states, kj::Date now) {
  co_await listed(kj::mv(states.boots), [this](auto all) { writeBoots(out, all); });
  co_await listed(kj::mv(states.times), [this](auto all) { writeTime(out, all); });
  co_await listed(kj::mv(states.upgrades), [this](auto all) { writeUpgrade(out, all); });
  co_await listed(kj::mv(states.certificates), [this](auto all) { writeCertificates(out, all); });
  auto local = co_await states.member;
  auto statuses = co_await states.etcdStatuses;
  auto members = co_await states.etcdMembers;
  KJ_IF_MAYBE (s, statuses) {
    KJ_IF_MAYBE (m, members) {
      kj::Maybe<rpc::Etcd::MemberStatus::Reader> ofLocal;
      KJ_IF_MAYBE (l, local) ofLocal = l->getStatus();
      writeEtcd(out, s->getResources(), m->getResources(), ofLocal);
    }
  }
  co_await listed(kj::mv(states.etcdBackups), [this](auto all) { writeEtcdBackup(out, all); });
  co_await listed(kj::mv(states.vips), [this, now](auto all) { writeVip(out, all, now); });
  auto nodeAnswer = co_await states.nodes;
  auto apiAnswer = co_await states.localApis;
  KJ_IF_MAYBE (n, nodeAnswer) {
    KJ_IF_MAYBE (a, apiAnswer) writeKubernetes(out, n->getResources(), a->getResources());
  }
  co_await listed(kj::mv(states.sensors), [this](auto all) { writeSensors(out, all); });
  co_await listed(kj::mv(states.health), [this](auto all) { writeDiskHealth(out, all); });
  co_await listed(kj::mv(states.memoryErrors), [this](auto all) { writeMemoryErrors(out, all); });
  co_await listed(kj::mv(states.oomActions), [this](auto all) { writeOomActions(out, all); });
  co_await listed(kj::mv(states.logDestinations),
                  [this](auto all) { writeLogDestinations(out, all); });
}

kj::Promise<void> Scrape::run(kj::Date now, kj::Function<void(MetricsText&)>& own) {
  auto version = ask("version", machine.versionRequest());
  auto status = ask("status", machine.statusRequest());
  auto stat = counters("stat", rpc::Counter::SYSTEM);
  auto load = counters("load", rpc::Counter::LOAD);
  auto disks = counters("disks", rpc::Counter::DISKS);
  auto network = counters("network", rpc::Counter::NETWORK);
  auto kernel = counters("kernel", rpc::Counter::KERNEL);
  auto memory = ask("memory", machine.memoryRequest());
  auto mounts = ask("mounts", machine.mountsRequest());
  auto cgroups = ask("cgroups", machine.cgroupsRequest());
  auto named = askContainers();
  auto listedServices = ask("services", services.listRequest());
  auto links = list<rpc::LinkStatusSpec>();
  auto states = askStates();

  KJ_IF_MAYBE (answer, co_await version) {
    utsname names{};
    uname(&names);
    writeIdentity(out, names, *answer, now);
  }
  KJ_IF_MAYBE (answer, co_await status) writeMachine(out, *answer);
  co_await counted(kj::mv(stat), writeStat);
  co_await counted(kj::mv(load), writeLoad);
  KJ_IF_MAYBE (answer, co_await memory) writeMemory(out, answer->getFields());
  KJ_IF_MAYBE (answer, co_await kernel) writeKernel(answer->getFiles());
  co_await counted(kj::mv(disks), writeDisks);
  KJ_IF_MAYBE (answer, co_await mounts) writeFilesystems(out, answer->getMounts());
  co_await counted(kj::mv(network), writeNetworkDevices);
  co_await listed(kj::mv(links), [this](auto all) { writeLinks(out, all); });
  co_await writeGroups(kj::mv(cgroups), kj::mv(named));
  KJ_IF_MAYBE (answer, co_await listedServices) writeServices(out, answer->getServices());
  co_await writeStates(kj::mv(states), now);
  own(out);
  writeParts();
}

}  // namespace

kj::Promise<void> scrapeNode(kj::Timer& timer, const kj::Clock& clock, rpc::Node::Client node,
                             bool pods, MetricsText& out, kj::Function<void(MetricsText&)>& own) {
  Scrape scrape(timer, kj::mv(node), pods, out);
  co_await scrape.run(clock.now(), own);
}

}  // namespace talos::metrics
