#include "tests/kubernetes/illness.h"

namespace talos {
namespace {

constexpr const char* kMaster = "10.5.0.2";
constexpr const char* kWorker = "10.5.0.3";

using Words = std::vector<std::string>;

const Words kHealth = {"-n", kMaster, "health", "--wait-timeout=1s"};
const Words kManifests = {"-n", kMaster, "get", "manifeststatus"};
const Words kPods = {"kubectl", "get", "pods", "-A"};

Words services(const char* node) {
  return {"-n", node, "services"};
}

// A pod of a user; `more` are fields of it.
std::string pod(const std::string& image, const std::string& more, const std::string& spec = "") {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  "
         "terminationGracePeriodSeconds: "
         "0\n" +
         spec + "  containers:\n  - {name: web, image: '" + image + "'" + more + "}\n";
}

std::string object(std::initializer_list<const char*> keys, const std::string& value) {
  std::string text = value, end;
  for (auto it = keys.end(); it != keys.begin();) {
    text = "{\"" + std::string(*--it) + "\": " + text + "}";
  }
  return text;
}

void deleteDns(Patient& patient) {
  patient.kube({"-n", "kube-system", "delete", "pod", "-l", "k8s-app=kube-dns", "--wait=false"});
}

// Sets an unknown argument of a part of Kubernetes.
void wrongArgument(Patient& patient, const KubeNode& node,
                   std::initializer_list<const char*> part) {
  patient.patch(node, object(part, R"({"extraArgs": {"bogus": "1"}})"));
}
void wrongImage(Patient& patient, const KubeNode& node, const char* part, const char* image) {
  patient.patch(node, object({"cluster", part, "image"},
                             "\"registry.k8s.io/" + std::string(image) + ":v1.99.0\""));
}

// It is about to try the other image again.
void startKubelet(Patient& patient) {
  patient.restore();
  patient.cluster.talos.ok(patient.cluster.at(patient.worker, {"service", "kubelet", "restart"}));
}

void oneOf(std::vector<Illness>& all, std::vector<Illness> more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<Illness> ofPods() {
  return {
      {"a pod's image is nowhere", [](Patient& p) { p.apply(pod("nosuch/web:v9", "")); },
       "image-pod", "image of the pod default/web can", kPods, "ErrImagePull", nullptr, true},
      {"a pod's program ends",
       [](Patient& p) { p.apply(pod("busybox:1.37", ", command: [sh, -c, 'exit 3']")); }, "pod",
       "the pod default/web is not ready", kPods, "CrashLoopBackOff"},
      {"a pod asks for more than there is",
       [](Patient& p) { p.apply(pod("busybox:1.37", ", resources: {requests: {cpu: '64'}}")); },
       "pod", "Insufficient cpu", kPods, "Pending"},
      {"a pod's config map is missing",
       [](Patient& p) {
         p.apply(pod("busybox:1.37", ", envFrom: [{configMapRef: {name: nosuch}}]"));
       },
       "pod", "configmap \\\"nosuch\\\" not found", kPods, "CreateContainerConfigError"},
      {"a pod's volume is missing",
       [](Patient& p) {
         p.apply(pod("busybox:1.37", ", volumeMounts: [{name: it, mountPath: /it}]",
                     "  volumes: [{name: it, secret: {secretName: nosuch}}]\n"));
       },
       "pod", "secret \\\"nosuch\\\" not found", kPods, "ContainerCreating"},
      {"a pod's readiness probe fails",
       [](Patient& p) {
         p.apply(pod("busybox:1.37",
                     ", command: [sleep, '1000'], readinessProbe: {tcpSocket: {port: 9}}"));
       },
       "pod", "its readiness probe fails", kPods, "0/1"},
      {"a node is cordoned", [](Patient& p) { p.kube({"cordon", p.worker.name}); }, "node-cordoned",
       "the node sick-worker-1 is cordoned", kHealth, "unschedulable",
       [](Patient& p) { p.kube({"uncordon", p.worker.name}); }, true},
  };
}

std::vector<Illness> ofTheSystem() {
  return {
      {"CoreDNS is scaled to 0",
       [](Patient& p) {
         p.kube({"-n", "kube-system", "scale", "deployment", "coredns", "--replicas=0"});
       },
       "core-dns", "CoreDNS is scaled to 0", kHealth, "coredns to report ready: SKIP",
       [](Patient& p) {
         p.kube({"-n", "kube-system", "scale", "deployment", "coredns", "--replicas=2"});
       },
       true},
      {"CoreDNS is deleted",
       [](Patient& p) {
         p.keep("deployment", "coredns");
         p.kube({"-n", "kube-system", "delete", "deployment", "coredns"});
       },
       "core-dns", "CoreDNS is gone", kHealth, "coredns to report ready: SKIP"},
      {"kube-proxy is deleted",
       [](Patient& p) {
         p.keep("daemonset", "kube-proxy");
         p.kube({"-n", "kube-system", "delete", "daemonset", "kube-proxy"});
       },
       "kube-proxy", "kube-proxy is gone", kHealth, "kube-proxy to report ready: SKIP"},
      {"flannel is deleted",
       [](Patient& p) {
         p.keep("daemonset", "kube-flannel");
         p.kube({"-n", "kube-system", "delete", "daemonset", "kube-flannel"});
       },
       "cni",
       "flannel is gone",
       {"kubectl", "-n", "kube-system", "get", "daemonset", "kube-flannel"},
       "not found",
       nullptr,
       true},
      {"CoreDNS's Corefile is wrong",
       [](Patient& p) {
         p.keep("configmap", "coredns");
         p.kube({"-n", "kube-system", "patch", "configmap", "coredns", "-p",
                 R"({"data": {"Corefile": ".:53 { nosuchplugin }"}})"});
         deleteDns(p);
       },
       "core-dns", "CoreDNS does not run", kHealth, "CrashLoopBackOff",
       [](Patient& p) {
         p.restore();
         deleteDns(p);
       }},
      {"a taint keeps CoreDNS away",
       [](Patient& p) {
         p.kube({"taint", "node", "--all", "a=b:NoSchedule"});
         deleteDns(p);
       },
       "core-dns", "because of taints", kHealth, "untolerated taint",
       [](Patient& p) { p.kube({"taint", "node", "--all", "a=b:NoSchedule-"}); }, true},
      {"a webhook refuses all pods",
       [](Patient& p) {
         p.apply(R"(apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: refuses}
webhooks:
- name: refuses.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 1
  clientConfig: {service: {namespace: default, name: nosuch, path: /}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
)");
         deleteDns(p);
       },
       "workload", "refuses.example.org", kHealth, "there is no pod of kube-dns", nullptr, true},
      {"a quota leaves no room for pods",
       [](Patient& p) {
         p.apply(
             "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: none, namespace: "
             "kube-system}\nspec: {hard: {pods: '0'}}\n");
         p.cluster.ok({"-n", "kube-system", "wait", "resourcequota/none",
                       "--for=jsonpath={.status.hard.pods}=0"});
         deleteDns(p);
       },
       "workload", "exceeded quota", kHealth, "there is no pod of kube-dns"},
      {"kube-proxy has a wrong argument",
       [](Patient& p) {
         p.keep("daemonset", "kube-proxy");
         p.kube(
             {"-n", "kube-system", "patch", "daemonset", "kube-proxy", "--type=json", "-p",
              R"([{"op": "add", "path": "/spec/template/spec/containers/0/command/-", "value": "--bogus"}])"});
       },
       "kube-proxy", "does not run", kHealth, "kube-proxy-"},
      {"kube-proxy's image is nowhere",
       [](Patient& p) {
         p.keep("daemonset", "kube-proxy");
         p.kube({"-n", "kube-system", "set", "image", "daemonset/kube-proxy",
                 "*=registry.k8s.io/kube-proxy:v1.99.0"});
       },
       "image-pod", "kube-proxy", kHealth, "ImagePull"},
      {"flannel's image is nowhere",
       [](Patient& p) {
         p.keep("daemonset", "kube-flannel");
         p.kube({"-n", "kube-system", "set", "image", "daemonset/kube-flannel",
                 "*=registry.k8s.io/flannel:v99"});
       },
       "image-pod", "flannel", kPods, "ImagePull"},
  };
}

std::vector<Illness> ofManifests() {
  auto extra = [](const std::string& url) {
    return object({"cluster", "extraManifests"}, "[\"" + url + "\"]");
  };
  return {
      {"a manifest's server is down",
       [extra](Patient& p) { p.patch(p.master, extra("http://10.5.0.1:9/cni.yaml")); }, "manifest",
       "the manifest http://10.5.0.1:9/cni.yaml cannot be fetched", kManifests,
       "http://10.5.0.1:9/cni.yaml", nullptr, true},
      {"a manifest's URL is not there",
       [extra](Patient& p) {
         p.serve(harness::Manner::kNotFound, "");
         p.patch(p.master, extra("http://10.5.0.1:8099/cni.yaml"));
       },
       "manifest", "404", kManifests, "404"},
      {"a manifest is no YAML",
       [extra](Patient& p) {
         p.serve(harness::Manner::kGood, "kind: [\n");
         p.patch(p.master, extra("http://10.5.0.1:8099/cni.yaml"));
       },
       "manifest", "http://10.5.0.1:8099/cni.yaml", kManifests, "http://10.5.0.1:8099/cni.yaml"},
      {"an object of an inline manifest is refused",
       [](Patient& p) {
         p.patch(
             p.master,
             object(
                 {"cluster", "inlineManifests"},
                 R"([{"name": "wrong", "contents": "apiVersion: v1\nkind: NoSuchKind\nmetadata: {name: a}\n"}])"));
       },
       "manifest", "NoSuchKind", kManifests, "NoSuchKind"},
  };
}

std::vector<Illness> ofTheWorker() {
  return {
      {"the kubelet's release is nowhere",
       [](Patient& p) {
         p.patch(p.worker,
                 object({"machine", "kubelet", "image"}, "\"registry.k8s.io/kubelet:v1.99.0\""));
       },
       "image-kubelet", "cannot pull \\\"registry.k8s.io/kubelet:v1.99.0\\\"", services(kWorker),
       "cannot pull \"registry.k8s.io/kubelet:v1.99.0\"", startKubelet, true},
      {"the kubelet has a wrong argument",
       [](Patient& p) { wrongArgument(p, p.worker, {"machine", "kubelet"}); }, "kubelet",
       "unknown flag: --bogus", services(kWorker), "exited with status 1"},
      {"the kubelet is stopped", [](Patient& p) { p.service(p.worker, "kubelet", false); },
       "kubelet", "the kubelet does not run", services(kWorker), "Service stopped"},
      {"containerd is stopped", [](Patient& p) { p.service(p.worker, "cri", false); }, "containerd",
       "containerd does not run", services(kWorker), "Service stopped"},
      {"two nodes have one name",
       [](Patient& p) {
         p.patch(p.worker, object({"machine", "network", "hostname"}, "\"" + p.master.name + "\""));
       },
       "hostname-duplicate",
       "two nodes have the host name sick-master-1",
       {"-n", "10.5.0.2,10.5.0.3", "get", "hostname"},
       "sick-master-1"},
      {"nothing listens at the endpoint",
       [](Patient& p) {
         p.patch(p.worker,
                 object({"cluster", "controlPlane", "endpoint"}, "\"https://10.5.0.2:6444\""));
       },
       "endpoint", "nothing listens there", kHealth, "10.5.0.2:6444: cannot connect"},
      {"a link of the config is not there",
       [](Patient& p) {
         p.patch(p.worker, object({"machine", "network", "interfaces"},
                                  R"([{"interface": "eth7", "addresses": ["10.77.0.3/24"]}])"));
       },
       "network-plan",
       "eth7",
       {"-n", kWorker, "get", "netstatus", "-o", "yaml"},
       "eth7"},
      {"the node is off", [](Patient& p) { p.power(p.worker, false); }, "node-down", "10.5.0.3",
       kHealth, "10.5.0.3", nullptr, true},
  };
}

std::vector<Illness> ofTheControlPlane() {
  std::vector<Illness> all;
  struct Part {
    const char *key, *name;
  };
  static constexpr Part kParts[] = {{"apiServer", "kube-apiserver"},
                                    {"controllerManager", "kube-controller-manager"},
                                    {"scheduler", "kube-scheduler"}};
  static std::vector<std::string> names;
  names.reserve(20);
  auto named = [](const std::string& text) { return names.emplace_back(text).c_str(); };
  for (auto& part : kParts) {
    bool api = std::string(part.key) == "apiServer";
    auto shown = api ? "cannot" : part.name;
    all.push_back({named(std::string(part.name) + " has a wrong argument"),
                   [&part](Patient& p) { wrongArgument(p, p.master, {"cluster", part.key}); },
                   "control-plane-pod", "unknown flag: --bogus", kHealth, shown, nullptr, api});
    all.push_back({named(std::string(part.name) + "'s image is nowhere"),
                   [&part](Patient& p) { wrongImage(p, p.master, part.key, part.name); },
                   "image-control-plane", part.name, kHealth, shown});
  }
  oneOf(
      all,
      {
          {"etcd has a wrong argument",
           [](Patient& p) { wrongArgument(p, p.master, {"cluster", "etcd"}); }, "etcd",
           "flag provided but not defined: -bogus", services(kMaster), "exited with status 2",
           nullptr, true},
          {"etcd's database is full",
           [](Patient& p) {
             p.patch(p.master, object({"cluster", "etcd", "extraArgs", "quota-backend-bytes"},
                                      "\"1000000\""));
           },
           "etcd-alarm",
           "NOSPACE",
           {"-n", kMaster, "get", "etcdstatus", "-o", "yaml"},
           "NOSPACE",
           [](Patient& p) {
             p.restore();
             EXPECT_TRUE(harness::eventually(
                 [&] { return p.talosctl(p.master, {"etcd", "alarm", "disarm"}).status == 0; }, 60,
                 1));
           }},
          {"the network of pods is the nodes' own",
           [](Patient& p) {
             p.patch(
                 p.master,
                 R"([{"op": "replace", "path": "/cluster/network/podSubnets", "value": ["10.5.0.0/16"]}])");
           },
           "network-overlap",
           "overlaps",
           {"-n", kMaster, "get", "machineconfig", "-o", "yaml"},
           "10.5.0.0/16"},
          {"the talosconfig leads nowhere",
           [](Patient&) {},
           "endpoint-unreachable",
           "nothing listens on its port",
           {"-e", "127.0.0.9", "version"},
           "refused",
           nullptr,
           false,
           {"-e", "127.0.0.9"}},
      });
  return all;
}

}  // namespace

std::vector<Illness> illnessesOfTwo() {
  std::vector<Illness> all = ofPods();
  oneOf(all, ofTheSystem());
  oneOf(all, ofManifests());
  oneOf(all, ofTheControlPlane());
  oneOf(all, ofTheWorker());
  return all;
}

}  // namespace talos
