#include "talosctl/diagnose/node-questions.h"

#include <capnp/message.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/resource.h"
#include "common/base/version.h"
#include "common/config/cluster-networks.h"
#include "common/config/config.h"
#include "common/tls/pki.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/diagnose/log-tail.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

constexpr auto kAnswerWithin = 10 * kj::SECONDS;
constexpr int kLogLines = 400, kContainerLines = 40;

using Node = rpc::Observations::Node;
using Resources = capnp::List<rpc::Resource>::Reader;

template <typename Spec>
typename Spec::Reader specOf(rpc::Resource::Reader resource) {
  return resource.getSpec().getAs<Spec>();
}

bool tellsOfTrust(kj::StringPtr why) {
  return failureOf(why) == DialFailure::kCertificate;
}

}  // namespace

struct NodeQuestions::Impl {
  Impl(Client& client, kj::String address) : client(client), asked(kj::mv(address)) {
    node = message.initRoot<Node>();
    node.setAddress(asked);
  }

  Client& client;
  kj::String asked;
  capnp::MallocMessageBuilder message;
  Node::Builder node = nullptr;
  struct Missing {
    Question question;
    kj::String why;
  };
  kj::Vector<Missing> missing;
  struct Tail {
    kj::String id;
    kj::Vector<kj::String> lines;
  };
  kj::Vector<Tail> tails;

  rpc::Node::Client remote() { return client.node(asked); }

  void miss(Question question, const kj::Exception& e) {
    for (auto& one : missing) {
      if (one.question == question) return;
    }
    missing.add(Missing{question, messageText(e)});
  }

  // `take` reads the answer; what it throws counts as no answer.
  template <typename Results, typename Take>
  kj::Promise<void> question(Question question, capnp::RemotePromise<Results> sent, Take take) {
    kj::Promise<capnp::Response<Results>> answer = kj::mv(sent);
    return within(client.deps.timer, kAnswerWithin, kj::mv(answer))
        .then([take = kj::mv(take)](capnp::Response<Results>&& results) mutable { take(results); })
        .catch_([this, question](kj::Exception&& e) { miss(question, e); });
  }

  template <typename Spec, typename Take>
  kj::Promise<void> resources(Question about, Take take) {
    auto request = remote().resourcesRequest().send().getResources().listRequest();
    request.initKind().setType(typeName<Spec>());
    return question<rpc::Resources::ListResults>(
        about, request.send(),
        [take = kj::mv(take)](rpc::Resources::ListResults::Reader results) mutable {
          take(results.getResources());
        });
  }

  // The one record of a type that has one.
  template <typename Spec, typename Take>
  kj::Promise<void> resource(Question about, Take take) {
    return resources<Spec>(about, [take = kj::mv(take)](Resources all) mutable {
      if (all.size() > 0) take(specOf<Spec>(all[0]));
    });
  }

  // --- the questions

  kj::Promise<void> first();
  kj::Promise<void> all();
  void networkQuestions(kj::Vector<kj::Promise<void>>& waits);
  void machineQuestions(kj::Vector<kj::Promise<void>>& waits);
  void kubernetesQuestions(kj::Vector<kj::Promise<void>>& waits);
  void controlPlaneQuestions(kj::Vector<kj::Promise<void>>& waits);
  kj::Promise<void> facts();
  void readFacts(kj::StringPtr document);
  kj::Promise<void> log(kj::String id);
  kj::Promise<void> containerLogs();
  void clockFromEvents();
  void finish();
};

kj::Promise<void> NodeQuestions::Impl::first() {
  auto sent = remote().machineRequest().send().getMachine().versionRequest().send();
  kj::Promise<capnp::Response<rpc::Version>> answer = kj::mv(sent);
  return within(client.deps.timer, kAnswerWithin, kj::mv(answer))
      .then(
          [this](capnp::Response<rpc::Version>&& version) {
            node.setHostname(version.getHostname());
            node.setReach(has(version.getTag(), kNotAuthenticated) ? Node::Reach::UNVERIFIED
                                                                   : Node::Reach::ANSWERS);
          },
          [this](kj::Exception&& e) {
            auto why = messageText(e);
            node.setReach(tellsOfTrust(why) ? Node::Reach::REFUSED : Node::Reach::SILENT);
            node.setWhy(why);
          });
}

void NodeQuestions::Impl::machineQuestions(kj::Vector<kj::Promise<void>>& waits) {
  auto machine = remote().machineRequest().send().getMachine();
  waits.add(question<rpc::Status>(Question::STATUS, machine.statusRequest().send(),
                                  [this](rpc::Status::Reader status) { node.setStatus(status); }));
  waits.add(question<rpc::Machine::TimeResults>(
      Question::CLOCK, machine.timeRequest().send(),
      [this](rpc::Machine::TimeResults::Reader time) {
        node.setClock(time.getAnswer().getLocal());
        node.setClockAt(static_cast<int64_t>(nanoseconds(client.deps.clock.now())));
      }));
  waits.add(question<rpc::Machine::MountsResults>(
      Question::DISKS, machine.mountsRequest().send(),
      [this](rpc::Machine::MountsResults::Reader mounts) { node.setMounts(mounts.getMounts()); }));
  waits.add(resources<rpc::VolumeStatusSpec>(Question::DISKS, [this](Resources all) {
    auto volumes = node.initVolumes(all.size());
    for (auto i : kj::indices(all)) {
      volumes[i].setLabel(all[i].getMetadata().getId());
      volumes[i].setStatus(specOf<rpc::VolumeStatusSpec>(all[i]));
    }
  }));
  waits.add(resource<rpc::UpgradeStatusSpec>(
      Question::STATUS, [this](rpc::UpgradeStatusSpec::Reader spec) { node.setUpgrade(spec); }));
  waits.add(resource<rpc::TimeStatusSpec>(
      Question::TIME, [this](rpc::TimeStatusSpec::Reader spec) { node.setTime(spec); }));
  waits.add(
      resource<rpc::JoinStatusSpec>(Question::TRUST, [this](rpc::JoinStatusSpec::Reader spec) {
        node.setJoins(true);
        node.setJoin(spec);
      }));
  waits.add(facts());
}

void NodeQuestions::Impl::networkQuestions(kj::Vector<kj::Promise<void>>& waits) {
  waits.add(resources<rpc::LinkStatusSpec>(Question::LINKS, [this](Resources all) {
    auto links = node.initLinks(all.size());
    for (auto i : kj::indices(all)) {
      links[i].setName(all[i].getMetadata().getId());
      links[i].setStatus(specOf<rpc::LinkStatusSpec>(all[i]));
    }
  }));
  waits.add(resources<rpc::LinkSpecSpec>(Question::LINKS, [this](Resources all) {
    auto names = node.initLinkSpecs(all.size());
    for (auto i : kj::indices(all)) names.set(i, specOf<rpc::LinkSpecSpec>(all[i]).getName());
  }));
  waits.add(resources<rpc::OperatorStatusSpec>(Question::ADDRESSES, [this](Resources all) {
    auto leases = node.initLeases(all.size());
    for (auto i : kj::indices(all)) {
      auto spec = specOf<rpc::OperatorStatusSpec>(all[i]);
      leases[i].setId(all[i].getMetadata().getId());
      leases[i].setOperator(spec.getOperator());
      leases[i].setLinkName(spec.getLinkName());
      leases[i].setState(spec.getState());
      leases[i].setAddresses(spec.getAddresses());
    }
  }));
  waits.add(resources<rpc::AddressStatusSpec>(Question::ADDRESSES, [this](Resources all) {
    auto addresses = node.initAddresses(all.size());
    for (auto i : kj::indices(all)) {
      addresses.setWithCaveats(i, specOf<rpc::AddressStatusSpec>(all[i]));
    }
  }));
  waits.add(resources<rpc::NodeAddressSpec>(Question::ADDRESSES, [this](Resources all) {
    for (auto one : all) {
      if (one.getMetadata().getId() != "current") continue;
      node.setNodeAddresses(specOf<rpc::NodeAddressSpec>(one).getAddresses());
    }
  }));
  waits.add(resource<rpc::NetworkStatusSpec>(
      Question::ADDRESSES, [this](rpc::NetworkStatusSpec::Reader spec) { node.setNetwork(spec); }));
  waits.add(resources<rpc::RouteStatusSpec>(Question::ROUTES, [this](Resources all) {
    auto routes = node.initRoutes(all.size());
    for (auto i : kj::indices(all)) {
      routes.setWithCaveats(i, specOf<rpc::RouteStatusSpec>(all[i]));
    }
  }));
  waits.add(resource<rpc::ResolverSpecSpec>(
      Question::NAMES,
      [this](rpc::ResolverSpecSpec::Reader spec) { node.setResolvers(spec.getDnsServers()); }));
}

void NodeQuestions::Impl::kubernetesQuestions(kj::Vector<kj::Promise<void>>& waits) {
  waits.add(resource<rpc::KubeletSpecSpec>(
      Question::KUBERNETES, [this](rpc::KubeletSpecSpec::Reader spec) { node.setKubelet(spec); }));
  waits.add(resource<rpc::NodeStatusSpec>(
      Question::KUBERNETES,
      [this](rpc::NodeStatusSpec::Reader spec) { node.setNodeStatus(spec); }));
  waits.add(resource<rpc::ManifestStatusSpec>(
      Question::KUBERNETES,
      [this](rpc::ManifestStatusSpec::Reader spec) { node.setManifests(spec); }));
  waits.add(resources<rpc::StaticPodSpec>(Question::KUBERNETES, [this](Resources all) {
    auto pods = node.initStaticPods(all.size());
    for (auto i : kj::indices(all)) pods.set(i, all[i].getMetadata().getId());
  }));
  waits.add(resource<rpc::SecretStatusSpec>(
      Question::KUBERNETES,
      [this](rpc::SecretStatusSpec::Reader spec) { node.setSecretsReady(spec.getReady()); }));
  waits.add(resources<rpc::VipStatusSpec>(Question::KUBERNETES, [this](Resources all) {
    auto vips = node.initVips(all.size());
    for (auto i : kj::indices(all)) {
      vips[i].setAddress(all[i].getMetadata().getId());
      vips[i].setStatus(specOf<rpc::VipStatusSpec>(all[i]));
    }
  }));
  waits.add(log(kj::str("kubelet")));
  waits.add(log(kj::str("cri")));
}

void NodeQuestions::Impl::controlPlaneQuestions(kj::Vector<kj::Promise<void>>& waits) {
  waits.add(resource<rpc::EtcdStatusSpec>(
      Question::ETCD, [this](rpc::EtcdStatusSpec::Reader spec) { node.setEtcd(spec); }));
  auto members = remote().etcdRequest().send().getEtcd().membersRequest().send();
  waits.add(question<rpc::Etcd::MembersResults>(Question::MEMBERS, kj::mv(members),
                                                [this](rpc::Etcd::MembersResults::Reader results) {
                                                  node.setMembers(results.getMembers());
                                                  node.setQuorum(results.getQuorum());
                                                }));
  auto request = remote().containersRequest().send().getContainers().listRequest();
  request.setKubernetes(true);
  waits.add(
      question<rpc::Containers::ListResults>(Question::CONTAINERS, request.send(),
                                             [this](rpc::Containers::ListResults::Reader results) {
                                               node.setContainers(results.getContainers());
                                             })
          .then([this]() { return containerLogs(); }));
  waits.add(log(kj::str("etcd")));
  waits.add(log(kj::str("controller-runtime")));
}

// --- the machine config

kj::Promise<void> NodeQuestions::Impl::facts() {
  auto request = remote().sensitiveResourcesRequest().send().getResources().getRequest();
  request.initKind().setType(typeName<rpc::MachineConfigSpec>());
  request.setId("v1alpha1");
  return question<rpc::Resources::GetResults>(
      Question::CONFIG, request.send(), [this](rpc::Resources::GetResults::Reader results) {
        readFacts(specOf<rpc::MachineConfigSpec>(results.getResource()).getDocument());
      });
}

void NodeQuestions::Impl::readFacts(kj::StringPtr document) {
  auto parsed = config::parse(document);
  auto config = parsed.get();
  auto cluster = config.getCluster();
  auto facts = node.initFacts();
  facts.setEndpoint(config::clusterEndpoint(cluster));
  auto copy = [](auto list, const kj::Vector<kj::String>& texts) {
    for (auto i : kj::indices(texts)) list.set(i, texts[i]);
  };
  auto pods = config::podSubnets(cluster), services = config::serviceSubnets(cluster);
  copy(facts.initPodSubnets(pods.size()), pods);
  copy(facts.initServiceSubnets(services.size()), services);
  using Cni = config::CniName;
  auto cni = cluster.getNetwork().getCni().getName();
  facts.setCni(cni == Cni::NONE ? "none" : cni == Cni::CUSTOM ? "custom" : "flannel");
  facts.setProxyDisabled(cluster.getProxy().getDisabled());
  auto mirrors = config.getMachine().getRegistries().getMirrors();
  auto mirrored = facts.initMirrored(mirrors.size());
  for (auto i : kj::indices(mirrors)) mirrored.set(i, mirrors[i].getKey());
  bool controlPlane = config::isControlPlane(config.getMachine().getType());
  node.setControlPlane(controlPlane);

  struct Given {
    kj::StringPtr key;
    capnp::Data::Reader certificate;
  };
  const Given given[] = {{"machine.ca", config.getMachine().getCa().getCrt()},
                         {"cluster.ca", cluster.getCa().getCrt()},
                         {"cluster.etcd.ca", cluster.getEtcd().getCa().getCrt()},
                         {"cluster.aggregatorCA", cluster.getAggregatorCA().getCrt()}};
  kj::Vector<const Given*> there;
  for (auto& one : given) {
    if (one.certificate.size() > 0) there.add(&one);
  }
  auto list = facts.initAuthorities(there.size());
  for (auto i : kj::indices(there)) {
    auto pem = kj::heapString(there[i]->certificate.asChars());
    auto info = pki::inspect(pem);
    list[i].setKey(there[i]->key);
    list[i].setFingerprint(pki::fingerprint(pem));
    list[i].setNotBefore((info.notBefore - kj::UNIX_EPOCH) / kj::SECONDS);
    list[i].setNotAfter((info.notAfter - kj::UNIX_EPOCH) / kj::SECONDS);
  }
}

// --- logs

kj::Promise<void> NodeQuestions::Impl::log(kj::String id) {
  auto request = remote().logsRequest().send().getLogs().readRequest();
  request.setId(id);
  request.setTailLines(kLogLines);
  tails.add(Tail{kj::mv(id), {}});
  auto index = tails.size() - 1;
  request.setSink(
      kj::heap<LogTail>([this, index](kj::String line) { tails[index].lines.add(kj::mv(line)); }));
  auto sent = request.send();
  kj::Promise<capnp::Response<rpc::Logs::ReadResults>> answer = kj::mv(sent);
  // A service that has not run yet has no log.
  return within(client.deps.timer, kAnswerWithin, kj::mv(answer))
      .then([](auto&&) {},
            [this](kj::Exception&& e) {
              if (kindOf(e) != ErrorKind::kNotFound) miss(Question::LOGS, e);
            });
}

kj::Promise<void> NodeQuestions::Impl::containerLogs() {
  kj::Vector<kj::Promise<void>> waits;
  for (auto container : node.asReader().getContainers()) {
    if (!has(container.getStatus(), "EXITED")) continue;
    auto request = remote().containersRequest().send().getContainers().logsRequest();
    request.setId(container.getId());
    request.setTailLines(kContainerLines);
    tails.add(Tail{kj::str(container.getId()), {}});
    auto index = tails.size() - 1;
    request.setSink(kj::heap<LogTail>(
        [this, index](kj::String line) { tails[index].lines.add(kj::mv(line)); }));
    waits.add(
        question<rpc::Containers::LogsResults>(Question::LOGS, request.send(), [](auto&&) {}));
  }
  return kj::joinPromises(waits.releaseAsArray());
}

// --- all of it

kj::Promise<void> NodeQuestions::Impl::all() {
  co_await first();
  if (node.getReach() != Node::Reach::ANSWERS && node.getReach() != Node::Reach::UNVERIFIED)
    co_return;
  kj::Vector<kj::Promise<void>> waits;
  auto services = remote().servicesRequest().send().getServices().listRequest().send();
  waits.add(question<rpc::Services::ListResults>(
      Question::SERVICES, kj::mv(services), [this](rpc::Services::ListResults::Reader results) {
        node.setServices(results.getServices());
      }));
  if (node.getReach() == Node::Reach::ANSWERS) {
    co_await resource<rpc::MachineTypeSpec>(
        Question::STATUS, [this](rpc::MachineTypeSpec::Reader spec) {
          node.setControlPlane(spec.getType() == rpc::MachineType::CONTROLPLANE ||
                               spec.getType() == rpc::MachineType::INIT);
        });
    machineQuestions(waits);
    networkQuestions(waits);
    kubernetesQuestions(waits);
    if (node.getControlPlane()) controlPlaneQuestions(waits);
  }
  co_await kj::joinPromises(waits.releaseAsArray());
  clockFromEvents();
  finish();
}

// Without an answer of a time server: when the newest event was, and how long ago that is by the
// clock that is never set.
void NodeQuestions::Impl::clockFromEvents() {
  if (node.getClock() != 0) return;
  uint64_t newest = 0;
  for (auto service : node.asReader().getServices()) {
    for (auto event : service.getEvents()) {
      if (event.getUptime() == 0 || event.getUptime() <= newest) continue;
      newest = event.getUptime();
      node.setClock(
          static_cast<int64_t>(event.getTime() + (service.getUptime() - event.getUptime())));
      node.setClockAt(static_cast<int64_t>(nanoseconds(client.deps.clock.now())));
    }
  }
  if (node.getClock() == 0) return;
  kj::Vector<Missing> rest;
  for (auto& one : missing) {
    if (one.question != Question::CLOCK) rest.add(kj::mv(one));
  }
  missing = kj::mv(rest);
}

void NodeQuestions::Impl::finish() {
  auto unanswered = node.initUnanswered(missing.size());
  for (auto i : kj::indices(missing)) {
    unanswered[i].setQuestion(missing[i].question);
    unanswered[i].setWhy(missing[i].why);
  }
  auto logs = node.initLogs(tails.size());
  for (auto i : kj::indices(tails)) {
    logs[i].setId(tails[i].id);
    auto lines = logs[i].initLines(tails[i].lines.size());
    for (auto j : kj::indices(lines)) lines.set(j, tails[i].lines[j]);
  }
  if (asked.size() > 0) return;
  auto own = node.asReader().getNodeAddresses();
  node.setAddress(own.size() > 0 ? own[0] : client.endpoint());
}

NodeQuestions::NodeQuestions(Client& client, kj::String address)
    : impl(kj::heap<Impl>(client, kj::mv(address))) {}
NodeQuestions::~NodeQuestions() noexcept(false) {}

kj::Promise<void> NodeQuestions::ask() {
  return impl->all();
}

rpc::Observations::Node::Reader NodeQuestions::seen() const {
  return impl->node.asReader();
}

}  // namespace talos::talosctl
