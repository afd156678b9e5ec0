#include "machined/kubernetes/manifests/bootstrap-manifests.h"

#include <algorithm>

#include "common/config/config.h"
#include "common/kube/bootstrap-token.h"
#include "common/net/ip.h"
#include "machined/kubernetes/kube-versions.h"
#include "machined/kubernetes/manifests/manifest-text.h"

namespace talos::machined {
namespace {

#include "machined/kubernetes/manifests/templates/core-dns.inc"
#include "machined/kubernetes/manifests/templates/flannel.inc"
#include "machined/kubernetes/manifests/templates/kube-proxy.inc"
#include "machined/kubernetes/manifests/templates/pod-access.inc"
#include "machined/kubernetes/manifests/templates/rbac.inc"

constexpr uint16_t kHttpsPort = 443;

KubernetesVersion versionOf(SystemManifests config) {
  return config::parseKubernetesVersion(config.getKubernetesVersion())
      .orDefault(config::kDefaultKubernetes);
}

kj::Vector<kj::String> podCidrs(SystemManifests config, int family) {
  kj::Vector<kj::String> found;
  for (auto text : config.getPodCIDRs()) {
    KJ_IF_MAYBE (prefix, Prefix::parse(text)) {
      if (prefix->address.family() == family) found.add(kj::str(text));
    }
  }
  return found;
}

// Returns flannel's net-conf.json.
kj::String flannelNetwork(SystemManifests config) {
  auto v4 = podCidrs(config, AF_INET), v6 = podCidrs(config, AF_INET6);
  kj::Vector<kj::String> parts;
  if (v4.empty()) {
    parts.add(kj::str("\"EnableIPv4\": false"));
  } else {
    parts.add(kj::str("\"Network\": \"", v4[0], "\""));
  }
  if (!v6.empty()) {
    parts.add(kj::str("\"EnableIPv6\": true"));
    parts.add(kj::str("\"IPv6Network\": \"", v6[0], "\""));
  }
  parts.add(kj::str("\"Backend\": {\"Type\": \"vxlan\", \"Port\": 4789}"));
  return kj::str("{", kj::strArray(parts, ", "), "}");
}

// Uses the endpoint of the cluster, like the kubelet: the address of its Service works only with
// kube-proxy, and a flannel that starts first would exit.
kj::String flannel(SystemManifests config) {
  auto api = config::parseEndpoint(config.getServer()).value;
  kj::Vector<kj::String> arguments;
  for (auto own : {"--ip-masq"_kj, "--kube-subnet-mgr"_kj}) arguments.add(kj::str(own));
  for (auto extra : config.getFlannelExtraArgs()) arguments.add(kj::str(extra));
  return ManifestText(kFlannel)
      .setIf("podSecurityPolicy", config.getPodSecurityPolicyEnabled())
      .set("network", flannelNetwork(config))
      .set("apiHost", api.host)
      .set("apiPort", kj::str(api.port.orDefault(kHttpsPort)))
      .set("image", config.getFlannelImage())
      .set("cniImage", config.getFlannelCNIImage())
      .set("arguments", kj::mv(arguments))
      .fill();
}

struct ProxyFlag {
  kj::String key, value;
};

// Arguments of the config replace the built-in ones, or follow them in the order of their names.
kj::Vector<kj::String> proxyCommand(SystemManifests config) {
  kj::Vector<ProxyFlag> flags;
  auto add = [&](kj::StringPtr key, kj::String value) {
    flags.add(ProxyFlag{kj::str(key), kj::mv(value)});
  };
  add("cluster-cidr", kj::strArray(config.getPodCIDRs(), ","));
  add("hostname-override", kj::str("$(NODE_NAME)"));
  add("kubeconfig", kj::str("/etc/kubernetes/kubeconfig"));
  add("proxy-mode",
      kj::str(config.getProxyMode().size() > 0 ? config.getProxyMode() : "iptables"_kj));
  add("conntrack-max-per-core", kj::str("0"));
  auto own = flags.size();
  for (auto extra : config.getProxyExtraArgs()) {
    auto there = std::find_if(flags.begin(), flags.end(),
                              [&](auto& flag) { return flag.key == extra.getKey(); });
    if (there != flags.end()) {
      there->value = kj::str(extra.getValue());
    } else {
      add(extra.getKey(), kj::str(extra.getValue()));
    }
  }
  std::sort(flags.begin() + own, flags.end(),
            [](auto& a, auto& b) { return kj::StringPtr(a.key) < kj::StringPtr(b.key); });
  kj::Vector<kj::String> words;
  words.add(kj::str("/usr/local/bin/kube-proxy"));
  for (auto& flag : flags) words.add(kj::str("--", flag.key, "=", flag.value));
  return words;
}

kj::String kubeProxy(SystemManifests config) {
  return ManifestText(kKubeProxy)
      .set("image", config.getProxyImage())
      .set("command", proxyCommand(config))
      .fill();
}

kj::String coreDns(SystemManifests config) {
  return ManifestText(kCoreDns)
      .set("domain", config.getClusterDomain())
      .set("image", config.getCoreDNSImage())
      .fill();
}

kj::String dnsService(kj::StringPtr name, kj::StringPtr address, kj::StringPtr oldFamily,
                      kj::StringPtr family) {
  return ManifestText(kDnsService)
      .set("name", name)
      .set("address", address)
      .set("family", oldFamily)
      .set("families", family)
      .fill();
}

kj::String bootstrapToken(kj::StringPtr tokenId) {
  return ManifestText(kBootstrapToken)
      .set("secretName", kj::str("bootstrap-token-", tokenId))
      .set("tokenId", tokenId)
      .set("tokenSecret", kube::kHiddenTokenSecret)
      .fill();
}

}  // namespace

kj::Vector<BootstrapManifest> renderManifests(SystemManifests config, kj::StringPtr tokenId,
                                              bool podAccess) {
  kj::Vector<BootstrapManifest> manifests;
  auto add = [&](kj::StringPtr id, kj::String objects) {
    manifests.add(BootstrapManifest{kj::str(id), kj::mv(objects)});
  };
  // The API refuses a Secret without an id in its name.
  if (tokenId.size() > 0) add("00-kubelet-bootstrapping-token", bootstrapToken(tokenId));
  add("01-csr-node-bootstrap", kj::str(kNodeBootstrap));
  add("01-csr-renewal-role-binding", kj::str(kRequestRenewal));
  if (config.getPodSecurityPolicyEnabled()) {
    add("03-default-pod-security-policy", kj::str(kPodSecurityPolicy));
  }
  if (config.getFlannelEnabled()) add("05-flannel", flannel(config));
  if (config.getProxyEnabled()) add("10-kube-proxy", kubeProxy(config));
  if (config.getCoreDNSEnabled()) {
    add("11-core-dns", coreDns(config));
    add("11-core-dns-svc", dnsService("kube-dns", config.getDnsServiceIP(), "", ""));
    if (config.getDnsServiceIPv6().size() > 0) {
      bool old = has(versionOf(config), KubeFact::kServiceIpFamily);
      add("11-core-dns-v6-svc", dnsService("kube-dnsv6", config.getDnsServiceIPv6(),
                                           old ? "IPv6"_kj : ""_kj, old ? ""_kj : "IPv6"_kj));
    }
  }
  add("11-kube-config-in-cluster",
      ManifestText(kInClusterKubeconfig).set("server", config.getServer()).fill());
  if (podAccess) {
    add("12-talos-api-service", kj::str(kAccessService));
    add("13-talos-service-account-crd", kj::str(kPodAccounts));
  }
  return manifests;
}

}  // namespace talos::machined
