// The settings of the control plane's components in the machine config, each read where it acts: in
// the audit log, in what the API server admits and authorizes, in the pods' objects and processes,
// and in which pods are scheduled. One node has all of them.
#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSettings = R"(
cluster:
  allowSchedulingOnControlPlanes: true
  apiServer:
    env: {SETTING: '$(POD_IP) $'}
    resources: {requests: {cpu: 150m}, limits: {memory: 2Gi}}
    auditPolicy:
      apiVersion: audit.k8s.io/v1
      kind: Policy
      omitStages: [RequestReceived]
      rules:
        - {level: Request, resources: [{resources: [configmaps]}], namespaces: [default], verbs: [create]}
        - {level: None}
    admissionControl:
      - name: PodSecurity
        configuration:
          apiVersion: pod-security.admission.config.k8s.io/v1alpha1
          kind: PodSecurityConfiguration
          defaults: {enforce: baseline, enforce-version: latest}
          exemptions: {namespaces: [kube-system]}
      - name: AlwaysPullImages
    authorizationConfig: [{type: RBAC, name: rbac}]
  controllerManager:
    resources: {requests: {memory: 200Mi}}
  scheduler:
    resources: {limits: {cpu: 2}}
    config:
      profiles: [{schedulerName: default-scheduler}, {schedulerName: settings}]
)";

// In place of the policy above: a patch replaces a policy as a whole.
constexpr const char* kOtherPolicy = R"(
cluster:
  apiServer:
    auditPolicy:
      apiVersion: audit.k8s.io/v1
      kind: Policy
      rules: [{level: Metadata, resources: [{resources: [secrets]}], namespaces: [default], verbs: [create]}]
)";

constexpr const char* kPrivileged =
    R"(--overrides={"spec": {"containers": [{"name": "a", "image": "busybox:1.37", )"
    R"("securityContext": {"privileged": true}}]}})";

std::string sleeper(const std::string& name, const std::string& scheduler) {
  return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", labels: {app: " + name +
         "}}, spec: {schedulerName: " + scheduler +
         ", terminationGracePeriodSeconds: 0, containers: [{name: main, image: 'busybox:1.37', "
         "command: [sleep, '100000']}]}}\n";
}

struct ControlPlaneSettings : public KubeHost {
  ~ControlPlaneSettings() noexcept override {}
  std::unique_ptr<KubeCluster> cluster;

  void TearDown() override {
    cluster = nullptr;
    KubeHost::TearDown();
  }
  const KubeNode& node() const { return cluster->nodes[0]; }
  std::string at(std::vector<std::string> words) const {
    return cluster->talos.ok(cluster->at(node(), std::move(words)));
  }
  // Applies a patch to the running config. Returns what talosctl says of it.
  std::string patched(const std::string& patch) const {
    auto result = cluster->talos.talosctl(
        cluster->at(node(), {"patch", "mc", "--mode=no-reboot", "-p", patch}));
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out + result.err;
  }
  std::string auditLog() const { return at({"read", "/var/log/audit/kube/kube-apiserver.log"}); }
  // Returns a file of the program in /proc, with line ends between its texts.
  std::string fileOf(const char* program, const char* name) const {
    auto pid = std::to_string(cluster->talos.program(node().name, program));
    auto text = harness::slurp("/proc/" + pid + "/" + name);
    for (char& c : text) c = c == '\0' ? '\n' : c;
    return text;
  }
  std::string ofMirror(const std::string& component, const std::string& path) const {
    return cluster->ok({"-n", "kube-system", "get", "pod", component + "-" + node().name, "-o",
                        "jsonpath={.spec.containers[0]" + path + "}"});
  }
  std::string phaseOf(const std::string& pod) const {
    return cluster->ok({"get", "pod", pod, "-o", "jsonpath={.status.phase}"});
  }
  // Creates an object as soon as an API server takes it.
  void make(const std::vector<std::string>& object) const {
    std::vector<std::string> words = {"create"};
    words.insert(words.end(), object.begin(), object.end());
    harness::Result made;
    EXPECT_TRUE(eventually(
        [&] {
          made = cluster->kubectl(words);
          return made.status == 0 || contains(made.err, "AlreadyExists") ||
                 contains(made.err, "already exists");
        },
        kPodsUp, 0.5))
        << made.err;
  }
  void expectLogged(const std::string& line) const {
    std::string log;
    EXPECT_TRUE(eventually(
        [&] {
          log = auditLog();
          return contains(log, line);
        },
        kPodsUp, 0.5))
        << line << "\n"
        << log;
  }

  void checkAuditLog() const;
  void checkAdmission() const;
  void checkPods() const;
  void checkScheduler() const;
  void checkOtherPolicy() const;
  void checkDisabledScheduler() const;
};

void ControlPlaneSettings::checkAuditLog() const {
  make({"configmap", "seen", "--from-literal=a=body"});
  make({"secret", "generic", "unseen"});
  expectLogged(R"("name":"seen")");
  auto log = auditLog();
  EXPECT_THAT(log, HasSubstr(R"("level":"Request")"));
  EXPECT_THAT(log, HasSubstr(R"("data":{"a":"body"})"));
  EXPECT_THAT(log, Not(HasSubstr("unseen")));
  EXPECT_THAT(log, Not(HasSubstr("readyz")));
  EXPECT_THAT(log, Not(HasSubstr("RequestReceived")));
}

void ControlPlaneSettings::checkAdmission() const {
  make({"namespace", "strict"});
  cluster->ok({"label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted"});
  auto run = [&](const char* name, std::vector<std::string> more) {
    std::vector<std::string> words = {
        "-n", name, "run", "a", "--image=busybox:1.37", "--dry-run=server"};
    words.insert(words.end(), more.begin(), more.end());
    return cluster->kubectl(std::move(words));
  };
  EXPECT_THAT(run("strict", {}).err, HasSubstr("violates PodSecurity \"restricted:latest\""));
  EXPECT_THAT(run("strict", {kPrivileged}).err, HasSubstr("violates PodSecurity"));
  EXPECT_THAT(run("default", {kPrivileged}).err,
              HasSubstr("violates PodSecurity \"baseline:latest\""));
  auto system = run("kube-system", {kPrivileged});
  EXPECT_EQ(system.status, 0) << system.err;
  auto plain = run("default", {"-o", "jsonpath={.spec.containers[0].imagePullPolicy}"});
  EXPECT_EQ(plain.out, "Always") << plain.err << ": AlwaysPullImages does not run";
}

void ControlPlaneSettings::checkPods() const {
  EXPECT_EQ(ofMirror("kube-apiserver", ".resources.requests.cpu"), "150m");
  EXPECT_EQ(ofMirror("kube-apiserver", ".resources.requests.memory"), "512Mi");
  EXPECT_EQ(ofMirror("kube-apiserver", ".resources.limits.memory"), "2Gi");
  EXPECT_EQ(ofMirror("kube-controller-manager", ".resources.requests.memory"), "200Mi");
  EXPECT_EQ(ofMirror("kube-scheduler", ".resources.limits.cpu"), "2");
  auto environment = fileOf("kube-apiserver", "environ");
  EXPECT_THAT(environment, HasSubstr("SETTING=$(POD_IP) $\n"));
  EXPECT_THAT(environment, HasSubstr("GOMEMLIMIT=2040109465\n"));
  auto arguments = fileOf("kube-apiserver", "cmdline");
  EXPECT_THAT(arguments, HasSubstr("--authorization-config="));
  EXPECT_THAT(arguments, Not(HasSubstr("--authorization-mode")));
}

void ControlPlaneSettings::checkScheduler() const {
  cluster->apply(sleeper("placed", "settings"));
  cluster->awaitPods("default", "app=placed", 1, kPodsUp);
}

void ControlPlaneSettings::checkOtherPolicy() const {
  EXPECT_THAT(patched(kOtherPolicy), HasSubstr("restarts kube-apiserver"));
  // The API server that reads the new policy is another process than the one that answers first.
  std::string log;
  unsigned number = 0;
  EXPECT_TRUE(eventually(
      [&] {
        cluster->kubectl({"create", "secret", "generic", "later" + std::to_string(++number)});
        log = auditLog();
        return contains(log, R"("name":"later)");
      },
      kPodsUp, 1))
      << log;
  EXPECT_THAT(log, HasSubstr(R"("stage":"RequestReceived")")) << "the new policy omits no stage";
  make({"configmap", "unseen"});
  make({"secret", "generic", "last"});
  expectLogged(R"("name":"last")");
  EXPECT_THAT(auditLog(),
              Not(HasSubstr(R"("resource":"configmaps","namespace":"default","name":"unseen")")));
}

void ControlPlaneSettings::checkDisabledScheduler() const {
  patched("machine: {controlPlane: {scheduler: {disabled: true}}}");
  harness::Result mirrors;
  EXPECT_TRUE(eventually(
      [&] {
        mirrors = cluster->kubectl(
            {"-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-scheduler", "-o", "name"});
        return mirrors.status == 0 && mirrors.out.empty();
      },
      kPodsUp, 0.5))
      << mirrors.out << mirrors.err;
  EXPECT_EQ(cluster->talos.program(node().name, "kube-scheduler"), 0);
  cluster->apply(sleeper("waiting", "default-scheduler"));
  // Without a scheduler the node is healthy nevertheless: its config wants none.
  auto health = cluster->inside({"--wait-timeout=110s"});
  EXPECT_EQ(health.status, 0) << health.out << health.err;
  EXPECT_EQ(phaseOf("waiting"), "Pending");
  EXPECT_EQ(cluster->placesOf("app=waiting"), " ") << "it has a node";
  patched("machine: {controlPlane: {scheduler: {disabled: false}}}");
  cluster->awaitPods("default", "app=waiting", 1, kPodsUp);
}

// Catches: a policy, a plugin, an authorizer, a variable, a quantity or a profile that stays in the
// config; a default of Pod Security that does not hold; a change of a policy that does not restart
// the API server, or is not announced; a scheduler that runs in spite of the config, or a node that
// counts as ill without one.
TEST_F(ControlPlaneSettings, ActInTheControlPlane) {
  cluster = std::make_unique<KubeCluster>(
      "control-plane", 1, 0, std::vector<std::string>{"--config-patch-control-plane", kSettings});
  cluster->awaitReady(1, kClusterUp);
  for (auto part : {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}) {
    cluster->awaitPods("kube-system", std::string("k8s-app=") + part, 1, kPodsUp);
  }
  if (HasFailure()) return;
  checkAuditLog();
  checkAdmission();
  checkPods();
  checkScheduler();
  checkOtherPolicy();
  checkDisabledScheduler();
}

}  // namespace
}  // namespace talos
