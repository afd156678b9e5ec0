#include "talosctl/convert-k8s/convert-run.h"

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/text/ascii.h"
#include "talosctl/upgrade-k8s/kube-objects.h"

namespace talos::talosctl {
namespace {

using kube::Json, kube::textAt;

constexpr kj::StringPtr kSystem = "kube-system"_kj, kCheckpointer = "pod-checkpointer"_kj,
                        kSecret = "kube-controller-manager"_kj;
constexpr kj::StringPtr kExplained[] = {
    "Talos generated control plane static pod definitions and bootstrap manifests, please verify "
    "them with commands:"_kj,
    "    talosctl -n <master node IP> get StaticPods.kubernetes.talos.dev"_kj,
    "    talosctl -n <master node IP> get Manifests.kubernetes.talos.dev"_kj,
    ""_kj,
    "in order to remove self-hosted control plane, pod-checkpointer component needs to be disabled"_kj,
    "once pod-checkpointer is disabled, the cluster shouldn't be rebooted until the entire "
    "conversion "
    "process is complete"_kj,
};
constexpr kj::StringPtr kAskCheckpointer =
    "confirm disabling pod-checkpointer to proceed with control plane update [yes/no]: "_kj;
constexpr kj::StringPtr kAskStaticPods =
    "confirm applying static pod definitions and manifests [yes/no]: "_kj;

kube::Resource daemonSets() {
  return kube::appsResource("daemonsets", "DaemonSet");
}

kube::Resource pods() {
  return kube::coreResource("pods", "Pod");
}

kj::String namesOf(kj::ArrayPtr<const Json> objects) {
  auto names = KJ_MAP(object, objects) {
    return kj::str(textAt(object, {"metadata", "name"}));
  };
  return kj::strArray(names, " ");
}

}  // namespace

kj::Promise<void> ConvertRun::findMasters() {
  // When a run is started again, the API server may just be changing over.
  co_await waits.until(
      kj::str("the nodes of the cluster"), {kListLimit}, [this]() -> kj::Promise<Missing> {
        masters.clear();
        auto listed = co_await kubernetes.list(kube::coreResource("nodes", "Node", false));
        for (auto& object : listed.items) {
          auto node = readNode(object);
          if (node.controlPlane) masters.add(kj::mv(node.address));
        }
        co_return nullptr;
      });
  if (masters.empty()) {
    fail(ErrorKind::kFailedPrecondition, "no node of the cluster is labelled as a control plane");
  }
  lines.line(kj::str("discovered master nodes ", quotedList(masters)));
}

kj::Promise<bool> ConvertRun::selfHosted() {
  auto known = co_await nodes.selfHosted(masters[0]);
  KJ_IF_MAYBE (is, known) {
    lines.line(kj::str("current self-hosted status: ", *is ? "true" : "false"));
    co_return *is;
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str(masters[0],
               " does not know yet who runs the control plane: its etcd has not "
               "answered since it started"));
}

kj::Promise<Json> ConvertRun::object(const kube::Resource& resource, kj::StringPtr name) {
  return kubernetes.get(resource, kSystem, name).catch_([](kj::Exception&& e) -> Json {
    if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
    fail(ErrorKind::kFailedPrecondition,
         kj::str(messageOf(e), "; this is not a control plane that bootkube made"));
  });
}

// Keeps a CA that a config has already, from an earlier run or from the user. All nodes get the
// same CA.
kj::Promise<pki::CertificateAndKey> ConvertRun::aggregator() {
  kj::Maybe<pki::CertificateAndKey> found;
  for (auto& master : masters) {
    auto node = co_await nodes.read(master);
    if (!node.persists) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(master,
                   ": machine config has persist: false, so the next boot would have no control "
                   "plane; set persist: true first"));
    }
    auto& has = node.aggregator;
    bool whole = has.certificate.size() > 0 && has.key.bytes().size() > 0;
    if (found != nullptr || !whole) continue;
    lines.note(kj::str("using the aggregator CA of the config of ", master));
    found = kj::mv(has);
  }
  KJ_IF_MAYBE (present, found) co_return kj::mv(*present);
  lines.line(
      "aggregator CA key can't be recovered from bootkube-boostrapped control plane, generating "
      "new CA");
  co_return pki::makeAuthority({.commonName = "front-proxy", .keyType = pki::KeyType::kEcdsaP256});
}

kj::Promise<TakenControlPlane> ConvertRun::gather() {
  lines.line("gathering control plane configuration");
  TakenControlPlane taken;
  auto secret = co_await object(kube::coreResource("secrets", "Secret"), kSecret);
  KJ_DEFER(kube::wipe(secret));
  taken.serviceAccountKey = serviceAccountKeyOf(secret);
  for (auto i : kj::indices(kConvertedParts)) {
    taken.images[i] = firstImageOf(co_await object(daemonSets(), kConvertedParts[i]));
  }
  taken.aggregator = co_await aggregator();
  co_return kj::mv(taken);
}

kj::Promise<void> ConvertRun::patchConfigs() {
  auto taken = co_await gather();
  auto patch = conversionPatch(taken);
  KJ_DEFER(zeroize(patch));
  for (auto& master : masters) {
    auto refusal = co_await failureOf([&] { return nodes.patch(master, patch, true); });
    KJ_IF_MAYBE (e, refusal) {
      fail(kindOf(*e),
           kj::str(master, " would refuse the config: ", messageOf(*e), "; nothing was changed"));
    }
  }
  for (auto& master : masters) {
    lines.line(kj::str("patching master node \"", master, "\" configuration"));
    // Conflict: another client changed the config meanwhile; the patch is created again.
    co_await waits.untilDone(kj::str(master, " to accept its config"), {kDeletionLimit},
                             [&] { return nodes.patch(master, patch, false); });
  }
}

kj::Promise<void> ConvertRun::awaitGenerated() {
  WaitTimes times{kGeneratedLimit, kShortInterval};
  lines.line("waiting for static pod definitions to be generated");
  co_await waits.until(kj::str("static pod definitions"), times, [this]() -> kj::Promise<Missing> {
    for (auto& master : masters) {
      auto there = co_await nodes.staticPods(master);
      if (there == kj::size(kConvertedParts)) continue;
      co_return kj::str(master, " has ", there, " of ", kj::size(kConvertedParts),
                        " static pod definitions");
    }
    co_return nullptr;
  });
  lines.line("waiting for manifests to be generated");
  co_await waits.until(kj::str("manifests"), times, [this]() -> kj::Promise<Missing> {
    for (auto& master : masters) {
      if (co_await nodes.manifests(master) == 0) co_return kj::str(master, " has no manifests");
    }
    co_return nullptr;
  });
  for (auto text : kExplained) lines.line(text);
}

kj::Promise<void> ConvertRun::confirm(kj::StringPtr question, bool force) {
  while (!force) {
    lines.question(question);
    auto line = co_await answer();
    KJ_IF_MAYBE (text, line) {
      auto said = lowerCase(kj::heapString(trimmed(*text)));
      if (said == "yes" || said == "y") co_return;
      if (said == "no" || said == "n") fail(ErrorKind::kFailedPrecondition, "aborted");
    } else {
      fail(ErrorKind::kFailedPrecondition,
           "aborted: standard input has ended without yes or no; --force asks nothing");
    }
  }
}

// Deleting a DaemonSet that was deleted before is no error.
kj::Promise<void> ConvertRun::removeDaemonSet(kj::StringPtr name) {
  lines.line(kj::str("deleting daemonset \"", name, "\""));
  co_await waits.untilDone(
      kj::str("the API server to delete the DaemonSet ", name), {kDeletionLimit},
      [&]() -> kj::Promise<void> { co_await kubernetes.remove(daemonSets(), kSystem, name); });
}

// Returns a text about the remaining checkpoints, which may be empty. If no checkpoint runs any
// more, this deletes them, because no other program will: a static pod that never started leaves
// its mirror.
kj::Promise<Missing> ConvertRun::activeCheckpoints() {
  auto listed = co_await kubernetes.list(pods(), kSystem);
  kj::Vector<Json> left;
  bool allPending = true;
  for (auto& pod : listed.items) {
    if (!isCheckpoint(pod)) continue;
    allPending = allPending && isPending(pod);
    left.add(kj::mv(pod));
  }
  if (left.empty()) co_return nullptr;
  if (allPending) {
    lines.note(kj::str("deleting pending pod checkpoints: [", namesOf(left), "]"));
    for (auto& pod : left) {
      kube::Version only{textAt(pod, {"metadata", "uid"}), ""};
      co_await kubernetes.remove(pods(), kSystem, textAt(pod, {"metadata", "name"}), only,
                                 0 * kj::SECONDS);
    }
  }
  co_return kj::str("found ", left.size(), " active pod checkpoints: [", namesOf(left), "]");
}

kj::Promise<void> ConvertRun::disableCheckpointer() {
  lines.line(kj::str("disabling ", kCheckpointer));
  co_await removeDaemonSet(kCheckpointer);
  lines.line("checking for active pod checkpoints");
  co_await waits.until(kj::str("pod checkpoints to be removed"),
                       {kCheckpointsLimit, kCheckpointsInterval},
                       [this]() { return activeCheckpoints(); });
}

kj::Promise<void> ConvertRun::removeKey() {
  lines.line("removing self-hosted initialized key");
  co_await waits.untilDone(kj::str("etcd to remove the key"), {kDeletionLimit}, [this] {
    return nodes.removeInitializedKey(masters[0]).ignoreResult();
  });
  // The nodes notice the removal a moment later. A run that was started again before this moment
  // would ask the user again.
  co_await waits.until(kj::str("the nodes to know of it"), {kDeletionLimit, kShortInterval},
                       [this]() -> kj::Promise<Missing> {
                         for (auto& master : masters) {
                           auto known = co_await nodes.selfHosted(master);
                           if (known.orDefault(false)) co_return kj::str(master, " has it still");
                         }
                         co_return nullptr;
                       });
}

kj::Promise<kj::Vector<Json>> ConvertRun::podsOf(kj::StringPtr part) {
  auto labels = kj::str("k8s-app=", part);
  auto listed = co_await kubernetes.list(pods(), kSystem, {.labels = labels});
  co_return kj::mv(listed.items);
}

// Pods of a DaemonSet that was deleted may exist for a while.
kj::Promise<bool> ConvertRun::hasOldPods(kj::StringPtr part) {
  bool any = false;
  co_await waits.until(kj::str("the pods of ", part), {kListLimit}, [&]() -> kj::Promise<Missing> {
    any = false;
    for (auto& pod : co_await podsOf(part)) any = any || isOfDaemonSet(pod);
    co_return nullptr;
  });
  co_return any;
}

// Resolves to nullptr if the DaemonSet does not exist.
kj::Promise<kj::Maybe<bool>> ConvertRun::onHostNetwork(kj::StringPtr part) {
  kj::Maybe<bool> result;
  co_await waits.until(kj::str("the DaemonSet ", part), {kListLimit},
                       [&]() -> kj::Promise<Missing> {
                         auto listed = co_await kubernetes.list(daemonSets(), kSystem);
                         result = nullptr;
                         for (auto& set : listed.items) {
                           if (textAt(set, {"metadata", "name"}) == part)
                             result = isOnHostNetwork(set);
                         }
                         co_return nullptr;
                       });
  co_return result;
}

kj::Promise<void> ConvertRun::awaitStaticPods(kj::StringPtr part, bool ready) {
  lines.line(
      kj::str("waiting for static pods for \"", part, "\" to be present in the API server state"));
  WaitTimes times{ready ? kReadyLimit : kPresentLimit, kShortInterval};
  co_await waits.until(kj::str("static pods of ", part), times, [&]() -> kj::Promise<Missing> {
    size_t there = 0;
    kj::Vector<kj::String> notReady;
    for (auto& pod : co_await podsOf(part)) {
      if (!isOwnStaticPod(pod)) continue;
      ++there;
      if (ready && !isReady(pod)) notReady.add(kj::str(textAt(pod, {"metadata", "name"})));
    }
    if (there != masters.size()) {
      co_return kj::str("found ", there, " static pods of ", part, ", expected ", masters.size());
    }
    if (notReady.empty()) co_return nullptr;
    co_return kj::str("static pods are not ready: [", kj::strArray(notReady, " "), "]");
  });
}

kj::Promise<void> ConvertRun::replace(kj::StringPtr part) {
  co_await removeDaemonSet(part);
  // One of the parts is the API server, so it may not answer for a while.
  co_await waits.until(kj::str("the pods of the DaemonSet ", part, " to end"),
                       {kReadyLimit, kShortInterval}, [&]() -> kj::Promise<Missing> {
                         kj::Vector<Json> left;
                         for (auto& pod : co_await podsOf(part)) {
                           if (isOfDaemonSet(pod)) left.add(kj::mv(pod));
                         }
                         if (left.empty()) co_return nullptr;
                         co_return kj::str("found ", left.size(), " pods of the DaemonSet: [",
                                           namesOf(left), "]");
                       });
  co_await awaitStaticPods(part, true);
}

kj::Promise<void> ConvertRun::run(bool force) {
  co_await findMasters();
  if (co_await selfHosted()) {
    co_await patchConfigs();
    co_await awaitGenerated();
    co_await confirm(kAskCheckpointer, force);
    co_await disableCheckpointer();
    co_await confirm(kAskStaticPods, force);
    co_await removeKey();
  }
  bool any = false;
  for (auto part : kConvertedParts) {
    auto set = co_await onHostNetwork(part);
    any = any || set != nullptr || co_await hasOldPods(part);
    // If the old pod occupies ports of the node, the new pod has to wait for its end.
    co_await awaitStaticPods(part, !set.orDefault(false));
  }
  if (!any) {
    lines.note("no part of the control plane is self-hosted: there is nothing to convert");
    co_return;
  }
  for (auto part : kConvertedParts) co_await replace(part);
  lines.line("conversion process completed successfully");
}

}  // namespace talos::talosctl
