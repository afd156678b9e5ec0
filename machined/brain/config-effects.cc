#include "machined/brain/config-effects.h"

#include "common/base/error.h"
#include "common/base/signal.h"
#include "common/base/within.h"
#include "common/text/texts.h"
#include "machined/boot/tasks/network-complete.h"
#include "machined/kubernetes/etcd/etcd-run.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

using Texts = ConfigEffects::Texts;

constexpr auto kKernelLimit = 5 * kj::SECONDS, kNetworkLimit = 5 * kj::SECONDS,
               kNodeLimit = 5 * kj::SECONDS, kEtcdLimit = 15 * kj::SECONDS,
               kBalancerLimit = 5 * kj::SECONDS, kVolumesLimit = 20 * kj::SECONDS;
constexpr kj::StringPtr kKernelKeys[] = {"machine.kernel"_kj, "machine.pciDrivers"_kj,
                                         "machine.sysfs"_kj, "machine.sysctls"_kj,
                                         "machine.watchdog"_kj};
constexpr kj::StringPtr kNodeKeys[] = {"machine.nodeLabels"_kj, "machine.nodeAnnotations"_kj,
                                       "machine.nodeTaints"_kj};
constexpr kj::StringPtr kVolumeKeys[] = {"machine.volumes"_kj, "machine.ephemeralSize"_kj,
                                         "machine.systemDiskEncryption"_kj};
constexpr kj::StringPtr kTrustedRoots = "machine.trustedRoots"_kj, kNetwork = "machine.network"_kj,
                        kEtcd = "cluster.etcd"_kj,
                        kAdvertised = "cluster.etcd.advertisedSubnets"_kj,
                        kImage = "machine.install.image"_kj,
                        kKubePrism = "machine.features.kubePrism"_kj,
                        kHostDns = "machine.features.hostDNS"_kj, kTrimRules = "machine.trims"_kj,
                        kTrimDocument = "FilesystemTrimConfig"_kj;

constexpr kj::StringPtr kAtInstallation = "acts when the system is installed on a disk"_kj,
                        kNoObject = "changes no object that exists; use kubectl"_kj;
// A key that nothing reads before another system is written, or of an object that is created once.
// A node that has not upgraded itself to machine.install.image yet reads this key at once.
struct LaterKey {
  kj::StringPtr key, cause, manifest;  // `manifest`: the one that has the object; may be empty
};
constexpr LaterKey kLaterKeys[] = {
    {"machine.install.bootloader"_kj, kAtInstallation, ""_kj},
    {"machine.install.disk"_kj, kAtInstallation, ""_kj},
    {"machine.install.diskMatch"_kj, kAtInstallation, ""_kj},
    {"machine.install.diskSelector"_kj, kAtInstallation, ""_kj},
    {"machine.install.extraKernelArgs"_kj, "acts with the next installation or upgrade"_kj, ""_kj},
    {kImage, "acts when the system is installed on a disk; use talosctl upgrade"_kj, ""_kj},
    {"machine.install.wipe"_kj, kAtInstallation, ""_kj},
    {"cluster.coreDNS.disabled"_kj, kNoObject, "11-core-dns"_kj},
    {"cluster.coreDNS.image"_kj, kNoObject, "11-core-dns"_kj},
    {"cluster.network.cni"_kj, kNoObject, "05-flannel"_kj},
    {"cluster.proxy.disabled"_kj, kNoObject, "10-kube-proxy"_kj},
    {"cluster.proxy.extraArgs"_kj, kNoObject, "10-kube-proxy"_kj},
    {"cluster.proxy.image"_kj, kNoObject, "10-kube-proxy"_kj},
    {"cluster.proxy.mode"_kj, kNoObject, "10-kube-proxy"_kj}};

constexpr kj::StringPtr kUnregistered =
    "the node is not registered in Kubernetes (machine.kubelet.skipNodeRegistration)"_kj;

bool changes(kj::ArrayPtr<const config::Change> list, kj::StringPtr key) {
  for (auto& change : list) {
    if (change.path.startsWith(key)) return true;
  }
  return false;
}

// Returns true if a key of etcd other than advertisedSubnets has changed.
bool changesOtherEtcd(kj::ArrayPtr<const config::Change> list) {
  for (auto& change : list) {
    if (change.path.startsWith(kEtcd) && !change.path.startsWith(kAdvertised)) return true;
  }
  return false;
}

bool changesVolumes(kj::ArrayPtr<const config::Change> list) {
  for (auto key : kVolumeKeys) {
    if (changes(list, key)) return true;
  }
  return false;
}

// Returns what is said about trimming, of what is said about volumes.
kj::Vector<kj::String> onlyOfTrims(kj::ArrayPtr<kj::String> ofVolumes) {
  kj::Vector<kj::String> texts;
  for (auto& text : ofVolumes) {
    if (text.startsWith(kTrimDocument)) texts.add(kj::mv(text));
  }
  return texts;
}

bool isWithin(kj::StringPtr path, kj::StringPtr key) {
  if (!path.startsWith(key)) return false;
  return path.size() == key.size() || path[key.size()] == '.' || path[key.size()] == '[';
}

bool isApplied(Store& store, kj::StringPtr manifest) {
  for (auto status : store.list<rpc::ManifestStatusSpec>()) {
    if (contains(status.getManifestsApplied(), manifest)) return true;
  }
  return false;
}

Texts laterKeys(Store& store, kj::ArrayPtr<const config::Change> list, bool imageActs) {
  kj::Vector<kj::String> found;
  for (auto& later : kLaterKeys) {
    if (later.manifest.size() > 0 && !isApplied(store, later.manifest)) continue;
    if (imageActs && later.key == kImage) continue;
    for (auto& change : list) {
      if (isWithin(change.path, later.key)) addOnce(found, kj::str(later.key, ": ", later.cause));
    }
  }
  return found.releaseAsArray();
}

Texts asTexts(kj::String text) {
  return kj::arr(kj::mv(text));
}

// Returns the settings below the keys that the Node object does not have; nullptr if kubed has not
// compared the object with the present NodeSpec.
kj::Maybe<Texts> missingOfNode(Store& store, kj::ArrayPtr<const kj::StringPtr> keys) {
  auto specs = store.list<rpc::NodeSpecSpec>();
  auto statuses = store.list<rpc::NodeStatusSpec>();
  if (specs.empty() && statuses.empty()) return Texts();
  for (auto& spec : specs) {
    if (spec.getUnregistered()) {
      return Texts(KJ_MAP(key, keys) { return kj::str(key, ": ", kUnregistered); });
    }
    for (auto& status : statuses) {
      if (status.getSpecVersion() != spec.version()) continue;
      kj::Vector<kj::String> missing;
      for (auto setting : status.getNotApplied()) {
        for (auto key : keys) {
          if (setting.startsWith(kj::str(key, ":"))) missing.add(kj::str(setting));
        }
      }
      return missing.releaseAsArray();
    }
  }
  return nullptr;
}

// Returns why the balancer of API servers is not as the config wants it; nullptr if it is.
kj::Maybe<kj::String> errorOfBalancer(Store& store) {
  auto wanted = store.list<rpc::KubePrismConfigSpec>();
  auto statuses = store.list<rpc::KubePrismStatusSpec>();
  if (wanted.empty()) {
    if (statuses.empty()) return nullptr;
    return kj::str("kubed still listens for the balancer");
  }
  for (auto& status : statuses) {
    if (status.getPort() == wanted[0].getPort()) return nullptr;
    if (status.getMessage().size() > 0 && status.getPort() == 0)
      return kj::str(status.getMessage());
  }
  return kj::str("kubed does not listen on port ", wanted[0].getPort(), " yet");
}

// Returns why kubed has not compared the object.
kj::String errorOfNode(Store& store) {
  for (auto status : store.list<rpc::NodeStatusSpec>()) {
    if (status.getSpecVersion() == 0 && status.getMessage().size() > 0)
      return kj::str(status.getMessage());
  }
  return kj::str("kubed has not compared the Node object with the config within ", kNodeLimit);
}

}  // namespace

kj::Promise<Texts> ConfigEffects::missing(kj::ArrayPtr<const config::Change> list) {
  kj::Vector<kj::Promise<Texts>> parts;
  kj::StringPtr kernelKey;
  kj::Vector<kj::StringPtr> nodeKeys;
  for (auto key : kKernelKeys) {
    if (changes(list, key)) kernelKey = key;
  }
  for (auto key : kNodeKeys) {
    if (changes(list, key)) nodeKeys.add(key);
  }
  if (kernelKey.size() > 0) parts.add(kernelSettings(kernelKey));
  if (changes(list, kTrustedRoots)) parts.add(trustedRoots());
  if (changesVolumes(list)) {
    parts.add(volumes());
  } else if (!deps.volumeProblems().empty()) {
    // Any apply lets waiting volumes use disks that have appeared since.
    parts.add(volumes().then([trims = changes(list, kTrimRules)](Texts texts) {
      return trims ? onlyOfTrims(texts).releaseAsArray() : Texts();
    }));
  }
  if (changes(list, kNetwork) || changes(list, kHostDns)) parts.add(network());
  if (!nodeKeys.empty()) parts.add(nodeObject(kj::mv(nodeKeys)));
  bool advertised = changes(list, kAdvertised), others = changesOtherEtcd(list);
  if (advertised || others) parts.add(etcd(advertised, others));
  if (changes(list, kKubePrism)) parts.add(kubePrism());
  parts.add(later(list, true));
  auto answers = co_await kj::joinPromises(parts.releaseAsArray());
  kj::Vector<kj::String> all;
  for (auto& answer : answers) {
    for (auto& text : answer) all.add(kj::mv(text));
  }
  co_return all.releaseAsArray();
}

Texts ConfigEffects::foreseen(kj::ArrayPtr<const config::Change> list,
                              config::Machine::Reader wanted) {
  kj::Vector<kj::String> all;
  if (changesVolumes(list)) {
    all = deps.impossibleVolumes(wanted);
  } else if (changes(list, kTrimRules)) {
    auto impossible = deps.impossibleVolumes(wanted);
    all = onlyOfTrims(impossible);
  }
  for (auto& text : later(list, false)) all.add(kj::mv(text));
  return all.releaseAsArray();
}

Texts ConfigEffects::later(kj::ArrayPtr<const config::Change> list, bool applied) {
  return laterKeys(deps.store, list, deps.imageActs(applied));
}

Texts ConfigEffects::leftOut() {
  auto reported = networkProblems(deps.store);
  kj::Vector<kj::String> all;
  for (auto& problem : deps.networkProblems()) {
    // networkd repeats the problem of a selector.
    if (!contains(reported, problem)) all.add(kj::str(kNetwork, ": ", problem));
  }
  for (auto& problem : driverProblems(deps.store)) all.add(kj::mv(problem));
  for (auto& problem : deps.volumeProblems()) all.add(kj::mv(problem));
  auto etcd = peerUrlState(deps.store);
  KJ_IF_MAYBE (problem, etcd.problem) {
    all.add(kj::str(etcd.waits ? kEtcd : kAdvertised, ": ", *problem));
  }
  for (auto status : deps.store.list<rpc::NodeStatusSpec>()) {
    for (auto setting : status.getNotApplied()) all.add(kj::str(setting));
  }
  return all.releaseAsArray();
}

kj::Promise<Texts> ConfigEffects::kernelSettings(kj::StringPtr key) {
  auto applied = kj::evalNow([this]() { return deps.kernel(); });
  return within(deps.timer, kKernelLimit, kj::mv(applied),
                kj::str("the kernel has not taken them within ", kKernelLimit))
      .catch_([key](kj::Exception&& e) { return asTexts(kj::str(key, ": ", messageOf(e))); });
}

kj::Promise<Texts> ConfigEffects::trustedRoots() {
  auto applied = kj::evalNow([this]() { return deps.trustedRoots(); });
  return within(deps.timer, kKernelLimit, kj::mv(applied),
                kj::str("the bundle is not written within ", kKernelLimit))
      .catch_(
          [](kj::Exception&& e) { return asTexts(kj::str("TrustedRootsConfig: ", messageOf(e))); });
}

kj::Promise<Texts> ConfigEffects::volumes() {
  auto made = kj::evalNow([this]() { return deps.volumes(); });
  return within(deps.timer, kVolumesLimit, kj::mv(made),
                kj::str("they are not made within ", kVolumesLimit))
      .catch_([](kj::Exception&& e) { return asTexts(kj::str("volumes: ", messageOf(e))); });
}

kj::Promise<Texts> ConfigEffects::network() {
  auto missing =
      co_await networkNotInEffect(deps.store, deps.controllers, deps.timer, kNetworkLimit);
  kj::Vector<kj::String> all;
  for (auto& problem : deps.networkProblems()) all.add(kj::str(kNetwork, ": ", problem));
  // networkd repeats the problem of a selector.
  for (auto& text : missing) addOnce(all, kj::mv(text));
  co_return all.releaseAsArray();
}

// kubed's report says with which NodeSpec it has compared the object, so a report from before the
// change is not taken for one about it.
kj::Promise<Texts> ConfigEffects::nodeObject(kj::Vector<kj::StringPtr> keys) {
  Signal changed;
  auto watched = deps.store.onChange<rpc::NodeStatusSpec>([&changed]() { changed.raise(); });
  auto until = deps.timer.now() + kNodeLimit;
  // Then the NodeSpec is that of the config.
  co_await deps.controllers.whenIdle().exclusiveJoin(deps.timer.atTime(until));
  for (;;) {
    auto next = changed.wait();
    auto found = missingOfNode(deps.store, keys);
    KJ_IF_MAYBE (missing, found) co_return kj::mv(*missing);
    if (deps.timer.now() >= until)
      co_return asTexts(kj::str(keys[0], ": ", errorOfNode(deps.store)));
    co_await deps.timer.atTime(until).exclusiveJoin(kj::mv(next));
  }
}

kj::Promise<Texts> ConfigEffects::kubePrism() {
  Signal changed;
  auto watched = deps.store.onChange<rpc::KubePrismStatusSpec>([&changed]() { changed.raise(); });
  auto until = deps.timer.now() + kBalancerLimit;
  // Then the wanted balancer is that of the config.
  co_await deps.controllers.whenIdle().exclusiveJoin(deps.timer.atTime(until));
  for (;;) {
    auto next = changed.wait();
    auto error = errorOfBalancer(deps.store);
    if (error == nullptr) co_return nullptr;
    if (deps.timer.now() >= until)
      co_return asTexts(kj::str(kKubePrism, ": ", KJ_ASSERT_NONNULL(error)));
    co_await deps.timer.atTime(until).exclusiveJoin(kj::mv(next));
  }
}

// The members learn the address before etcd restarts with it, so the restart is waited for first.
kj::Promise<Texts> ConfigEffects::etcd(bool advertised, bool others) {
  kj::Maybe<kj::String> error, peerUrlError;
  try {
    co_await within(deps.timer, kNetworkLimit, deps.controllers.whenIdle(),
                    kj::str("controllers are still running"));
    auto until = deps.timer.now() + kEtcdLimit;
    error = co_await deps.etcd(kEtcdLimit);
    if (advertised && error == nullptr) peerUrlError = co_await peerUrl(until);
  } catch (...) {
    error = messageOf(kj::getCaughtExceptionAsKj());
  }
  kj::Vector<kj::String> all;
  KJ_IF_MAYBE (text, error) {
    if (others) all.add(kj::str(kEtcd, ": ", *text));
    if (advertised) all.add(kj::str(kAdvertised, ": ", *text));
  }
  KJ_IF_MAYBE (text, peerUrlError) all.add(kj::str(kAdvertised, ": ", *text));
  co_return all.releaseAsArray();
}

// Waits until the members of etcd call this one at the address of the config. Resolves with the
// reason why they do not; nullptr if they do, or this node has no member.
kj::Promise<kj::Maybe<kj::String>> ConfigEffects::peerUrl(kj::TimePoint until) {
  Signal changed;
  auto members = deps.store.onChange<rpc::EtcdMemberSpec>([&changed]() { changed.raise(); });
  auto statuses = deps.store.onChange<rpc::EtcdStatusSpec>([&changed]() { changed.raise(); });
  for (;;) {
    auto next = changed.wait();
    auto state = peerUrlState(deps.store);
    if (state.known && state.problem == nullptr) co_return nullptr;
    if (deps.timer.now() >= until) {
      if (state.known) co_return kj::mv(state.problem);
      co_return kj::str("etcd-supervisor does not know the member of this node");
    }
    co_await deps.timer.atTime(until).exclusiveJoin(kj::mv(next));
  }
}

}  // namespace talos::machined
