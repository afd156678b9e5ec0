#include "machined/config/trial-plan.h"

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

kj::Maybe<kj::StringPtr> lastingOf(kj::ArrayPtr<const config::Change> changes) {
  for (auto& change : changes) {
    for (auto key : kLasting) {
      if (isWithin(change.path, key)) return key;
    }
  }
  return nullptr;
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

TrialPlan planTrial(kj::Maybe<const KnownConfig&> good, const KnownConfig& wanted,
                    kj::Vector<kj::String> fulfilled, TrialRequest request,
                    kj::Vector<kj::String>& warnings) {
  TrialPlan result;
  KJ_IF_MAYBE (before, good) {
    auto changes = config::changes(before->get(), wanted.get());
    if (changes.empty()) return result;
    result.lasting = lastingOf(changes);
    auto rekeyed = volumesWithOtherKeys(before->get().getMachine(), wanted.get().getMachine());
    if (!rekeyed.empty()) result.lasting = "the keys of volumes"_kj;
    KJ_IF_MAYBE (key, result.lasting) {
      warnings.add(
          kj::str("this config is not on trial and does not go back by itself: a change of ", *key,
                  " cannot be undone"));
      return result;
    }
    warnOfDisks(changes, warnings);
    auto kinds = kindsOf(changes);
    bool cutsOff = kinds.network || kinds.trust;
    if (cutsOff && !request.callsAgain) {
      warnings.add(
          kj::str("the node need not be reached with this config, which may cut it off: use "
                  "--mode=no-reboot, or --mode=reboot with --wait"));
    }
    auto& plan = result.plan.emplace();
    plan.before = kj::heapArray(before->bytes());
    plan.fulfilled = kj::mv(fulfilled);
    plan.timeout = request.timeout;
    plan.needsCall = cutsOff && request.callsAgain;
  }
  return result;
}

}  // namespace talos::machined
