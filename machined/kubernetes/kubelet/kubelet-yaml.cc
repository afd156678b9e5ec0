#include "machined/kubernetes/kubelet/kubelet-yaml.h"

#include "common/base/node-layout.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/yaml/yaml.h"
#include "machined/kubernetes/kube-versions.h"

namespace talos::machined {
namespace {

using config::KubeletShutdown;

// The kubelet registers as soon as the first API server of a cluster answers, a moment before this
// server has made the priority classes, and the mirrors of the static pods are refused ("no
// PriorityClass with name system-cluster-critical was found"). The kubelet retries when it next
// syncs the pods: after one to one and a half times this period, whose default is a minute.
constexpr kj::StringPtr kSyncStaticPods = "10s"_kj;

// The kubelet's defaults are percentages: on a large disk of the host tens of free GiB would count
// as pressure. All signals are replaced, so the signal for memory has its default.
constexpr kj::StringPtr kSharedDiskSignals[][2] = {{"memory.available"_kj, "100Mi"_kj},
                                                   {"nodefs.available"_kj, "1Gi"_kj},
                                                   {"imagefs.available"_kj, "1Gi"_kj}};

// Single-quoted YAML: texts of the config may contain anything.
kj::String quotedYaml(kj::StringPtr text) {
  kj::Vector<char> out;
  out.add('\'');
  for (char c : text) {
    if (c == '\'') out.add('\'');
    out.add(c);
  }
  out.add('\'');
  out.add('\0');
  return kj::String(out.releaseAsArray());
}

class KubeletYamlWriter {
 public:
  explicit KubeletYamlWriter(config::KubeletConfiguration::Reader extra) : extra(extra) {
    for (auto other : extra.getOthers()) {
      if (config::ownKubeletField(other.getKey()) == nullptr) replaced.add(other);
    }
  }

  // Adds a field of the node: `text` with its line ends, after "key:".
  template <typename... Parts>
  void own(kj::StringPtr key, Parts&&... text) {
    for (auto other : replaced) {
      if (other.getKey() == key) return;
    }
    parts.add(kj::str(key, ":", kj::fwd<Parts>(text)...));
  }

  // Adds the config's fields after all others, in the order of the config.
  void addReplaced() {
    for (auto other : replaced) {
      parts.add(codec::renderRawEntry(other.getKey(), other.getValue(), 2, 0));
    }
  }

  void addShutdown(config::KubernetesVersion version) {
    auto shutdown = config::kubeletShutdown(extra, version);
    switch (shutdown.by) {
      case KubeletShutdown::By::kNothing:
        return;
      case KubeletShutdown::By::kPeriods:
        // The kubelet requests this time from login1. Critical pods get the last part of it.
        own("shutdownGracePeriod", " ", inSeconds(shutdown.total), "\n");
        own("shutdownGracePeriodCriticalPods", " ", inSeconds(shutdown.critical), "\n");
        return;
      case KubeletShutdown::By::kPriorities:
        parts.add(kj::str("shutdownGracePeriodByPodPriority:\n"));
        for (auto each : extra.getShutdownGracePeriodByPodPriority()) {
          parts.add(kj::str("- priority: ", each.getPriority(), "\n  shutdownGracePeriodSeconds: ",
                            each.getShutdownGracePeriodSeconds(), "\n"));
        }
    }
  }

  void addEviction(bool sharesDisk) {
    kj::Vector<kj::String> lines;
    auto signals = extra.getEvictionHard();
    auto has = [&](kj::StringPtr name) {
      for (auto signal : signals) {
        if (signal.getKey() == name) return true;
      }
      return false;
    };
    if (sharesDisk) {
      for (auto& [name, threshold] : kSharedDiskSignals) {
        if (!has(name)) lines.add(kj::str("  ", name, ": ", threshold, "\n"));
      }
    }
    for (auto signal : signals) {
      lines.add(kj::str("  ", codec::yamlScalar(signal.getKey()), ": ",
                        quotedYaml(signal.getValue()), "\n"));
    }
    if (!lines.empty()) own("evictionHard", "\n", kj::strArray(lines, ""));
  }

  kj::String finish() { return kj::strArray(parts, ""); }

 private:
  config::KubeletConfiguration::Reader extra;
  kj::Vector<config::RawPair::Reader> replaced;
  kj::Vector<kj::String> parts;

  // Returns the duration in the kubelet's format: "90s", "1500ms".
  static kj::String inSeconds(kj::Duration duration) {
    auto milliseconds = duration / kj::MILLISECONDS;
    return milliseconds % 1000 == 0 ? kj::str(milliseconds / 1000, "s")
                                    : kj::str(milliseconds, "ms");
  }
};

// Without the API server the kubelet cannot ask who a client is and what it may do: then no client
// is accepted, not even one with a certificate of the cluster.
void addClients(KubeletYamlWriter& out, config::Kubelet::Reader kubelet, const KubeletYaml& node) {
  if (kubelet.getSkipNodeRegistration()) {
    out.own("authentication",
            "\n  webhook:\n    enabled: false\n  anonymous:\n    enabled: false\n");
    out.own("authorization", "\n  mode: AlwaysAllow\n");
    return;
  }
  out.own("authentication", "\n  x509:\n    clientCAFile: ", node.clientCa,
          "\n  webhook:\n    enabled: true\n  anonymous:\n    enabled: false\n");
  out.own("authorization", "\n  mode: Webhook\n");
}

}  // namespace

kj::String kubeletYaml(config::Config::Reader config, const KubeletYaml& node) {
  auto cluster = config.getCluster();
  auto kubelet = config.getMachine().getKubelet();
  kj::Vector<kj::String> dns;
  for (auto address : kubelet.getClusterDNS()) dns.add(kj::str(address));
  if (dns.empty()) dns = config::dnsServiceAddresses(cluster);
  KubeletYamlWriter out(kubelet.getExtraConfig());
  out.own("apiVersion", " kubelet.config.k8s.io/v1beta1\n");
  out.own("kind", " KubeletConfiguration\n");
  out.own("staticPodPath", " ", node.staticPodPath, "\n");
  out.own("address", node.six ? " '::'\n" : " 0.0.0.0\n");
  out.own("port", " 10250\n");
  out.own("rotateCertificates", " true\n");
  if (config::requestsServingCertificate(config)) out.own("serverTLSBootstrap", " true\n");
  addClients(out, kubelet, node);
  out.own("clusterDomain", " ", quotedYaml(config::dnsDomain(cluster)), "\n");
  out.own(
      "clusterDNS", "\n",
      kj::strArray(KJ_MAP(address, dns) { return kj::str("- ", quotedYaml(address), "\n"); }, ""));
  // The kubelet's own /etc/resolv.conf is the file of its start; pods get the current one.
  out.own("resolvConf", " ", kNetworkdState, "/", kPodResolverFile, "\n");
  out.own("serializeImagePulls", " false\n");
  out.own("failSwapOn", " false\n");
  if (node.staticPods) out.own("syncFrequency", " ", kSyncStaticPods, "\n");
  if (!has(node.version, KubeFact::kKubeletRuntimeEndpointFlag)) {
    out.own("containerRuntimeEndpoint", " ", kRuntimeEndpoint, "\n");
  }
  if (kubelet.getDefaultRuntimeSeccompProfileEnabled() && config::hasSeccompDefault(node.version)) {
    out.own("seccompDefault", " true\n");
  }
  out.addShutdown(node.version);
  if (node.sharesDisk) out.own("imageGCHighThresholdPercent", " 100\n");
  out.addEviction(node.sharesDisk);
  // Nodes in containers may have cgroups v1 only.
  if (has(node.version, KubeFact::kKubeletRefusesCgroup1)) out.own("failCgroupV1", " false\n");
  out.addReplaced();
  return out.finish();
}

}  // namespace talos::machined
