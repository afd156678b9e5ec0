// Tests the remedies for etcd, the control plane and Kubernetes (remedies-test.cc has the rest),
// and that a cluster that has lost its etcd is never bootstrapped.
#include "talosctl/diagnose/test-remedies.h"

namespace talos::talosctl {
namespace {

// A control-plane node that waits for a cluster; `more` are fields of it.
std::string waiting(const std::string& address, const std::string& more = "pastRead: true") {
  return "{address: " + address + ", controlPlane: true, " + more +
         ", etcd: {phase: waiting, message: 'waiting for a cluster: run talosctl bootstrap on one "
         "control-plane node, unless that was done'}}";
}
std::string past(const std::string& hosts) {
  return "pastRead: true, pastControlPlane: [" + hosts + "]";
}
std::string nodes(const std::string& list) {
  return "nodes: [" + list + "]";
}
// A node whose etcd reports this phase and message.
std::string member(const std::string& phase, const std::string& message) {
  return nodes("{address: n, controlPlane: true, etcd: {phase: " + phase + ", message: '" +
               message + "'}}");
}
std::string logs(const std::string& id, const std::string& line) {
  return ", logs: [{id: " + id + ", lines: ['" + line + "']}]";
}
std::string etcd(const std::string& state, const std::string& event, const std::string& line) {
  return nodes("{address: n, controlPlane: true, services: [{id: etcd, state: " + state +
               ", events: [{message: '" + event + "'}]}]" + logs("etcd", line) + "}");
}
std::string kubelet(const std::string& state, const std::string& event,
                    const std::string& line = "") {
  return nodes("{address: n, services: [{id: kubelet, state: " + state + ", events: [{message: '" +
               event + "'}]}]" + logs("kubelet", line) + "}");
}
// An endpoint that the kubelet cannot call.
std::string endpoint(const std::string& line) {
  return "{survey: {server: x}, nodes: [{address: n, facts: {endpoint: 'https://cp.example:6443'}" +
         logs("kubelet", line) + "}]}";
}
// A kubelet that waits for its certificate while the node is not in Kubernetes.
std::string registration(const std::string& message) {
  return "{now: 1700000000000000000, survey: {nodes: [{name: m-1}]}, nodes: [{address: n, kubelet: "
         "{nodename: "
         "w-1}, services: [{id: kubelet, state: preparing, events: [{time: 1699999980000000000, "
         "message: "
         "'Waiting for its certificate: " +
         message + "'}]}]}]}";
}
std::string apiServer(const std::string& status, const std::string& log) {
  return nodes(
      "{address: n, controlPlane: true, containers: [{id: 'k/kube-apiserver-n:kube-apiserver', "
      "status: " +
      status +
      "}, {id: 'x:kube-scheduler', status: CONTAINER_RUNNING}, {id: 'x:kube-controller-manager', "
      "status: CONTAINER_RUNNING}]" +
      logs("k/kube-apiserver-n:kube-apiserver", log) + "}");
}
std::string manifest(const std::string& message) {
  return nodes("{address: n, controlPlane: true, manifests: {message: '" + message + "'}}");
}
std::string pod(const std::string& fields, const std::string& more = "") {
  return "{survey: {nodes: [{name: w-1, addresses: [n], ready: true}], pods: [{namespace: default, "
         "name: web, " +
         fields + "}]" + more + "}, nodes: [{address: n, hostname: w-1}]}";
}
std::string pulls(const std::string& error) {
  return pod(
      "node: w-1, phase: Pending, reason: ErrImagePull, owner: ReplicaSet/web, container: web",
      ", warnings: [{object: Pod default/web, reason: Failed, message: 'Failed to pull image "
      "\"r.example/web:v1\": failed to pull and unpack image \"r.example/web:v1\": " +
          error + "'}]");
}
std::string unready(const std::string& cni) {
  return "{survey: {nodes: [{name: m-1, message: cni plugin not initialized}], workloads: [" +
         std::string(cni == "flannel" ? "{kind: DaemonSet, name: kube-flannel, app: flannel}"
                                      : "") +
         "]}, nodes: [{address: n, facts: {cni: " + (cni == "missing" ? "flannel" : cni) + "}}]}";
}
std::string dns(const std::string& workload, const std::string& coredns) {
  return "survey: {nodes: [{name: w-1, ready: true}], workloads: [{kind: Deployment, name: "
         "coredns, app: "
         "kube-dns, " +
         workload + "}], pods: [{namespace: kube-system, name: coredns-1, app: kube-dns, " +
         coredns + "}]}";
}
std::string kubeProxy(const std::string& state) {
  return "survey: {nodes: [{name: w-1, ready: true}], workloads: [{kind: DaemonSet, name: "
         "kube-proxy, app: "
         "kube-proxy, desired: 1}], pods: [{namespace: kube-system, name: kube-proxy-x, app: "
         "kube-proxy, node: "
         "w-1, " +
         state + "}]}";
}

}  // namespace

std::vector<RemedyCase> etcdRemedies() {
  return {
      {"etcd-bootstrap", nodes(waiting("n")), "etcd has not been bootstrapped",
       "talosctl -n n bootstrap    # of a new cluster only"},
      {"etcd-bootstrap", nodes(waiting("10.5.0.2", past("10.5.0.2, 10.5.0.3"))),
       "the control-plane nodes that may have it do not answer",
       "start 10.5.0.3: 10.5.0.2 joins by itself; if their data is lost: talosctl -n "
       "10.5.0.2,10.5.0.3 "
       "cluster recover <snapshot>"},
      {"etcd-bootstrap", nodes(waiting("10.5.0.2", past("10.5.0.2, m-1"))),
       "no control-plane node has the data of etcd any more",
       "talosctl -n 10.5.0.2 cluster recover <snapshot>"},
      // A node without a list on STATE; a worker that is in the cluster.
      {"etcd-bootstrap",
       nodes(waiting("10.5.0.2") +
             ", {address: 10.5.0.3, services: [{id: kubelet, state: running}]}"),
       "a cluster has run here", "talosctl -n 10.5.0.2 cluster recover <snapshot>"},
      {"etcd-certificate",
       nodes("{address: n, etcd: {phase: member, message: certificate has expired}}"),
       "a certificate of etcd has expired", "talosctl -n n service etcd restart"},
      {"etcd-certificate",
       nodes("{address: a, controlPlane: true, members: [{name: m-2, peerUrls: ['https://n:2380'], "
             "problem: "
             "certificate has expired}]}"),
       "the certificate of the etcd member m-2", "talosctl -n n service etcd restart"},
      {"etcd-member",
       nodes("{address: a, controlPlane: true, quorum: true, members: [{name: m-2, peerUrls: "
             "['https://n:2380'], problem: no answer}]}"),
       "the member m-2 of etcd does not answer", "start the node"},
      {"etcd-member",
       nodes("{address: a, controlPlane: true, members: [{name: m-2, peerUrls: ['https://n:2380'], "
             "problem: no "
             "answer}]}, {address: n, controlPlane: true}"),
       "does not answer, although its node does", "talosctl -n n service etcd restart"},
      {"etcd-quorum",
       nodes("{address: a, controlPlane: true, quorum: false, members: [{name: m-1}, {name: m-2, "
             "problem: x}]}"),
       "etcd has no quorum",
       "if their data is lost: talosctl -n <all control-plane nodes> cluster recover"},
      {"etcd-quorum",
       nodes("{address: a, controlPlane: true, quorum: false, members: [{name: m-1, local: true, "
             "peerUrls: ['https://a:2380']}, {name: m-2, peerUrls: ['https://n:2380'], problem: "
             "x}]}, " +
             waiting("n")),
       "cannot get one: 1 of 2 members have lost their data: m-2 n",
       "talosctl -n a etcd snapshot <file> && talosctl -n a,n cluster recover <this file>"},
      {"etcd-alarm",
       nodes("{address: a, controlPlane: true, etcd: {phase: member, alarms: ['m-1: NOSPACE']}}"),
       "reached its quota", "etcd defrag && talosctl -n a etcd alarm disarm"},
      // Disarming the alarm would hide the damage.
      {"etcd-alarm",
       nodes("{address: a, controlPlane: true, etcd: {phase: member, alarms: ['m-1: CORRUPT']}}"),
       "differs from that of the others", "reset --system-labels-to-wipe EPHEMERAL"},
      {"etcd-alarm",
       nodes("{address: a, controlPlane: true, etcd: {phase: member, alarms: ['m-1: OTHER']}}"),
       "etcd has raised an alarm", "talosctl -n a etcd alarm list"},
      {"etcd-join",
       member("member", "the other members have removed this one; run talosctl etcd leave"),
       "the others have removed it", "talosctl -n n etcd leave && talosctl -n n reboot"},
      {"etcd-join", member("waiting", "cannot join yet: another member, 3, has the name m-1 too"),
       "its name is taken", "/machine/network/hostname"},
      {"etcd-join", member("learner", "not a voting member yet: it is behind"),
       "not a voting member yet", "get etcdstatus -w"},
      // EPHEMERAL was wiped; the others have the cluster.
      {"etcd-join",
       nodes(waiting("n", past("n, a")) +
             ", {address: a, controlPlane: true, members: [{name: m-1}]}"),
       "has no data, and looks for the cluster that exists", "it joins by itself"},
      {"etcd-join", "{survey: {nodes: [{name: m-1}]}, " + nodes(waiting("n")) + "}",
       "has no data, and looks for the cluster that exists", "it joins by itself"},
      {"etcd-join", member("joining", "starting etcd"), "not a member of the cluster yet",
       "get etcdstatus -w"},
      {"etcd",
       etcd("waiting", "Process (PID 8) exited with status 2",
            "flag provided but not defined: -bogus"),
       "an argument of cluster.etcd.extraArgs is wrong", "talosctl -n n edit machineconfig"},
      {"etcd", etcd("finished", "Service stopped: Process (PID 8) exited with status 0", ""),
       "etcd does not run: it has been stopped", "talosctl -n n service etcd start"},
      {"etcd",
       etcd(
           "waiting", "Running pre state",
           R"({"level":"warn","msg":"rejected connection on peer endpoint","error":"remote error: tls: bad certificate"})"),
       "is of another cluster", "give the node its old config"},
      {"etcd", etcd("waiting", "Process (PID 8) exited with status 1", "panic: x"),
       "etcd keeps exiting", "talosctl -n n logs etcd"},
      {"etcd", etcd("waiting", "Running pre state", ""), "etcd does not run, or is not healthy",
       "talosctl -n n logs etcd"},
  };
}

std::vector<RemedyCase> kubernetesRemedies() {
  return {
      {"kubelet",
       kubelet("finished", "Service stopped: Task kubelet (PID 82) exited with status 0"),
       "it has been stopped", "talosctl -n n service kubelet start"},
      {"kubelet",
       kubelet("waiting", "Task kubelet (PID 82) exited with status 1",
               "Error: unknown flag: --bogus"),
       "an argument of machine.kubelet.extraArgs is wrong", "talosctl -n n edit machineconfig"},
      {"kubelet", kubelet("waiting", "Task kubelet (PID 82) exited with status 1"),
       "the kubelet keeps exiting", "talosctl -n n logs kubelet"},
      // A kubelet that has not run has no log.
      {"kubelet", kubelet("waiting", "Waiting for network"), "the kubelet does not run yet",
       "talosctl -n n service kubelet    # what it waits for"},
      {"kubelet",
       nodes("{address: n, services: [{id: kubelet, state: running, health: {unknown: false, "
             "lastMessage: no "
             "answer}}]}"),
       "the kubelet is not healthy", "talosctl -n n logs kubelet"},
      {"static-pod-files", nodes("{address: n, controlPlane: true, secretsReady: false}"),
       "the certificates of Kubernetes do not exist yet", "logs controller-runtime"},
      {"static-pod-files", nodes("{address: n, controlPlane: true, staticPods: []}"),
       "no definitions of static pods", "logs controller-runtime"},
      {"control-plane-pod", apiServer("CONTAINER_EXITED", "Error: unknown flag: --bogus"),
       "an argument of cluster.apiServer.extraArgs is wrong", "# cluster.apiServer.extraArgs"},
      {"control-plane-pod", apiServer("CONTAINER_EXITED", "Error: no such file"),
       "kube-apiserver keeps exiting", "talosctl -n n logs -k k/kube-apiserver-n:kube-apiserver"},
      {"control-plane-pod", apiServer("CONTAINER_EXITED", "goodbye"),
       "has exited, or is being restarted",
       "talosctl -n n logs -k k/kube-apiserver-n:kube-apiserver"},
      {"control-plane-pod", nodes("{address: n, controlPlane: true, containers: []}"),
       "it has no container", "talosctl -n n logs kubelet"},
      {"api-server",
       nodes("{address: n, controlPlane: true, apiServer: {message: no answer within 5 s}, "
             "containers: [{id: 'k/kube-apiserver-n:kube-apiserver', status: "
             "CONTAINER_RUNNING}]}"),
       "the API server of the node does not answer, although it runs",
       "talosctl -n n restart -k k/kube-apiserver-n:kube-apiserver"},
      {"api-server",
       "{surveyProblem: 'Connection refused', " + nodes("{address: n, controlPlane: true}") + "}",
       "no API server of Kubernetes answers", "talosctl containers -k"},
      {"vip",
       nodes("{address: n, vips: [{address: 10.5.0.9, status: {state: idle, reason: etcd is not "
             "healthy}}]}"),
       "no node holds the shared address 10.5.0.9", "talosctl -n n get vipstatus"},
      {"vip",
       nodes("{address: n, vips: [{address: 10.5.0.9, status: {state: idle}}]}, {address: b, "
             "reach: silent}"),
       "none of the nodes that answer holds the shared address", "talosctl -n n get vipstatus"},
      {"endpoint",
       endpoint(
           "Get \"https://cp.example:6443/api\": x509: certificate signed by unknown authority"),
       "answers with another CA", "/cluster/controlPlane/endpoint"},
      {"endpoint", endpoint("dial tcp: lookup cp.example on 10.5.0.1:53: no such host"),
       "the name in the control plane endpoint", "correct the name's record in the DNS"},
      {"endpoint", endpoint("dial cp.example: connect: connection refused"),
       "does not lead to an API server", "/cluster/controlPlane/endpoint"},
      {"node-registration",
       registration("Kubernetes at x:6443 does not know the bootstrap token yet"),
       "refuses the bootstrap token", "/cluster/token"},
      {"node-registration", registration("the request node-csr-7 is not approved yet"),
       "its request node-csr-7 is not approved", "kubectl certificate approve node-csr-7"},
      {"node-registration",
       "{survey: {nodes: [{name: m-1}]}, nodes: [{address: n, kubelet: {nodename: w-1}}]}",
       "has not registered the node w-1", "talosctl -n n service kubelet restart    # "},
      {"manifest",
       manifest(
           "applied; cannot read the manifest https://e.example/a.yaml: the server answered 404"),
       "cannot be fetched: the server answered 404", "cluster.extraManifests"},
      // The address in the config is right.
      {"manifest",
       manifest("applied; cannot read the manifest https://e.example/a.yaml: cannot connect: "
                "Connection refused"),
       "because its server cannot be reached", "make the server reachable"},
      {"manifest",
       manifest(
           "applied; cannot read the manifest https://e.example/a.yaml: 1:7: a key is missing"),
       "cannot be applied: 1:7", "correct the file at https://e.example/a.yaml"},
      {"manifest", manifest("applied; cannot read the manifest own: 1:3: a key is missing"),
       "the inline manifest own cannot be read", "cluster.inlineManifests"},
      {"manifest", manifest("applied; cannot store the manifest big: it is too large"),
       "not all manifests of the cluster are applied", "talosctl -n n logs kubed"},
      {"image-pod", pulls("r.example/web:v1: not found"),
       "an image of the pod default/web cannot be pulled",
       "kubectl -n default edit ReplicaSet/web    # the image of container web"},
      {"image-pod",
       pulls("pull access denied, repository does not exist or may require authorization"),
       "the registry requires other credentials", "imagePullSecrets"},
      {"image-pod", pulls("dial tcp 10.5.0.1:443: connect: connection refused"),
       "can be pulled from r.example: nothing listens there", "start the registry r.example"},
      {"image-pod", pulls("x509: certificate signed by unknown authority"),
       "its certificate is not trusted", "machine.registries.config.\"r.example\".tls.ca"},
      {"cni",
       "{survey: {nodes: [{name: m-1, ready: true}]}, nodes: [{address: n, facts: {cni: flannel}, "
       "manifests: "
       "{message: applied}}]}",
       "flannel is gone", "service kubed restart"},
      {"cni", unready("none"), "cluster.network.cni.name is none", "kubectl apply -f"},
      {"cni", unready("custom"), "of cluster.network.cni.urls does not run",
       "talosctl get manifeststatus"},
      {"cni", unready("missing"), "flannel is not installed", "-l k8s-app=flannel"},
      {"cni", unready("flannel"), "flannel does not run", "-l k8s-app=flannel"},
      {"node-pressure",
       "{survey: {nodes: [{name: w-1, addresses: [n], ready: true, pressures: [DiskPressure]}]}, "
       "nodes: [{address: n}]}",
       "the disk of the node w-1 is nearly full", "talosctl -n n usage /var"},
      {"node-pressure",
       "{survey: {nodes: [{name: w-1, addresses: [n], ready: true, pressures: [MemoryPressure]}]}, "
       "nodes: [{address: n}]}",
       "the node w-1 has MemoryPressure", "talosctl -n n stats -k"},
      {"node-ready",
       "{survey: {nodes: [{name: w-1, addresses: [n], reason: NodeStatusUnknown}]}, nodes: "
       "[{address: "
       "n}]}",
       "its kubelet has stopped reporting", "talosctl -n n service kubelet"},
      {"node-ready",
       "survey: {nodes: [{name: w-1, reason: KubeletNotReady, message: PLEG is not healthy}]}",
       "the node w-1 is not Ready", "kubectl describe node w-1"},
      {"node-cordoned", "survey: {nodes: [{name: w-1, ready: true, unschedulable: true}]}",
       "is cordoned", "kubectl uncordon w-1"},
      {"workload",
       "survey: {workloads: [{kind: Deployment, name: x, desired: 1, message: failed calling "
       "webhook a}]}",
       "a webhook refuses them", "kubectl get validatingwebhookconfigurations"},
      {"workload",
       "survey: {workloads: [{kind: Deployment, name: x, desired: 1, message: exceeded quota}]}",
       "a quota is used up", "resourcequotas"},
      {"workload",
       "survey: {workloads: [{kind: Deployment, name: x, desired: 1, message: 'forbidden: violates "
       "PodSecurity'}]}",
       "pods of Deployment kube-system/x cannot be created",
       "kubectl -n kube-system describe Deployment x"},
      {"kube-proxy", kubeProxy("phase: Running, reason: CrashLoopBackOff"),
       "kube-proxy of w-1 does not run", "kubectl -n kube-system logs kube-proxy-x"},
      {"kube-proxy", kubeProxy("phase: Pending, reason: Unschedulable"),
       "kube-proxy of w-1 does not run", "kubectl -n kube-system describe pod kube-proxy-x"},
      {"kube-proxy",
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: n, facts: {cni: flannel}, "
       "manifests: "
       "{message: applied}}]}",
       "kube-proxy is gone", "service kubed restart"},
      {"kube-proxy",
       "{survey: {nodes: [{name: w-1, ready: true}]}, nodes: [{address: n, facts: {proxyDisabled: "
       "true}}]}",
       "there is no kube-proxy", "cluster.proxy.disabled: false"},
      {"core-dns", "{survey: {nodes: [{name: w-1, ready: true}]}, " + manifest("applied") + "}",
       "CoreDNS is gone", "service kubed restart"},
      {"core-dns", dns("desired: 0", "ready: true"), "CoreDNS is scaled to 0", "--replicas=2"},
      {"core-dns",
       dns("desired: 2",
           "phase: Pending, reason: Unschedulable, message: '1 node(s) had untolerated taint {a: "
           "b}'"),
       "because of taints", "kubectl taint node"},
      {"core-dns", dns("desired: 1", "phase: Running, reason: CrashLoopBackOff"),
       "CoreDNS does not run", "kubectl -n kube-system logs -l k8s-app=kube-dns"},
      // A pod that waits for a node has no log.
      {"core-dns",
       dns("desired: 1", "phase: Pending, reason: Unschedulable, message: Insufficient cpu"),
       "CoreDNS does not run", "kubectl -n kube-system describe pods -l k8s-app=kube-dns"},
      {"core-dns", dns("desired: 2, ready: 1", "phase: Running, reason: Error"),
       "CoreDNS runs 1 of 2 pods", "kubectl -n kube-system logs -l k8s-app=kube-dns"},
      {"pod", pod("phase: Running, reason: CrashLoopBackOff, container: web"),
       "is not ready: CrashLoopBackOff", "kubectl -n default logs web -c web --previous"},
      // This container has not ended before, and the next one has not begun.
      {"pod", pod("phase: Running, reason: ContainersNotReady, container: web"),
       "is not ready: ContainersNotReady",
       "kubectl -n default logs web -c web    # and its probes"},
      {"pod", pod("phase: Pending, reason: CreateContainerConfigError, container: web"),
       "is not ready: CreateContainerConfigError", "kubectl -n default describe pod web"},
      {"pod", pod("phase: Pending, reason: Unschedulable"), "is not ready: Unschedulable",
       "kubectl -n default describe pod web"},
  };
}

namespace {

// Catches: certainty that a cluster is new although that is not known: a node does not answer, or
// its list of earlier nodes cannot be read; `bootstrap` in the remedy of a cluster that has lost
// its data.
TEST(Remedies, ABootstrapIsCertainOnlyForANewCluster) {
  auto found = [](const std::string& evidence) {
    Diagnosed all(kj::StringPtr(evidence.c_str()));
    auto finding = KJ_ASSERT_NONNULL(all.find("etcd-bootstrap"));
    return std::string(finding.getConfidence().cStr()) + ": " + finding.getCommand().cStr();
  };
  EXPECT_THAT(found(nodes(waiting("n"))), testing::StartsWith("certain: talosctl -n n bootstrap"));
  EXPECT_THAT(found(nodes(waiting("n", "pastRead: false"))), testing::StartsWith("likely: "));
  EXPECT_THAT(found(nodes(waiting("n") + ", {address: b, reach: silent}")),
              testing::StartsWith("likely: "));
  for (auto& lost :
       {waiting("10.5.0.2", past("10.5.0.2")), waiting("10.5.0.2", past("10.5.0.2, 10.5.0.3")),
        waiting("n") + ", {address: w, services: [{id: kubelet, state: running}]}"}) {
    EXPECT_THAT(found(nodes(lost)), testing::Not(testing::HasSubstr("bootstrap")));
  }
}

}  // namespace
}  // namespace talos::talosctl
