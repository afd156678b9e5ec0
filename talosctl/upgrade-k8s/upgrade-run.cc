#include "talosctl/upgrade-k8s/upgrade-run.h"

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kProxyName = "kube-proxy"_kj;

kj::String nodesIn(const ClusterState& state, bool controlPlane) {
  kj::Vector<kj::String> addresses;
  for (auto& node : state.nodes) {
    if (node.controlPlane == controlPlane) addresses.add(kj::str(node.address));
  }
  return quotedList(addresses);
}

kj::Array<const ImageChange*> changesOn(size_t node, const UpgradePlan& plan) {
  kj::Vector<const ImageChange*> changes;
  for (auto& change : plan.changes) {
    if (change.node == node && change.isChange()) changes.add(&change);
  }
  return changes.releaseAsArray();
}

// Compares with a release whose text may have another form: v1.35.4, 1.35.4+k3s1.
bool isRelease(kj::StringPtr text, const KubernetesRelease& release) {
  KJ_IF_MAYBE (version, config::parseKubernetesVersion(text)) return *version == release.version;
  return false;
}

kj::String mismatch(kj::StringPtr what, kj::StringPtr got, kj::StringPtr expected) {
  return kj::str(what, " mismatch: got \"", got, "\", expected \"", expected, "\"");
}

kj::String updating(KubernetesPart part, const KubernetesRelease& release) {
  return kj::str("updating \"", config::nameOf(part), "\" to version \"", release.text, "\"");
}

}  // namespace

void UpgradeLines::done(kj::StringPtr component, kj::StringPtr node, kj::StringPtr image,
                        kj::StringPtr result, kj::StringPtr message) {
  kube::Json line{{"component", component.cStr()}};
  if (node.size() > 0) line["node"] = node.cStr();
  line["image"] = image.cStr();
  line["result"] = result.cStr();
  if (message.size() > 0) line["message"] = message.cStr();
  event(line);
}

void UpgradeLines::object(kj::StringPtr name, kj::StringPtr result) {
  event({{"component", "manifests"}, {"object", name.cStr()}, {"result", result.cStr()}});
}

kj::Promise<void> UpgradeRun::checkHazards(const UpgradeIntent& intent, const ClusterState& state) {
  auto texts = describe(co_await cluster.hazards(state, intent.to.version), intent.to);
  for (auto& note : texts.notes) lines.note(note);
  KJ_IF_MAYBE (refusal, texts.refusal) {
    if (!intent.force) fail(ErrorKind::kFailedPrecondition, *refusal);
    lines.note(kj::str("warning: ", *refusal));
  }
}

kj::Promise<void> UpgradeRun::rehearse(const UpgradePlan& plan, const ClusterState& state) {
  kj::Vector<kj::Promise<void>> rehearsals;
  for (auto i : kj::indices(state.nodes)) {
    auto changes = changesOn(i, plan);
    if (changes.size() == 0) continue;
    auto& node = state.nodes[i];
    auto rehearsed = cluster.setImages(node, changes, true);
    rehearsals.add(rehearsed.attach(kj::mv(changes)).catch_([&node](kj::Exception&& e) {
      fail(kindOf(e), kj::str(node.address, " would refuse the config: ", messageOf(e),
                              "; nothing was changed"));
    }));
  }
  co_await kj::joinPromises(rehearsals.releaseAsArray());
}

// Pulls one image after the other, so that the node's time limit applies to each image.
kj::Promise<void> UpgradeRun::pullOn(const UpgradePlan& plan, const ClusterState& state,
                                     size_t index) {
  auto& node = state.nodes[index];
  auto pull = [&](kj::StringPtr image) -> kj::Promise<void> {
    lines.note(kj::str(node.address, ": pulling ", image));
    auto failure = co_await failureOf([&] { return cluster.pull(node, image); });
    KJ_IF_MAYBE (e, failure) {
      fail(kindOf(*e), kj::str(node.address, ": cannot pull ", image, ": ", messageOf(*e),
                               "; nothing was changed"));
    }
  };
  for (auto& change : plan.changes) {
    bool runs = change.part != KubernetesPart::kProxy;  // the proxy image in a config is not run
    if (runs && change.node == index && change.isChange()) co_await pull(change.image);
  }
  KJ_IF_MAYBE (image, plan.daemonSetImage) {
    if (*image != KJ_ASSERT_NONNULL(state.proxyImage)) co_await pull(*image);
  }
}

// Pulls on every `step`-th node, one after the other.
kj::Promise<void> UpgradeRun::pullInTurn(const UpgradePlan& plan, const ClusterState& state,
                                         kj::Vector<size_t> nodes, size_t first, size_t step) {
  for (size_t i = first; i < nodes.size(); i += step) {
    co_await pullOn(plan, state, nodes[i]);
  }
}

kj::Promise<void> UpgradeRun::pullAll(const UpgradePlan& plan, const ClusterState& state) {
  kj::Vector<size_t> control, workers;
  for (auto i : kj::indices(state.nodes)) {
    // Without --upgrade-kubelet, workers need not be reachable.
    if (state.nodes[i].controlPlane) {
      control.add(i);
    } else if (state.nodes[i].kubelet.size() > 0) {
      workers.add(i);
    }
  }
  // Unpacking an image keeps a node's disk busy, and etcd waits for it: only one member at a time.
  kj::Vector<kj::Promise<void>> pulls;
  pulls.add(pullInTurn(plan, state, kj::mv(control), 0, 1));
  for (size_t i = 0; i < kj::min(kMostPulling, workers.size()); ++i) {
    kj::Vector<size_t> same;
    for (auto worker : workers) same.add(worker);
    pulls.add(pullInTurn(plan, state, kj::mv(same), i, kMostPulling));
  }
  co_await kj::joinPromises(pulls.releaseAsArray());
}

kj::Promise<void> UpgradeRun::setImage(const ImageChange& change, const NodeState& node) {
  if (!change.isChange()) co_return;
  auto one = &change;
  co_await waits.untilDone(kj::str(node.address, " to accept its config"), {kConfigLimit},
                           [&] { return cluster.setImages(node, kj::arrayPtr(&one, 1), false); });
}

kj::Promise<void> UpgradeRun::awaitApiServer(const NodeState& node,
                                             const KubernetesRelease& release,
                                             kj::Duration settle) {
  kj::Maybe<kj::TimePoint> since;
  auto settled = [&]() {
    auto begun = since.orDefault(timer.now());
    since = begun;
    return timer.now() - begun >= settle;
  };
  co_await waits.until(kj::str("the API server of ", node.address), {kApiServerLimit},
                       [&]() -> kj::Promise<Missing> {
                         bool answered = false;
                         KJ_DEFER(if (!answered) since = nullptr);
                         auto got = co_await cluster.apiServerRelease(node);
                         if (!isRelease(got, release)) {
                           co_return mismatch(
                               kj::str("release of the API server of ", node.address), got,
                               release.text);
                         }
                         answered = true;
                         if (settled()) co_return nullptr;
                         co_return kj::str("the API server of ", node.address, " must answer for ",
                                           durationText(settle), " without a break");
                       });
}

kj::Promise<void> UpgradeRun::changePod(const ImageChange& change, const NodeState& node) {
  co_await setImage(change, node);
  auto name = config::nameOf(change.part);
  co_await waits.until(kj::str("the definition of ", name, " on ", node.address),
                       {kDefinitionLimit}, [&]() -> kj::Promise<Missing> {
                         auto now = co_await cluster.definition(node, change.part);
                         if (now.image == change.image) co_return nullptr;
                         co_return mismatch("image", now.image, change.image);
                       });
  co_await waits.until(
      kj::str(name, " on ", node.address), {kPodLimit}, [&]() -> kj::Promise<Missing> {
        // The config may have been changed again in the meantime.
        auto expected = kj::str((co_await cluster.definition(node, change.part)).version);
        auto found = co_await cluster.pod(node, change.part);
        KJ_IF_MAYBE (pod, found) {
          if (pod->configVersion != expected) {
            co_return mismatch("config version", pod->configVersion, expected);
          }
          if (pod->ready) co_return nullptr;
          auto problem = pod->problem.size() > 0 ? kj::str(": ", pod->problem) : kj::str();
          co_return kj::str("pod is not ready", problem);
        }
        co_return kj::str("pod not found in the API server state");
      });
}

kj::Promise<void> UpgradeRun::changeKubelet(const ImageChange& change, const NodeState& node,
                                            const KubernetesRelease& release) {
  co_await setImage(change, node);
  co_await waits.until(kj::str("the kubelet of ", node.address), {kKubeletLimit},
                       [&]() -> kj::Promise<Missing> {
                         auto now = co_await cluster.kubelet(node);
                         if (!isRelease(now.version, release)) {
                           co_return mismatch("kubelet version", now.version, release.text);
                         }
                         if (now.ready) co_return nullptr;
                         co_return kj::str("node is not ready");
                       });
}

kj::Promise<void> UpgradeRun::printResult(kj::StringPtr component, kj::StringPtr node,
                                          kj::StringPtr image, kj::StringPtr result,
                                          kj::Promise<void> change) {
  auto failure = co_await failureOf([&] { return kj::mv(change); });
  KJ_IF_MAYBE (e, failure) {
    lines.done(component, node, image, "failed", messageOf(*e));
    kj::throwFatalException(kj::mv(*e));
  }
  if (result.size() > 0) lines.done(component, node, image, result);
}

kj::Promise<void> UpgradeRun::step(const ImageChange& change, const NodeState& node,
                                   const KubernetesRelease& release) {
  bool isKubelet = change.part == KubernetesPart::kKubelet;
  co_await (isKubelet ? changeKubelet(change, node, release) : changePod(change, node));
  if (change.part == KubernetesPart::kApiServer) {
    co_await awaitApiServer(node, release, 0 * kj::SECONDS);
  } else if (isKubelet && node.controlPlane) {
    co_await awaitApiServer(node, release, change.isChange() ? kSettle : 0 * kj::SECONDS);
  }
}

kj::Promise<void> UpgradeRun::part(KubernetesPart part, const UpgradePlan& plan,
                                   const ClusterState& state, const KubernetesRelease& release) {
  bool any = false;
  // Talos does not upgrade kubelets.
  auto print = [&](kj::StringPtr text) {
    part == KubernetesPart::kKubelet ? lines.note(text) : lines.line(text);
  };
  for (auto& change : plan.changes) {
    if (change.part != part) continue;
    if (!any) print(updating(part, release));
    any = true;
    auto& node = state.nodes[change.node];
    print(kj::str(" > updating node \"", node.address, "\""));
    co_await printResult(config::nameOf(part), node.address, change.image,
                         change.isChange() ? "updated"_kj : "unchanged"_kj,
                         step(change, node, release));
  }
}

kj::Promise<void> UpgradeRun::changeDaemonSet(kj::StringPtr image, bool changes, size_t nodes) {
  if (changes) {
    co_await waits.untilDone(kj::str("the API server to change the DaemonSet"), {kConfigLimit},
                             [&] { return cluster.setDaemonSetImage(image); });
  }
  co_await waits.until(kj::str("the pods of kube-proxy"), {kProxyLimit + kProxyLimitOfNode * nodes},
                       [&]() -> kj::Promise<Missing> {
                         auto now = co_await cluster.daemonSet();
                         bool all = now.observed && now.updated == now.desired &&
                                    now.pods == now.desired && now.available == now.desired;
                         if (all) co_return nullptr;
                         co_return kj::str(now.updated, " of ", now.desired, " pods are updated, ",
                                           now.available, " available");
                       });
}

kj::Promise<void> UpgradeRun::proxy(const UpgradePlan& plan, const ClusterState& state,
                                    const KubernetesRelease& release) {
  for (auto& change : plan.changes) {
    if (change.part != KubernetesPart::kProxy) continue;
    auto& node = state.nodes[change.node];
    co_await printResult(kProxyName, node.address, change.image, "", setImage(change, node));
  }
  KJ_IF_MAYBE (image, plan.daemonSetImage) {
    lines.line(
        kj::str("updating daemonset \"", kProxyName, "\" to version \"", release.text, "\""));
    bool changes = *image != KJ_ASSERT_NONNULL(state.proxyImage);
    co_await printResult(kProxyName, "", *image, changes ? "updated"_kj : "unchanged"_kj,
                         changeDaemonSet(*image, changes, state.nodes.size()));
  } else {
    lines.note("daemonset \"kube-proxy\" does not exist: skipped");
    lines.done(kProxyName, "", "", "skipped");
  }
}

void UpgradeRun::printPlan(const UpgradePlan& plan, const ClusterState& state,
                           const KubernetesRelease& release) {
  auto would = [](bool changes) { return changes ? "would update"_kj : "unchanged"_kj; };
  kj::Maybe<KubernetesPart> last;
  auto headed = [&](KubernetesPart part) {
    bool again = last.map([&](KubernetesPart l) { return l == part; }).orDefault(false);
    if (!again) lines.line(kj::str("would be ", updating(part, release)));
    last = part;
  };
  auto printProxy = [&]() {
    KJ_IF_MAYBE (image, plan.daemonSetImage) {
      auto& was = KJ_ASSERT_NONNULL(state.proxyImage);
      lines.line(kj::str("would be updating daemonset \"", kProxyName, "\" to version \"",
                         release.text, "\": ", was, " -> ", *image));
      lines.done(kProxyName, "", *image, would(was != *image));
    }
  };
  bool proxyPrinted = false;
  for (auto& change : plan.changes) {
    if (change.part == KubernetesPart::kKubelet && !proxyPrinted) printProxy(), proxyPrinted = true;
    if (change.part == KubernetesPart::kProxy) continue;
    headed(change.part);
    auto& node = state.nodes[change.node];
    lines.line(change.isChange()
                   ? kj::str(" > node \"", node.address, "\": ", change.was, " -> ", change.image)
                   : kj::str(" > node \"", node.address, "\": unchanged"));
    lines.done(config::nameOf(change.part), node.address, change.image, would(change.isChange()));
  }
  if (!proxyPrinted) printProxy();
}

// Returns true if it printed a text below the heading.
kj::Promise<bool> UpgradeRun::changeObject(const kube::ManifestObject& object, bool rehearsal,
                                           bool headed) {
  ObjectChange change;
  auto name = kj::str(object.kind(), " ", object.name());
  co_await waits.until(kj::str(name, " to be as the manifests want it"), {kObjectLimit},
                       [&]() -> kj::Promise<Missing> {
                         change = co_await cluster.changeObject(object, rehearsal);
                         if (!change.missing || rehearsal) co_return nullptr;
                         co_return kj::str(change.object, " is not there yet");
                       });
  for (auto& kept : change.kept) lines.note(kj::str(change.object, ": ", kept, " stays"));
  if (!change.changes && !change.missing) co_return false;
  auto print = [&](kj::StringPtr text) { rehearsal ? lines.line(text) : lines.note(text); };
  if (!headed) print(rehearsal ? "would be updating manifests"_kj : "updating manifests"_kj);
  print(kj::str(" > ", change.object, change.missing ? " (new)" : ""));
  if (rehearsal) {
    lines.text(change.diff);
  } else {
    co_await waits.until(kj::str("the pods of ", change.object), {kProxyLimit},
                         [&]() -> kj::Promise<Missing> {
                           auto missing = co_await cluster.rollout(object);
                           if (missing.size() == 0) co_return nullptr;
                           co_return kj::mv(missing);
                         });
  }
  lines.object(change.object, rehearsal ? "would update"_kj : "updated"_kj);
  co_return true;
}

kj::Promise<void> UpgradeRun::manifests(const UpgradePlan& plan, const ClusterState& state,
                                        bool rehearsal) {
  for (auto i : kj::indices(state.nodes)) {
    if (!state.nodes[i].controlPlane) continue;
    auto changes = changesOn(i, plan);
    auto found = co_await cluster.manifests(state.nodes[i], changes);
    KJ_IF_MAYBE (objects, found) {
      bool headed = false;
      for (auto& object : *objects) {
        headed = co_await changeObject(object, rehearsal, headed) || headed;
      }
    } else {
      lines.note(kj::str(state.nodes[i].address,
                         " is of an earlier version and does not say what its manifests become: "
                         "objects of the cluster stay as they are"));
    }
    co_return;  // the manifests of the other control-plane nodes are the same
  }
}

kj::Promise<void> UpgradeRun::run(UpgradeIntent intent, bool dryRun) {
  auto state = co_await cluster.read(intent.kubelets);
  auto plan = planUpgrade(intent, state);
  auto& to = intent.to;
  lines.line(kj::str("discovered master nodes ", nodesIn(state, true)));
  if (intent.kubelets) {
    auto workers = kj::str("discovered worker nodes ", nodesIn(state, false));
    dryRun ? lines.line(workers) : lines.note(workers);
  }
  if (intent.from == nullptr) lines.note(kj::str("found Kubernetes ", plan.from.toString()));
  co_await checkHazards(intent, state);
  co_await rehearse(plan, state);
  if (dryRun) {
    printPlan(plan, state, to);
    co_await manifests(plan, state, true);
    co_return;
  }
  co_await pullAll(plan, state);
  for (auto one : {KubernetesPart::kApiServer, KubernetesPart::kControllerManager,
                   KubernetesPart::kScheduler}) {
    co_await part(one, plan, state, to);
  }
  co_await proxy(plan, state, to);
  co_await part(KubernetesPart::kKubelet, plan, state, to);
  co_await manifests(plan, state, false);
}

}  // namespace talos::talosctl
