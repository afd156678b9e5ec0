#include "machined/config/trial-plan.h"

#include "common/base/error.h"
#include "machined/config/config-change.h"
#include "machined/disk/volumes/volume-changes.h"

namespace talos::machined {
namespace {

// Keys whose change the previous config does not undo: the keys of partitions are replaced, pods
// and other nodes know another CA, and data is encrypted with another key.
constexpr kj::StringPtr kLasting[] = {"machine.systemDiskEncryption"_kj,
                                      "cluster.ca"_kj,
                                      "cluster.acceptedCAs"_kj,
                                      "cluster.acceptedAggregatorCAs"_kj,
                                      "cluster.acceptedEncryptionSecrets"_kj,
                                      "cluster.aescbcEncryptionSecret"_kj,
                                      "cluster.aggregatorCA"_kj,
                                      "cluster.etcd.acceptedCAs"_kj,
                                      "cluster.etcd.ca"_kj,
                                      "cluster.secretboxEncryptionSecret"_kj,
                                      "cluster.serviceAccount"_kj};
// A change of these keys writes to disks; the rest of the config goes back.
constexpr struct {
  kj::StringPtr key, name;
} kDisks[] = {{"machine.disks"_kj, "machine.disks"_kj},
              {"machine.volumes"_kj, "the documents of volumes"_kj},
              {"machine.ephemeralSize"_kj, "VolumeConfig"_kj}};
// A change of these keys may cut the node off from others; and of those, from clients alone.
constexpr kj::StringPtr kNetworks[] = {"machine.network"_kj,
                                       "machine.features.hostDNS"_kj,
                                       "machine.sysctls.net"_kj,
                                       "machine.kernel"_kj,  // drivers of links
                                       "machine.pciDrivers"_kj,
                                       "machine.sysfs"_kj,
                                       "cluster.controlPlane.endpoint"_kj};
constexpr kj::StringPtr kTrusts[] = {"machine.ca"_kj, "machine.acceptedCAs"_kj};
// A change of these keys acts on the kubelet or the control plane.
constexpr kj::StringPtr kWork[] = {"cluster"_kj, "machine.kubelet"_kj, "machine.controlPlane"_kj,
                                   "machine.pods"_kj};

bool isWithin(kj::StringPtr path, kj::StringPtr key) {
  if (!path.startsWith(key)) return false;
  return path.size() == key.size() || path[key.size()] == '.' || path[key.size()] == '[';
}

template <size_t count>
bool isWithinAny(kj::StringPtr path, const kj::StringPtr (&keys)[count]) {
  for (auto key : keys) {
    if (isWithin(path, key)) return true;
  }
  return false;
}

void warnOfDisks(kj::ArrayPtr<const config::Change> changes, kj::Vector<kj::String>& warnings) {
  for (auto& disks : kDisks) {
    bool writes = false;
    for (auto& change : changes) writes = writes || isWithin(change.path, disks.key);
    if (!writes) continue;
    warnings.add(kj::str("if this config goes back, what it writes to disks stays: ", disks.name));
  }
}

}  // namespace

ChangeKinds kindsOf(kj::ArrayPtr<const config::Change> changes) {
  ChangeKinds kinds;
  for (auto& change : changes) {
    bool isName = isWithin(change.path, "machine.network.hostname");
    kinds.network = kinds.network || (isWithinAny(change.path, kNetworks) && !isName);
    kinds.trust = kinds.trust || isWithinAny(change.path, kTrusts);
    kinds.work = kinds.work || isWithinAny(change.path, kWork);
  }
  return kinds;
}

kj::Maybe<kj::StringPtr> lastingChange(config::Config::Reader before,
                                       config::Config::Reader wanted) {
  for (auto& change : config::changes(before, wanted)) {
    for (auto key : kLasting) {
      if (isWithin(change.path, key)) return key;
    }
  }
  if (volumesWithOtherKeys(before.getMachine(), wanted.getMachine()).empty()) return nullptr;
  return "the keys of volumes"_kj;
}

kj::Maybe<ChangeTrial::Plan> planTrial(const KnownConfig& good, const KnownConfig& wanted,
                                       TrialRequest request, kj::Vector<kj::String>& warnings) {
  auto changes = config::changes(good.get(), wanted.get());
  bool isRewritten = request.duringTrial && good.bytes() != wanted.bytes();
  if (changes.empty() && !isRewritten) return nullptr;
  auto lasting = lastingChange(good.get(), wanted.get());
  KJ_IF_MAYBE (key, lasting) {
    if (request.duringTrial) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("a config is on trial and may go back, but a change of ", *key,
                   " cannot be undone: wait until the config is confirmed (talosctl status), or "
                   "keep it with --no-trial"));
    }
    warnings.add(kj::str("this config is not on trial and does not go back by itself: a change of ",
                         *key, " cannot be undone"));
    return nullptr;
  }
  warnOfDisks(changes, warnings);
  auto kinds = kindsOf(changes);
  bool cutsOff = kinds.network || kinds.trust;
  if (cutsOff && !request.callsAgain) {
    warnings.add(kj::str(
        "the node need not be reached with this config, which may cut it off, because the "
        "client does not call again (over the network, talosctl does with --mode=no-reboot, "
        "and with --mode=reboot --wait)"));
  }
  ChangeTrial::Plan plan;
  plan.before = kj::heapArray(good.bytes());
  plan.timeout = request.timeout;
  plan.needsCall = cutsOff && request.callsAgain;
  plan.onlyInMemory = !good.get().getPersist() && !wanted.get().getPersist();
  KJ_IF_MAYBE (names, request.duties) {
    plan.fulfilled = kj::mv(*names);
  } else if (!request.duringTrial) {  // otherwise those of before the other change count
    if (request.isBooted) plan.fulfilled.add(kj::str(kBootDuty));
    warnings.add(kj::str("what the node does now could not be found out within ",
                         kDutiesTimeout / kj::SECONDS,
                         " s: this config goes back only if the node does not boot with it",
                         plan.needsCall ? ", or cannot be called" : ""));
  }
  return kj::mv(plan);
}

}  // namespace talos::machined
