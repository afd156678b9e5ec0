#include "machined/brain/config-effects.h"

#include "common/base/error.h"
#include "common/base/signal.h"
#include "common/base/within.h"
#include "common/kube/node-roles.h"
#include "common/text/texts.h"
#include "machined/boot/tasks/network-complete.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

using Texts = ConfigEffects::Texts;

constexpr auto kKernelLimit = 5 * kj::SECONDS, kNetworkLimit = 5 * kj::SECONDS,
               kNodeLimit = 5 * kj::SECONDS, kEtcdLimit = 15 * kj::SECONDS;
constexpr kj::StringPtr kKernelKeys[] = {"machine.kernel"_kj, "machine.sysfs"_kj,
                                         "machine.sysctls"_kj, "machine.watchdog"_kj};
constexpr kj::StringPtr kNodeKeys[] = {"machine.nodeLabels"_kj, "machine.nodeAnnotations"_kj,
                                       "machine.nodeTaints"_kj};
constexpr kj::StringPtr kLabels = kNodeKeys[0], kTaints = kNodeKeys[2];
constexpr kj::StringPtr kNetwork = "machine.network"_kj, kEtcd = "cluster.etcd"_kj;

bool changes(kj::ArrayPtr<const config::Change> list, kj::StringPtr key) {
  for (auto& change : list) {
    if (change.path.startsWith(key)) return true;
  }
  return false;
}

bool isWorker(Store& store) {
  for (auto type : store.list<rpc::MachineTypeSpec>()) {
    if (type.getType() == rpc::MachineType::JOIN) return true;
  }
  return false;
}

Texts asTexts(kj::String text) {
  return kj::arr(kj::mv(text));
}

}  // namespace

kj::Promise<Texts> ConfigEffects::missing(kj::ArrayPtr<const config::Change> list) {
  kj::Vector<kj::Promise<Texts>> parts;
  kj::StringPtr kernelKey, nodeKey;
  for (auto key : kKernelKeys) {
    if (changes(list, key)) kernelKey = key;
  }
  for (auto key : kNodeKeys) {
    if (changes(list, key)) nodeKey = key;
  }
  if (kernelKey.size() > 0) parts.add(kernelSettings(kernelKey));
  if (changes(list, kNetwork)) parts.add(network());
  if (changes(list, kLabels)) parts.add(labels());
  if (nodeKey.size() > 0) parts.add(nodeObject(nodeKey));
  if (changes(list, kEtcd)) parts.add(etcd());
  auto answers = co_await kj::joinPromises(parts.releaseAsArray());
  kj::Vector<kj::String> all;
  for (auto& answer : answers) {
    for (auto& text : answer) all.add(kj::mv(text));
  }
  co_return all.releaseAsArray();
}

kj::Promise<Texts> ConfigEffects::kernelSettings(kj::StringPtr key) {
  auto applied = kj::evalNow([this]() { return deps.kernel(); });
  return within(deps.timer, kKernelLimit, kj::mv(applied),
                kj::str("the kernel has not taken them within ", kKernelLimit))
      .catch_([key](kj::Exception&& e) { return asTexts(kj::str(key, ": ", messageOf(e))); });
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

kj::Promise<Texts> ConfigEffects::labels() {
  kj::Vector<kj::String> refused;
  for (auto& label : deps.refusedLabels()) {
    refused.add(kj::str(kLabels, ": a worker may not give itself the label ", label,
                        "; kubectl label node does it"));
  }
  return refused.releaseAsArray();
}

// kubed reports the Node object after each change of the config, but its report does not say of
// which change it is. So an error of a worker's taints is waited for, and otherwise a success.
kj::Promise<Texts> ConfigEffects::nodeObject(kj::StringPtr key) {
  bool ownTaints = key == kTaints && isWorker(deps.store);
  Signal changed;
  auto watched = deps.store.onChange<rpc::NodeStatusSpec>([&changed]() { changed.raise(); });
  auto until = deps.timer.now() + kNodeLimit;
  for (;;) {
    auto next = changed.wait();
    kj::String error;
    for (auto status : deps.store.list<rpc::NodeStatusSpec>()) {
      if (!status.getApplied()) error = kj::str(status.getMessage());
    }
    bool taintsLeft = error.startsWith(kube::kOwnTaints);
    if (taintsLeft && key != kTaints) error = nullptr;
    bool certain = ownTaints ? taintsLeft : error.size() == 0;
    if (certain || deps.timer.now() >= until) {
      if (error.size() == 0) co_return nullptr;
      co_return asTexts(kj::str(key, ": ", error));
    }
    co_await deps.timer.atTime(until).exclusiveJoin(kj::mv(next));
  }
}

kj::Promise<Texts> ConfigEffects::etcd() {
  kj::Maybe<kj::String> error;
  try {
    co_await within(deps.timer, kNetworkLimit, deps.controllers.whenIdle(),
                    kj::str("controllers are still running"));
    error = co_await deps.etcd(kEtcdLimit);
  } catch (...) {
    error = messageOf(kj::getCaughtExceptionAsKj());
  }
  KJ_IF_MAYBE (text, error) co_return asTexts(kj::str(kEtcd, ": ", *text));
  co_return nullptr;
}

}  // namespace talos::machined
