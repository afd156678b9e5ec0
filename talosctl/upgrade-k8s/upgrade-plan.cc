#include "talosctl/upgrade-k8s/upgrade-plan.h"

#include "common/base/error.h"
#include "common/text/foreign-text.h"

namespace talos::talosctl {
namespace {

constexpr KubernetesPart kControlPlaneParts[] = {
    KubernetesPart::kApiServer, KubernetesPart::kControllerManager, KubernetesPart::kScheduler};

// Number of minor releases by which a kubelet may be older than the API server.
constexpr unsigned kOldKubeletSkew = 2, kKubeletSkew = 3, kFirstWithKubeletSkew = 28;

unsigned kubeletSkew(KubernetesVersion apiServer) {
  return apiServer.minor >= kFirstWithKubeletSkew ? kKubeletSkew : kOldKubeletSkew;
}

kj::String minorText(unsigned minor) {
  return kj::str("1.", minor);
}

// Reasons against the upgrade, one per line.
class Refusals {
 public:
  template <typename... Parts>
  void add(Parts&&... parts) {
    lines.add(kj::str(kj::fwd<Parts>(parts)...));
  }
  void throwIfAny() {
    if (!lines.empty()) fail(ErrorKind::kFailedPrecondition, kj::strArray(lines, "\n"));
  }

 private:
  kj::Vector<kj::String> lines;
};

struct Found {
  KubernetesVersion version;
  kj::String who;  // such as kube-scheduler of 10.5.0.2
};

kj::String whose(KubernetesPart part, const NodeState& node) {
  return kj::str(config::nameOf(part), " of ", node.address);
}

// Collects the present releases, and adds the changes to the plan.
class Planner {
 public:
  Planner(const UpgradeIntent& intent, const ClusterState& state) : intent(intent), state(state) {}

  UpgradePlan plan() {
    for (auto part : kControlPlaneParts) addPart(part, true);
    refusals.throwIfAny();
    if (controlPlane.empty()) {
      fail(ErrorKind::kFailedPrecondition, "Kubernetes knows no control-plane node");
    }
    for (auto& found : controlPlane) {
      if (found.version < result.from || &found == &controlPlane[0]) result.from = found.version;
    }
    addPart(KubernetesPart::kProxy, true);
    KJ_IF_MAYBE (image, state.proxyImage) {
      auto wanted = replaced(*image, "the DaemonSet kube-proxy", "its template");
      KJ_IF_MAYBE (i, wanted) result.daemonSetImage = kj::mv(*i);
    }
    if (intent.kubelets) {
      addPart(KubernetesPart::kKubelet, true);
      addPart(KubernetesPart::kKubelet, false);
    }
    checkPath();
    checkKubelets();
    checkConfigs();
    refusals.throwIfAny();
    return kj::mv(result);
  }

 private:
  const UpgradeIntent& intent;
  const ClusterState& state;
  UpgradePlan result;
  kj::Vector<Found> controlPlane, others;
  Refusals refusals;

  kj::Maybe<kj::String> replaced(kj::StringPtr image, kj::String of, kj::StringPtr key) {
    try {
      return withRelease(image, intent.to, of, key);
    } catch (...) {
      refusals.add(messageOf(kj::getCaughtExceptionAsKj()));
      return nullptr;
    }
  }
  kj::Maybe<kj::String> replaced(kj::StringPtr image, kj::StringPtr of, kj::StringPtr key) {
    return replaced(image, kj::str(of), key);
  }

  void addPart(KubernetesPart part, bool ofControlPlane) {
    bool leads = part != KubernetesPart::kProxy && part != KubernetesPart::kKubelet;
    for (auto i : kj::indices(state.nodes)) {
      auto& node = state.nodes[i];
      auto image = node.image(part);
      if (node.controlPlane != ofControlPlane || image.size() == 0) continue;
      auto wanted = replaced(image, whose(part, node), imageKey(part));
      KJ_IF_MAYBE (w, wanted) {
        result.changes.add(ImageChange{part, i, kj::str(image), kj::mv(*w)});
        (leads ? controlPlane : others)
            .add(KJ_ASSERT_NONNULL(config::kubernetesVersionOf(image)), whose(part, node));
      }
    }
  }

  void checkPath() {
    auto to = intent.to.version;
    auto cannot = kj::str("cannot upgrade Kubernetes from ", result.from.toString(), " to ",
                          intent.to.text, ": ");
    KJ_IF_MAYBE (from, intent.from) checkFrom(*from);
    if (!config::isSupportedKubernetes(to)) {
      refusals.add(cannot, "supported releases are ", config::supportedKubernetesText());
    }
    for (auto list : {&controlPlane, &others}) {
      for (auto& found : *list) {
        if (found.version <= to) continue;
        refusals.add(cannot, found.who, " is ", found.version.toString(),
                     ", and a downgrade is not supported; use ", found.version.toString(),
                     " or newer");
        return;
      }
    }
    if (to.major == result.from.major && to.minor > result.from.minor + 1) {
      KubernetesVersion next = {to.major, result.from.minor + 1};
      if (config::isSupportedKubernetes(next)) {
        refusals.add(cannot, "one minor release at a time; upgrade to ", minorText(next.minor),
                     " first");
      } else {
        refusals.add(cannot, "one minor release at a time, and ", minorText(next.minor),
                     " is not supported; supported releases are ",
                     config::supportedKubernetesText());
      }
    }
  }

  void checkFrom(const KubernetesRelease& from) {
    for (auto& found : controlPlane) {
      if (found.version == from.version || found.version == intent.to.version) continue;
      refusals.add("--from is ", from.text, " and --to is ", intent.to.text, ", but ", found.who,
                   " is ", found.version.toString(), "; use --from ", result.from.toString(),
                   ", or leave it out");
      return;
    }
  }

  // Checks all kubelets, including those that are not upgraded, because the API servers are
  // upgraded first.
  void checkKubelets() {
    auto to = intent.to.version;
    auto skew = kubeletSkew(to);
    for (auto& node : state.nodes) {
      KJ_IF_MAYBE (version, config::parseKubernetesVersion(node.kubeletVersion)) {
        if (version->minor > to.minor) {
          refusals.add("a kubelet must not be newer than the API server that it connects to, but ",
                       "that of ", node.address, " is ", version->toString(), "; use ",
                       minorText(version->minor));
        }
        if (version->minor + skew >= to.minor) continue;
        refusals.add("an API server of ", intent.to.text, " works with kubelets of ",
                     minorText(to.minor - skew), " or newer, but that of ", node.address, " is ",
                     version->toString(), "; upgrade it first (machine.kubelet.image)");
      }
    }
  }

  void checkConfigs() {
    for (auto& change : result.changes) {
      auto& node = state.nodes[change.node];
      if (!change.isChange() || node.persists) continue;
      refusals.add(node.address,
                   ": machine config has persist: false, so the next boot would restore the old "
                   "release; set persist: true first");
      return;
    }
  }
};

}  // namespace

KubernetesRelease readRelease(kj::StringPtr argument, kj::StringPtr flag) {
  auto text = kj::str(argument.startsWith("v") ? argument.slice(1) : argument);
  auto version = config::parseKubernetesVersion(text);
  // A tag has all three numbers, and only characters that a tag may have (OCI distribution, "tag").
  unsigned dots = 0;
  bool good = version != nullptr && text.size() <= 64;
  bool suffix = false;
  for (char c : text) {
    suffix = suffix || c == '-';
    dots += c == '.' && !suffix;
    good = good && ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    c == '.' || c == '-' || c == '_');
  }
  if (!good || dots != 2) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("--", flag, ": \"", argument,
                 "\" is not a release of Kubernetes; use three numbers, as ",
                 config::kDefaultKubernetes.toString()));
  }
  return {KJ_ASSERT_NONNULL(version), kj::mv(text)};
}

kj::StringPtr NodeState::image(KubernetesPart part) const {
  switch (part) {
    case KubernetesPart::kApiServer:
      return apiServer;
    case KubernetesPart::kControllerManager:
      return controllerManager;
    case KubernetesPart::kScheduler:
      return scheduler;
    case KubernetesPart::kProxy:
      return proxy;
    case KubernetesPart::kKubelet:
      return kubelet;
  }
  KJ_UNREACHABLE;
}

UpgradePlan planUpgrade(const UpgradeIntent& intent, const ClusterState& state) {
  return Planner(intent, state).plan();
}

kj::String withRelease(kj::StringPtr image, const KubernetesRelease& release, kj::StringPtr of,
                       kj::StringPtr key) {
  if (image.findFirst('@') != nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(of, ": \"", image,
                 "\" is named by a digest, which belongs to one release; use a tag (", key,
                 ") first"));
  }
  if (config::kubernetesVersionOf(image) == nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(of, ": the tag of \"", image, "\" is not a release; name it by one (", key,
                 ") first"));
  }
  auto colon = KJ_ASSERT_NONNULL(image.findLast(':'));
  auto v = image.slice(colon + 1).startsWith("v") ? "v"_kj : ""_kj;
  return kj::str(image.slice(0, colon), ":", v, release.text);
}

kj::StringPtr imageKey(KubernetesPart part) {
  switch (part) {
    case KubernetesPart::kApiServer:
      return "cluster.apiServer.image";
    case KubernetesPart::kControllerManager:
      return "cluster.controllerManager.image";
    case KubernetesPart::kScheduler:
      return "cluster.scheduler.image";
    case KubernetesPart::kProxy:
      return "cluster.proxy.image";
    case KubernetesPart::kKubelet:
      return "machine.kubelet.image";
  }
  KJ_UNREACHABLE;
}

kj::StringPtr imageDocument(KubernetesPart part) {
  switch (part) {
    case KubernetesPart::kApiServer:
      return "KubeAPIServerConfig";
    case KubernetesPart::kControllerManager:
      return "KubeControllerManagerConfig";
    case KubernetesPart::kScheduler:
      return "KubeSchedulerConfig";
    case KubernetesPart::kProxy:
      return "KubeProxyConfig";
    case KubernetesPart::kKubelet:
      return "KubeletConfig";
  }
  KJ_UNREACHABLE;
}

kj::String imagePatch(KubernetesPart part, kj::StringPtr image, bool inDocument) {
  if (inDocument) {
    return kj::str("apiVersion: v1alpha1\nkind: ", imageDocument(part),
                   "\nimage: ", jsonString(image), "\n");
  }
  auto key = imageKey(part);
  auto first = KJ_ASSERT_NONNULL(key.findFirst('.')), last = KJ_ASSERT_NONNULL(key.findLast('.'));
  return kj::str(key.slice(0, first), ": {", key.slice(first + 1, last), ": {", key.slice(last + 1),
                 ": ", jsonString(image), "}}\n");
}

}  // namespace talos::talosctl
