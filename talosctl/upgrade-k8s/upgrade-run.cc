#include "talosctl/upgrade-k8s/upgrade-run.h"

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

constexpr kj::StringPtr kProxyName = "kube-proxy"_kj;

kj::String listOf(const ClusterState& state, bool controlPlane) {
  kj::Vector<kj::String> quoted;
  for (auto& node : state.nodes) {
    if (node.controlPlane == controlPlane) quoted.add(kj::str("\"", node.address, "\""));
  }
  return kj::str("[", kj::strArray(quoted, " "), "]");
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

kj::Promise<void> UpgradeRun::await(kj::String what, kj::Duration limit,
                                    kj::Function<kj::Promise<kj::String>()> attempt) {
  return awaitState(timer, lines, kj::mv(what), {limit, kLookInterval}, kj::mv(attempt));
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
  kj::Vector<kj::Promise<void>> waits;
  for (auto i : kj::indices(state.nodes)) {
    kj::Vector<const ImageChange*> changes;
    for (auto& change : plan.changes) {
      if (change.node == i && change.isChange()) changes.add(&change);
    }
    if (changes.empty()) continue;
    auto list = changes.releaseAsArray();
    auto& node = state.nodes[i];
    auto asked = cluster.setImages(node, list, true);
    waits.add(asked.attach(kj::mv(list)).catch_([&node](kj::Exception&& e) {
      fail(kindOf(e), kj::str(node.address, " would refuse the config: ", messageOf(e),
                              "; nothing was changed"));
    }));
  }
  co_await kj::joinPromises(waits.releaseAsArray());
}

// Pulls one image after the other, so that the node's time limit applies to each image.
kj::Promise<void> UpgradeRun::pullOn(const UpgradePlan& plan, const ClusterState& state,
                                     size_t index) {
  auto& node = state.nodes[index];
  auto pull = [&](kj::StringPtr image) -> kj::Promise<void> {
    lines.note(kj::str(node.address, ": pulling ", image));
    kj::Maybe<kj::Exception> failure;
    try {
      co_await cluster.pull(node, image);
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
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
  kj::Vector<kj::Promise<void>> waits;
  waits.add(pullInTurn(plan, state, kj::mv(control), 0, 1));
  for (size_t i = 0; i < kj::min(kMostPulling, workers.size()); ++i) {
    kj::Vector<size_t> same;
    for (auto worker : workers) same.add(worker);
    waits.add(pullInTurn(plan, state, kj::mv(same), i, kMostPulling));
  }
  co_await kj::joinPromises(waits.releaseAsArray());
}

kj::Promise<void> UpgradeRun::setImage(const ImageChange& change, const NodeState& node) {
  if (!change.isChange()) co_return;
  auto one = &change;
  co_await await(kj::str(node.address, " to accept its config"), kConfigLimit,
                 [&]() -> kj::Promise<kj::String> {
                   co_await cluster.setImages(node, kj::arrayPtr(&one, 1), false);
                   co_return kj::String();
                 });
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
  co_await await(kj::str("the API server of ", node.address), kApiServerLimit,
                 [&]() -> kj::Promise<kj::String> {
                   bool answered = false;
                   KJ_DEFER(if (!answered) since = nullptr);
                   auto got = co_await cluster.apiServerRelease(node);
                   if (!isRelease(got, release)) {
                     co_return mismatch(kj::str("release of the API server of ", node.address), got,
                                        release.text);
                   }
                   answered = true;
                   if (settled()) co_return kj::String();
                   co_return kj::str("the API server of ", node.address, " must answer for ",
                                     durationText(settle), " without a break");
                 });
}

kj::Promise<void> UpgradeRun::changePod(const ImageChange& change, const NodeState& node) {
  co_await setImage(change, node);
  auto name = config::nameOf(change.part);
  co_await await(kj::str("the definition of ", name, " on ", node.address), kDefinitionLimit,
                 [&]() -> kj::Promise<kj::String> {
                   auto now = co_await cluster.definition(node, change.part);
                   if (now.image == change.image) co_return kj::String();
                   co_return mismatch("image", now.image, change.image);
                 });
  co_await await(kj::str(name, " on ", node.address), kPodLimit, [&]() -> kj::Promise<kj::String> {
    // The config may have been changed again in the meantime.
    auto expected = kj::str((co_await cluster.definition(node, change.part)).version);
    auto found = co_await cluster.pod(node, change.part);
    KJ_IF_MAYBE (pod, found) {
      if (pod->configVersion != expected) {
        co_return mismatch("config version", pod->configVersion, expected);
      }
      if (pod->ready) co_return kj::String();
      auto problem = pod->problem.size() > 0 ? kj::str(": ", pod->problem) : kj::str();
      co_return kj::str("pod is not ready", problem);
    }
    co_return kj::str("pod not found in the API server state");
  });
}

kj::Promise<void> UpgradeRun::changeKubelet(const ImageChange& change, const NodeState& node,
                                            const KubernetesRelease& release) {
  co_await setImage(change, node);
  co_await await(kj::str("the kubelet of ", node.address), kKubeletLimit,
                 [&]() -> kj::Promise<kj::String> {
                   auto now = co_await cluster.kubelet(node);
                   if (!isRelease(now.version, release)) {
                     co_return mismatch("kubelet version", now.version, release.text);
                   }
                   co_return now.ready ? kj::String() : kj::str("node is not ready");
                 });
}

kj::Promise<void> UpgradeRun::step(const ImageChange& change, const NodeState& node,
                                   const KubernetesRelease& release) {
  auto name = config::nameOf(change.part);
  kj::Maybe<kj::Exception> failure;
  try {
    if (change.part == KubernetesPart::kKubelet) {
      co_await changeKubelet(change, node, release);
    } else {
      co_await changePod(change, node);
    }
    if (change.part == KubernetesPart::kApiServer) {
      co_await awaitApiServer(node, release, 0 * kj::SECONDS);
    } else if (change.part == KubernetesPart::kKubelet && node.controlPlane) {
      co_await awaitApiServer(node, release, change.isChange() ? kSettle : 0 * kj::SECONDS);
    }
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  KJ_IF_MAYBE (e, failure) {
    lines.done(name, node.address, change.image, "failed", messageOf(*e));
    kj::throwFatalException(kj::mv(*e));
  }
  lines.done(name, node.address, change.image, change.isChange() ? "updated" : "unchanged");
}

kj::Promise<void> UpgradeRun::part(KubernetesPart part, const UpgradePlan& plan,
                                   const ClusterState& state, const KubernetesRelease& release) {
  bool any = false;
  // The original does not upgrade kubelets.
  auto print = [&](kj::StringPtr text) {
    part == KubernetesPart::kKubelet ? lines.note(text) : lines.line(text);
  };
  for (auto& change : plan.changes) {
    if (change.part != part) continue;
    if (!any) print(updating(part, release));
    any = true;
    auto& node = state.nodes[change.node];
    print(kj::str(" > updating node \"", node.address, "\""));
    co_await step(change, node, release);
  }
}

kj::Promise<void> UpgradeRun::proxy(const UpgradePlan& plan, const ClusterState& state,
                                    const KubernetesRelease& release) {
  for (auto& change : plan.changes) {
    if (change.part != KubernetesPart::kProxy) continue;
    auto& address = state.nodes[change.node].address;
    kj::Maybe<kj::Exception> failure;
    try {
      co_await setImage(change, state.nodes[change.node]);
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (e, failure) {
      lines.done(kProxyName, address, change.image, "failed", messageOf(*e));
      kj::throwFatalException(kj::mv(*e));
    }
  }
  KJ_IF_MAYBE (image, plan.daemonSetImage) {
    lines.line(
        kj::str("updating daemonset \"", kProxyName, "\" to version \"", release.text, "\""));
    bool changes = *image != KJ_ASSERT_NONNULL(state.proxyImage);
    kj::Maybe<kj::Exception> failure;
    try {
      if (changes) {
        co_await await(kj::str("the API server to change the DaemonSet"), kConfigLimit,
                       [&]() -> kj::Promise<kj::String> {
                         co_await cluster.setDaemonSetImage(*image);
                         co_return kj::String();
                       });
      }
      co_await await(kj::str("the pods of kube-proxy"),
                     kProxyLimit + kProxyLimitOfNode * state.nodes.size(),
                     [&]() -> kj::Promise<kj::String> {
                       auto now = co_await cluster.daemonSet();
                       bool all = now.observed && now.updated == now.desired &&
                                  now.pods == now.desired && now.available == now.desired;
                       if (all) co_return kj::String();
                       co_return kj::str(now.updated, " of ", now.desired, " pods are updated, ",
                                         now.available, " available");
                     });
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (e, failure) {
      lines.done(kProxyName, "", *image, "failed", messageOf(*e));
      kj::throwFatalException(kj::mv(*e));
    }
    lines.done(kProxyName, "", *image, changes ? "updated" : "unchanged");
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
  co_await await(kj::str(name, " to be as the manifests want it"), kObjectLimit,
                 [&]() -> kj::Promise<kj::String> {
                   change = co_await cluster.changeObject(object, rehearsal);
                   if (!change.missing || rehearsal) co_return kj::String();
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
    co_await await(kj::str("the pods of ", change.object), kProxyLimit,
                   [&]() { return cluster.rollout(object); });
  }
  lines.object(change.object, rehearsal ? "would update"_kj : "updated"_kj);
  co_return true;
}

kj::Promise<void> UpgradeRun::manifests(const UpgradePlan& plan, const ClusterState& state,
                                        bool rehearsal) {
  for (auto i : kj::indices(state.nodes)) {
    if (!state.nodes[i].controlPlane) continue;
    kj::Vector<const ImageChange*> changes;
    for (auto& change : plan.changes) {
      if (change.node == i && change.isChange()) changes.add(&change);
    }
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
  lines.line(kj::str("discovered master nodes ", listOf(state, true)));
  if (intent.kubelets) {
    auto workers = kj::str("discovered worker nodes ", listOf(state, false));
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
