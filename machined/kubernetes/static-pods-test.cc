#include "machined/kubernetes/static-pods.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "machined/kubernetes/secret-files.h"

namespace talos::machined {
namespace {

using Spec = rpc::ControlPlaneConfigSpec;
using testing::HasSubstr;
using testing::Not;

struct StaticPods : public testing::Test {
  capnp::MallocMessageBuilder message;
  PodContext context{
      .version = {1, 34, 4}, .podSecurityPolicy = true, .configVersion = 2, .secretsVersion = "1"};
  ~StaticPods() noexcept override {}

  static kj::String image(kj::StringPtr name, KubernetesVersion version) {
    return kj::str("registry.k8s.io/", name, ":v", version.toString());
  }
  Spec::ApiServer::Builder apiServer() {
    auto spec = message.initRoot<Spec>().initApiServer();
    spec.setImage(image("kube-apiserver", context.version));
    spec.setControlPlaneEndpoint("https://172.20.0.1:6443");
    spec.initEtcdServers(1).set(0, "https://127.0.0.1:2379");
    spec.setLocalPort(6443);
    spec.setServiceCIDR("10.96.0.0/12");
    return spec;
  }
  Spec::ControllerManager::Builder controllerManager() {
    auto spec = message.initRoot<Spec>().initControllerManager();
    spec.setImage(image("kube-controller-manager", context.version));
    spec.setPodCIDR("10.244.0.0/16");
    spec.setServiceCIDR("10.96.0.0/12");
    return spec;
  }
  Spec::Scheduler::Builder scheduler() {
    auto spec = message.initRoot<Spec>().initScheduler();
    spec.setImage(image("kube-scheduler", context.version));
    return spec;
  }
  kj::String pod() { return staticPod(apiServer().asReader(), context); }
  static void set(capnp::List<config::StringPair>::Builder list, unsigned i, kj::StringPtr key,
                  kj::StringPtr value) {
    list[i].setKey(key);
    list[i].setValue(value);
  }
};

// Compares with testdata; UPDATE_GOLDEN=1 rewrites it.
void expectGolden(kj::StringPtr name, kj::StringPtr made) {
  auto path = std::string(TALOS_TESTDATA "/") + name.cStr() + ".yaml";
  if (getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << made.cStr();
  std::ifstream file(path);
  std::string golden((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(golden, made.cStr()) << path;
}

// Catches: a flag that a release does not have, which would keep its program from starting.
TEST_F(StaticPods, AreTheReleasesOwn) {
  for (auto version :
       {KubernetesVersion{1, 20, 6}, KubernetesVersion{1, 30, 14}, KubernetesVersion{1, 35, 4}}) {
    context.version = version;
    auto suffix = kj::str("-", version.major, ".", version.minor);
    expectGolden(kj::str("kube-apiserver", suffix), pod());
    expectGolden(kj::str("kube-controller-manager", suffix),
                 staticPod(controllerManager().asReader(), context));
    expectGolden(kj::str("kube-scheduler", suffix), staticPod(scheduler().asReader(), context));
  }
}

// Catches: a built-in argument among those that the documents of 1.20 print, or before them.
TEST_F(StaticPods, TheControllerManagersArgumentsBeginAsTheDocumentsPrintThem) {
  context.version = {1, 20, 4};
  std::string text = staticPod(controllerManager().asReader(), context).cStr();
  std::string folder = "/system/secrets/kubernetes/kube-controller-manager/";
  std::string printed;
  for (auto argument :
       {std::string("/usr/local/bin/kube-controller-manager"),
        std::string("--allocate-node-cidrs=true"), std::string("--cloud-provider="),
        std::string("--cluster-cidr=10.244.0.0/16"),
        std::string("--service-cluster-ip-range=10.96.0.0/12"),
        "--cluster-signing-cert-file=" + folder + "ca.crt",
        "--cluster-signing-key-file=" + folder + "ca.key",
        std::string("--configure-cloud-routes=false"), "--kubeconfig=" + folder + "kubeconfig",
        std::string("--leader-elect=true"), "--root-ca-file=" + folder + "ca.crt",
        "--service-account-private-key-file=" + folder + "service-account.key",
        std::string("--profiling=false")}) {
    printed += "            - " + argument + "\n";
  }
  EXPECT_NE(std::string::npos, text.find(printed)) << text;
}

// Catches: an argument that is given twice, where some flags add up; an order that changes.
TEST_F(StaticPods, ArgumentsOfTheConfigTakeThePlaceOfOurs) {
  auto spec = apiServer();
  auto extra = spec.initExtraArgs(3);
  set(extra, 0, "v", "4");
  set(extra, 1, "audit-log-maxage", "7");
  set(extra, 2, "feature-gates", "A=true");
  auto made = staticPod(spec.asReader(), context);
  kj::StringPtr text = made;
  auto at = [&](const char* part) { return std::string(text.cStr()).find(part); };
  EXPECT_NE(std::string::npos, at("- --audit-log-maxage=7\n"));
  EXPECT_EQ(at("--audit-log-maxage"), std::string(text.cStr()).rfind("--audit-log-maxage"));
  EXPECT_LT(at("--kubelet-preferred-address-types"), at("--feature-gates=A=true"));
  EXPECT_LT(at("--feature-gates=A=true"), at("- --v=4"));
}

// Catches: an API server that exits immediately, because it gets two authorization settings.
TEST_F(StaticPods, AFileOfAuthorizersIsInPlaceOfTheModes) {
  EXPECT_NE(std::string::npos,
            std::string(pod().cStr()).find("- --authorization-mode=Node,RBAC\n"));
  auto spec = apiServer();
  set(spec.initExtraArgs(1), 0, "authorization-config", "/etc/authorizers.yaml");
  std::string text = staticPod(spec.asReader(), context).cStr();
  EXPECT_NE(std::string::npos, text.find("- --authorization-config=/etc/authorizers.yaml\n"));
  EXPECT_EQ(std::string::npos, text.find("--authorization-mode"));
}

// Catches: a scheduler that ignores its file, or whose arguments contradict the file;
// a file without the credentials of the node.
TEST_F(StaticPods, TheSchedulersFileIsInPlaceOfItsArguments) {
  std::string plain = staticPod(scheduler().asReader(), context).cStr();
  EXPECT_THAT(plain, HasSubstr("- --kubeconfig=/system/secrets/kubernetes/kube-scheduler/"));
  auto spec = scheduler();
  spec.setConfig("kind: KubeSchedulerConfiguration\n");
  std::string text = staticPod(spec.asReader(), context).cStr();
  EXPECT_THAT(text, HasSubstr("- --config=/system/secrets/kubernetes/kube-scheduler/"
                              "scheduler-config.yaml\n"));
  for (auto argument : {"--kubeconfig", "--leader-elect", "--profiling"}) {
    EXPECT_THAT(text, Not(HasSubstr(argument)));
  }
}

// Catches: a file of the config that the API server does not read; a plugin that is configured and
// does not run, or that runs although the config disables it; two settings of authorizers.
TEST_F(StaticPods, TheApiServerReadsTheFilesOfTheConfig) {
  constexpr auto kFolder = "/system/secrets/kubernetes/kube-apiserver/";
  auto spec = apiServer();
  spec.setAdmissionControl("plugins: []\n");
  spec.setAuthorizationConfig("authorizers: []\n");
  auto plugins = spec.initAdmissionPlugins(3);
  plugins.set(0, "EventRateLimit");
  plugins.set(1, "Priority");
  plugins.set(2, "AlwaysPullImages");
  set(spec.initExtraArgs(1), 0, "disable-admission-plugins", "AlwaysPullImages");
  std::string text = staticPod(spec.asReader(), context).cStr();
  EXPECT_THAT(text,
              HasSubstr(std::string("- --audit-policy-file=") + kFolder + "auditpolicy.yaml"));
  EXPECT_THAT(text, HasSubstr(std::string("- --admission-control-config-file=") + kFolder +
                              "admission-control-config.yaml\n"));
  EXPECT_THAT(text, HasSubstr(std::string("- --authorization-config=") + kFolder +
                              "authorization-config.yaml\n"));
  EXPECT_THAT(text, Not(HasSubstr("--authorization-mode")));
  EXPECT_THAT(text, HasSubstr("ResourceQuota,Priority,NodeRestriction,EventRateLimit\n"));
  set(spec.initExtraArgs(1), 0, "enable-admission-plugins", "NodeRestriction");
  EXPECT_THAT(staticPod(spec.asReader(), context).cStr(),
              HasSubstr("- --enable-admission-plugins=NodeRestriction,EventRateLimit,Priority,"
                        "AlwaysPullImages\n"));
}

// Catches: an audit log that is gone with its pod; a second volume at one place, with which
// the kubelet refuses the pod.
TEST_F(StaticPods, TheAuditLogIsOnTheMachine) {
  auto spec = apiServer();
  std::string text = staticPod(spec.asReader(), context).cStr();
  for (auto part :
       {"- --audit-log-path=/var/log/audit/kube/kube-apiserver.log\n", "- --audit-log-maxage=30\n",
        "- --audit-log-maxbackup=10\n", "- --audit-log-maxsize=100\n",
        "- mountPath: /var/log/audit/kube\n              name: audit\n",
        "- hostPath:\n            path: /var/log/audit/kube\n          name: audit\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  auto volume = spec.initExtraVolumes(1)[0];
  volume.setName("var-log-audit-kube");
  volume.setHostPath("/var/other");
  volume.setMountPath("/var/log/audit/kube");
  text = staticPod(spec.asReader(), context).cStr();
  EXPECT_THAT(text, Not(HasSubstr("name: audit\n")));
  EXPECT_THAT(text, HasSubstr("path: /var/other\n"));
  EXPECT_THAT(text, HasSubstr("--audit-log-path=/var/log/audit/kube/kube-apiserver.log\n"));
  for (auto covering : {"/var/log/audit/kube/", "/var/log", "/"}) {
    volume.setMountPath(covering);
    volume.setReadonly(true);
    text = staticPod(spec.asReader(), context).cStr();
    EXPECT_THAT(text, Not(HasSubstr("name: audit\n"))) << covering;
    EXPECT_THAT(text, HasSubstr("--audit-log-path=-\n")) << covering;
  }
  volume.setMountPath("/var/log/audit/kubelet");
  text = staticPod(spec.asReader(), context).cStr();
  EXPECT_THAT(text, HasSubstr("name: audit\n"));
}

// Catches: a variable that Kubernetes expands; a request of one resource that removes the other; a
// runtime that does not know its limit, or takes another one than the config has.
TEST_F(StaticPods, VariablesAndResourcesAreThoseOfTheConfig) {
  auto spec = controllerManager();
  set(spec.initEnvironmentVariables(2), 0, "A", "$(B) $");
  set(spec.getEnvironmentVariables(), 1, "GOGC", "50");
  set(spec.initResources().initRequests(1), 0, "cpu", "2");
  set(spec.getResources().initLimits(1), 0, "memory", "1Gi");
  std::string text = staticPod(spec.asReader(), context).cStr();
  EXPECT_THAT(text, HasSubstr("          env:\n"
                              "            - name: GOMEMLIMIT\n"
                              "              value: \"1020054732\"\n"
                              "            - name: A\n"
                              "              value: $$(B) $$\n"
                              "            - name: GOGC\n"
                              "              value: \"50\"\n"));
  EXPECT_THAT(text, HasSubstr("          resources:\n"
                              "            limits:\n"
                              "                memory: 1Gi\n"
                              "            requests:\n"
                              "                cpu: \"2\"\n"
                              "                memory: 256Mi\n"));
  set(spec.initEnvironmentVariables(1), 0, "GOMEMLIMIT", "off");
  text = staticPod(spec.asReader(), context).cStr();
  EXPECT_THAT(text, HasSubstr("name: GOMEMLIMIT\n              value: \"off\""));
  EXPECT_THAT(text, Not(HasSubstr("1020054732")));
}

TEST_F(StaticPods, VolumesOfTheConfigAreMounted) {
  auto spec = scheduler();
  auto volume = spec.initExtraVolumes(1)[0];
  volume.setName("etc-scheduler");
  volume.setHostPath("/var/lib/scheduler");
  volume.setMountPath("/etc/scheduler");
  volume.setReadonly(true);
  std::string text = staticPod(spec.asReader(), context).cStr();
  EXPECT_NE(std::string::npos, text.find("            - mountPath: /etc/scheduler\n"
                                         "              name: etc-scheduler\n"
                                         "              readOnly: true\n"))
      << text;
  EXPECT_NE(std::string::npos, text.find("        - hostPath:\n"
                                         "            path: /var/lib/scheduler\n"
                                         "          name: etc-scheduler\n"));
}

TEST_F(StaticPods, PolicyOfPodsIsAdmittedWhereItIsWantedAndKnown) {
  auto has = [&]() {
    return std::string(pod().cStr()).find("PodSecurityPolicy") != std::string::npos;
  };
  context.version = {1, 20, 6};
  EXPECT_TRUE(has());
  context.podSecurityPolicy = false;
  EXPECT_FALSE(has());
}

// The cloud's controllers are a workload: the API server of 1.33 does not know the flag any more.
TEST_F(StaticPods, PassesTheCloudProviderToReleasesThatKnowIt) {
  auto of = [&](KubernetesVersion version) {
    context.version = version;
    auto api = apiServer();
    api.setCloudProvider("external");
    auto first = kj::str(staticPod(api.asReader(), context));
    auto manager = controllerManager();
    manager.setCloudProvider("external");
    auto both = std::string(first.cStr()) + staticPod(manager.asReader(), context).cStr();
    size_t count = 0;
    for (size_t i = 0; (i = both.find("--cloud-provider=external", i)) != std::string::npos; ++i)
      ++count;
    return count;
  };
  EXPECT_EQ(2u, of({1, 32, 0}));
  EXPECT_EQ(1u, of({1, 33, 0}));
}

// Catches: an API server that cannot be reached on a cluster of IPv6.
TEST_F(StaticPods, TheApiListensWhereTheClusterIs) {
  auto listensAt = [&](kj::StringPtr services) {
    auto spec = apiServer();
    spec.setServiceCIDR(services);
    std::string text = staticPod(spec.asReader(), context).cStr();
    return text.find("--bind-address=::\n") != std::string::npos ||
           text.find("--bind-address=::\"") != std::string::npos;
  };
  EXPECT_FALSE(listensAt("10.96.0.0/12"));
  EXPECT_FALSE(listensAt("10.96.0.0/12,fd00:1::/112"));
  EXPECT_TRUE(listensAt("fd00:1::/112"));
}

// Catches: a pod that is restarted without a change, or not restarted after a change.
TEST_F(StaticPods, EqualInputGivesEqualBytes) {
  auto first = pod();
  EXPECT_EQ(first, pod());
  context.secretsVersion = "2";
  EXPECT_NE(first, pod());
  context.secretsVersion = "1";
  context.configVersion = 3;
  EXPECT_NE(first, pod());
}

}  // namespace
}  // namespace talos::machined
