#include "machined/kubernetes/control-plane-pods.h"

#include <sys/stat.h>

#include "common/base/file.h"
#include "machined/kubernetes/component-files.h"
#include "machined/kubernetes/test-kubernetes-controllers.h"

namespace talos::machined {
namespace {

struct ControlPlanePods : public KubernetesControllers {
  ~ControlPlanePods() noexcept override {}
};

// Catches: a program that starts before the file of its config is written, and reads the file of
// the config before; a second restart for the same change; a file that stays without a config.
TEST_F(ControlPlanePods, APodFollowsTheFilesOfItsConfig) {
  begin();
  auto annotation = [&](kj::StringPtr component) {
    auto pod = KJ_ASSERT_NONNULL(store.tryGet<rpc::StaticPodSpec>(component), log).getPod();
    auto at = strstr(pod.cStr(), "config-version: \"");
    KJ_ASSERT(at != nullptr, pod);
    return std::string(at + strlen("config-version: \""), 1);
  };
  auto file = [&](kj::StringPtr name) {
    auto text = tryReadFile(kj::str(folder, "/", name));
    return std::string(text.map([](auto& t) { return kj::str(t); }).orDefault(kj::str("-")).cStr());
  };
  constexpr auto kAudit = "kube-apiserver/auditpolicy.yaml"_kj,
                 kScheduler = "kube-scheduler/scheduler-config.yaml"_kj;
  auto secretVersions = versions();
  EXPECT_EQ("1", annotation("kube-apiserver"));
  EXPECT_EQ(kUsualAuditPolicy.cStr(), file(kAudit));
  EXPECT_EQ("-", file(kScheduler));
  auto pods = [&]() {
    auto record = KJ_ASSERT_NONNULL(store.tryGet<rpc::StaticPodSpec>("kube-apiserver"));
    return record.version();
  };
  auto before = pods();
  struct stat found;

  std::string text = document().cStr();
  auto put = [&](const std::string& from, const std::string& to) {
    KJ_ASSERT(text.find(from) != text.npos, text.c_str());
    text.replace(text.find(from), from.size(), to);
  };
  put("\n    scheduler: {}\n", "\n    scheduler: {config: {profiles: []}}\n");
  put("\n    apiServer:\n",
      "\n    apiServer:\n        auditPolicy: {apiVersion: audit.k8s.io/v1, kind: Policy, rules: "
      "[{level: Request}]}\n");
  publish(text.c_str());
  settle();
  EXPECT_EQ("2", annotation("kube-apiserver"));
  EXPECT_EQ("2", annotation("kube-scheduler"));
  EXPECT_EQ("1", annotation("kube-controller-manager"));
  EXPECT_EQ(before + 1, pods()) << "the pod was restarted once";
  EXPECT_EQ(secretVersions, versions()) << "they are no secrets";
  EXPECT_NE(std::string::npos, file(kAudit).find("level: Request"));
  EXPECT_NE(std::string::npos, file(kScheduler).find("profiles: []"));
  ASSERT_EQ(0, stat(kj::str(folder, "/", kAudit).cStr(), &found));
  EXPECT_EQ(0400u, found.st_mode & 07777);

  auto status = KJ_ASSERT_NONNULL(store.tryGet<rpc::SecretStatusSpec>("kube-apiserver"));
  EXPECT_EQ(2u, status.getConfigVersion());
  publish(document());
  settle();
  EXPECT_EQ("-", file(kScheduler));
  EXPECT_EQ("3", annotation("kube-scheduler"));
}

// Catches: a pod that is replaced before the files of its config are written.
TEST_F(ControlPlanePods, APodWaitsForItsFiles) {
  runtime.add(kj::heap<StaticPodController>(KJ_BIND_METHOD(config, tryConfig)));
  auto put = [&](uint64_t filesOf, kj::StringPtr image) {
    putRecord<rpc::SecretStatusSpec>(store, "kube-scheduler", [&](auto spec) {
      spec.setReady(true);
      spec.setVersion("1");
      spec.setConfigVersion(filesOf);
    });
    putRecord<rpc::ControlPlaneConfigSpec>(
        store, "kube-scheduler", [&](auto spec) { spec.initScheduler().setImage(image); });
    settle();
    auto pod = store.tryGet<rpc::StaticPodSpec>("kube-scheduler");
    KJ_IF_MAYBE (is, pod) {
      auto at = strstr(is->getPod().cStr(), "image: ");
      return std::string(at, strcspn(at, "\n"));
    }
    return std::string("no pod");
  };
  EXPECT_EQ("no pod", put(0, "r/s:v1.34.1"));
  EXPECT_EQ("image: r/s:v1.34.1", put(1, "r/s:v1.34.1"));
  EXPECT_EQ("image: r/s:v1.34.1", put(1, "r/s:v1.34.2"));
  EXPECT_EQ("image: r/s:v1.34.2", put(2, "r/s:v1.34.2"));
}

}  // namespace
}  // namespace talos::machined
