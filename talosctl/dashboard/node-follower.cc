#include "talosctl/dashboard/node-follower.h"

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/metrics-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/dashboard/rates.h"
#include "talosctl/views/event-row.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr uint64_t kHistoryMs = 60'000;
constexpr unsigned kSlowRounds = 5;  // data that changes seldom is requested in every fifth round
constexpr size_t kMostProcesses = 300, kMostGroups = 300;
constexpr int kEvents = 100;

using Listed = rpc::Resources::ListResults;

// Counters of one reading, and its time.
template <typename T>
struct Reading {
  kj::TimePoint at = kj::origin<kj::TimePoint>();
  T value{};
};
// The two newest readings, from which rates are calculated.
template <typename T>
struct Pair {
  Reading<T> before, now;
  void add(kj::TimePoint at, T value) {
    before = kj::mv(now);
    now = {at, kj::mv(value)};
  }
  uint64_t elapsedMs() const {
    if (before.at == kj::origin<kj::TimePoint>()) return 0;
    return uint64_t((now.at - before.at) / kj::MILLISECONDS);
  }
};

struct CpuTime {
  kj::String key;  // a path, or a process with its command
  uint64_t us;
};

kj::String processKey(rpc::Process::Reader process) {
  return kj::str(process.getPid(), " ", process.getCommand());
}

}  // namespace

struct NodeFollower::Impl {
  Impl(SharedClient& shared, kj::StringPtr address) : shared(shared), target(kj::str(address)) {}

  SharedClient& shared;
  kj::String target;
  bool closely = false;
  unsigned rounds = 0;
  kj::Maybe<kj::String> silence = kj::str("not asked yet");
  kj::Maybe<kj::TimePoint> answered;  // time of the last answer
  kj::Maybe<kj::TimePoint> began;

  Kept<rpc::Version> version;
  Kept<rpc::Status> status;
  Kept<rpc::Services::ListResults> services;
  Kept<rpc::Machine::SamplesResults> samples;
  Kept<rpc::Machine::MountsResults> mounts;
  Kept<rpc::Machine::MemoryResults> memory;
  Kept<rpc::Machine::ProcessesResults> processes;
  Kept<rpc::Machine::CgroupsResults> groups;
  Kept<rpc::Containers::ListResults> containers;
  Kept<rpc::Etcd::StatusResults> etcdMember;
  Kept<Listed> types, nodeAddresses, linkStatuses, addressStatuses, time, network, upgrade, etcd,
      vips, nodeStatus, certificates;
  Pair<kj::Vector<LinkCounts>> linkCounts;
  Pair<kj::Vector<DiskCounts>> diskCounts;
  Pair<kj::Vector<CoreTimes>> coreTimes;
  Pair<kj::Vector<CpuTime>> groupTimes, processTimes;
  kj::String load;

  // Events that the node sends while more is requested about it.
  struct Row {
    uint64_t time;
    kj::String type, source, message;
  };
  struct Events final : public kj::Refcounted {
    kj::Vector<Row> rows;
  };
  class EventSink;
  kj::Own<Events> events = kj::refcounted<Events>();
  bool watched = false;
  kj::Promise<void> watching = nullptr;

  kj::Timer& timer() { return shared.get()->client.deps.timer; }

  // --- requests; each answer is read as it arrives, so that rates belong to this time

  template <typename Results>
  kj::Promise<void> keep(Kept<Results>& slot, capnp::RemotePromise<Results> sent) {
    return keepThen(slot, kj::mv(sent), [](auto&) {});
  }
  template <typename Results, typename Then>
  kj::Promise<void> keepThen(Kept<Results>& slot, capnp::RemotePromise<Results> sent, Then then) {
    kj::Promise<capnp::Response<Results>> answer = kj::mv(sent);
    return within(timer(), SharedClient::kAnswer, kj::mv(answer))
        .then(
            [&slot, then = kj::mv(then)](capnp::Response<Results>&& results) mutable {
              then(results);
              slot = kj::mv(results);
            },
            // The previous answer stays; a node that does not answer at all is silent.
            [](kj::Exception&&) {})
        .eagerlyEvaluate(nullptr);
  }
  template <typename Spec>
  kj::Promise<void> list(rpc::Node::Client node, Kept<Listed>& slot) {
    auto request = node.resourcesRequest().send().getResources().listRequest();
    request.initKind().setType(typeName<Spec>());
    return keep(slot, request.send());
  }
  kj::Promise<void> counters(rpc::Node::Client node, rpc::Counter which,
                             kj::Function<void(kj::StringPtr text, kj::TimePoint at)> take);

  kj::Promise<void> hello(SharedClient::Held& held);
  void addFast(rpc::Node::Client node, kj::Vector<kj::Promise<void>>& waits);
  void addSlow(rpc::Node::Client node, kj::Vector<kj::Promise<void>>& waits);
  void addClose(rpc::Node::Client node, kj::Vector<kj::Promise<void>>& waits);
  void watchEvents(SharedClient::Held& held);
  kj::Promise<void> round(bool closely);

  // --- answers

  bool controlPlane() const;
  void write(rpc::DashboardNode::Builder out) const;
  void writeMachine(rpc::DashboardNode::Builder out) const;
  void writeLinks(rpc::DashboardNode::Builder out) const;
  void writeRates(rpc::DashboardNode::Builder out) const;
  void writeProcesses(rpc::DashboardNode::Builder out) const;
  void writeResources(rpc::DashboardNode::Builder out) const;

  template <typename Spec>
  static kj::Vector<ResourceOf<Spec>> allOf(const Kept<Listed>& kept) {
    kj::Vector<ResourceOf<Spec>> all;
    each<Spec>(kept, [&](auto spec) { all.add(spec); });
    return all;
  }
  template <typename Spec, typename Take>
  static void each(const Kept<Listed>& kept, Take take) {
    KJ_IF_MAYBE (results, kept) {
      for (auto one : results->getResources()) take(ResourceOf<Spec>(one));
    }
  }
};

class NodeFollower::Impl::EventSink final : public rpc::EventSink::Server {
 public:
  explicit EventSink(Events& events) : kept(kj::addRef(events)) {}
  kj::Promise<void> events(EventsContext context) override {
    for (auto event : context.getParams().getEvents()) {
      KJ_IF_MAYBE (row, eventRow("", event)) {
        constexpr size_t kType = 3, kSource = 4, kMessage = 5;
        kept->rows.add(Row{event.getTime(), kj::mv((*row)[kType]), kj::mv((*row)[kSource]),
                           kj::mv((*row)[kMessage])});
      }
    }
    if (kept->rows.size() > 2 * kEvents) {
      kj::Vector<Row> newest;
      for (auto& row : kept->rows.asPtr().slice(kept->rows.size() - kEvents, kept->rows.size())) {
        newest.add(kj::mv(row));
      }
      kept->rows = kj::mv(newest);
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }

 private:
  kj::Own<Events> kept;
};

kj::Promise<void> NodeFollower::Impl::counters(
    rpc::Node::Client node, rpc::Counter which,
    kj::Function<void(kj::StringPtr text, kj::TimePoint at)> take) {
  auto request = node.machineRequest().send().getMachine().countersRequest();
  request.setOf(which);
  kj::Promise<capnp::Response<rpc::Machine::CountersResults>> answer = request.send();
  return within(timer(), SharedClient::kAnswer, kj::mv(answer))
      .then(
          [this, take = kj::mv(take)](auto&& results) mutable {
            for (auto file : results.getFiles()) take(file.getText(), timer().now());
          },
          [](kj::Exception&&) {})
      .eagerlyEvaluate(nullptr);
}

// Sends the request whose answer decides if the node is silent.
kj::Promise<void> NodeFollower::Impl::hello(SharedClient::Held& held) {
  co_await held.connect();
  kj::Promise<capnp::Response<rpc::Version>> answer =
      held.client.node(target).machineRequest().send().getMachine().versionRequest().send();
  version = co_await within(timer(), SharedClient::kAnswer, kj::mv(answer));
  answered = timer().now();
  silence = nullptr;
}

void NodeFollower::Impl::addFast(rpc::Node::Client node, kj::Vector<kj::Promise<void>>& waits) {
  auto machine = node.machineRequest().send().getMachine();
  waits.add(keep(status, machine.statusRequest().send()));
  auto history = machine.samplesRequest();
  history.setLastMs(kHistoryMs);
  waits.add(keep(samples, history.send()));
  waits.add(keep(services, node.servicesRequest().send().getServices().listRequest().send()));
  waits.add(counters(node, rpc::Counter::NETWORK, [this](kj::StringPtr text, kj::TimePoint at) {
    linkCounts.add(at, readLinks(text));
  }));
  waits.add(list<rpc::VipStatusSpec>(node, vips));
  waits.add(list<rpc::UpgradeStatusSpec>(node, upgrade));
  if (!controlPlane()) return;
  waits.add(list<rpc::EtcdStatusSpec>(node, etcd));
  waits.add(keep(etcdMember, node.etcdRequest().send().getEtcd().statusRequest().send()));
}

void NodeFollower::Impl::addSlow(rpc::Node::Client node, kj::Vector<kj::Promise<void>>& waits) {
  auto machine = node.machineRequest().send().getMachine();
  waits.add(keep(mounts, machine.mountsRequest().send()));
  waits.add(list<rpc::MachineTypeSpec>(node, types));
  waits.add(list<rpc::NodeAddressSpec>(node, nodeAddresses));
  waits.add(list<rpc::LinkStatusSpec>(node, linkStatuses));
  waits.add(list<rpc::AddressStatusSpec>(node, addressStatuses));
  waits.add(list<rpc::TimeStatusSpec>(node, time));
  waits.add(list<rpc::NetworkStatusSpec>(node, network));
  waits.add(list<rpc::NodeStatusSpec>(node, nodeStatus));
  waits.add(list<rpc::CertificateStatusSpec>(node, certificates));
  auto pods = node.containersRequest().send().getContainers().listRequest();
  pods.setKubernetes(true);
  waits.add(keep(containers, pods.send()));
}

void NodeFollower::Impl::addClose(rpc::Node::Client node, kj::Vector<kj::Promise<void>>& waits) {
  auto machine = node.machineRequest().send().getMachine();
  waits.add(keep(memory, machine.memoryRequest().send()));
  waits.add(keepThen(processes, machine.processesRequest().send(), [this](auto& results) {
    kj::Vector<CpuTime> times;
    for (auto process : results.getProcesses()) {
      times.add(CpuTime{processKey(process), process.getCpuTimeMs() * 1000});
    }
    processTimes.add(timer().now(), kj::mv(times));
  }));
  waits.add(keepThen(groups, machine.cgroupsRequest().send(), [this](auto& results) {
    kj::Vector<CpuTime> times;
    for (auto group : results.getGroups()) {
      auto usage = group.getCpu().getUsageUs();
      times.add(CpuTime{kj::str(group.getPath()), usage > 0 ? uint64_t(usage) : 0});
    }
    groupTimes.add(timer().now(), kj::mv(times));
  }));
  waits.add(counters(node, rpc::Counter::SYSTEM, [this](kj::StringPtr text, kj::TimePoint at) {
    coreTimes.add(at, readCores(text));
  }));
  waits.add(counters(node, rpc::Counter::DISKS, [this](kj::StringPtr text, kj::TimePoint at) {
    diskCounts.add(at, readDisks(text));
  }));
  waits.add(counters(node, rpc::Counter::LOAD, [this](kj::StringPtr text, kj::TimePoint) {
    // "0.10 0.20 0.30 1/234 567"
    size_t end = 0;
    for (unsigned blanks = 0; end < text.size() && blanks < 3; ++end) {
      blanks += text[end] == ' ';
    }
    load = kj::heapString(text.slice(0, end > 0 ? end - 1 : 0));
  }));
}

// Watches events. A later round starts the watch again after it has ended with its connection.
void NodeFollower::Impl::watchEvents(SharedClient::Held& held) {
  if (watched) return;
  watched = true;
  events->rows.clear();
  auto request = held.client.node(target).eventsRequest().send().getEvents().watchRequest();
  request.initTail().setLast(kEvents);
  request.setSink(kj::heap<EventSink>(*events));
  watching = held.whileCurrent(request.send().ignoreResult())
                 .catch_([](kj::Exception&&) {})
                 .then([this]() { watched = false; })
                 .eagerlyEvaluate(nullptr);
}

kj::Promise<void> NodeFollower::Impl::round(bool closely) {
  if (began == nullptr) began = timer().now();
  auto held = shared.get();
  try {
    co_await hello(*held);
  } catch (const kj::Exception& e) {
    silence = messageText(e);
  }
  if (silence != nullptr) co_return;
  auto node = held->client.node(target);
  kj::Vector<kj::Promise<void>> waits;
  bool slow = rounds++ % kSlowRounds == 0;
  if (slow) addSlow(node, waits);
  if (slow && rounds == 1) {
    // The machine's type determines the other requests.
    co_await kj::joinPromises(waits.releaseAsArray());
    waits = {};
  }
  addFast(node, waits);
  if (closely) {
    addClose(node, waits);
    watchEvents(*held);
  } else {
    watching = nullptr;
    watched = false;
  }
  co_await kj::joinPromises(waits.releaseAsArray());
}

// --- answers

bool NodeFollower::Impl::controlPlane() const {
  bool is = false;
  each<rpc::MachineTypeSpec>(types, [&](auto spec) {
    is = is || spec.getType() == rpc::MachineType::CONTROLPLANE ||
         spec.getType() == rpc::MachineType::INIT;
  });
  return is;
}

void NodeFollower::Impl::writeMachine(rpc::DashboardNode::Builder out) const {
  KJ_IF_MAYBE (it, version) out.setVersion(*it);
  KJ_IF_MAYBE (it, status) out.setStatus(*it);
  KJ_IF_MAYBE (it, services) out.setServices(it->getServices());
  KJ_IF_MAYBE (it, samples) out.setSamples(it->getSamples());
  KJ_IF_MAYBE (it, mounts) out.setMounts(it->getMounts());
  KJ_IF_MAYBE (it, memory) out.setMemory(it->getFields());
  KJ_IF_MAYBE (it, containers) out.setContainers(it->getContainers());
  KJ_IF_MAYBE (it, etcdMember) out.setEtcdMember(it->getStatus());
  out.setLoad(load);
  auto rows = out.initEvents(events->rows.size());
  for (auto i : kj::indices(events->rows)) {
    auto& row = events->rows[i];
    rows[i].setTime(row.time);
    rows[i].setType(row.type);
    rows[i].setSource(row.source);
    rows[i].setMessage(row.message);
  }
}

void NodeFollower::Impl::writeLinks(rpc::DashboardNode::Builder out) const {
  auto links = allOf<rpc::LinkStatusSpec>(linkStatuses);
  auto list = out.initLinks(links.size());
  for (auto i : kj::indices(links)) {
    auto& spec = links[i];
    auto link = list[i];
    link.setName(spec.id());
    link.setUp(spec.getLinkState());
    link.setKind(spec.getKind());
    link.setHardware(spec.getDriver().size() > 0);
    link.setMtu(spec.getMtu());
    kj::Vector<capnp::Text::Reader> addresses;
    each<rpc::AddressStatusSpec>(addressStatuses, [&](auto address) {
      if (address.getLinkName() == spec.id()) addresses.add(address.getAddress());
    });
    auto texts = link.initAddresses(addresses.size());
    for (auto j : kj::indices(addresses)) texts.set(j, addresses[j]);
    KJ_IF_MAYBE (now, sameName(linkCounts.now.value, spec.id())) {
      link.setErrors(now->errors);
      link.setDropped(now->dropped);
      KJ_IF_MAYBE (before, sameName(linkCounts.before.value, spec.id())) {
        auto elapsed = linkCounts.elapsedMs();
        link.setReceivedRate(perSecond(before->received, now->received, elapsed));
        link.setSentRate(perSecond(before->sent, now->sent, elapsed));
        link.setRatesKnown(elapsed > 0);
      }
    }
  }
}

void NodeFollower::Impl::writeRates(rpc::DashboardNode::Builder out) const {
  auto& cores = coreTimes.now.value;
  auto coreList = out.initCores(cores.size());
  for (auto i : kj::indices(cores)) {
    coreList[i].setName(cores[i].name);
    KJ_IF_MAYBE (before, sameName(coreTimes.before.value, cores[i].name)) {
      auto possible = cores[i].all - kj::min(cores[i].all, before->all);
      coreList[i].setBusy(shareOf(before->busy, cores[i].busy, possible));
      coreList[i].setBusyKnown(possible > 0);
    }
  }
  auto& disks = diskCounts.now.value;
  auto diskList = out.initDisks(disks.size());
  auto elapsed = diskCounts.elapsedMs();
  for (auto i : kj::indices(disks)) {
    diskList[i].setName(disks[i].name);
    KJ_IF_MAYBE (before, sameName(diskCounts.before.value, disks[i].name)) {
      diskList[i].setReadRate(perSecond(before->readBytes, disks[i].readBytes, elapsed));
      diskList[i].setWrittenRate(perSecond(before->writtenBytes, disks[i].writtenBytes, elapsed));
      diskList[i].setBusy(shareOf(before->busyMs, disks[i].busyMs, elapsed));
      diskList[i].setRatesKnown(elapsed > 0);
    }
  }
}

// Returns the share in 1/10 % of one processor; nullptr until the time was read twice.
static kj::Maybe<uint32_t> cpuShare(const Pair<kj::Vector<CpuTime>>& times, kj::StringPtr key) {
  auto find = [&](const kj::Vector<CpuTime>& all) -> kj::Maybe<uint64_t> {
    for (auto& one : all) {
      if (one.key == key) return one.us;
    }
    return nullptr;
  };
  auto elapsed = times.elapsedMs();
  auto before = find(times.before.value), now = find(times.now.value);
  if (elapsed == 0 || before == nullptr || now == nullptr) return nullptr;
  auto from = KJ_ASSERT_NONNULL(before), to = KJ_ASSERT_NONNULL(now);
  return to < from ? 0 : uint32_t(kj::min((to - from) / elapsed, uint64_t(1'000'000)));
}

void NodeFollower::Impl::writeProcesses(rpc::DashboardNode::Builder out) const {
  KJ_IF_MAYBE (results, groups) {
    auto all = results->getGroups();
    auto list = out.initGroups(kj::min(all.size(), kMostGroups));
    for (auto i : kj::indices(list)) {
      list[i].setPath(all[i].getPath().size() > 0 ? all[i].getPath() : "/");
      KJ_IF_MAYBE (share, cpuShare(groupTimes, all[i].getPath())) {
        list[i].setCpu(*share);
        list[i].setCpuKnown(true);
      }
      auto memory = all[i].getMemory().getCurrent();
      list[i].setMemory(memory > 0 ? uint64_t(memory) : 0);
      list[i].setProcesses(all[i].getProcesses());
    }
  }
  KJ_IF_MAYBE (results, processes) {
    auto all = results->getProcesses();
    auto list = out.initProcesses(kj::min(all.size(), kMostProcesses));
    for (auto i : kj::indices(list)) {
      auto process = all[i];
      list[i].setPid(process.getPid());
      list[i].setCommand(process.getArgs().size() > 0 ? process.getArgs() : process.getCommand());
      KJ_IF_MAYBE (share, cpuShare(processTimes, processKey(process))) {
        list[i].setCpu(*share);
        list[i].setCpuKnown(true);
      }
      list[i].setMemory(process.getResidentMemory());
      list[i].setThreads(process.getThreads());
      list[i].setState(process.getState());
    }
  }
}

void NodeFollower::Impl::writeResources(rpc::DashboardNode::Builder out) const {
  each<rpc::NodeAddressSpec>(nodeAddresses, [&](auto spec) {
    if (spec.id() == "current") out.setAddresses(spec.getAddresses());
  });
  each<rpc::TimeStatusSpec>(time, [&](auto spec) { out.setTime(spec); });
  each<rpc::NetworkStatusSpec>(network, [&](auto spec) { out.setNetwork(spec); });
  each<rpc::UpgradeStatusSpec>(upgrade, [&](auto spec) { out.setUpgrade(spec); });
  each<rpc::EtcdStatusSpec>(etcd, [&](auto spec) { out.setEtcd(spec); });
  each<rpc::NodeStatusSpec>(nodeStatus, [&](auto spec) { out.setNodeStatus(spec); });
  auto sharedAddresses = allOf<rpc::VipStatusSpec>(vips);
  auto vipList = out.initVips(sharedAddresses.size());
  for (auto i : kj::indices(sharedAddresses)) {
    vipList[i].setAddress(sharedAddresses[i].id());
    vipList[i].setStatus(sharedAddresses[i]);
  }
  auto ends = allOf<rpc::CertificateStatusSpec>(certificates);
  auto certificateList = out.initCertificates(ends.size());
  for (auto i : kj::indices(ends)) {
    certificateList[i].setId(ends[i].id());
    certificateList[i].setSpec(ends[i]);
  }
}

void NodeFollower::Impl::write(rpc::DashboardNode::Builder out) const {
  out.setAddress(target);
  out.setControlPlane(controlPlane());
  KJ_IF_MAYBE (why, silence) {
    out.setError(*why);
    auto now = shared.get()->client.deps.timer.now();
    auto since = answered == nullptr ? began.orDefault(now) : KJ_ASSERT_NONNULL(answered);
    out.setSilentS(uint32_t((now - since) / kj::SECONDS));
  }
  writeMachine(out);
  writeLinks(out);
  writeRates(out);
  writeProcesses(out);
  writeResources(out);
  if (target.size() == 0) {
    auto own = out.getAddresses().asReader();
    out.setAddress(own.size() > 0 ? kj::str(own[0]) : kj::str(shared.get()->client.endpoint()));
  }
}

NodeFollower::NodeFollower(SharedClient& client, kj::StringPtr address)
    : impl(kj::heap<Impl>(client, address)) {}
NodeFollower::~NodeFollower() noexcept(false) = default;

kj::Promise<void> NodeFollower::round(bool closely) {
  return impl->round(closely);
}

kj::Promise<void> NodeFollower::follow(kj::Duration interval) {
  for (;;) {
    auto& timer = impl->timer();
    auto next = timer.now() + interval;
    co_await impl->round(impl->closely);
    co_await timer.atTime(next);
  }
}

kj::StringPtr NodeFollower::target() const {
  return impl->target;
}
bool NodeFollower::isControlPlane() const {
  return impl->controlPlane();
}
bool NodeFollower::answers() const {
  return impl->silence == nullptr;
}
void NodeFollower::look(bool closely) {
  impl->closely = closely;
}

bool NodeFollower::has(kj::StringPtr address) const {
  if (impl->target == address) return true;
  bool is = false;
  impl->each<rpc::NodeAddressSpec>(impl->nodeAddresses, [&](auto spec) {
    for (auto one : spec.getAddresses()) is = is || one == address;
  });
  return is;
}

void NodeFollower::write(rpc::DashboardNode::Builder out) const {
  impl->write(out);
}

}  // namespace talos::talosctl::dashboard
