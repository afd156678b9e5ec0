// Illnesses of the kubelets, of the control plane and of etcd.
#include "tests/kubernetes/illnesses.h"

namespace talos {
namespace {

using harness::eventually;

void wrongImage(Patient& patient, const char* part, const char* image) {
  patient.patch(patient.master, object({"cluster", part, "image"},
                                       "\"registry.k8s.io/" + std::string(image) + ":v1.99.0\""));
}

// It is about to try the other image again.
void startKubelet(Patient& patient) {
  patient.restore();
  patient.cluster.talos.ok(patient.cluster.at(patient.worker, {"service", "kubelet", "restart"}));
}

// A node decides once in a boot which etcd it runs.
void wrongImageOfEtcd(Patient& patient) {
  patient.startAgain(patient.master);
  patient.patch(patient.master,
                object({"cluster", "etcd", "image"}, "\"registry.k8s.io/etcd:v3.99.0\""), "reboot");
  awaitShown(patient, patient.master, {"services"}, "cannot pull");
}

// A mirror of all registries refuses, so a pod's image cannot be pulled.
void refuseMirror(Patient& patient) {
  patient.patch(
      patient.worker,
      R"([{"op": "replace", "path": "/machine/registries/mirrors", "value": {"*": {"endpoints": ["http://10.5.0.1:5999"]}}}])");
  patient.apply(pod("nosuch/web:v9", "", "  nodeName: " + patient.worker.name + "\n"));
}

// Without a transition period of a second, the condition would stay for five minutes.
void evict(Patient& patient) {
  patient.patch(
      patient.worker,
      object(
          {"machine", "kubelet", "extraConfig"},
          R"({"evictionHard": {"nodefs.available": "99.9%"}, "evictionPressureTransitionPeriod": "1s"})"));
}

// The node gets another network of pods with its next object, which its old bridge does not have.
void deleteNode(Patient& patient) {
  patient.startAgain(patient.worker);
  patient.kube({"delete", "node", patient.worker.name});
}

constexpr const char* kRefusesReports = R"(apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuses-reports}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [nodes/status]}
    - {apiGroups: [coordination.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [leases]}
  matchConditions:
  - {name: of-the-worker, expression: "request.userInfo.username == 'system:node:sick-worker-1'"}
  validations:
  - {expression: "false", message: refused by a policy}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuses-reports}
spec: {policyName: refuses-reports, validationActions: [Deny]}
)";

std::string snapshotOf(const Patient& patient) {
  return patient.file("etcd.db");
}

void loseEtcd(Patient& patient) {
  auto& talos = patient.cluster.talos;
  talos.ok(patient.cluster.at(patient.master, {"etcd", "snapshot", snapshotOf(patient)}));
  talos.ok({"cluster", "node", "kill", patient.master.name}, kShown);
  talos.erase(patient.master.name);
  talos.ok({"cluster", "node", "start", patient.master.name}, kShown);
  awaitShown(patient, patient.master, {"--timeout", "5s", "get", "etcdstatus"}, "waiting");
}

// --- kubelets

std::vector<Illness> ofServicesOfTheWorker() {
  return {
      filledIn({"the kubelet's release is nowhere",
                [](Patient& p) {
                  p.patch(p.worker, object({"machine", "kubelet", "image"},
                                           "\"registry.k8s.io/kubelet:v1.99.0\""));
                },
                "image-kubelet", "cannot pull \\\"registry.k8s.io/kubelet:v1.99.0\\\"",
                services(kWorker), "cannot pull \"registry.k8s.io/kubelet:v1.99.0\"", startKubelet,
                true},
               [](Patient& p) {
                 return Answers{.placeholders = {{"an image that exists",
                                                  "ghcr.io/siderolabs/kubelet:" + p.release}}};
               }),
      editedOnWorker({"the kubelet has a wrong argument",
                      [](Patient& p) { wrongArgument(p, p.worker, {"machine", "kubelet"}); },
                      "kubelet", "unknown flag: --bogus", services(kWorker),
                      "exited with status 1"}),
      typed({"the kubelet is stopped", [](Patient& p) { p.stop(p.worker, "kubelet"); }, "kubelet",
             "the kubelet does not run", services(kWorker), "Service stopped"}),
      typed({"containerd is stopped", [](Patient& p) { p.stop(p.worker, "cri"); }, "containerd",
             "containerd does not run", services(kWorker), "Service stopped"}),
      {"a mirror of images refuses", refuseMirror, "registry",
       "no image can be pulled from the registry 10.5.0.1:5999: ", kPods, "ImagePull"},
  };
}

std::vector<Illness> ofNodesInKubernetes() {
  return {
      filledIn({"nothing listens at the endpoint",
                [](Patient& p) {
                  p.patch(p.worker, object({"cluster", "controlPlane", "endpoint"},
                                           "\"https://10.5.0.2:6444\""));
                },
                "endpoint", "nothing listens there", kHealth, "10.5.0.2:6444: cannot connect"},
               "address", kMaster),
      typed({"the object of a node is deleted",
             deleteNode,
             "node-registration",
             "the kubelet has not registered the node sick-worker-1",
             {"kubectl", "get", "node", "sick-worker-1"},
             "not found"}),
      {"a disk has less space than the kubelet wants",
       evict,
       "node-pressure",
       "the disk of the node sick-worker-1 is nearly full",
       {"kubectl", "describe", "node", "sick-worker-1"},
       "KubeletHasDiskPressure"},
      {"a policy refuses the reports of a kubelet",
       [](Patient& p) { p.apply(kRefusesReports); },
       "node-ready",
       "its kubelet has stopped reporting",
       {"kubectl", "get", "nodes"},
       "NotReady"},
  };
}

// --- the control plane

std::vector<Illness> ofStaticPods() {
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
    all.push_back(editedOnMaster(
        {named(std::string(part.name) + " has a wrong argument"),
         [&part](Patient& p) { wrongArgument(p, p.master, {"cluster", part.key}); },
         "control-plane-pod", "unknown flag: --bogus", kHealth, shown, nullptr, api}));
    all.push_back(filledIn({named(std::string(part.name) + "'s image is nowhere"),
                            [&part](Patient& p) { wrongImage(p, part.key, part.name); },
                            "image-control-plane", part.name, kHealth, shown},
                           [&part](Patient& p) {
                             return Answers{
                                 .placeholders = {{"an image that exists", imageOf(p, part.name)}}};
                           }));
  }
  return all;
}

void disarm(Patient& patient) {
  patient.restore();
  EXPECT_TRUE(eventually(
      [&] { return patient.talosctl(patient.master, {"etcd", "alarm", "disarm"}).status == 0; }, 60,
      1));
}

std::vector<Illness> ofEtcd() {
  return {
      editedOnMaster({"etcd has a wrong argument",
                      [](Patient& p) { wrongArgument(p, p.master, {"cluster", "etcd"}); }, "etcd",
                      "flag provided but not defined: -bogus", services(kMaster),
                      "exited with status 2", nullptr, true}),
      typed({"etcd is stopped", [](Patient& p) { p.stop(p.master, "etcd"); }, "etcd",
             "etcd does not run: it has been stopped", services(kMaster), "Service stopped"}),
      editedOnMaster({"etcd's image is nowhere", wrongImageOfEtcd, "image-etcd",
                      "the image of etcd cannot be pulled", services(kMaster), "cannot pull"}),
      {"etcd's database is full",
       [](Patient& p) {
         p.patch(p.master,
                 object({"cluster", "etcd", "extraArgs", "quota-backend-bytes"}, "\"1000000\""));
       },
       "etcd-alarm",
       "NOSPACE",
       {"-n", kMaster, "get", "etcdstatus", "-o", "yaml"},
       "NOSPACE",
       disarm},
  };
}

}  // namespace

std::vector<Illness> illnessesOfKubelets() {
  auto all = ofServicesOfTheWorker();
  append(all, ofNodesInKubernetes());
  return all;
}

std::vector<Illness> illnessesOfControlPlanes() {
  auto all = ofStaticPods();
  append(all, ofEtcd());
  append(
      all,
      {{"the network of pods is the nodes' own",
        [](Patient& p) {
          p.patch(
              p.master,
              R"([{"op": "replace", "path": "/cluster/network/podSubnets", "value": ["10.5.0.0/16"]}])");
        },
        "network-overlap",
        "overlaps",
        {"-n", kMaster, "get", "machineconfig", "-o", "yaml"},
        "10.5.0.0/16"},
       typed({"the API server hangs",
              [](Patient& p) { p.freeze(p.master, "kube-apiserver"); },
              "api-server",
              "does not answer, although it runs: kube-system/kube-apiserver-sick-master-1",
              {"kubectl", "--request-timeout=5s", "get", "nodes"},
              "imeout"})});
  return all;
}

// `cluster recover` asks on a terminal, which the test does not have.
std::vector<Illness> illnessesThatLoseData() {
  return {filledIn({"the data of etcd is lost",
                    loseEtcd,
                    "etcd-bootstrap",
                    "no control-plane node has the data of etcd any more",
                    {"-n", kMaster, "get", "etcdstatus"},
                    "waiting"},
                   [](Patient& p) {
                     return Answers{.placeholders = {{"snapshot", snapshotOf(p) + " --yes"}}};
                   })};
}

}  // namespace talos
