#include "machined/upgrade/node-duties.h"

#include <capnp/serialize.h>
#include <string.h>

#include "common/base/lines.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/node-duties.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kService = "service "_kj, kEtcd = "etcd"_kj, kVoter = "voter of etcd"_kj,
                        kNode = "Kubernetes node"_kj, kApi = "kube-apiserver"_kj, kPod = "pod "_kj,
                        kClock = "clock"_kj, kVolume = "volume "_kj,
                        kDataVolume = "data volume "_kj, kAddress = "shared address "_kj,
                        kDefaultRoute = "default route"_kj;
constexpr unsigned kMostDuties = 256;
constexpr size_t kMostDutyName = 512;  // a pod has 63 characters of namespace and 253 of name

struct Duties {
  const DutyFacts& facts;
  bool majorityLost;
  kj::Vector<Duty> list = {};

  // `shared`: the duty needs etcd or the Kubernetes API of the cluster.
  void add(kj::String name, kj::Maybe<kj::String> problem, bool shared) {
    bool elsewhere = shared && majorityLost && problem != nullptr;
    list.add(Duty{kj::mv(name), kj::mv(problem), elsewhere});
  }
};

kj::Maybe<kj::String> problemUnless(bool fulfilled, kj::StringPtr reason, kj::StringPtr otherwise) {
  if (fulfilled) return nullptr;
  return kj::str(reason.size() > 0 ? reason : otherwise);
}

kj::Maybe<kj::String> problemOf(const DutyFacts::Service& service) {
  if (!service.up) return kj::str("is not up");
  KJ_IF_MAYBE (ago, service.failedAgo) {
    if (*ago < kCrashFreeFor) return kj::str("failed ", *ago / kj::SECONDS, " s ago");
  }
  return nullptr;
}

void addEtcd(Duties& duties) {
  KJ_IF_MAYBE (etcd, duties.facts.etcd) {
    kj::Maybe<kj::String> problem;
    if (!etcd->member) {
      problem = kj::str("it is in no cluster of etcd");
    } else if (!etcd->problems.empty()) {
      problem = kj::strArray(etcd->problems, "; ");
    } else if (!etcd->voter) {
      problem = kj::str("it is a learner");
    } else if (!etcd->leader) {
      problem = kj::str("the cluster has no leader");
    }
    duties.add(kj::str(kVoter), kj::mv(problem), true);
  }
}

void addKubernetes(Duties& duties, const Store& store) {
  for (auto node : store.list<rpc::NodeStatusSpec>()) {
    duties.add(kj::str(kNode),
               problemUnless(node.getReady(), node.getMessage(), "its Node object is not Ready"),
               true);
  }
  for (auto api : store.list<rpc::LocalApiStatusSpec>()) {
    duties.add(kj::str(api.id()),
               problemUnless(api.getReady(), api.getMessage(), "it is not ready"), true);
  }
  for (auto pod : store.list<rpc::StaticPodStatusSpec>()) {
    duties.add(kj::str(kPod, pod.id()),
               problemUnless(isPodReady(pod.getStatus()), "", "it is not Ready"), true);
  }
}

// Returns true for a duty that dutiesOf() would list if the node still had it.
// A volume of a document is not, because it has a status as long as it has a document.
bool isKnown(kj::StringPtr name) {
  for (auto kind : {kPod, kVolume, kAddress}) {
    if (name.startsWith(kind)) return true;
  }
  return name == kVoter || name == kNode || name == kApi || name == kClock;
}

// Returns true if the definition of a static pod has this id. The pod
// kube-system/kube-apiserver-NODE has the definition kube-apiserver, a pod default/web-NODE of
// machine.pods default-web.
bool isDefinedBy(kj::StringPtr pod, kj::StringPtr definition) {
  constexpr kj::StringPtr kSystem = "kube-system/"_kj;
  auto begin = kj::str(definition, '-');
  if (pod.startsWith(kSystem) && pod.slice(kSystem.size()).startsWith(begin)) return true;
  auto joined = kj::str(pod);
  for (char& c : joined) {
    if (c == '/') c = '-';
  }
  return joined.startsWith(begin);
}

// Returns the id of the definition of the pod in the name of a duty, or nullptr. The name of the
// node in it is unknown, so the longest id counts.
kj::Maybe<kj::StringPtr> definitionOf(kj::StringPtr duty, const DutyScope& scope) {
  if (!duty.startsWith(kPod)) return nullptr;
  kj::Maybe<kj::StringPtr> longest;
  for (auto& id : scope.staticPods) {
    if (!isDefinedBy(duty.slice(kPod.size()), id)) continue;
    if (id.size() > longest.orDefault("").size()) longest = id.asPtr();
  }
  return longest;
}

bool isWanted(kj::StringPtr duty, const DutyScope& scope) {
  if (!scope.known) return true;
  bool isPod = duty.startsWith(kPod);
  if (!isPod && duty != kNode) return true;
  return scope.registered && (!isPod || definitionOf(duty, scope) != nullptr);
}

bool isSamePod(kj::StringPtr duty, kj::StringPtr other, const DutyScope& scope) {
  KJ_IF_MAYBE (definition, definitionOf(duty, scope)) {
    return *definition == definitionOf(other, scope).orDefault("");
  }
  return false;
}

// A candidate that knows the holder could hold the address itself.
void addAddresses(Duties& duties, const Store& store) {
  for (auto vip : store.list<rpc::VipStatusSpec>()) {
    bool able =
        vip.getState() == "holder" || (vip.getState() == "waiting" && vip.getHolder().size() > 0);
    duties.add(kj::str(kAddress, vip.id()),
               problemUnless(able, vip.getReason(), "it takes no part in the election"), true);
  }
}

// A network that was incomplete before may stay so, but what worked of it has to work again. The
// parts of a complete network are no duties: the network itself is one.
void addNetwork(Duties& duties, const Store& store) {
  KJ_IF_MAYBE (network, duties.facts.network) {
    duties.add(kj::str(kNetworkDuty), network->lacks.map([](auto& text) { return kj::str(text); }),
               false);
    if (network->lacks == nullptr) return;
  } else {
    return;
  }
  // Connectivity is that of other hosts where the config has probes: no duty of this node.
  bool probes = store.list<rpc::ProbeSpecSpec>().size() > 0;
  for (auto status : store.list<rpc::NetworkStatusSpec>()) {
    if (probes) break;
    duties.add(kj::str(kDefaultRoute), problemUnless(status.getConnectivityReady(), "", "missing"),
               false);
  }
  for (auto request : store.list<rpc::OperatorSpecSpec>()) {
    auto status = store.tryGet<rpc::OperatorStatusSpec>(request.id());
    bool has = status.map([](auto& s) { return s.getAddresses().size() > 0; }).orDefault(false);
    duties.add(kj::str("lease ", request.id()), problemUnless(has, "", "it has no address"), false);
  }
  for (auto link : store.list<rpc::LinkSpecSpec>()) {
    bool exists = store.tryGet<rpc::LinkStatusSpec>(link.getName()) != nullptr;
    duties.add(kj::str("link ", link.getName()), problemUnless(exists, "", "it does not exist"),
               false);
  }
  for (auto address : store.list<rpc::AddressSpecSpec>()) {
    auto id = kj::str(address.getLinkName(), '/', address.getAddress());
    bool exists = store.tryGet<rpc::AddressStatusSpec>(id) != nullptr;
    duties.add(kj::str("address ", address.getAddress(), " on ", address.getLinkName()),
               problemUnless(exists, "", "it does not exist"), false);
  }
}

}  // namespace

DutyFacts::Etcd etcdFactsOf(capnp::List<rpc::Etcd::Member>::Reader members) {
  DutyFacts::Etcd facts;
  for (auto one : members) {
    if (!one.getLearner()) ++facts.voters;
    facts.leader = facts.leader || one.getLeader();
    if (one.getLocal()) {
      facts.member = true;
      facts.voter = !one.getLearner();
      if (one.getProblem().size() > 0) facts.problems.add(kj::str(one.getProblem()));
    } else if (!one.getLearner() && one.getProblem().size() == 0) {
      ++facts.answering;
    }
  }
  facts.othersReached = facts.answering > 0;
  return facts;
}

bool isMajorityLost(const DutyFacts::Etcd& etcd) {
  return etcd.member && etcd.othersReached && etcd.answering + 1 < etcd.voters / 2 + 1;
}

kj::Vector<Duty> dutiesOf(const Store& store, const DutyFacts& facts) {
  bool lost = false;
  KJ_IF_MAYBE (etcd, facts.etcd) lost = isMajorityLost(*etcd);
  Duties duties{.facts = facts, .majorityLost = lost};
  for (auto& service : facts.services) {
    duties.add(kj::str(kService, service.id), problemOf(service), service.id == kEtcd);
  }
  addEtcd(duties);
  addKubernetes(duties, store);
  for (auto time : store.list<rpc::TimeStatusSpec>()) {
    duties.add(kj::str(kClock),
               problemUnless(time.getSynced(), time.getProblem(), "it is not synchronised"), false);
  }
  for (auto volume : store.list<rpc::VolumeStatusSpec>()) {
    bool ofSystem = volume.id() == "STATE" || volume.id() == "EPHEMERAL";
    duties.add(kj::str(ofSystem ? kVolume : kDataVolume, volume.id()),
               problemUnless(volume.getPhase() == "ready", volume.getErrorMessage(),
                             kj::str("it is ", volume.getPhase())),
               false);
  }
  addAddresses(duties, store);
  addNetwork(duties, store);
  return kj::mv(duties.list);
}

// A component without a config is disabled; with one, its definition may be late.
DutyScope dutyScopeOf(const Store& store) {
  DutyScope scope;
  KJ_IF_MAYBE (node, store.tryGet<rpc::NodeSpecSpec>("node")) {
    scope.known = true;
    scope.registered = !node->getUnregistered();
  }
  for (auto pod : store.list<rpc::StaticPodSpec>()) {
    if (pod.metadata().getPhase() != rpc::Metadata::Phase::RUNNING) continue;
    scope.staticPods.add(kj::str(pod.id()));
  }
  for (auto config : store.list<rpc::ControlPlaneConfigSpec>()) {
    bool runs = config.isApiServer() || config.isControllerManager() || config.isScheduler();
    if (runs) scope.staticPods.add(kj::str(config.id()));
  }
  return scope;
}

bool isPodReady(kj::ArrayPtr<const char> status) {
  bool ready = false, isTrue = false;  // of the current item of a list
  for (auto line : Lines(status)) {
    size_t begin = 0;
    while (begin < line.size() && line[begin] == ' ') ++begin;
    auto text = line.slice(begin, line.size());
    if (text.size() >= 2 && text[0] == '-' && text[1] == ' ') {
      ready = isTrue = false;
      text = text.slice(2, text.size());
    }
    if (text == "type: Ready"_kj.asArray()) ready = true;
    if (text == "status: \"True\""_kj.asArray()) isTrue = true;
    if (ready && isTrue) return true;
  }
  return false;
}

kj::String describe(const Duty& duty) {
  auto& problem = KJ_REQUIRE_NONNULL(duty.problem);
  return kj::str(duty.name, duty.name.startsWith(kService) ? " " : ": ", problem);
}

DutyRecord recordOf(kj::ArrayPtr<const Duty> duties, kj::Date upgrade) {
  DutyRecord record;
  record.upgrade = upgrade;
  for (auto& duty : duties.slice(0, kj::min(duties.size(), kMostDuties))) {
    if (duty.name.size() > kMostDutyName) continue;
    (duty.problem == nullptr ? record.fulfilled : record.failing).add(kj::str(duty.name));
  }
  return record;
}

kj::Vector<Duty> failingOf(const DutyRecord& before, kj::ArrayPtr<const Duty> now,
                           const DutyScope& scope) {
  kj::Vector<Duty> failing;
  for (auto& name : before.fulfilled) {
    if (!isWanted(name, scope)) continue;
    bool exists = false, found = false;
    for (auto& duty : now) exists = exists || duty.name == name;
    for (auto& duty : now) {
      if (exists ? duty.name != name : !isSamePod(name, duty.name, scope)) continue;
      found = true;
      KJ_IF_MAYBE (problem, duty.problem) {
        failing.add(Duty{kj::str(duty.name), kj::str(*problem), duty.causedElsewhere});
      }
    }
    if (!found && isKnown(name)) {
      failing.add(Duty{kj::str(name), kj::str("missing")});
    }
  }
  return failing;
}

kj::Maybe<DutyRecord> decodeDuties(kj::ArrayPtr<const char> bytes) {
  kj::Maybe<DutyRecord> result;
  // The record is of another version, or damaged: nothing is known.
  (void)kj::runCatchingExceptions([&] {
    auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
    memcpy(words.begin(), bytes.begin(), words.asBytes().size());
    capnp::FlatArrayMessageReader reader(words);
    auto in = reader.getRoot<rpc::NodeDuties>();
    DutyRecord record;
    record.upgrade = kj::UNIX_EPOCH + in.getUpgrade() * kj::NANOSECONDS;
    auto read = [](auto list, kj::Vector<kj::String>& out) {
      KJ_REQUIRE(list.size() <= kMostDuties);
      for (auto name : list) {
        KJ_REQUIRE(name.size() > 0 && name.size() <= kMostDutyName);
        out.add(kj::str(name));
      }
    };
    read(in.getFulfilled(), record.fulfilled);
    read(in.getFailing(), record.failing);
    result = kj::mv(record);
  });
  return result;
}

kj::Array<char> encodeDuties(const DutyRecord& record) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<rpc::NodeDuties>();
  out.setUpgrade((record.upgrade - kj::UNIX_EPOCH) / kj::NANOSECONDS);
  auto write = [](auto list, kj::ArrayPtr<const kj::String> names) {
    for (auto i : kj::indices(names)) list.set(static_cast<unsigned>(i), names[i]);
  };
  write(out.initFulfilled(static_cast<unsigned>(record.fulfilled.size())), record.fulfilled);
  write(out.initFailing(static_cast<unsigned>(record.failing.size())), record.failing);
  auto words = capnp::messageToFlatArray(message);
  return kj::heapArray<char>(words.asBytes().asChars());
}

}  // namespace talos::machined
