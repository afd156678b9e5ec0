#include "common/config/kubernetes/kubelet-configuration.h"

#include <set>

#include "common/base/shutdown-times.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"

namespace talos::config {
namespace {

constexpr kj::StringPtr kTotal = "shutdownGracePeriod"_kj,
                        kCritical = "shutdownGracePeriodCriticalPods"_kj,
                        kByPriority = "shutdownGracePeriodByPodPriority"_kj;

kj::String seconds(kj::Duration duration) {
  return kj::str(duration / kj::SECONDS, " s");
}

// Returns the part of a period for critical pods if the period does not define it.
kj::Duration criticalPartOf(kj::Duration total) {
  return kj::min(kCriticalShutdownPeriod, total / 3 / kj::SECONDS * kj::SECONDS);
}

// Returns the value of a key in a list of pairs.
template <typename Pairs>
kj::Maybe<kj::StringPtr> valueIn(Pairs pairs, kj::StringPtr key) {
  for (auto pair : pairs) {
    if (pair.getKey() == key) return kj::StringPtr(pair.getValue());
  }
  return nullptr;
}

// Returns true for a text that Go's strconv or YAML reads as true.
bool isTrue(kj::StringPtr text) {
  auto value = lowerCase(kj::heapString(trimmed(text.asArray())));
  return value.startsWith("t") || value.startsWith("y") || value.startsWith("on") || value == "1";
}

class ShutdownReader {
 public:
  ShutdownReader(KubeletConfiguration::Reader extra, KubernetesVersion release)
      : extra(extra), release(release) {}

  KubeletShutdown read() {
    auto shutdown = usual();
    if (shutdown.by == KubeletShutdown::By::kNothing) {
      for (auto key : {kTotal, kCritical, kByPriority}) refuseIfGiven(key);
    } else if (extra.getShutdownGracePeriodByPodPriority().size() > 0) {
      priorities(shutdown);
    } else {
      periods(shutdown);
    }
    if (mistakes.empty()) return shutdown;
    auto without = usual();
    without.mistakes = kj::mv(mistakes);
    return without;
  }

 private:
  KubeletConfiguration::Reader extra;
  KubernetesVersion release;
  kj::Vector<KubeletShutdown::Mistake> mistakes;

  KubeletShutdown usual() const {
    KubeletShutdown shutdown;
    if (delaysShutdown(release)) {
      shutdown.total = shutdown.asked = kShutdownPeriod;
      shutdown.critical = kCriticalShutdownPeriod;
    } else {
      shutdown.by = KubeletShutdown::By::kNothing;
    }
    return shutdown;
  }

  void mistake(kj::StringPtr path, kj::String message, kj::StringPtr hint) {
    mistakes.add(KubeletShutdown::Mistake{kj::str(path), kj::mv(message), kj::str(hint)});
  }

  kj::StringPtr textOf(kj::StringPtr key) const {
    return key == kTotal ? extra.getShutdownGracePeriod()
                         : extra.getShutdownGracePeriodCriticalPods();
  }
  bool given(kj::StringPtr key) const {
    return key == kByPriority ? extra.getShutdownGracePeriodByPodPriority().size() > 0
                              : textOf(key).size() > 0;
  }

  void refuseIfGiven(kj::StringPtr key) {
    if (!given(key)) return;
    mistake(key,
            kj::str("the kubelet of Kubernetes ", release.major, ".", release.minor,
                    " does not end pods before the node goes down; the node does, within 30 s"),
            "remove it, or use Kubernetes 1.21 or newer");
  }

  // Returns the duration of a key; nullptr if its text is not one.
  kj::Maybe<kj::Duration> duration(kj::StringPtr key) {
    auto text = textOf(key);
    KJ_IF_MAYBE (value, parseDuration(text)) {
      if (*value == 0 * kj::SECONDS || *value >= 1 * kj::SECONDS) return *value;
      mistake(key, kj::str("\"", text, "\": the kubelet takes no part of a second"),
              "use 1s or more, or 0s");
    } else {
      mistake(key, kj::str("\"", text, "\" is not a duration"), "for example 30s or 1m30s");
    }
    return nullptr;
  }

  void bound(kj::StringPtr key, kj::Duration asked) {
    if (asked <= kMostShutdownPeriod) return;
    mistake(key, kj::str("the kubelet would end pods for ", seconds(asked)),
            kj::str("the node waits for at most ", seconds(kMostShutdownPeriod), " of it"));
  }

  void periods(KubeletShutdown& shutdown) {
    if (given(kTotal)) {
      KJ_IF_MAYBE (total, duration(kTotal)) {
        shutdown.total = *total;
      } else {
        return;
      }
      shutdown.critical = criticalPartOf(shutdown.total);
    }
    if (given(kCritical)) {
      KJ_IF_MAYBE (critical, duration(kCritical)) shutdown.critical = *critical;
    }
    bound(kTotal, shutdown.total);
    if (shutdown.critical > shutdown.total) {
      mistake(kCritical,
              kj::str("\"", textOf(kCritical), "\" is longer than ", kTotal, ", of which it is a ",
                      "part"),
              kj::str(kTotal, " is ", seconds(shutdown.total)));
    }
    shutdown.asked = shutdown.total;
  }

  void priorities(KubeletShutdown& shutdown) {
    if (!hasShutdownPriorities(release)) {
      mistake(kByPriority,
              kj::str("the kubelet of Kubernetes ", release.major, ".", release.minor,
                      " does not know it"),
              kj::str("use ", kTotal, ", or Kubernetes 1.24 or newer"));
    }
    for (auto key : {kTotal, kCritical}) {
      if (!given(key)) continue;
      KJ_IF_MAYBE (value, duration(key)) {
        if (*value == 0 * kj::SECONDS) continue;
        mistake(key, kj::str("the kubelet refuses it together with ", kByPriority), "remove it");
      }
    }
    std::set<int32_t> seen;
    uint64_t sum = 0;
    size_t i = 0;
    for (auto each : extra.getShutdownGracePeriodByPodPriority()) {
      auto path = kj::str(kByPriority, "[", i++, "].priority");
      sum += each.getShutdownGracePeriodSeconds();
      if (!seen.insert(each.getPriority()).second) {
        mistake(path, kj::str("the priority ", each.getPriority(), " is a duplicate"),
                "name each once");
      }
    }
    shutdown.by = KubeletShutdown::By::kPriorities;
    shutdown.asked = static_cast<int64_t>(kj::min(sum, uint64_t(UINT32_MAX))) * kj::SECONDS;
    bound(kByPriority, shutdown.asked);
  }
};

}  // namespace

kj::Maybe<const OwnKubeletField&> ownKubeletField(kj::StringPtr name) {
  for (auto& field : kOwnKubeletFields) {
    if (field.name == name) return field;
  }
  return nullptr;
}

KubernetesVersion kubeletRelease(Config::Reader config) {
  auto image = config.getMachine().getKubelet().getImage();
  KJ_IF_MAYBE (version, kubernetesVersionOf(image)) return *version;
  return parseKubernetesVersion(config.getCluster().getKubernetesVersion())
      .orDefault(kDefaultKubernetes);
}

bool requestsServingCertificate(Config::Reader config) {
  auto kubelet = config.getMachine().getKubelet();
  auto fields = kubelet.getExtraConfig().getOthers();
  auto arguments = kubelet.getExtraArgs();
  bool external = config.getCluster().getExternalCloudProvider().getEnabled() ||
                  valueIn(arguments, "cloud-provider").orDefault(""_kj) == "external";
  bool ownFile =
      valueIn(fields, "tlsCertFile") != nullptr || valueIn(arguments, "tls-cert-file") != nullptr;
  bool requests = !external && !ownFile;
  KJ_IF_MAYBE (value, valueIn(fields, "serverTLSBootstrap")) requests = isTrue(*value);
  // An argument prevails over the field.
  KJ_IF_MAYBE (value, valueIn(arguments, "rotate-server-certificates")) requests = isTrue(*value);
  return requests && !kubelet.getSkipNodeRegistration();
}

KubeletShutdown kubeletShutdown(KubeletConfiguration::Reader extra, KubernetesVersion release) {
  return ShutdownReader(extra, release).read();
}

}  // namespace talos::config
