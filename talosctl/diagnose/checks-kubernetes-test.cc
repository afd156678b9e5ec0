// Tests the checks of Kubernetes, and chains from a cause to its consequences.
#include <algorithm>
#include <iterator>
#include <sstream>

#include "talosctl/diagnose/test-observations.h"

namespace talos::talosctl {

std::vector<CheckCase> kubernetesCases() {
  return {
      {"image-control-plane", "the image of kube-scheduler cannot be pulled: r/kube-scheduler:v9",
       true,
       R"(nodes: [{address: a, controlPlane: true, logs: [{id: kubelet, lines: ['E1122 pod_workers.go: "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-scheduler\" with ErrImagePull: \"rpc error: code = NotFound desc = failed to pull and unpack image \\\"r/kube-scheduler:v9\\\": r/kube-scheduler:v9: not found\""']}]}])",
       // The pod exists by now.
       R"(nodes: [{address: a, controlPlane: true, containers: [{id: 'kube-system/kube-scheduler-a:kube-scheduler', status: CONTAINER_RUNNING}], logs: [{id: kubelet, lines: ['E1122 pod_workers.go: "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-scheduler\" with ErrImagePull: \"rpc error: code = NotFound desc = failed to pull and unpack image \\\"r/kube-scheduler:v9\\\": r/kube-scheduler:v9: not found\""']}]}])"},
      {"kubelet", "an argument of machine.kubelet.extraArgs is wrong", true,
       "nodes: [{address: a, services: [{id: kubelet, state: waiting, events: [{message: Task "
       "kubelet "
       "(PID 82) exited with status 1; restarting in 3 s}]}], logs: [{id: kubelet, lines: ['Error: "
       "failed to parse kubelet flag: unknown flag: --bogus']}]}]",
       "nodes: [{address: a, services: [{id: kubelet, state: running}]}]"},
      // The kubelet exits with 0 when its config has changed; old lines and information do not
      // count.
      {"kubelet", "the kubelet keeps exiting", true,
       "nodes: [{address: a, services: [{id: kubelet, state: waiting, events: [{message: Task "
       "kubelet (PID 82) exited with status 1; restarting in 3 s}]}]}]",
       "nodes: [{address: a, services: [{id: kubelet, state: running}]}]"},
      {"kubelet", "the kubelet does not run yet", false,
       "{now: 1700000000000000000, nodes: [{address: a, services: [{id: kubelet, state: preparing, "
       "events: [{message: Task kubelet (PID 82) exited with status 0}]}], logs: [{id: kubelet, "
       "lines: ['E1114 22:03:15.000001 1 run.go:72] unknown flag: --bogus', 'I1114 22:13:15.000001 "
       "1 x.go:5] error: none']}]}]}",
       "nodes: [{address: a, services: [{id: kubelet, state: running}]}]"},
      {"kubelet", "it has been stopped", false,
       "nodes: [{address: a, services: [{id: kubelet, state: finished, events: [{message: 'Service "
       "stopped: Task kubelet (PID 82) exited with status 0'}]}]}]",
       "nodes: [{address: a, services: [{id: kubelet, state: running}]}]"},
      {"kubelet", "the kubelet is not healthy", false,
       "nodes: [{address: a, services: [{id: kubelet, state: running, health: {unknown: false, "
       "lastMessage: '127.0.0.1:10248: Connection refused'}}]}]",
       "nodes: [{address: a, services: [{id: kubelet, state: running, health: {unknown: false, "
       "healthy: "
       "true}}]}]"},
      {"static-pod-files", "missing cluster.aggregatorCA secret", false,
       "nodes: [{address: a, controlPlane: true, secretsReady: false, logs: [{id: "
       "controller-runtime, "
       "lines: ['secrets.KubernetesController: controller failed: missing cluster.aggregatorCA "
       "secret', 'k8s.NodeApplyController: controller failed: cannot connect']}]}]",
       "nodes: [{address: a, controlPlane: true, staticPods: [kube-apiserver]}]"},
      {"control-plane-pod", "kube-scheduler does not run: it has no container", false,
       "nodes: [{address: a, controlPlane: true, staticPods: [kube-apiserver, "
       "kube-controller-manager, kube-scheduler], containers: [{id: 'x:kube-apiserver', status: "
       "CONTAINER_RUNNING}, {id: 'x:kube-controller-manager', status: CONTAINER_RUNNING}]}]",
       // Its config disables the scheduler.
       "nodes: [{address: a, controlPlane: true, staticPods: [kube-apiserver, "
       "kube-controller-manager], containers: [{id: 'x:kube-apiserver', status: "
       "CONTAINER_RUNNING}, {id: 'x:kube-controller-manager', status: CONTAINER_RUNNING}]}]"},
      {"control-plane-pod", "an argument of cluster.apiServer.extraArgs is wrong", true,
       "nodes: [{address: a, controlPlane: true, containers: [{id: "
       "'kube-system/kube-apiserver-a:kube-apiserver', status: CONTAINER_EXITED}, {id: "
       "'x:kube-scheduler', "
       "status: CONTAINER_RUNNING}, {id: 'x:kube-controller-manager', status: CONTAINER_RUNNING}], "
       "logs: "
       "[{id: 'kube-system/kube-apiserver-a:kube-apiserver', lines: ['2026-11-22T10:00:00Z stderr "
       "F "
       "Error: unknown flag: --bogus']}]}]",
       "nodes: [{address: a, controlPlane: true, containers: [{id: "
       "'kube-system/kube-apiserver-a:kube-apiserver', status: CONTAINER_EXITED}, {id: "
       "'kube-system/kube-apiserver-a:kube-apiserver', status: CONTAINER_RUNNING}, {id: "
       "'x:kube-scheduler', status: CONTAINER_RUNNING}, {id: 'x:kube-controller-manager', status: "
       "CONTAINER_RUNNING}]}]"},
      {"control-plane-pod", "kube-scheduler does not run: it has no container", false,
       "nodes: [{address: a, controlPlane: true, containers: [{id: 'x:kube-apiserver', status: "
       "CONTAINER_RUNNING}, {id: 'x:kube-controller-manager', status: CONTAINER_RUNNING}]}]",
       // The containers are unknown.
       "nodes: [{address: a, controlPlane: true, unanswered: [{question: containers, error: no "
       "answer}]}]"},
      {"api-server", "no API server of Kubernetes answers", false,
       "{surveyProblem: '10.5.0.2: Kubernetes at 127.0.0.1:6443: Connection refused', nodes: "
       "[{address: a, "
       "controlPlane: true}]}",
       "{survey: {server: '10.5.0.2:6443'}, nodes: [{address: a, controlPlane: true}]}"},
      {"vip", "no node holds the shared address 10.5.0.9", true,
       "nodes: [{address: a, vips: [{address: 10.5.0.9, status: {state: idle, reason: etcd is not "
       "healthy}}]}]",
       "nodes: [{address: a, vips: [{address: 10.5.0.9, status: {state: waiting}}]}, {address: b, "
       "vips: "
       "[{address: 10.5.0.9, status: {state: holder}}]}]"},
      // A node that was not called may hold the address.
      {"vip", "no node holds the shared address 10.5.0.9", true,
       "nodes: [{address: 10.5.0.2, controlPlane: true, members: [{peerUrls: "
       "['https://10.5.0.2:2380']}], vips: [{address: 10.5.0.9, status: {state: waiting}}]}]",
       "nodes: [{address: 10.5.0.2, controlPlane: true, members: [{peerUrls: "
       "['https://10.5.0.2:2380']}, {peerUrls: ['https://10.5.0.3:2380']}], vips: [{address: "
       "10.5.0.9, status: {state: waiting}}]}]"},
      {"endpoint", "does not lead to an API server: nothing listens there", true,
       "{survey: {server: x}, nodes: [{address: a, facts: {endpoint: 'https://10.5.0.77:6443'}, "
       "kubelet: "
       "{nodename: m-1}, logs: [{id: kubelet, lines: ['dial tcp 10.5.0.77:6443: connect: "
       "connection "
       "refused']}]}]}",
       // The node's kubelet reports by now.
       "{survey: {nodes: [{name: m-1, ready: true}]}, nodes: [{address: a, facts: {endpoint: "
       "'https://10.5.0.77:6443'}, kubelet: {nodename: m-1}, logs: [{id: kubelet, lines: ['dial "
       "tcp "
       "10.5.0.77:6443: connect: connection refused']}]}]}"},
      // An old line, from the time when the API server started.
      {"endpoint", "nothing listens there", true,
       "{now: 1700000000000000000, survey: {server: x}, nodes: [{address: a, facts: {endpoint: "
       "'https://10.5.0.77:6443'}, logs: [{id: kubelet, lines: ['E1114 22:13:15.000001 1 x.go:1] "
       "dial tcp "
       "10.5.0.77:6443: connect: connection refused']}]}]}",
       "{now: 1700000000000000000, survey: {server: x}, nodes: [{address: a, facts: {endpoint: "
       "'https://10.5.0.77:6443'}, logs: [{id: kubelet, lines: ['E1114 22:03:15.000001 1 x.go:1] "
       "dial tcp "
       "10.5.0.77:6443: connect: connection refused']}]}]}"},
      {"endpoint", "answers with another CA", true,
       "nodes: [{address: a, facts: {endpoint: 'https://10.5.0.77:6443'}, logs: [{id: kubelet, "
       "lines: "
       "['Get \"https://10.5.0.77:6443/api\": tls: failed to verify certificate: x509: certificate "
       "signed "
       "by unknown authority']}]}]",
       "nodes: [{address: a, facts: {endpoint: 'https://10.5.0.77:6443'}, logs: [{id: kubelet, "
       "lines: "
       "['Get \"https://10.5.0.78:5000/v2\": x509: certificate signed by unknown authority']}]}]"},
      {"node-registration", "refuses the bootstrap token", true,
       "{survey: {nodes: [{name: m-1}]}, nodes: [{address: b, kubelet: {nodename: w-1}, logs: "
       "[{id: "
       "kubelet, lines: ['failed to run Kubelet: unable to load bootstrap kubeconfig: "
       "Unauthorized']}]}]}",
       "{survey: {nodes: [{name: w-1}]}, nodes: [{address: b, kubelet: {nodename: w-1}}]}"},
      // A node without a certificate has no kubelet log: kubed requests the certificate.
      {"endpoint", "does not lead to an API server: nothing listens there", true,
       "{survey: {server: x}, nodes: [{address: a, facts: {endpoint: 'https://10.5.0.77:6443'}, "
       "services: [{id: kubelet, state: preparing, events: [{message: 'Waiting for its "
       "certificate: "
       "Kubernetes at 10.5.0.77:6443: cannot connect: Connection refused'}]}]}]}",
       "{survey: {server: x}, nodes: [{address: a, facts: {endpoint: 'https://10.5.0.77:6443'}, "
       "services: [{id: kubelet, state: preparing, events: [{message: 'Waiting for its "
       "certificate: "
       "the request node-csr-1 is not approved yet'}]}]}]}"},
      {"node-registration", "refuses the bootstrap token", true,
       "{now: 1700000000000000000, survey: {nodes: [{name: m-1}]}, nodes: [{address: b, kubelet: "
       "{nodename: w-1}, services: [{id: kubelet, state: preparing, events: [{time: "
       "1699999980000000000, "
       "message: 'Waiting for its certificate: Kubernetes at x:6443 does not know the bootstrap "
       "token "
       "yet'}]}]}]}",
       "{survey: {nodes: [{name: w-1}]}, nodes: [{address: b, kubelet: {nodename: w-1}}]}"},
      // The token may be on its way to the API server.
      {"node-registration", "refuses the bootstrap token", false,
       "{now: 1700000000000000000, survey: {nodes: [{name: m-1}]}, nodes: [{address: b, kubelet: "
       "{nodename: w-1}, services: [{id: kubelet, state: preparing, events: [{time: "
       "1699999995000000000, "
       "message: 'Waiting for its certificate: Kubernetes at x:6443 does not know the bootstrap "
       "token "
       "yet'}]}]}]}",
       "{survey: {nodes: [{name: w-1}]}, nodes: [{address: b, kubelet: {nodename: w-1}}]}"},
      {"kubelet", "the kubelet does not run yet", false,
       "nodes: [{address: a, services: [{id: kubelet, state: preparing, events: [{message: "
       "'Waiting for its certificate: waiting for the bootstrap token'}]}]}]",
       // The check of the endpoint reports it.
       "nodes: [{address: a, services: [{id: kubelet, state: preparing, events: [{message: "
       "'Waiting for its certificate: Kubernetes at x:6443: cannot connect: Connection "
       "refused'}]}]}]"},
      {"manifest",
       "the manifest https://e.example/cni.yaml cannot be fetched: the server answered 404", true,
       "nodes: [{address: a, manifests: {message: 'applied; cannot read the manifest "
       "https://e.example/cni.yaml: the server answered 404 Not Found'}}]",
       "nodes: [{address: a, manifests: {message: applied}}]"},
      {"manifest", "the inline manifest broken cannot be read", true,
       "nodes: [{address: a, manifests: {message: 'applied; cannot read the manifest broken: 1:3: "
       "a key is "
       "missing; cannot read the manifest https://e.example/b.yaml: no answer within 60s'}}]",
       "nodes: [{address: a, manifests: {message: waiting for etcd}}]"},
      {"manifest", "not all manifests of the cluster are applied", false,
       "nodes: [{address: a, manifests: {message: 'applied; cannot store the manifest big: it is "
       "too "
       "large'}}]",
       "nodes: [{address: a, manifests: {message: 'Kubernetes at 127.0.0.1:6443: cannot connect: "
       "Connection refused'}}]"},
      {"image-pod", "an image of the pod default/web cannot be pulled", true,
       "survey: {pods: [{namespace: default, name: web, phase: Pending, reason: ImagePullBackOff, "
       "message: "
       "'Back-off pulling image \"nosuch:v1\"', container: web}]}",
       "survey: {pods: [{namespace: default, name: web, phase: Running, ready: true}]}"},
      // Only the container is reported as not ready so far.
      {"image-pod", "an image of the pod default/web cannot be pulled", true,
       "survey: {pods: [{namespace: default, name: web, phase: Pending, reason: "
       "ContainersNotReady}], warnings: [{object: Pod default/web, reason: Failed, message: "
       "'Failed to pull image \"nosuch:v1\": not found'}]}",
       "survey: {pods: [{namespace: default, name: web, phase: Pending, reason: "
       "ContainersNotReady}], warnings: [{object: Pod default/web, reason: Unhealthy, message: "
       "'Readiness probe failed'}]}"},
      // The pod's first pull failed and the next one succeeded; its program exits again and again.
      {"pod", "the pod default/web is not ready: CrashLoopBackOff", true,
       "survey: {pods: [{namespace: default, name: web, phase: Running, reason: "
       "CrashLoopBackOff}], warnings: [{object: Pod default/web, reason: Failed, message: "
       "'Failed to pull image \"web:v1\": no answer'}]}",
       "survey: {pods: [{namespace: default, name: web, phase: Running, ready: true}], warnings: "
       "[{object: Pod default/web, reason: Failed, message: 'Failed to pull image'}]}"},
      {"pod", "the pod default/web is not ready: ContainersNotReady", true,
       "survey: {pods: [{namespace: default, name: web, phase: Running, reason: "
       "ContainersNotReady}], warnings: [{object: Pod default/web, reason: Failed, message: "
       "'Failed to pull image \"web:v1\": no answer'}]}",
       "survey: {pods: [{namespace: default, name: web, phase: Running, ready: true}]}"},
      {"cni", "cluster.network.cni.name is none", true,
       "{survey: {nodes: [{name: m-1, reason: KubeletNotReady, message: 'container runtime network "
       "not "
       "ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns "
       "error: cni "
       "plugin not initialized'}]}, nodes: [{address: a, facts: {cni: none}, kubelet: {nodename: "
       "m-1}}]}",
       "{survey: {nodes: [{name: m-1, reason: KubeletNotReady, message: PLEG is not healthy}]}, "
       "nodes: "
       "[{address: a, facts: {cni: none}}]}"},
      {"cni", "the network plugin (CNI) of cluster.network.cni.urls does not run", false,
       "{survey: {nodes: [{name: m-1, message: cni plugin not initialized}]}, nodes: [{address: a, "
       "facts: "
       "{cni: custom}}]}",
       "{survey: {nodes: [{name: m-1, ready: true}]}, nodes: [{address: a, facts: {cni: "
       "custom}}]}"},
      // flannel was deleted; the fault is not reported while the manifests are being applied.
      {"cni", "flannel is gone", true,
       "{survey: {nodes: [{name: m-1, ready: true}], workloads: []}, nodes: [{address: a, facts: "
       "{cni: flannel}, manifests: {message: applied}}]}",
       "{survey: {nodes: [{name: m-1, ready: true}], workloads: []}, nodes: [{address: a, facts: "
       "{cni: flannel}, manifests: {message: 'waiting for etcd'}}]}"},
      {"node-pressure", "DiskPressure", true,
       "survey: {nodes: [{name: m-1, ready: true, pressures: ['DiskPressure: kubelet has disk "
       "pressure']}]}",
       "survey: {nodes: [{name: m-1, ready: true}]}"},
      {"node-ready", "its kubelet has stopped reporting", true,
       "survey: {nodes: [{name: w-1, reason: NodeStatusUnknown, message: Kubelet stopped posting "
       "node "
       "status., since: 1700000000}]}",
       "survey: {nodes: [{name: w-1, ready: true}]}"},
      {"node-cordoned", "is cordoned", true,
       "survey: {nodes: [{name: w-1, ready: true, unschedulable: true}]}",
       "survey: {nodes: [{name: w-1, ready: true}]}"},
      {"workload", "pods of Deployment kube-system/x cannot be created", true,
       "survey: {workloads: [{kind: Deployment, name: x, desired: 1, message: 'FailedCreate: "
       "exceeded "
       "quota'}]}",
       "survey: {workloads: [{kind: Deployment, name: x, desired: 1, message: does not have "
       "minimum "
       "availability}]}"},
      // The event of the ReplicaSet counts as long as its pods are missing.
      {"workload", "a webhook refuses them, or does not answer", true,
       "{now: 1700000000000000000, survey: {workloads: [{kind: Deployment, name: coredns, desired: "
       "1}], warnings: [{time: 1699999990, object: ReplicaSet kube-system/coredns-78, reason: "
       "FailedCreate, message: 'failed calling webhook \"a.example\"'}]}}",
       "{now: 1700000000000000000, survey: {workloads: [{kind: Deployment, name: coredns, desired: "
       "1}], warnings: [{time: 1699999990, object: ReplicaSet kube-system/coredns-78, reason: "
       "FailedCreate, message: 'failed calling webhook \"a.example\"'}], pods: [{namespace: "
       "kube-system, name: coredns-78-x, owner: ReplicaSet/coredns-78}]}}"},
      {"kube-proxy", "kube-proxy is gone", true,
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: a, facts: {cni: flannel}, "
       "manifests: {message: applied}}]}",
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: a}]}"},
      // Without a config it is unknown if kube-proxy is disabled; another proxy may replace it.
      {"kube-proxy", "kube-proxy is gone", true,
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: a, facts: {cni: flannel}, "
       "manifests: {message: applied}}]}",
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: a, manifests: {message: "
       "applied}}]}"},
      {"kube-proxy", "kube-proxy is gone", true,
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: a, facts: {cni: flannel}, "
       "manifests: {message: applied}}]}",
       "{survey: {nodes: [{name: w-1, ready: true}], pods: [{namespace: kube-system, name: "
       "cilium-x}]}, nodes: [{address: a, facts: {cni: flannel}, manifests: {message: applied}}]}"},
      {"cni", "flannel is gone", true,
       "{survey: {nodes: [{name: m-1, ready: true}], workloads: []}, nodes: [{address: a, facts: "
       "{cni: flannel}, manifests: {message: applied}}]}",
       "{survey: {nodes: [{name: m-1, ready: true}], workloads: [{kind: DaemonSet, name: "
       "calico-node}]}, nodes: [{address: a, facts: {cni: flannel}, manifests: {message: "
       "applied}}]}"},
      {"core-dns", "CoreDNS is gone", true,
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: a, manifests: {message: "
       "applied}}]}",
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: a}]}"},
      {"core-dns", "CoreDNS is scaled to 0", true,
       "survey: {workloads: [{kind: Deployment, name: coredns, app: kube-dns}]}",
       "survey: {workloads: [{kind: Deployment, name: coredns, app: kube-dns, desired: 1, ready: "
       "1}]}"},
      // The pod may only need a moment.
      {"pod", "the pod default/web is not ready", false,
       "survey: {pods: [{namespace: default, name: web, reason: ContainerCreating}]}",
       "survey: {pods: [{namespace: default, name: web, ready: true}]}"},
      {"pod", "is not ready: Error", false,
       "survey: {pods: [{namespace: kube-system, name: kube-scheduler-a, mirror: true, reason: "
       "Error}]}",
       "survey: {pods: [{namespace: kube-system, name: kube-scheduler-a, ready: true}]}"},
      {"pod", "secret nosuch not found", true,
       "survey: {pods: [{namespace: default, name: web, reason: ContainerCreating}], warnings: "
       "[{object: Pod default/web, reason: FailedMount, message: secret nosuch not found}]}",
       "survey: {pods: [{namespace: default, name: web, ready: true}]}"},
      {"kube-proxy", "kube-proxy of w-1 does not run", true,
       "survey: {nodes: [{name: w-1, ready: true}], workloads: [{kind: DaemonSet, name: "
       "kube-proxy, app: "
       "kube-proxy, desired: 1}], pods: [{namespace: kube-system, name: kube-proxy-x, app: "
       "kube-proxy, "
       "node: w-1, phase: Running, reason: CrashLoopBackOff, message: exit status 1}]}",
       "survey: {nodes: [{name: w-1, ready: true}], workloads: [{kind: DaemonSet, name: "
       "kube-proxy, app: "
       "kube-proxy, desired: 1, ready: 1}]}"},
      {"kube-proxy", "there is no kube-proxy", false,
       "{survey: {nodes: [{name: w-1, ready: true}], workloads: []}, nodes: [{address: a, facts: "
       "{proxyDisabled: true}}]}",
       "{survey: {nodes: [{name: w-1, ready: true}], workloads: [{kind: DaemonSet, name: "
       "cilium}]}, nodes: "
       "[{address: a, facts: {proxyDisabled: true}}]}"},
      {"core-dns", "because of taints", true,
       "survey: {nodes: [{name: w-1, ready: true, taints: ['special=true:NoSchedule']}], "
       "workloads: "
       "[{kind: Deployment, name: coredns, app: kube-dns, desired: 2}], pods: [{namespace: "
       "kube-system, "
       "name: coredns-1, app: kube-dns, phase: Pending, reason: Unschedulable, message: '0/1 nodes "
       "are "
       "available: 1 node(s) had untolerated taint {special: true}'}]}",
       "survey: {workloads: [{kind: Deployment, name: coredns, app: kube-dns, desired: 2, ready: "
       "2}]}"},
      {"pod", "the pod default/web is not ready: CrashLoopBackOff", true,
       "survey: {pods: [{namespace: default, name: web, phase: Running, reason: CrashLoopBackOff, "
       "message: "
       "exited with status 3, container: web}]}",
       "survey: {pods: [{namespace: default, name: web, phase: Succeeded}]}"},
  };
}

namespace {

// One manifest that cannot be fetched, and all its consequences.
TEST(Causes, AManifestThatIsNotThereIsTheCauseOfAll) {
  Diagnosed all(R"(
survey:
    nodes:
        - {name: m-1, addresses: [10.5.0.2], reason: KubeletNotReady, message: cni plugin not initialized}
    workloads: [{kind: DaemonSet, name: kube-proxy, app: kube-proxy}, {kind: Deployment, name: coredns, app: kube-dns, desired: 2}]
    pods:
        - {namespace: kube-system, name: coredns-1, app: kube-dns, phase: Pending, reason: Unschedulable, message: "0/1 nodes are available: untolerated taint {node.kubernetes.io/not-ready}"}
nodes:
    - address: 10.5.0.2
      controlPlane: true
      facts: {cni: custom}
      manifests: {message: "applied; cannot read the manifest https://e.example/cni.yaml: the server answered 404 Not Found"}
      containers: [{id: "x:kube-apiserver", status: CONTAINER_RUNNING}, {id: "x:kube-scheduler", status: CONTAINER_RUNNING}, {id: "x:kube-controller-manager", status: CONTAINER_RUNNING}]
)");
  EXPECT_THAT(all.causes(), testing::ElementsAre("manifest")) << all.text();
  EXPECT_EQ(all.chain("core-dns"), "manifest > cni > node-ready > core-dns") << all.text();
}

// A registry that refuses connections is one cause, with any number of consequences.
TEST(Causes, ARegistryThatIsDown) {
  Diagnosed all(R"(
surveyProblem: "10.5.0.2: Kubernetes at 127.0.0.1:6443: Connection refused"
nodes:
    - address: 10.5.0.2
      controlPlane: true
      services:
        - {id: kubelet, state: preparing, events: [{message: "cannot pull \"10.5.0.1:5000/kubelet:v1\": dial tcp 10.5.0.1:5000: connect: connection refused; retrying in 5 s"}]}
      containers: []
)");
  EXPECT_THAT(all.causes(), testing::ElementsAre("registry")) << all.text();
  EXPECT_EQ(all.chain("kubelet"), "registry > image-kubelet > kubelet");
  EXPECT_EQ(all.chain("api-server"),
            "registry > image-kubelet > kubelet > control-plane-pod > api-server");
}

// Two of three members are down with their nodes: the nodes are the causes.
TEST(Causes, NodesThatAreDownTakeTheQuorumWithThem) {
  Diagnosed all(R"(
nodes:
    - address: 10.5.0.2
      controlPlane: true
      quorum: false
      etcd: {phase: member, message: no quorum}
      staticPods: [kube-apiserver]
      services: [{id: etcd, state: running, health: {unknown: false, lastMessage: no answer within 5s}}]
      members:
        - {name: m-1}
        - {name: m-2, peerUrls: ["https://10.5.0.3:2380"], problem: no answer within 2 s}
        - {name: m-3, peerUrls: ["https://10.5.0.4:2380"], problem: no answer within 2 s}
      containers: [{id: "x:kube-apiserver", status: CONTAINER_RUNNING}, {id: "x:kube-scheduler", status: CONTAINER_RUNNING}, {id: "x:kube-controller-manager", status: CONTAINER_RUNNING}]
    - {address: 10.5.0.3, controlPlane: true, reach: silent, error: no answer within 10s}
    - {address: 10.5.0.4, controlPlane: true, reach: silent, error: no answer within 10s}
)");
  EXPECT_THAT(all.causes(), testing::ElementsAre("node-down")) << all.text();
  EXPECT_THAT(all.chain("etcd"), testing::HasSubstr("etcd-quorum > etcd"));
  // The diagnosis lists gaps.
  EXPECT_THAT(all.text(), testing::HasSubstr("not checked on 10.5.0.3: "));
}

// The same problem on several nodes is one cause with one remedy, and so is its consequence.
TEST(Causes, NodesWithOneProblemAreNamedTogether) {
  Diagnosed all(R"(
nodes:
    - {address: 10.5.0.2, time: {problem: no answer}, services: [{id: timed, state: waiting}]}
    - {address: 10.5.0.3, time: {synced: true}}
    - {address: 10.5.0.4, time: {problem: no answer}, services: [{id: timed, state: waiting}]}
)");
  EXPECT_THAT(all.text(),
              testing::HasSubstr("1. 10.5.0.2, 10.5.0.4: the clock is not synchronised"));
  EXPECT_THAT(all.text(), testing::HasSubstr("talosctl -n 10.5.0.2,10.5.0.4 patch machineconfig"));
  EXPECT_THAT(all.text(), testing::HasSubstr("leads to: 10.5.0.2, 10.5.0.4: the service timed is"));
  EXPECT_EQ(all.causes().size(), 1u) << all.text();
}

TEST(Causes, TwoThatHaveNothingToDoWithEachOtherStayTwo) {
  Diagnosed all(R"(
survey:
    nodes:
        - {name: w-1, addresses: [10.5.0.3], ready: true, unschedulable: true}
nodes:
    - address: 10.5.0.2
      hostname: m-1
      time: {problem: "10.5.0.1: no answer within 1000 ms"}
    - {address: 10.5.0.3, hostname: w-1, time: {synced: true}}
)");
  EXPECT_THAT(all.causes(), testing::ElementsAre("time-sync", "node-cordoned")) << all.text();
}

// Catches: two independent human errors at the same time, shown as a cause and its consequence.
TEST(Causes, WhatSomebodyDidIsACauseOfItsOwn) {
  Diagnosed all(R"(
survey:
    nodes:
        - {name: m-1, addresses: [10.5.0.2], ready: true, unschedulable: true}
    workloads: [{kind: DaemonSet, name: kube-flannel, app: flannel}, {kind: DaemonSet, name: kube-proxy, app: kube-proxy}]
nodes:
    - {address: 10.5.0.2, controlPlane: true, facts: {cni: flannel}, manifests: {message: applied}, containers: [{id: "x:kube-apiserver", status: CONTAINER_RUNNING}, {id: "x:kube-scheduler", status: CONTAINER_RUNNING}, {id: "x:kube-controller-manager", status: CONTAINER_RUNNING}]}
)");
  EXPECT_THAT(all.causes(), testing::ElementsAre("node-cordoned", "core-dns")) << all.text();
}

std::string withPods(kj::StringPtr pods) {
  return kj::str(R"(
survey:
    nodes:
        - {name: m-1, addresses: [10.5.0.2], ready: true, unschedulable: true}
    workloads: [{kind: DaemonSet, name: kube-flannel, app: flannel}, {kind: DaemonSet, name: kube-proxy, app: kube-proxy}, {kind: Deployment, name: coredns, app: kube-dns, desired: 1}]
    pods: [)",
                 pods, R"(]
nodes:
    - {address: 10.5.0.2, hostname: m-1, controlPlane: true, facts: {cni: flannel}, manifests: {message: applied}, containers: [{id: "x:kube-apiserver", status: CONTAINER_RUNNING}, {id: "x:kube-scheduler", status: CONTAINER_RUNNING}, {id: "x:kube-controller-manager", status: CONTAINER_RUNNING}]}
)")
      .cStr();
}

// Catches: a CoreDNS that crashes, attributed to a cordoned node, and the reverse; a bare pod
// attributed to CoreDNS although it reports no error of names.
TEST(Causes, ALinkHasEvidence) {
  constexpr kj::StringPtr kCrash =
      "{namespace: kube-system, name: coredns-1, app: kube-dns, node: m-1, phase: Running, reason: "
      "CrashLoopBackOff, container: coredns}"_kj;
  Diagnosed crash(withPods(kCrash).c_str());
  EXPECT_THAT(crash.causes(), testing::ElementsAre("node-cordoned", "core-dns")) << crash.text();
  Diagnosed unscheduled(
      withPods("{namespace: kube-system, name: coredns-1, app: kube-dns, phase: "
               "Pending, reason: Unschedulable, message: '0/1 nodes are available: "
               "1 node(s) were unschedulable'}")
          .c_str());
  EXPECT_EQ(unscheduled.chain("core-dns"), "node-cordoned > core-dns") << unscheduled.text();

  Diagnosed pending(
      withPods("{namespace: default, name: web, phase: Pending, reason: Unschedulable, "
               "message: '0/1 nodes are available: 1 node(s) were unschedulable'}")
          .c_str());
  EXPECT_EQ(pending.chain("pod"), "node-cordoned > pod") << pending.text();

  auto bare = [&](kj::StringPtr message) {
    return Diagnosed(
               withPods(kj::str(kCrash,
                                ", {namespace: default, name: web, node: m-1, phase: Running, "
                                "reason: CrashLoopBackOff, container: web, message: '",
                                message, "'}"))
                   .c_str())
        .chain("pod");
  };
  EXPECT_EQ(bare("exit status 3"), "pod");
  EXPECT_EQ(bare("lookup db on 10.96.0.10:53: no such host"), "core-dns > pod");
}

// Catches: a cloud driver that does not start, without a hint that its node refuses it the metadata
// service; the same hint for pods whose node refuses nothing.
TEST(Causes, APodThatNeedsTheMetadataService) {
  auto withBlock = [](kj::StringPtr block) {
    return Diagnosed(kj::str("{survey: {pods: [{namespace: kube-system, name: csi-1, node: m-1, "
                             "phase: Running, reason: CrashLoopBackOff, container: csi}]}, nodes: "
                             "[{address: 10.5.0.2, hostname: m-1, metadataBlock: {",
                             block, "}}]}"))
        .text();
  };
  EXPECT_THAT(withBlock("addresses: [169.254.169.254], dropped: 12"),
              testing::AllOf(
                  testing::HasSubstr("talosctl -n 10.5.0.2 get metadatablockstatus"),
                  testing::HasSubstr("12 packets of pods to the metadata service of the platform "
                                     "were dropped; machine.features.podMetadataAccess permits")));
  EXPECT_THAT(withBlock("addresses: [169.254.169.254]"),
              testing::AllOf(testing::HasSubstr("csi-1 is not ready"),
                             testing::Not(testing::HasSubstr("metadata"))));
}

// Catches: an operator who is told to edit a pod whose registry is down, or to repair a registry
// that only lacks an image.
TEST(Causes, ADeadMirrorIsNamed) {
  auto pull = [](kj::StringPtr error) {
    return Diagnosed(
               kj::str(
                   R"({survey: {nodes: [{name: w-1, addresses: [10.5.0.3], ready: true}], pods: [{namespace: default, name: web, node: w-1, phase: Pending, reason: ImagePullBackOff, container: web, message: 'Back-off pulling image "r.example/web:v1"'}], warnings: [{object: Pod default/web, reason: Failed, message: 'Failed to pull image "r.example/web:v1": failed to pull and unpack image "r.example/web:v1": failed to resolve reference "r.example/web:v1": )",
                   error, R"('}]}, nodes: [{address: 10.5.0.3, hostname: w-1}]})"))
        .text();
  };
  EXPECT_THAT(
      pull("failed to do request: Head \"http://10.5.0.1:5000/v2/web/manifests/v1\": dial tcp "
           "10.5.0.1:5000: connect: connection refused"),
      testing::AllOf(testing::HasSubstr("no image of the pod default/web can be pulled from "
                                        "10.5.0.1:5000: nothing listens there"),
                     testing::HasSubstr("talosctl -n 10.5.0.3 image pull r.example/web:v1"),
                     testing::Not(testing::HasSubstr("kubectl -n default edit"))));
  EXPECT_THAT(
      pull("failed to do request: Head \"http://10.5.0.1:5000/v2/web/manifests/v1?ns=r\": read "
           "tcp 10.5.0.3:44480->10.5.0.1:5000: read: connection reset by peer"),
      testing::HasSubstr("can be pulled from 10.5.0.1:5000: it closes each connection"));
  EXPECT_THAT(pull("r.example/web:v1: not found"), testing::HasSubstr("kubectl -n default edit"));
}

// Catches: a remedy for the node that had the name first; certainty without a reason.
TEST(Causes, OfTwoNodesWithOneNameTheNewOneIsRenamed) {
  constexpr kj::StringPtr kMembers =
      ", members: [{name: m-1, peerUrls: ['https://10.5.0.3:2380']}]"_kj;
  auto remedy = [](kj::StringPtr members) {
    Diagnosed all(
        kj::str("nodes: [{address: 10.5.0.2, hostname: m-1}, {address: 10.5.0.3, hostname: "
                "m-1",
                members, "}]"));
    return std::string(KJ_ASSERT_NONNULL(all.find("hostname-duplicate")).getCommand().cStr());
  };
  EXPECT_THAT(remedy(kMembers), testing::StartsWith("talosctl -n 10.5.0.2 patch"));
  EXPECT_THAT(remedy(", members: [{name: m-1, peerUrls: ['https://10.5.0.2:2380']}]"),
              testing::StartsWith("talosctl -n 10.5.0.3 patch"));
  EXPECT_THAT(remedy(""),
              testing::StartsWith("rename the one that got the name later: talosctl -n "));
}

TEST(Causes, NothingWrongIsSaidAfterAllChecksOnly) {
  Diagnosed all("{survey: {server: x}, nodes: [{address: 10.5.0.2}]}");
  EXPECT_THAT(all.text(),
              testing::MatchesRegex("nothing wrong found by [0-9]+ checks of 1 node\n"));
  Diagnosed some(
      "{survey: {server: x}, nodes: [{address: 10.5.0.2, unanswered: [{question: disks, error: no "
      "answer "
      "within 10s}]}]}");
  EXPECT_THAT(some.text(),
              testing::HasSubstr("not checked on 10.5.0.2: volume, disk-full (no answer"));
  EXPECT_THAT(some.text(), testing::HasSubstr("of which some were not made"));
}

// Catches: words that a terminal breaks, and a command that cannot be copied.
TEST(Causes, LinesOfATerminalEndAtWords) {
  Diagnosed all("nodes: [{address: 10.5.0.2, hostname: m-1}, {address: 10.5.0.3, hostname: m-1}]");
  auto whole = all.text();
  auto text = std::string(diagnosisText(all.get(), 60).cStr());
  std::istringstream lines(text);
  std::string joined;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("remedy:") == std::string::npos) EXPECT_LE(line.size(), 60u) << line;
    joined += line + " ";
  }
  auto words = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  EXPECT_EQ(words(joined), words(whole));
  EXPECT_GT(std::count(text.begin(), text.end(), '\n'),
            std::count(whole.begin(), whole.end(), '\n'));
  auto remedy = [](const std::string& text) {
    auto at = text.find("remedy:");
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(remedy(text), remedy(whole));
}

// Catches: control characters of a node on the user's terminal.
TEST(Causes, EvidenceIsPrintedHarmlessly) {
  Diagnosed all("nodes: [{address: a, status: {stage: failed, problems: [\"a\\u001b[2Jb\"]}}]");
  EXPECT_THAT(all.text(), testing::Not(testing::HasSubstr("\x1b")));
  EXPECT_THAT(all.text(), testing::HasSubstr("remedy:   talosctl -n a logs machined"));
}

}  // namespace
}  // namespace talos::talosctl
