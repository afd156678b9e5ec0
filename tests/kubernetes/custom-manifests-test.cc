// Manifests of the machine config: a custom network (cluster.network.cni.name "custom"), and
// further objects that the cluster begins with (cluster.extraManifests).
#include <gmock/gmock.h>

#include <algorithm>
#include <regex>

#include "tests/harness/web.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::eventually;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char *kGateway = "10.5.0.1", *kNetwork = "http://10.5.0.1:8098/network.yaml",
                     *kExtra = "http://10.5.0.1:8099/extra.yaml";

// Flannel as an administrator would install it: in a separate namespace, and with routes by way of
// the nodes' addresses, where the built-in flannel has VXLAN.
constexpr const char* kHostRoutes = R"(
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: host-routes, namespace: host-routes}
spec:
  selector: {matchLabels: {k8s-app: host-routes}}
  template:
    metadata: {labels: {k8s-app: host-routes}}
    spec:
      hostNetwork: true
      serviceAccountName: host-routes
      tolerations: [{operator: Exists}]
      initContainers:
      - name: config
        image: ghcr.io/flannel-io/flannel:v0.28.4
        command: [cp, -f, /config/cni-conf.json, /etc/cni/net.d/10-host-routes.conflist]
        volumeMounts:
        - {name: cni, mountPath: /etc/cni/net.d}
        - {name: config, mountPath: /config}
      - name: plugins
        image: ghcr.io/siderolabs/install-cni:v1.9.0
        command: [/install-cni.sh]
        volumeMounts: [{name: plugins, mountPath: /host/opt/cni/bin}]
      containers:
      - name: flannel
        image: ghcr.io/flannel-io/flannel:v0.28.4
        command: [/opt/bin/flanneld, --ip-masq, --kube-subnet-mgr, --net-config-path=/config/net-conf.json]
        securityContext: {privileged: true}
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        volumeMounts:
        - {name: run, mountPath: /run/flannel}
        - {name: config, mountPath: /config}
      volumes:
      - {name: run, hostPath: {path: /run/flannel, type: DirectoryOrCreate}}
      - {name: cni, hostPath: {path: /etc/cni/net.d}}
      - {name: plugins, hostPath: {path: /opt/cni/bin}}
      - {name: config, configMap: {name: host-routes}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: host-routes, namespace: host-routes}
data:
  cni-conf.json: '{"name": "host-routes", "cniVersion": "0.3.1", "plugins": [{"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}}]}'
  net-conf.json: '{"Network": "10.244.0.0/16", "Backend": {"Type": "host-gw"}}'
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: host-routes, namespace: host-routes}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: host-routes}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [nodes/status], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: host-routes}
roleRef: {kind: ClusterRole, name: host-routes, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: ServiceAccount, name: host-routes, namespace: host-routes}]
---
apiVersion: v1
kind: Namespace
metadata:
  name: host-routes
  labels: {pod-security.kubernetes.io/enforce: privileged}
)";

// The Lamp needs both later objects, its definition and its namespace.
constexpr const char* kLamps = R"(
apiVersion: example.com/v1
kind: Lamp
metadata: {name: desk, namespace: lamps}
bright: true
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Lamp, listKind: LampList, plural: lamps, singular: lamp}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {bright: {type: boolean}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: lamps}
)";

std::string configPatch() {
  return std::string(
             R"([{"op": "add", "path": "/cluster/network/cni", "value": {"name": "custom", "urls": [")") +
         kNetwork +
         R"("]}}, {"op": "add", "path": "/cluster/extraManifestHeaders", "value": {"X-Token": "of-the-extra"}}, )"
         R"({"op": "add", "path": "/cluster/extraManifests", "value": [")" +
         kExtra + R"("]}])";
}

std::string squeezed(const std::string& text) {
  return std::regex_replace(text, std::regex(" +"), " ");
}

// Catches: a built-in network beside a custom one, so that both assign addresses; an extra manifest
// whose server is not up yet, and which holds up the network or is never requested again; a secret
// header of the extra manifest that is sent to the network's server; objects created in the order
// of the file, so that a custom resource comes before its definition and is lost.
TEST_F(KubeHost, NetworkAndExtraManifestByUrl) {
  KubeCluster cluster("byurl", 1, 1, {"--bootstrap=false", "--config-patch", configPatch()});
  harness::Web network(cluster.segment(), kGateway, 8098), extra(cluster.segment(), kGateway, 8099);
  network.answer("", harness::Manner::kGood, kHostRoutes);  // the extra server does not answer yet:
                                                            // 404
  auto& master = cluster.nodes[0];
  cluster.talos.ok(cluster.at(master, {"bootstrap"}), 120);
  cluster.awaitSystem("host-routes", "k8s-app=host-routes");
  if (HasFailure()) return;

  auto lines = [&](const char* nameSpace) {
    return squeezed(cluster.talos.ok(
        cluster.at(master, {"get", "manifests", std::string("--namespace=") + nameSpace})));
  };
  EXPECT_THAT(lines("extras"), HasSubstr(std::string(" extras Manifest 05-") + kNetwork + " 1\n"));
  EXPECT_THAT(lines("controlplane"), AllOf(HasSubstr("11-core-dns "), Not(HasSubstr("05-"))));
  auto status = [&] {
    return cluster.talos.ok(cluster.at(master, {"get", "manifeststatus", "-o", "yaml"}));
  };
  EXPECT_TRUE(eventually(
      [&] {
        auto said = status();
        return harness::contains(said, kExtra) && harness::contains(said, "404");
      },
      60, 1))
      << status();

  cluster.apply(kWebServers);
  cluster.awaitPods("default", "app=web", 2, kPodsUp);
  if (HasFailure()) return;
  checkPodNetwork(cluster);
  EXPECT_THAT(cluster.talos.ok({"-n", cluster.nodes[1].address, "get", "links"}),
              AllOf(HasSubstr(" cni0 "), Not(HasSubstr("flannel.1"))));
  auto routes = harness::lines(cluster.talos.ok({"-n", cluster.nodes[1].address, "get", "routes"}));
  EXPECT_TRUE(std::any_of(routes.begin(), routes.end(),
                          [&](auto& line) {
                            return harness::contains(line, "10.244.") &&
                                   harness::contains(line, master.address);
                          }))
      << "no route to the pods of " << master.address;

  extra.answer("", harness::Manner::kGood, kLamps);
  harness::Result lamp;
  EXPECT_TRUE(eventually(
      [&] {
        lamp = cluster.kubectl({"-n", "lamps", "get", "lamp", "desk", "-o", "jsonpath={.bright}"});
        return lamp.out == "true";
      },
      180, 1))
      << lamp.err << status();
  EXPECT_THAT(lines("extras"), HasSubstr(std::string(" extras Manifest 99-") + kExtra + " 1\n"));
  EXPECT_THAT(status(), Not(HasSubstr("404")));
  EXPECT_THAT(extra.heard(master.address), HasSubstr("X-Token: of-the-extra\r\n"));
  EXPECT_THAT(network.heard(master.address), Not(HasSubstr("of-the-extra")));
}

}  // namespace
}  // namespace talos
