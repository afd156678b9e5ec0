#include "talosctl/diagnose/node-questions.h"

#include <capnp/message.h>
#include <kj/refcount.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/lines.h"
#include "common/base/node-messages.h"
#include "common/base/resource.h"
#include "common/base/version.h"
#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/tls/pki.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/control-plane-proof.h"
#include "talosctl/client/received-bytes.h"
#include "talosctl/diagnose/missing-firmware.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr auto kAnswerWithin = 10 * kj::SECONDS;
constexpr int kLogLines = 400, kContainerLines = 40;
constexpr size_t kMostTailBytes = 4u << 20;  // for all lines; a line has at most 8 KiB
constexpr size_t kFirmwareLines = 200;

using Node = rpc::Observations::Node;
using Resources = capnp::List<rpc::Resource>::Reader;

// Resources that are copied into a field of Observations.Node: a single record into a struct, all
// records of a type into a list. An element of a list has the fields of the spec, or the spec as a
// whole, and the resource's id in the remaining text; an element of type Text is the id.
struct ResourceQuestion {
  Question question;
  kj::StringPtr field;
  capnp::StructSchema spec;
  bool controlPlane = false;
};
kj::ArrayPtr<const ResourceQuestion> resourceQuestions() {
  using capnp::Schema;
  static const ResourceQuestion kQuestions[] = {
      {Question::DISKS, "volumes", Schema::from<rpc::VolumeStatusSpec>()},
      {Question::STATUS, "upgrade", Schema::from<rpc::UpgradeStatusSpec>()},
      {Question::STATUS, "security", Schema::from<rpc::SecurityStateSpec>()},
      {Question::TIME, "time", Schema::from<rpc::TimeStatusSpec>()},
      {Question::TRUST, "join", Schema::from<rpc::JoinStatusSpec>()},
      {Question::LINKS, "links", Schema::from<rpc::LinkStatusSpec>()},
      {Question::LINKS, "linkSpecs", Schema::from<rpc::LinkSpecSpec>()},
      {Question::ADDRESSES, "leases", Schema::from<rpc::OperatorStatusSpec>()},
      {Question::ADDRESSES, "addresses", Schema::from<rpc::AddressStatusSpec>()},
      {Question::ADDRESSES, "network", Schema::from<rpc::NetworkStatusSpec>()},
      {Question::ADDRESSES, "metadataBlock", Schema::from<rpc::MetadataBlockStatusSpec>()},
      {Question::FIREWALL, "firewall", Schema::from<rpc::FirewallStatusSpec>()},
      {Question::FIREWALL, "firewallSpecs", Schema::from<rpc::FirewallSpecSpec>()},
      {Question::ROUTES, "routes", Schema::from<rpc::RouteStatusSpec>()},
      {Question::KUBERNETES, "kubelet", Schema::from<rpc::KubeletSpecSpec>()},
      {Question::KUBERNETES, "nodeStatus", Schema::from<rpc::NodeStatusSpec>()},
      {Question::KUBERNETES, "manifests", Schema::from<rpc::ManifestStatusSpec>()},
      {Question::KUBERNETES, "staticPods", Schema::from<rpc::StaticPodSpec>()},
      {Question::KUBERNETES, "vips", Schema::from<rpc::VipStatusSpec>()},
      {Question::KUBERNETES, "apiServer", Schema::from<rpc::LocalApiStatusSpec>(), true},
      {Question::ETCD, "etcd", Schema::from<rpc::EtcdStatusSpec>(), true},
  };
  return kQuestions;
}

void keepElement(capnp::DynamicStruct::Builder element, rpc::Resource::Reader resource,
                 capnp::DynamicStruct::Reader spec) {
  for (auto field : element.getSchema().getFields()) {
    auto name = field.getProto().getName();
    auto type = field.getType();
    KJ_IF_MAYBE (same, spec.getSchema().findFieldByName(name)) {
      if (spec.has(*same)) element.set(field, spec.get(*same));
    } else if (type.isStruct() && type.asStruct() == spec.getSchema()) {
      element.set(field, spec);
    } else if (type.isText()) {
      element.set(field, resource.getMetadata().getId());
    }
  }
}

void keepResources(Node::Builder node, const ResourceQuestion& question, Resources all) {
  auto out = capnp::toDynamic(node);
  auto field = out.getSchema().getFieldByName(question.field);
  auto specOf = [&](size_t i) {
    return all[i].getSpec().getAs<capnp::DynamicStruct>(question.spec);
  };
  if (!field.getType().isList()) {
    if (all.size() > 0) out.set(field, specOf(0));
    return;
  }
  auto list = out.init(field, all.size()).as<capnp::DynamicList>();
  for (auto i : kj::indices(all)) {
    if (field.getType().asList().getElementType().isText()) {
      list.set(i, all[i].getMetadata().getId());
    } else {
      keepElement(list[i].as<capnp::DynamicStruct>(), all[i], specOf(i));
    }
  }
}

// The lines of a log as they arrive. The node may still send after the requests have ended.
struct Tail final : public kj::Refcounted {
  explicit Tail(kj::StringPtr id) : id(kj::str(id)) {}
  kj::String id;
  kj::Vector<kj::String> lines;
  size_t bytes = 0;

  // Keeps at most the requested number of lines, although a node may send more.
  void add(kj::ArrayPtr<const char> line) {
    if (lines.size() >= kLogLines || bytes + line.size() > kMostTailBytes) return;
    bytes += line.size();
    lines.add(kj::heapString(line));
  }
};
// Keeps the kernel log's lines about firmware, up to a limit.
class FirmwareSink final : public rpc::LogSink::Server {
 public:
  explicit FirmwareSink(kj::Own<Tail> tail) : tail(kj::mv(tail)) {}
  kj::Promise<void> write(WriteContext context) override {
    for (auto bytes : Lines(context.getParams().getBytes().asChars())) {
      auto line = kj::heapString(bytes);
      if (tail->lines.size() < kFirmwareLines && isAboutFirmware(line)) {
        tail->add(line);
      }
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }

 private:
  kj::Own<Tail> tail;
};

class TailSink final : public rpc::LogSink::Server {
 public:
  explicit TailSink(kj::Own<Tail> tail) : tail(kj::mv(tail)) {}
  kj::Promise<void> write(WriteContext context) override {
    for (auto line : Lines(context.getParams().getBytes().asChars())) tail->add(line);
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext) override { return kj::READY_NOW; }

 private:
  kj::Own<Tail> tail;
};

}  // namespace

struct NodeQuestions::Impl {
  Impl(Client& client, kj::String address) : client(client), requestedAddress(kj::mv(address)) {
    node = message.initRoot<Node>();
    node.setAddress(requestedAddress);
  }

  Client& client;
  kj::String requestedAddress;
  capnp::MallocMessageBuilder message;
  Node::Builder node = nullptr;
  struct Unanswered {
    Question question;
    kj::String error;
  };
  kj::Vector<Unanswered> unanswered;
  kj::Vector<kj::Own<Tail>> tails;
  kj::Date servicesRead = kj::UNIX_EPOCH;

  rpc::Node::Client remote() { return client.node(requestedAddress); }

  void fails(Question question, const kj::Exception& e) {
    for (auto& one : unanswered) {
      if (one.question == question) return;
    }
    unanswered.add(Unanswered{question, messageText(e)});
  }

  // Sends a request. `keep` reads the answer as soon as it arrives, because it may note the time.
  // An exception from `keep` counts as a missing answer.
  template <typename Results, typename Keep>
  kj::Promise<void> question(Question question, capnp::RemotePromise<Results> sent, Keep keep) {
    kj::Promise<capnp::Response<Results>> answer = kj::mv(sent);
    return within(client.deps.timer, kAnswerWithin, kj::mv(answer))
        .then([keep = kj::mv(keep)](capnp::Response<Results>&& results) mutable { keep(results); })
        .catch_([this, question](kj::Exception&& e) { fails(question, e); })
        .eagerlyEvaluate(nullptr);
  }

  template <typename Keep>
  kj::Promise<void> resources(Question about, kj::StringPtr type, Keep keep) {
    auto request = remote().resourcesRequest().send().getResources().listRequest();
    request.initKind().setType(type);
    return question(about, request.send(),
                    [keep = kj::mv(keep)](auto& results) mutable { keep(results.getResources()); });
  }
  // Calls `read` with the spec of each resource of a type, without storing it.
  template <typename Spec, typename Read>
  kj::Promise<void> each(Question about, Read read) {
    return resources(about, typeName<Spec>(), [read = kj::mv(read)](Resources all) mutable {
      for (auto one : all) read(ResourceOf<Spec>(one));
    });
  }

  kj::Promise<void> reach();
  kj::Promise<void> lookForMaintenance();
  kj::Promise<void> all();
  void addMachine(kj::Vector<kj::Promise<void>>& waits);
  void addControlPlane(kj::Vector<kj::Promise<void>>& waits);
  kj::Promise<void> config();
  void keepFacts(kj::StringPtr document);
  kj::Own<Tail> newTail(kj::StringPtr id);
  kj::Promise<void> log(kj::StringPtr id);
  kj::Promise<void> kernelLog();
  kj::Promise<void> containerLogs();
  kj::Promise<void> pastControlPlane();
  void readClockFromEvents();
  void finish();
};

kj::Promise<void> NodeQuestions::Impl::reach() {
  kj::Promise<capnp::Response<rpc::Version>> answer =
      remote().machineRequest().send().getMachine().versionRequest().send();
  co_await within(client.deps.timer, kAnswerWithin, kj::mv(answer))
      .then(
          [this](capnp::Response<rpc::Version>&& version) {
            node.setHostname(version.getHostname());
            node.setReach(has(version.getTag(), kNotAuthenticated) ? Reach::UNVERIFIED
                                                                   : Reach::ANSWERS);
          },
          [this](kj::Exception&& e) {
            auto error = messageText(e);
            bool trust = isTrustFailure(failureOf(error));
            bool maintenance = has(error, messages::kInMaintenance);
            node.setReach(maintenance ? Reach::MAINTENANCE
                          : trust     ? Reach::REFUSED
                                      : Reach::SILENT);
            node.setError(error);
          });
  if (node.getReach() == Reach::UNVERIFIED) co_await lookForMaintenance();
}

// A node without a config has no certificate of the cluster, either; only its status distinguishes
// it from one that waits for its certificate.
kj::Promise<void> NodeQuestions::Impl::lookForMaintenance() {
  auto machine = remote().machineRequest().send().getMachine();
  return question(Question::STATUS, machine.statusRequest().send(), [this](auto& status) {
    if (status.getStage() != rpc::Status::Stage::MAINTENANCE) return;
    node.setReach(Reach::MAINTENANCE);
    node.setError(kj::str("stage maintenance: ", kj::strArray(status.getProblems(), "; ")));
  });
}

void NodeQuestions::Impl::addMachine(kj::Vector<kj::Promise<void>>& waits) {
  auto machine = remote().machineRequest().send().getMachine();
  waits.add(question(Question::STATUS, machine.statusRequest().send(),
                     [this](auto& status) { node.setStatus(status); }));
  waits.add(question(Question::CLOCK, machine.timeRequest().send(), [this](auto& time) {
    node.setClock(time.getAnswer().getLocal());
    node.setClockAt(static_cast<int64_t>(nanoseconds(client.deps.clock.now())));
  }));
  waits.add(question(Question::DISKS, machine.mountsRequest().send(),
                     [this](auto& mounts) { node.setMounts(mounts.getMounts()); }));
  waits.add(each<rpc::NodeAddressSpec>(Question::ADDRESSES, [this](auto spec) {
    if (spec.id() == "current") node.setNodeAddresses(spec.getAddresses());
  }));
  waits.add(each<rpc::ResolverSpecSpec>(
      Question::NAMES, [this](auto spec) { node.setResolvers(spec.getDnsServers()); }));
  waits.add(each<rpc::SecretStatusSpec>(
      Question::KUBERNETES, [this](auto spec) { node.setSecretsReady(spec.getReady()); }));
  for (auto& one : resourceQuestions()) {
    if (one.controlPlane && !node.getControlPlane()) continue;
    waits.add(resources(one.question, typeName(one.spec),
                        [this, &one](Resources all) { keepResources(node, one, all); }));
  }
  waits.add(config());
  for (auto id : {"kubelet"_kj, "cri"_kj}) waits.add(log(id));
  waits.add(kernelLog());
}

void NodeQuestions::Impl::addControlPlane(kj::Vector<kj::Promise<void>>& waits) {
  auto members = remote().etcdRequest().send().getEtcd().membersRequest().send();
  waits.add(question(Question::MEMBERS, kj::mv(members), [this](auto& results) {
    node.setMembers(results.getMembers());
    node.setQuorum(results.getQuorum());
  }));
  auto request = remote().containersRequest().send().getContainers().listRequest();
  request.setKubernetes(true);
  waits.add(question(Question::CONTAINERS, request.send(), [this](auto& results) {
              node.setContainers(results.getContainers());
            }).then([this]() { return containerLogs(); }));
  for (auto id : {"etcd"_kj, "controller-runtime"_kj}) waits.add(log(id));
}

// --- the machine config

kj::Promise<void> NodeQuestions::Impl::config() {
  auto request = remote().sensitiveResourcesRequest().send().getResources().getRequest();
  request.initKind().setType(typeName<rpc::MachineConfigSpec>());
  request.setId("v1alpha1");
  return question(Question::CONFIG, request.send(), [this](auto& results) {
    keepFacts(ResourceOf<rpc::MachineConfigSpec>(results.getResource()).getDocument());
  });
}

void NodeQuestions::Impl::keepFacts(kj::StringPtr document) {
  auto parsed = config::parse(document);
  auto config = parsed.get();
  auto cluster = config.getCluster();
  auto facts = node.initFacts();
  facts.setEndpoint(config::clusterEndpoint(cluster));
  auto pods = config::podSubnets(cluster), services = config::serviceSubnets(cluster);
  fillTexts(facts.initPodSubnets(pods.size()), pods);
  fillTexts(facts.initServiceSubnets(services.size()), services);
  using Cni = config::CniName;
  auto cni = cluster.getNetwork().getCni().getName();
  facts.setCni(cni == Cni::NONE ? "none" : cni == Cni::CUSTOM ? "custom" : "flannel");
  facts.setProxyDisabled(cluster.getProxy().getDisabled());
  auto mirrors = config.getMachine().getRegistries().getMirrors();
  auto mirrored = facts.initMirrored(mirrors.size());
  for (auto i : kj::indices(mirrors)) mirrored.set(i, mirrors[i].getKey());
  bool controlPlane = config::isControlPlane(config.getMachine().getType());
  node.setControlPlane(controlPlane);

  struct Source {
    kj::StringPtr key;
    capnp::Data::Reader certificate;
    capnp::List<config::AcceptedCa>::Reader accepted;
  };
  const Source sources[] = {
      {"machine.ca", config.getMachine().getCa().getCrt(), config.getMachine().getAcceptedCAs()},
      {"cluster.ca", cluster.getCa().getCrt(), cluster.getAcceptedCAs()},
      {"cluster.etcd.ca", cluster.getEtcd().getCa().getCrt(), cluster.getEtcd().getAcceptedCAs()},
      {"cluster.aggregatorCA", cluster.getAggregatorCA().getCrt(),
       cluster.getAcceptedAggregatorCAs()}};
  kj::Vector<const Source*> present;
  for (auto& one : sources) {
    if (one.certificate.size() > 0) present.add(&one);
  }
  auto list = facts.initAuthorities(present.size());
  for (auto i : kj::indices(present)) {
    auto pem = kj::heapString(present[i]->certificate.asChars());
    auto info = pki::inspect(pem);
    list[i].setKey(present[i]->key);
    list[i].setFingerprint(pki::fingerprint(pem));
    list[i].setNotBefore((info.notBefore - kj::UNIX_EPOCH) / kj::SECONDS);
    list[i].setNotAfter((info.notAfter - kj::UNIX_EPOCH) / kj::SECONDS);
    auto certificates = acceptedCertificates(present[i]->accepted);
    auto accepted = KJ_MAP(one, certificates) {
      return pki::fingerprint(one);
    };
    fillTexts(list[i].initAccepted(accepted.size()), accepted);
  }
}

// --- logs

kj::Own<Tail> NodeQuestions::Impl::newTail(kj::StringPtr id) {
  return kj::addRef(*tails.add(kj::refcounted<Tail>(id)));
}

kj::Promise<void> NodeQuestions::Impl::log(kj::StringPtr id) {
  auto request = remote().logsRequest().send().getLogs().readRequest();
  request.setId(id);
  request.setTailLines(kLogLines);
  request.setSink(kj::heap<TailSink>(newTail(id)));
  kj::Promise<capnp::Response<rpc::Logs::ReadResults>> answer = request.send();
  // A service that has not run yet has no log.
  return within(client.deps.timer, kAnswerWithin, kj::mv(answer))
      .then([](auto&&) {},
            [this](kj::Exception&& e) {
              if (kindOf(e) != ErrorKind::kNotFound) fails(Question::LOGS, e);
            });
}

kj::Promise<void> NodeQuestions::Impl::kernelLog() {
  auto request = remote().logsRequest().send().getLogs().kernelRequest();
  request.setSink(kj::heap<FirmwareSink>(newTail(kKernelLog)));
  return question(Question::KERNEL_LOG, request.send(), [](auto&&) {});
}

kj::Promise<void> NodeQuestions::Impl::containerLogs() {
  kj::Vector<kj::Promise<void>> waits;
  for (auto container : node.asReader().getContainers()) {
    if (!has(container.getStatus(), "EXITED")) continue;
    auto request = remote().containersRequest().send().getContainers().logsRequest();
    request.setId(container.getId());
    request.setTailLines(kContainerLines);
    request.setSink(kj::heap<TailSink>(newTail(container.getId())));
    waits.add(question(Question::LOGS, request.send(), [](auto&&) {}));
  }
  return kj::joinPromises(waits.releaseAsArray());
}

// --- an earlier cluster

// Reads the hosts of the control plane that the node has kept on STATE; a node that was never in a
// cluster has no such file. Only os:admin may read it: for others it stays unknown.
kj::Promise<void> NodeQuestions::Impl::pastControlPlane() {
  constexpr size_t kMostFile = 256u << 10;
  kj::Vector<char> content;
  ReceivedBytes received([&](kj::ArrayPtr<const kj::byte> bytes) {
    if (content.size() + bytes.size() <= kMostFile) content.addAll(bytes.asChars());
  });
  auto request = remote().filesRequest().send().getFiles().readRequest();
  request.setPath("/system/state/control-plane-nodes");
  request.setSink(received.sink());
  kj::Promise<void> done = request.send().ignoreResult();
  kj::Maybe<kj::Exception> error;
  co_await within(client.deps.timer, kAnswerWithin, kj::mv(done)).catch_([&](kj::Exception&& e) {
    error = kj::mv(e);
  });
  KJ_IF_MAYBE (e, error) {
    node.setPastRead(kindOf(*e) == ErrorKind::kNotFound);
    co_return;
  }
  kj::Vector<kj::String> hosts;
  for (auto line : Lines(content.asPtr())) {
    if (line.size() > 0) hosts.add(kj::heapString(line));
  }
  fillTexts(node.initPastControlPlane(hosts.size()), hosts);
  node.setPastRead(true);
}

// --- all of it

kj::Promise<void> NodeQuestions::Impl::all() {
  co_await reach();
  bool answers = node.getReach() == Reach::ANSWERS;
  if (!answers && node.getReach() != Reach::UNVERIFIED) co_return;
  kj::Vector<kj::Promise<void>> waits;
  auto services = remote().servicesRequest().send().getServices().listRequest().send();
  waits.add(question(Question::SERVICES, kj::mv(services), [this](auto& results) {
    node.setServices(results.getServices());
    servicesRead = client.deps.clock.now();
  }));
  if (answers) {
    co_await each<rpc::MachineTypeSpec>(Question::STATUS, [this](auto spec) {
      node.setControlPlane(spec.getType() == rpc::MachineType::CONTROLPLANE ||
                           spec.getType() == rpc::MachineType::INIT);
    });
    addMachine(waits);
    if (node.getControlPlane()) addControlPlane(waits);
  }
  co_await kj::joinPromises(waits.releaseAsArray());
  if (node.getControlPlane() && node.asReader().getEtcd().getPhase() == "waiting") {
    co_await pastControlPlane();
  }
  node.setJoins(node.hasJoin());
  readClockFromEvents();
  finish();
}

// Determines the clock without a time server's answer: from the newest event's time, and its age by
// the monotonic clock.
void NodeQuestions::Impl::readClockFromEvents() {
  if (node.getClock() != 0) return;
  uint64_t newest = 0;
  for (auto service : node.asReader().getServices()) {
    for (auto event : service.getEvents()) {
      if (event.getUptime() == 0 || event.getUptime() <= newest) continue;
      newest = event.getUptime();
      node.setClock(
          static_cast<int64_t>(event.getTime() + (service.getUptime() - event.getUptime())));
      node.setClockAt(static_cast<int64_t>(nanoseconds(servicesRead)));
    }
  }
  if (node.getClock() == 0) return;
  kj::Vector<Unanswered> rest;
  for (auto& one : unanswered) {
    if (one.question != Question::CLOCK) rest.add(kj::mv(one));
  }
  unanswered = kj::mv(rest);
}

void NodeQuestions::Impl::finish() {
  auto list = node.initUnanswered(unanswered.size());
  for (auto i : kj::indices(unanswered)) {
    list[i].setQuestion(unanswered[i].question);
    list[i].setError(unanswered[i].error);
  }
  auto logs = node.initLogs(tails.size());
  for (auto i : kj::indices(tails)) {
    logs[i].setId(tails[i]->id);
    auto lines = logs[i].initLines(tails[i]->lines.size());
    for (auto j : kj::indices(lines)) lines.set(j, tails[i]->lines[j]);
  }
  if (requestedAddress.size() > 0) return;
  auto own = node.asReader().getNodeAddresses();
  node.setAddress(own.size() > 0 ? own[0] : client.endpoint());
}

NodeQuestions::NodeQuestions(Client& client, kj::String address)
    : impl(kj::heap<Impl>(client, kj::mv(address))) {}
NodeQuestions::~NodeQuestions() noexcept(false) {}

kj::Promise<void> NodeQuestions::ask() {
  return impl->all();
}

ObservedNode NodeQuestions::observed() const {
  return impl->node.asReader();
}

}  // namespace talos::talosctl
