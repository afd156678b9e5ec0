#include "machined/kubernetes/control-plane-config.h"

#include "common/config/kubernetes/kubernetes-images.h"
#include "machined/config/controllers/test-machine-config.h"

namespace talos::machined {
namespace {

using Spec = rpc::ControlPlaneConfigSpec;

constexpr kj::StringPtr kPlain =
    "version: v1alpha1\n"
    "machine: {type: controlplane, token: abcdef.0123456789abcdef}\n"
    "cluster:\n"
    "  clusterName: demo\n"
    "  controlPlane: {endpoint: 'https://172.20.0.1:6443'}\n"_kj;

struct ControlPlaneConfigs : public ConfigTest {
  ~ControlPlaneConfigs() noexcept override {}
  bool mounted = false;
  KeptVersions kept{{[](kj::Function<void()> work) { return kj::evalLater(kj::mv(work)); },
                     [this] { return mounted; }}};

  void begin() {
    runtime.add(kj::heap<ControlPlaneConfigController>(ControlPlaneConfigController::Dependencies{
        .readConfig = KJ_BIND_METHOD(config, tryConfig),
        .kept = kept,
        .warn = [this](kj::StringPtr text) { warnings.add(kj::str(text)); }}));
  }
  void publishPlain(kj::StringPtr more = "") {
    publish(kj::str(kPlain, more));
    poll();
  }
  ResourceOf<Spec> spec(kj::StringPtr id) { return KJ_ASSERT_NONNULL(store.tryGet<Spec>(id), id); }
  static std::string arguments(capnp::List<config::StringPair>::Reader list) {
    std::string text;
    for (auto argument : list) {
      text += kj::str(argument.getKey(), "=", argument.getValue(), " ").cStr();
    }
    return text;
  }
};

TEST_F(ControlPlaneConfigs, HaveWhatTheConfigLeavesOut) {
  begin();
  publishPlain();
  auto api = spec(kApiServerId).getApiServer();
  EXPECT_EQ(config::kubernetesImage(config::KubernetesPart::kApiServer),
            kj::StringPtr(api.getImage()));
  EXPECT_STREQ("https://172.20.0.1:6443", api.getControlPlaneEndpoint().cStr());
  EXPECT_STREQ("https://127.0.0.1:2379", api.getEtcdServers()[0].cStr());
  EXPECT_EQ(6443, api.getLocalPort());
  EXPECT_STREQ("10.96.0.0/12", api.getServiceCIDR().cStr());
  EXPECT_STREQ("", api.getCloudProvider().cStr());
  EXPECT_STREQ("10.244.0.0/16",
               spec(kControllerManagerId).getControllerManager().getPodCIDR().cStr());
  auto system = spec(kSystemManifestsId).getSystemManifests();
  EXPECT_TRUE(system.getProxyEnabled() && system.getFlannelEnabled());
  EXPECT_FALSE(system.getPodSecurityPolicyEnabled());
  EXPECT_STREQ("10.96.0.10", system.getDnsServiceIP().cStr());
  EXPECT_STREQ("iptables", system.getProxyMode().cStr());
  EXPECT_STREQ("1.34.4", system.getKubernetesVersion().cStr());
  EXPECT_EQ(0u, spec(kExtraManifestsId).getExtraManifests().getExtraManifests().size());
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ControlPlaneConfigs, SayWhatTheConfigSays) {
  begin();
  publishPlain(
      "  network:\n"
      "    dnsDomain: example.org\n"
      "    serviceSubnets: [10.96.0.0/12, 'fd00:1::/112']\n"
      "    cni: {name: custom, urls: ['https://example.org/cni.yaml']}\n"
      "  apiServer:\n"
      "    image: r/kube-apiserver:v1.20.6\n"
      "    extraArgs: {v: 4, audit-log-maxage: 7}\n"
      "    extraVolumes:\n"
      "      - {hostPath: /a, mountPath: /etc/Audit_logs.d/, readonly: true}\n"
      "      - {hostPath: /b, mountPath: /etc/audit/logs.d}\n"
      "      - {hostPath: /c, mountPath: /secrets}\n"
      "  proxy: {mode: ipvs, disabled: true}\n"
      "  externalCloudProvider: {enabled: true, manifests: ['https://example.org/cloud.yaml']}\n"
      "  extraManifests: ['https://example.org/more.yaml']\n"
      "  extraManifestHeaders: {X-B: two, X-A: one}\n"
      "  inlineManifests: [{name: mine, contents: 'kind: Namespace'}]\n");
  auto api = spec(kApiServerId).getApiServer();
  EXPECT_EQ("audit-log-maxage=7 v=4 ", arguments(api.getExtraArgs()))
      << "a cloud's controller names the addresses of the nodes: their kubelets are not verified";
  EXPECT_STREQ("external", api.getCloudProvider().cStr());
  auto volumes = api.getExtraVolumes();
  // Catches: names that Kubernetes refuses, and with them the pod.
  EXPECT_STREQ("etc-audit-logs-d", volumes[0].getName().cStr());
  EXPECT_STREQ("etc-audit-logs-d-2", volumes[1].getName().cStr());
  EXPECT_STREQ("secrets-2", volumes[2].getName().cStr());
  EXPECT_TRUE(volumes[0].getReadonly());
  EXPECT_STREQ("/b", volumes[1].getHostPath().cStr());
  EXPECT_STREQ("/etc/audit/logs.d", volumes[1].getMountPath().cStr());
  auto system = spec(kSystemManifestsId).getSystemManifests();
  EXPECT_STREQ("10.96.0.10", system.getDnsServiceIP().cStr());
  EXPECT_STREQ("fd00:1::a", system.getDnsServiceIPv6().cStr());
  EXPECT_FALSE(system.getProxyEnabled() || system.getFlannelEnabled());
  EXPECT_TRUE(system.getPodSecurityPolicyEnabled());
  EXPECT_EQ(config::kOldCoreDnsImage, kj::StringPtr(system.getCoreDNSImage()));
  std::string manifests;
  for (auto m : spec(kExtraManifestsId).getExtraManifests().getExtraManifests()) {
    manifests += kj::str(m.getPriority(), "-", m.getUrl(), " ").cStr();
    manifests += arguments(m.getExtraHeaders()) + m.getContents().cStr() + ";";
  }
  EXPECT_EQ(
      "05-https://example.org/cni.yaml ;30-https://example.org/cloud.yaml ;"
      "99-https://example.org/more.yaml X-A=one X-B=two ;99-mine kind: Namespace;",
      manifests);
}

// Catches: a policy that the API server does not get whole, or that it refuses.
TEST_F(ControlPlaneConfigs, TheAuditPolicyIsTheConfigs) {
  begin();
  publishPlain();
  EXPECT_FALSE(spec(kApiServerId).getApiServer().hasAuditPolicy());
  publishPlain(R"(
  apiServer:
    auditPolicy:
      apiVersion: audit.k8s.io/v1
      kind: Policy
      metadata: {name: mine}
      omitStages: [RequestReceived, Panic]
      omitManagedFields: true
      rules:
        - level: None
          users: ['system:kube-proxy']
          userGroups: ['system:nodes']
          verbs: [watch]
          resources: [{group: apps, resources: [deployments], resourceNames: [web]}, {resources: [pods]}]
          namespaces: [kube-system, '']
          omitStages: [ResponseStarted]
          omitManagedFields: false
        - {level: RequestResponse, nonResourceURLs: [/logs*]}
)");
  EXPECT_STREQ(R"(apiVersion: audit.k8s.io/v1
kind: Policy
omitStages:
  - RequestReceived
  - Panic
omitManagedFields: true
rules:
  - level: None
    users:
      - system:kube-proxy
    userGroups:
      - system:nodes
    verbs:
      - watch
    resources:
      - group: apps
        resources:
          - deployments
        resourceNames:
          - web
      - resources:
          - pods
    namespaces:
      - kube-system
      - ""
    omitStages:
      - ResponseStarted
    omitManagedFields: false
  - level: RequestResponse
    nonResourceURLs:
      - /logs*
)",
               spec(kApiServerId).getApiServer().getAuditPolicy().cStr());
}

// Catches: a configuration that loses a key, its form or its order; a plugin that is not enabled.
TEST_F(ControlPlaneConfigs, AdmissionPluginsHaveTheirConfigurations) {
  begin();
  publishPlain();
  EXPECT_FALSE(spec(kApiServerId).getApiServer().hasAdmissionControl());
  publishPlain(R"(
  apiServer:
    admissionControl:
      - name: PodSecurity
        configuration:
          kind: PodSecurityConfiguration
          apiVersion: pod-security.admission.config.k8s.io/v1
          defaults: {enforce: baseline, enforce-version: latest}
          exemptions:
            namespaces: # of the system
              - kube-system
      - name: AlwaysPullImages
)");
  auto api = spec(kApiServerId).getApiServer();
  EXPECT_STREQ(R"(apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults:
      enforce: baseline
      enforce-version: latest
    exemptions:
      namespaces: # of the system
        - kube-system
- name: AlwaysPullImages
)",
               api.getAdmissionControl().cStr());
  ASSERT_EQ(1u, api.getAdmissionPlugins().size());
  EXPECT_STREQ("AlwaysPullImages", api.getAdmissionPlugins()[0].cStr());
}

// Catches: nodes that the API server refuses because Node is not asked, or not first; a version of
// the file that the release does not read.
TEST_F(ControlPlaneConfigs, NodeAndRbacPrecedeOtherAuthorizers) {
  begin();
  publishPlain();
  EXPECT_STREQ("", spec(kApiServerId).getApiServer().getAuthorizationConfig().cStr());
  auto with = [&](kj::StringPtr minor, kj::StringPtr list) {
    publishPlain(kj::str("  apiServer:\n    image: 'r/a:v1.", minor,
                         ".0'\n    authorizationConfig:\n", list));
    return std::string(spec(kApiServerId).getApiServer().getAuthorizationConfig().cStr());
  };
  constexpr auto kWebhook =
      "      - type: Webhook\n        name: office\n        webhook:\n"
      "          timeout: 3s\n"
      "          connectionInfo: {type: KubeConfigFile, kubeConfigFile: /a}\n"_kj;
  EXPECT_EQ(R"(apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Node
  name: node
- type: RBAC
  name: rbac
- type: Webhook
  name: office
  webhook:
    timeout: 3s
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: /a
)",
            with("34", kWebhook));
  EXPECT_EQ(
      "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthorizationConfiguration\n"
      "authorizers:\n- type: RBAC\n  name: rbac\n- type: Node\n  name: node\n",
      with("31", "      - {type: Node, name: node}\n"));
  EXPECT_EQ(
      "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
      "authorizers:\n- type: RBAC\n  name: rbac\n- type: Node\n  name: node\n",
      with("32", "      - {type: RBAC, name: rbac}\n      - {type: Node, name: node}\n"));
}

// Catches: a scheduler without the node's credentials, or with a profile that is lost.
TEST_F(ControlPlaneConfigs, TheSchedulersFileHasTheNodesCredentials) {
  begin();
  publishPlain("  scheduler: {config: {}}\n");
  EXPECT_STREQ("", spec(kSchedulerId).getScheduler().getConfig().cStr());
  publishPlain(R"(
  scheduler:
    config:
      clientConnection: {qps: 100}
      profiles:
        - schedulerName: dense
)");
  EXPECT_STREQ(R"(apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /system/secrets/kubernetes/kube-scheduler/kubeconfig
  qps: 100
enableProfiling: false
profiles:
  - schedulerName: dense
)",
               spec(kSchedulerId).getScheduler().getConfig().cStr());
  publishPlain(
      "  scheduler: {image: 'r/s:v1.20.6', config: {enableProfiling: true, "
      "kind: KubeSchedulerConfiguration}}\n");
  EXPECT_STREQ(
      "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n"
      "clientConnection:\n  kubeconfig: /system/secrets/kubernetes/kube-scheduler/kubeconfig\n"
      "enableProfiling: true\n",
      spec(kSchedulerId).getScheduler().getConfig().cStr());
}

// Catches: variables, requests or limits of one component that another gets, or that change their
// order and restart a pod.
TEST_F(ControlPlaneConfigs, PodsHaveTheirVariablesAndResources) {
  begin();
  publishPlain(
      "  apiServer: {env: {B: two, A: 1}, resources: {requests: {cpu: 500m}}}\n"
      "  controllerManager: {env: {GOGC: 50}, resources: {limits: {memory: 1Gi}}}\n"
      "  scheduler: {env: {V: w}, resources: {requests: {memory: 65Mi, cpu: 1}, "
      "limits: {cpu: 2}}}\n");
  auto api = spec(kApiServerId).getApiServer();
  EXPECT_EQ("A=1 B=two ", arguments(api.getEnvironmentVariables()));
  EXPECT_EQ("cpu=500m ", arguments(api.getResources().getRequests()));
  EXPECT_EQ("", arguments(api.getResources().getLimits()));
  auto manager = spec(kControllerManagerId).getControllerManager();
  EXPECT_EQ("GOGC=50 ", arguments(manager.getEnvironmentVariables()));
  EXPECT_EQ("memory=1Gi ", arguments(manager.getResources().getLimits()));
  EXPECT_EQ(0u, manager.getResources().getRequests().size());
  auto scheduler = spec(kSchedulerId).getScheduler();
  EXPECT_EQ("V=w ", arguments(scheduler.getEnvironmentVariables()));
  EXPECT_EQ("cpu=1 memory=65Mi ", arguments(scheduler.getResources().getRequests()));
  EXPECT_EQ("cpu=2 ", arguments(scheduler.getResources().getLimits()));
}

// Catches: a component that runs although this node shall not run it; another one that does not.
TEST_F(ControlPlaneConfigs, DisabledPartsHaveNoRecord) {
  begin();
  auto with = [&](kj::StringPtr parts) {
    publish(
        kj::str("version: v1alpha1\nmachine:\n  type: controlplane\n"
                "  token: abcdef.0123456789abcdef\n  controlPlane: {",
                parts, "}\ncluster: {controlPlane: {endpoint: 'https://172.20.0.1:6443'}}\n"));
    poll();
    std::string ids;
    for (auto id : {kApiServerId, kControllerManagerId, kSchedulerId}) {
      if (store.tryGet<Spec>(id) != nullptr) ids += kj::str(id, " ").cStr();
    }
    return ids;
  };
  EXPECT_EQ("kube-apiserver kube-controller-manager ", with("scheduler: {disabled: true}"));
  EXPECT_EQ("kube-apiserver kube-scheduler ", with("controllerManager: {disabled: true}"));
  EXPECT_EQ("kube-apiserver kube-controller-manager kube-scheduler ",
            with("scheduler: {disabled: false}"));
}

// Catches: CoreDNS or an argument of flannel that stays in the config.
TEST_F(ControlPlaneConfigs, ManifestsFollowTheConfig) {
  begin();
  publishPlain();
  EXPECT_TRUE(spec(kSystemManifestsId).getSystemManifests().getCoreDNSEnabled());
  publishPlain(
      "  coreDNS: {disabled: true}\n  network: {dnsDomain: a.b, cni: {name: flannel, flannel: "
      "{extraArgs: [--iface=eth1]}}}\n");
  auto system = spec(kSystemManifestsId).getSystemManifests();
  EXPECT_FALSE(system.getCoreDNSEnabled());
  ASSERT_EQ(1u, system.getFlannelExtraArgs().size());
  EXPECT_STREQ("--iface=eth1", system.getFlannelExtraArgs()[0].cStr());
}

// Catches: a restart that is not announced, or that is announced for another part or for a change
// that restarts nothing.
TEST(ControlPlaneParts, DifferIfTheirPodsAreRestarted) {
  auto of = [](kj::StringPtr more) {
    auto text = kj::str(kPlain, more);
    auto parsed = config::parse(text.asArray());
    return controlPlaneParts(parsed.get());
  };
  auto changed = [&](kj::StringPtr more) {
    auto before = of(""), after = of(more);
    std::string names;
    for (auto i : kj::indices(before)) {
      if (before[i].content != after[i].content) names += kj::str(after[i].name, " ").cStr();
    }
    return names;
  };
  EXPECT_EQ("kube-apiserver ",
            changed("  apiServer: {auditPolicy: {apiVersion: audit.k8s.io/v1, kind: Policy, "
                    "rules: [{level: None}]}}\n"));
  EXPECT_EQ("kube-scheduler ", changed("  scheduler: {config: {profiles: []}}\n"));
  EXPECT_EQ("kube-apiserver kube-controller-manager ",
            changed("  externalCloudProvider: {enabled: true}\n"));
  EXPECT_EQ("", changed("  apiServer: {certSANs: [a.example]}\n  coreDNS: {disabled: true}\n"));
}

// Catches: a port, an image or a policy that differs between the config and the pods; a port 0.
TEST_F(ControlPlaneConfigs, SayWhatSingleKeysSay) {
  begin();
  publish(
      "version: v1alpha1\nmachine: {type: controlplane, token: abcdef.0123456789abcdef}\n"
      "cluster:\n  controlPlane: {endpoint: 'https://172.20.0.1:6443', localAPIServerPort: 7443}\n"
      "  apiServer: {image: 'r/kube-apiserver:v1.20.6', disablePodSecurityPolicy: true}\n"
      "  network: {dnsDomain: cluster.local, podSubnets: [10.42.0.0/16]}\n"
      "  controllerManager: {image: 'r/m:v1.20.6', extraArgs: {v: 5}}\n"
      "  coreDNS: {image: 'r/coredns:1.8.0'}\n"
      "  proxy: {image: 'r/p:v1.20.6', extraArgs: {v: 6}}\n");
  poll();
  EXPECT_EQ(7443, spec(kApiServerId).getApiServer().getLocalPort());
  auto manager = spec(kControllerManagerId).getControllerManager();
  EXPECT_STREQ("r/m:v1.20.6", manager.getImage().cStr());
  EXPECT_EQ("v=5 ", arguments(manager.getExtraArgs()));
  EXPECT_STREQ("10.42.0.0/16", manager.getPodCIDR().cStr());
  auto system = spec(kSystemManifestsId).getSystemManifests();
  EXPECT_FALSE(system.getPodSecurityPolicyEnabled());
  EXPECT_STREQ("r/coredns:1.8.0", system.getCoreDNSImage().cStr());
  EXPECT_STREQ("r/p:v1.20.6", system.getProxyImage().cStr());
  EXPECT_EQ("v=6 ", arguments(system.getProxyExtraArgs()));
  publish(
      "version: v1alpha1\nmachine: {type: controlplane, token: abcdef.0123456789abcdef}\n"
      "cluster:\n  controlPlane: {endpoint: 'https://172.20.0.1:6443', localAPIServerPort: 0}\n");
  poll();
  EXPECT_EQ(6443, spec(kApiServerId).getApiServer().getLocalPort());
}

// Catches: an API server that verifies kubelets which have no certificate of the cluster, or does
// not verify those that have; a file of the user's that is replaced.
TEST_F(ControlPlaneConfigs, VerifyKubeletsThatRequestTheirCertificates) {
  constexpr kj::StringPtr kBegin =
      "version: v1alpha1\nmachine:\n  type: controlplane\n"
      "  token: abcdef.0123456789abcdef\n"_kj;
  constexpr kj::StringPtr kCluster =
      "cluster:\n  controlPlane: {endpoint: 'https://172.20.0.1:6443'}\n"_kj;
  begin();
  auto after = [&](kj::StringPtr machine, kj::StringPtr cluster) {
    publish(kj::str(kBegin, machine, kCluster, cluster));
    poll();
    return arguments(spec(kApiServerId).getApiServer().getExtraArgs());
  };
  const std::string verified =
      "kubelet-certificate-authority=/system/secrets/kubernetes/kube-apiserver/kubelet-ca.crt ";
  EXPECT_EQ(verified, after("", ""));
  EXPECT_EQ("audit-log-maxage=7 " + verified + "v=4 ",
            after("", "  apiServer: {extraArgs: {v: 4, audit-log-maxage: 7}}\n"));
  EXPECT_EQ("kubelet-certificate-authority=/own.crt ",
            after("", "  apiServer: {extraArgs: {kubelet-certificate-authority: /own.crt}}\n"));
  EXPECT_EQ("kubelet-certificate-authority= ",
            after("", "  apiServer: {extraArgs: {kubelet-certificate-authority: ''}}\n"));
  EXPECT_EQ("", after("  kubelet: {extraConfig: {serverTLSBootstrap: false}}\n", ""));
  EXPECT_EQ("", after("  kubelet: {extraArgs: {rotate-server-certificates: 'false'}}\n", ""));
}

// Catches: pods that are restarted because the keys of the config changed places.
TEST_F(ControlPlaneConfigs, AnOrderOfKeysIsNoChange) {
  begin();
  publishPlain("  scheduler: {extraArgs: {v: 2, a: 1}}\n");
  auto before = spec(kSchedulerId).version();
  publishPlain("  scheduler: {extraArgs: {a: 1, v: 2}}\n");
  EXPECT_EQ(before, spec(kSchedulerId).version());
  publishPlain("  scheduler: {extraArgs: {a: 1, v: 3}}\n");
  EXPECT_EQ(before + 1, spec(kSchedulerId).version());
  EXPECT_EQ(1u, spec(kApiServerId).version());
}

// Catches: a pod whose annotation has another number after each reboot.
TEST_F(ControlPlaneConfigs, TheVersionsGoOnAfterAReboot) {
  auto of = [&](kj::StringPtr name, Outputs<Spec>& outputs) {
    auto words = capnp::canonicalize(KJ_ASSERT_NONNULL(outputs.find(name)));
    return kept.of(name, words.asBytes()).wait(io.waitScope);
  };
  // The stored version before the reboot: of the third config of this machine.
  for (auto extra : {"1"_kj, "2"_kj, "3"_kj}) {
    Outputs<Spec> outputs("before");
    auto text = kj::str(kPlain, "  scheduler: {extraArgs: {v: ", extra, "}}\n");
    auto parsed = config::parse(text.asArray());
    planControlPlane(parsed.get(), outputs);
    of(kSchedulerId, outputs);
  }
  begin();
  publishPlain("  scheduler: {extraArgs: {v: 3}}\n");
  EXPECT_EQ(3u, spec(kSchedulerId).version());
  publishPlain("  scheduler: {extraArgs: {v: 4}}\n");
  EXPECT_EQ(4u, spec(kSchedulerId).version());
}

TEST_F(ControlPlaneConfigs, ReportsAnAssumedVersionOnce) {
  begin();
  publishPlain("  apiServer: {image: 'r/a@sha256:00'}\n");
  ASSERT_EQ(1u, warnings.size());
  EXPECT_STREQ(
      "the release of r/a@sha256:00 is not known; run as 1.34; set cluster.kubernetesVersion, or "
      "name the image with a tag",
      warnings[0].cStr());
  runtime.poke("config.K8sControlPlaneController");
  poll();
  EXPECT_EQ(1u, warnings.size());
  publishPlain("  apiServer: {image: 'r/a@sha256:00'}\n  kubernetesVersion: v1.30.1\n");
  EXPECT_EQ(1u, warnings.size());
  EXPECT_STREQ("1.30.1",
               spec(kSystemManifestsId).getSystemManifests().getKubernetesVersion().cStr());
}

TEST_F(ControlPlaneConfigs, ReportsAProxyModeThatDoesNotExist) {
  begin();
  publishPlain("  proxy: {mode: userspace}\n");
  ASSERT_EQ(1u, warnings.size());
  EXPECT_STREQ("cluster.proxy.mode: kube-proxy of Kubernetes 1.34 has no mode userspace",
               warnings[0].cStr());
  publishPlain("  proxy: {mode: userspace, image: 'r/kube-proxy:v1.20.6'}\n");
  publishPlain("  proxy: {mode: nftables}\n");
  EXPECT_EQ(1u, warnings.size());
  publishPlain("  proxy: {mode: nftables, image: 'r/kube-proxy:v1.30.1'}\n");
  EXPECT_EQ(2u, warnings.size());
}

TEST_F(ControlPlaneConfigs, AreOfControlPlaneNodesOnly) {
  begin();
  publishPlain();
  EXPECT_EQ(5u, store.list<Spec>().size());
  publish(
      "version: v1alpha1\nmachine: {type: worker, token: abcdef.0123456789abcdef}\n"
      "cluster: {controlPlane: {endpoint: 'https://172.20.0.1:6443'}}\n");
  poll();
  EXPECT_EQ(0u, store.list<Spec>().size());
}

}  // namespace
}  // namespace talos::machined
