// Illnesses of what runs in the cluster: pods, the workloads of kube-system, and the manifests.
#include "tests/kubernetes/illnesses.h"

namespace talos {
namespace {

void deleteDns(Patient& patient) {
  patient.kube({"-n", "kube-system", "delete", "pod", "-l", "k8s-app=kube-dns", "--wait=false"});
}

std::vector<Illness> ofMissingWorkloads() {
  return {
      typed({"CoreDNS is scaled to 0",
             [](Patient& p) {
               p.kube({"-n", "kube-system", "scale", "deployment", "coredns", "--replicas=0"});
             },
             "core-dns", "CoreDNS is scaled to 0", kHealth, "coredns to report ready: SKIP",
             [](Patient& p) {
               p.kube({"-n", "kube-system", "scale", "deployment", "coredns", "--replicas=2"});
             },
             true}),
      filledIn({"CoreDNS is deleted",
                [](Patient& p) {
                  p.keep("deployment", "coredns");
                  p.kube({"-n", "kube-system", "delete", "deployment", "coredns"});
                },
                "core-dns", "CoreDNS is gone", kHealth, "coredns to report ready: SKIP"},
               "control-plane node", kMaster),
      filledIn({"kube-proxy is deleted",
                [](Patient& p) {
                  p.keep("daemonset", "kube-proxy");
                  p.kube({"-n", "kube-system", "delete", "daemonset", "kube-proxy"});
                },
                "kube-proxy", "kube-proxy is gone", kHealth, "kube-proxy to report ready: SKIP"},
               "control-plane node", kMaster),
      filledIn({"flannel is deleted",
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
               "control-plane node", kMaster),
  };
}

std::vector<Illness> ofKeptAwayPods() {
  return {
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
      filledIn({"a taint keeps CoreDNS away",
                [](Patient& p) {
                  p.kube({"taint", "node", "--all", "a=b:NoSchedule"});
                  deleteDns(p);
                },
                "core-dns", "because of taints", kHealth, "untolerated taint",
                [](Patient& p) { p.kube({"taint", "node", "--all", "a=b:NoSchedule-"}); }, true},
               [](Patient&) {
                 return Answers{.placeholders = {{"node", "--all"}, {"taint", "a=b:NoSchedule"}}};
               }),
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
  };
}

std::vector<Illness> ofBrokenWorkloads() {
  return {
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

}  // namespace

std::vector<Illness> illnessesOfPods() {
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
      typed({"a node is cordoned", [](Patient& p) { p.kube({"cordon", p.worker.name}); },
             "node-cordoned", "the node sick-worker-1 is cordoned", kHealth, "unschedulable",
             [](Patient& p) { p.kube({"uncordon", p.worker.name}); }, true}),
  };
}

std::vector<Illness> illnessesOfTheSystem() {
  auto all = ofMissingWorkloads();
  append(all, ofKeptAwayPods());
  append(all, ofBrokenWorkloads());
  return all;
}

std::vector<Illness> illnessesOfManifests() {
  auto extra = [](const std::string& url) {
    return object({"cluster", "extraManifests"}, "[\"" + url + "\"]");
  };
  return {
      {"a manifest's server is down",
       [extra](Patient& p) { p.patch(p.master, extra("http://10.5.0.1:9/cni.yaml")); }, "manifest",
       "the manifest http://10.5.0.1:9/cni.yaml cannot be fetched", kManifests,
       "http://10.5.0.1:9/cni.yaml", nullptr, true},
      editedOnMaster({"a manifest's URL is not there",
                      [extra](Patient& p) {
                        p.serve(harness::Manner::kNotFound, "");
                        p.patch(p.master, extra("http://10.5.0.1:8099/cni.yaml"));
                      },
                      "manifest", "404", kManifests, "404"}),
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

}  // namespace talos
