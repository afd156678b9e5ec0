// The documents of the components of Kubernetes and of the node in it.
#include <gmock/gmock.h>

#include <vector>

#include "common/config/config-reading.h"
#include "common/config/documents/test-documents.h"
#include "common/yaml/yaml-codec.h"

namespace talos::config {
namespace {

using testing::HasSubstr;

constexpr const char *kApi = "kind: KubeAPIServerConfig, image: 'r/a:v1.34.4'",
                     *kClients =
                         "kind: KubeAuthenticationConfig, configuration: {jwt: [{issuer: "
                         "{url: 'https://id.lab.test'}}]}",
                     *kManager = "kind: KubeControllerManagerConfig, image: 'r/m:v1.34.4'",
                     *kProxy = "kind: KubeProxyConfig, image: 'r/p:v1.34.4'",
                     *kDns = "kind: KubeCoreDNSConfig, enabled: false",
                     *kKubelet = "kind: KubeletConfig, image: 'r/k:v1.34.4'",
                     *kNode =
                         "kind: KubeNodeConfig, labels: {rack: r1, "
                         "node-role.kubernetes.io/control-plane: ''}";

// Returns the values that code reads, without the kinds of documents.
std::string valuesOf(const MachineConfig& config) {
  return codec::writeYaml(config.get(), {.empties = codec::Empties::kOmit}).cStr();
}
std::string valuesOf(const std::string& text) {
  return valuesOf(parsed(text));
}

struct Spelling {
  std::string document;
  const char *machine, *cluster;  // the same in the keys of the main document
  const char* type = "controlplane";
};

// Catches: a document that reaches a component in another way than the keys that it replaces, or
// loses a field.
TEST(ComponentDocuments, MeanTheSameAsTheirKeys) {
  const Spelling rows[] = {
      {std::string(kApi) +
           ", apiPort: 7443, certExtraSANs: [api.lab.test], env: {A: b}, extraArgs: {v: 4}, "
           "resources: {limits: {cpu: 2}}, startupProbes: false",
       "",
       "{controlPlane: {localAPIServerPort: 7443}, apiServer: {image: 'r/a:v1.34.4', certSANs: "
       "[api.lab.test], env: {A: b}, extraArgs: {v: 4}, resources: {limits: {cpu: 2}}, "
       "extraVolumes: [{hostPath: /etc/ssl/certs, mountPath: /etc/ssl/certs, readonly: true}]}}"},
      {kClients,
       "  files: [{path: /var/lib/kube-apiserver/authentication.yaml, op: create, content: "
       "\"apiVersion: apiserver.config.k8s.io/v1beta1\\nkind: AuthenticationConfiguration\\njwt:\\n"
       "  - issuer:\\n      url: https://id.lab.test\\nanonymous:\\n  enabled: true\\n  "
       "conditions:\\n    - path: /livez\\n    - path: /readyz\\n    - path: /healthz\\n\"}]\n",
       "{apiServer: {extraVolumes: [{hostPath: /var/lib/kube-apiserver, mountPath: "
       "/var/lib/kube-apiserver, readonly: true}], extraArgs: {authentication-config: "
       "/var/lib/kube-apiserver/authentication.yaml}}}"},
      {std::string(kManager) +
           ", enabled: false, env: {A: b}, extraArgs: {v: 4}, resources: {requests: {cpu: 2}}",
       "  controlPlane: {controllerManager: {disabled: true}}\n",
       "{controllerManager: {image: 'r/m:v1.34.4', env: {A: b}, extraArgs: {v: 4}, resources: "
       "{requests: {cpu: 2}}}}"},
      {kProxy, "", "{proxy: {image: 'r/p:v1.34.4', mode: nftables}}"},
      {std::string(kProxy) +
           ", enabled: false, mode: ipvs, extraArgs: {v: 4}, config: {kind: "
           "KubeProxyConfiguration, apiVersion: kubeproxy.config.k8s.io/v1alpha1, "
           "nodePortAddresses: [10.0.0.0/8, 'fd00::/8'], featureGates: {A: true, B: false}, "
           "conntrack: {maxPerCore: 5, tcpBeLiberal: true}, ipvs: {strictARP: true}, "
           "metricsBindAddress: "
           "'0.0.0.0:10249', clusterCIDR: ''}",
       "",
       "{proxy: {disabled: true, image: 'r/p:v1.34.4', mode: ipvs, extraArgs: {v: 4, "
       "nodeport-addresses: '10.0.0.0/8,fd00::/8', feature-gates: 'A=true,B=false', "
       "conntrack-max-per-core: 5, conntrack-tcp-be-liberal: true, ipvs-strict-arp: true, "
       "metrics-bind-address: '0.0.0.0:10249'}}}"},
      {kDns, "", "{coreDNS: {disabled: true}}"},
      {"kind: KubeCoreDNSConfig, image: 'r/d:1.12.1'", "", "{coreDNS: {image: 'r/d:1.12.1'}}"},
      {std::string(kKubelet) +
           ", config: {maxPods: 200, shutdownGracePeriod: 1m}, extraArgs: {v: 4}, clusterDNS: "
           "[10.96.0.9], defaultRuntimeSeccompProfileEnabled: true",
       "  kubelet: {image: 'r/k:v1.34.4', extraConfig: {maxPods: 200, shutdownGracePeriod: 1m}, "
       "extraArgs: {v: 4}, clusterDNS: [10.96.0.9], defaultRuntimeSeccompProfileEnabled: true, "
       "disableManifestsDirectory: true}\n",
       "{}", "worker"},
      {"kind: KubeCredentialProviderConfig, configuration: {providers: [{name: p, matchImages: "
       "[a.example], defaultCacheDuration: 12h}]}",
       "  kubelet: {credentialProviderConfig: {providers: [{name: p, matchImages: [a.example], "
       "defaultCacheDuration: 12h}]}}\n",
       "{}", "worker"},
      {std::string(kNode) +
           ", annotations: {a: b}, taints: {gpu: 'only:NoSchedule', "
           "node-role.kubernetes.io/control-plane: ':NoSchedule'}, registerWithFQDN: true, nodeIP: "
           "{validSubnets: [10.0.0.0/8]}",
       "  kubelet: {registerWithFQDN: true, nodeIP: {validSubnets: [10.0.0.0/8]}}\n"
       "  nodeLabels: {rack: r1}\n  nodeAnnotations: {a: b}\n"
       "  nodeTaints: {gpu: 'only:NoSchedule'}\n",
       "{}"},
      {kNode, "  kubelet: {}\n  nodeLabels: {rack: r1}\n",
       "{allowSchedulingOnControlPlanes: true}"},
      {"kind: KubeNodeConfig, skipNodeRegistration: true, labels: {rack: r1}, taints: {gpu: "
       "NoExecute}",
       "  kubelet: {skipNodeRegistration: true}\n  nodeLabels: {rack: r1}\n"
       "  nodeTaints: {gpu: NoExecute}\n",
       "{}", "worker"},
  };
  for (auto& row : rows) {
    auto main = mainDocument("", row.type);
    auto text = main + "cluster: {}\n" + oneDocument(row.document);
    EXPECT_EQ("", problemsIn(text)) << row.document;
    EXPECT_EQ(valuesOf(main + row.machine + "cluster: " + row.cluster + "\n"), valuesOf(text))
        << row.document;
  }
}

// Catches: documents that undo each other, or depend on their order.
TEST(ComponentDocuments, MeanTheSameInAnyOrder) {
  std::vector<std::string> documents = {
      kApi,
      kClients,
      kKubelet,
      kNode,
      "kind: KubeAdmissionControlConfig, name: A",
      "kind: CRICustomizationConfig, name: b, content: \"[plugins]\\n\""};
  std::string forth = mainDocument() + "cluster: {}\n", back = forth;
  for (auto i = documents.begin(); i != documents.end(); ++i) forth += oneDocument(*i);
  for (auto i = documents.rbegin(); i != documents.rend(); ++i) back += oneDocument(*i);
  EXPECT_EQ("", problemsIn(forth));
  EXPECT_EQ(valuesOf(forth), valuesOf(back));
  EXPECT_THAT(valuesOf(forth), HasSubstr("authentication-config"));
  EXPECT_THAT(valuesOf(forth), HasSubstr("/etc/ssl/certs"));
  EXPECT_THAT(valuesOf(forth), HasSubstr("name: A"));
  EXPECT_THAT(valuesOf(forth), HasSubstr("20-customization.part"));
}

// Catches: two settings of one thing, of which one would be lost; a document of a control plane on
// a worker.
TEST(ComponentDocuments, AreRefusedBesideTheirKeys) {
  struct Row {
    const char *machine, *cluster, *document, *key;
  };
  const Row rows[] = {
      {"", "{apiServer: {image: a}}", kApi, "KubeAPIServerConfig: cluster.apiServer"},
      {"", "{controlPlane: {localAPIServerPort: 8443}}",
       "kind: KubeAPIServerConfig, image: a, apiPort: 7443",
       "KubeAPIServerConfig: cluster.controlPlane.localAPIServerPort"},
      {"", "{apiServer: {extraArgs: {oidc-issuer-url: a}}}", kClients,
       "KubeAuthenticationConfig: cluster.apiServer.extraArgs.oidc-issuer-url"},
      {"", "{apiServer: {extraVolumes: [{hostPath: /var/a, mountPath: /var/lib/kube-apiserver}]}}",
       kClients, "KubeAuthenticationConfig: cluster.apiServer.extraVolumes[0].mountPath"},
      {"", "{controllerManager: {image: a}}", kManager,
       "KubeControllerManagerConfig: cluster.controllerManager"},
      {"  controlPlane: {controllerManager: {disabled: true}}\n", "{}", kManager,
       "KubeControllerManagerConfig: machine.controlPlane.controllerManager"},
      {"", "{proxy: {image: a}}", kProxy, "KubeProxyConfig: cluster.proxy"},
      {"", "{coreDNS: {image: a}}", kDns, "KubeCoreDNSConfig: cluster.coreDNS"},
      {"  kubelet: {image: a}\n", "{}", kKubelet, "KubeletConfig: machine.kubelet"},
      {"  kubelet: {image: a}\n", "{}",
       "kind: KubeCredentialProviderConfig, configuration: {providers: []}",
       "KubeCredentialProviderConfig: machine.kubelet"},
      {"  kubelet: {registerWithFQDN: true}\n", "{}", kNode,
       "KubeNodeConfig: machine.kubelet.registerWithFQDN"},
      {"  kubelet: {nodeIP: {validSubnets: [10.0.0.0/8]}}\n", "{}", kNode,
       "KubeNodeConfig: machine.kubelet.nodeIP"},
      {"  kubelet: {skipNodeRegistration: true}\n", "{}", kNode,
       "KubeNodeConfig: machine.kubelet.skipNodeRegistration"},
      {"  nodeLabels: {a: b}\n", "{}", kNode, "KubeNodeConfig: machine.nodeLabels"},
      {"  nodeAnnotations: {a: b}\n", "{}", kNode, "KubeNodeConfig: machine.nodeAnnotations"},
      {"  nodeTaints: {a: NoSchedule}\n", "{}", kNode, "KubeNodeConfig: machine.nodeTaints"},
      {"", "{allowSchedulingOnControlPlanes: true}", kNode,
       "KubeNodeConfig: cluster.allowSchedulingOnControlPlanes"},
      {"", "{allowSchedulingOnMasters: true}", kNode,
       "KubeNodeConfig: cluster.allowSchedulingOnMasters"},
  };
  for (auto& row : rows) {
    auto text = mainDocument() + row.machine + "cluster: " + row.cluster + "\n";
    auto with = text + oneDocument(row.document);
    EXPECT_THAT(problemsIn(with),
                HasSubstr(std::string(row.key) + " is set as well; remove one of the two"));
    EXPECT_EQ(valuesOf(text), valuesOf(with)) << row.key;
  }
  for (auto document : {kApi, kClients, kManager, kProxy, kDns}) {
    EXPECT_THAT(problemsIn(mainDocument("", "worker") + oneDocument(document)),
                HasSubstr("only control-plane nodes have such a document; remove it"));
  }
}

// Catches: a field that is accepted and does nothing; a mistake that is reported in the main
// document, at another place, or not at all.
TEST(ComponentDocuments, MistakesAreFoundInThem) {
  const std::pair<std::string, const char*> rows[] = {
      {"kind: KubeAPIServerConfig", "KubeAPIServerConfig.image: required key is missing"},
      {std::string(kApi) + ", extraArgs: {anonymous-auth: true}",
       "c.yaml:7:85: KubeAPIServerConfig.extraArgs.anonymous-auth: another document decides who a "
       "client is; use KubeAuthenticationConfig"},
      {std::string(kApi) + ", extraArgs: {authorization-mode: RBAC}",
       "KubeAPIServerConfig.extraArgs.authorization-mode: other documents decide what a client may "
       "do; use KubeAuthorizerConfig"},
      {std::string(kApi) + ", startupProbes: true",
       "KubeAPIServerConfig.startupProbes: the kubelet does not probe this API server"},
      {std::string(kApi) + ", certExtraSANs: ['a b']",
       "c.yaml:7:89: KubeAPIServerConfig.certExtraSANs[0]: \"a b\""},
      {std::string(kApi) + ", resources: {limits: {gpu: 1}}",
       "KubeAPIServerConfig.resources.limits.gpu: \"gpu\" is not a resource"},
      {std::string(kApi) + ", env: {POD_IP: a}", "KubeAPIServerConfig.env.POD_IP: the node sets"},
      {std::string(kApi) + ", auditPolicy: {}", "KubeAPIServerConfig.auditPolicy: unknown key"},
      {"kind: KubeAuthenticationConfig, configuration: {kind: A}",
       "KubeAuthenticationConfig.configuration.kind: \"A\" is not the kind"},
      {"kind: KubeAuthenticationConfig, configuration: {apiVersion: v1}",
       "KubeAuthenticationConfig.configuration.apiVersion: \"v1\" is not the apiVersion"},
      {"kind: KubeAuthenticationConfig, configuration: {users: []}",
       "KubeAuthenticationConfig.configuration.users: an AuthenticationConfiguration has no such"},
      {"kind: KubeAuthenticationConfig}\n---\n{apiVersion: v1alpha1, kind: KubeAPIServerConfig, "
       "image: 'r/a:v1.31.0'",
       "KubeAuthenticationConfig.configuration: kube-apiserver of Kubernetes 1.31 does not read"},
      {std::string(kManager) + ", extraArgs: {'': a}", "KubeControllerManagerConfig.extraArgs"},
      {std::string(kProxy) + ", mode: fast", "KubeProxyConfig.mode: \"fast\""},
      {"kind: KubeProxyConfig, image: 'r/p:v1.30.4'",
       "KubeProxyConfig.mode: kube-proxy of Kubernetes 1.30 has no mode nftables"},
      {std::string(kProxy) + ", resources: {limits: {cpu: 1}}",
       "KubeProxyConfig.resources: the DaemonSet of kube-proxy has none; remove it; kubectl"},
      {std::string(kProxy) + ", config: {conntrack: {min: 5}}, extraArgs: {conntrack-min: 4}",
       "KubeProxyConfig.config.conntrack.min: the argument conntrack-min is set as well"},
      {std::string(kProxy) + ", config: {nftables: {masqueradeAll: true}}",
       "KubeProxyConfig.config.nftables: kube-proxy has no argument for this field"},
      {std::string(kProxy) + ", config: {conntrack: {most: 5}}",
       "KubeProxyConfig.config.conntrack.most: kube-proxy has no argument for this field"},
      {std::string(kProxy) + ", config: {mode: ipvs}",
       "c.yaml:7:78: KubeProxyConfig.config.mode: it has a key of its own; use mode of"},
      {std::string(kProxy) + ", config: {portRange: 1-2}",
       "KubeProxyConfig.config.portRange: kube-proxy has no argument for this field"},
      {std::string(kProxy) + ", config: {hostnameOverride: a}",
       "KubeProxyConfig.config.hostnameOverride: each node has its own name"},
      {std::string(kProxy) + ", config: {kind: A}",
       "KubeProxyConfig.config.kind: \"A\" is not that of a KubeProxyConfiguration"},
      {"kind: KubeCoreDNSConfig, replicas: 3", "KubeCoreDNSConfig.replicas: unknown key"},
      {"kind: KubeletConfig", "KubeletConfig.image: required key is missing"},
      {std::string(kKubelet) + ", config: {authentication: {}}",
       "c.yaml:7:76: KubeletConfig.config.authentication: the node sets this field itself"},
      {std::string(kKubelet) + ", config: {clusterDNS: [10.0.0.1]}",
       "KubeletConfig.config.clusterDNS: the node sets this field itself: it has a key of its own; "
       "use clusterDNS of the document"},
      {std::string(kKubelet) + ", config: {shutdownGracePeriod: soon}",
       "c.yaml:7:76: KubeletConfig.config.shutdownGracePeriod: \"soon\" is not a duration"},
      {std::string(kKubelet) + ", extraArgs: {kubeconfig: a}",
       "KubeletConfig.extraArgs.kubeconfig"},
      {std::string(kKubelet) + ", clusterDNS: [a]", "KubeletConfig.clusterDNS[0]: \"a\" is not"},
      {std::string(kKubelet) + ", extraMounts: []", "KubeletConfig.extraMounts: unknown key"},
      {"kind: KubeCredentialProviderConfig",
       "KubeCredentialProviderConfig.configuration: required key is missing"},
      {"kind: KubeCredentialProviderConfig, configuration: {providers: [{name: a/b, matchImages: "
       "[a.example], defaultCacheDuration: 12h}]}",
       "KubeCredentialProviderConfig.configuration.providers[0].name: \"a/b\" is not a valid name"},
      {"kind: KubeNodeConfig, labels: {rack: r1}",
       "c.yaml:7:46: KubeNodeConfig.labels: each control-plane node has the label "
       "node-role.kubernetes.io/control-plane, without a value; write"},
      {std::string(kNode) + ", taints: {node-role.kubernetes.io/control-plane: NoExecute}",
       "this taint has the effect NoSchedule, and no value; use NoSchedule, or remove it"},
      {std::string(kNode) + ", taints: {gpu: Never}",
       "KubeNodeConfig.taints.gpu: \"Never\" is not a valid taint"},
      {std::string(kNode) + ", annotations: {talos.dev/cordoned: a}",
       "KubeNodeConfig.annotations[\"talos.dev/cordoned\"]: \"talos.dev/cordoned\" is an "
       "annotation"},
      {std::string(kNode) + ", nodeIP: {validSubnets: [a]}",
       "KubeNodeConfig.nodeIP.validSubnets[0]: \"a\""},
  };
  for (auto& [document, problem] : rows) {
    EXPECT_THAT(problemsIn(mainDocument() + "cluster: {}\n" + oneDocument(document)),
                HasSubstr(problem))
        << document;
  }
}

// Catches: a node that does not boot, or boots another control plane, because a document that did
// nothing before has a mistake, or takes a port of the main document.
TEST(ComponentDocuments, OfAKeptConfigStopNoBoot) {
  auto main = mainDocument() +
              "  metrics: {port: 7443}\n  features: {kubePrism: {enabled: true, port: 7444}}\n"
              "cluster: {apiServer: {image: 'r/a:v1.34.4'}}\n";
  auto other = mainDocument() +
               "  metrics: {port: 7443}\n  features: {kubePrism: {enabled: true, port: 7444}}\n"
               "cluster: {}\n";
  const std::pair<std::string, std::string> rows[] = {
      {main, kApi},
      {other, std::string(kApi) + ", apiPort: 7443"},
      {other, std::string(kApi) + ", apiPort: 7444"},
      {other, std::string(kApi) + ", startupProbes: true"},
      {other, "kind: KubeAPIServerConfig, image: 'r/a:v1.34.4', env: {'9': a}"},
      {other, std::string(kKubelet) + ", extraArgs: {config: a}"},
      {other, std::string(kKubelet) + ", config: {shutdownGracePeriod: 1h}"},
      {other, std::string(kProxy) + ", config: {winkernel: {networkName: a}}"},
      {other, "kind: KubeNodeConfig, taints: {a: b}"},
  };
  for (auto& [text, document] : rows) {
    auto config = parsed(text + oneDocument(document));
    EXPECT_FALSE(config.good()) << document;
    EXPECT_EQ(valuesOf(text), valuesOf(config)) << document;
    unsigned warnings = 0;
    for (auto& problem : problemsOfKept(config, "c.yaml")) {
      if (!isInDocument(problem.path)) {
        // The main document of this test lacks much, and nothing of it is about these documents.
        EXPECT_THAT(problem.toString().cStr(), testing::Not(HasSubstr("is the port of")));
        continue;
      }
      EXPECT_EQ(Problem::Severity::kWarning, problem.severity) << problem.toString().cStr();
      ++warnings;
    }
    EXPECT_LE(1u, warnings) << document;
  }
}

// Catches: a document that says what clients without a certificate may do, and that the default
// contradicts.
TEST(ComponentDocuments, AnonymousClientsAreThoseOfTheDocument) {
  auto values = valuesOf(mainDocument() + "cluster: {}\n" +
                         oneDocument("kind: KubeAuthenticationConfig, configuration: {anonymous: "
                                     "{enabled: false}}"));
  EXPECT_THAT(values, HasSubstr("enabled: false"));
  EXPECT_EQ(values.npos, values.find("/livez")) << values;
}

}  // namespace
}  // namespace talos::config
