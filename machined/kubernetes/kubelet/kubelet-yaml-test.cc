// Keys of machine.kubelet that decide which pods the kubelet runs and how: its configuration, its
// arguments and its container.
#include "machined/kubernetes/kubelet/kubelet-yaml.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include <set>
#include <string>

#include "machined/kubernetes/kubelet/kubelet-plan.h"
#include "machined/kubernetes/static-pods.h"

namespace talos::machined {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct KubeletKeys : public testing::Test {
  capnp::MallocMessageBuilder message, specs, secrets;
  config::Config::Builder config = message.initRoot<config::Config>();
  rpc::KubeletSpecSpec::Builder spec = specs.initRoot<rpc::KubeletSpecSpec>();
  KubeletNodeContext at;

  ~KubeletKeys() noexcept override {}
  KubeletKeys() {
    auto machine = config.initMachine();
    machine.setType(config::MachineType::WORKER);
    machine.initKubelet().setImage("kubelet:v1.34.4");
    config.initCluster().initControlPlane().setEndpoint("https://10.5.0.2:6443");
    at.hostname = kj::str("worker-1");
    at.addresses.add(kj::str("10.5.0.3"));
  }
  config::Kubelet::Builder kubelet() { return config.getMachine().getKubelet(); }
  std::string yaml() {
    EXPECT_TRUE(planKubelet(config, at, nullptr, spec) == nullptr);
    return spec.getConfig().cStr();
  }
  std::vector<std::string> arguments() {
    yaml();
    std::vector<std::string> result;
    for (auto argument : spec.getArguments()) result.push_back(argument.cStr());
    return result;
  }
};

// Catches: pods that still run without a filter; a field that a kubelet before 1.25 refuses.
TEST_F(KubeletKeys, DefaultSeccompProfile) {
  EXPECT_THAT(yaml(), Not(HasSubstr("seccompDefault")));
  kubelet().setDefaultRuntimeSeccompProfileEnabled(true);
  EXPECT_THAT(yaml(), HasSubstr("\nseccompDefault: true\n"));
  kubelet().setImage("kubelet:v1.20.6");
  EXPECT_THAT(yaml(), Not(HasSubstr("seccompDefault")));
}

// Catches: a kubelet that still reads the users' folder; a spec that names another folder than the
// kubelet's configuration, so that the pods of the control plane are written elsewhere.
TEST_F(KubeletKeys, AnotherFolderWithoutTheUsersFolder) {
  EXPECT_THAT(yaml(), HasSubstr("\nstaticPodPath: /etc/kubernetes/manifests\n"));
  EXPECT_EQ(spec.getStaticPodPath(), kManifestsFolder);
  kubelet().setDisableManifestsDirectory(true);
  EXPECT_THAT(yaml(), HasSubstr("\nstaticPodPath: /etc/kubernetes/system-manifests\n"));
  EXPECT_EQ(spec.getStaticPodPath(), kSystemManifestsFolder);
}

// Catches: a kubelet that registers all the same, or that runs no pods because it waits for its
// Node object; a kubelet that accepts every client because it cannot ask what a client may do.
TEST_F(KubeletKeys, AnUnregisteredKubeletDoesNotKnowTheApi) {
  auto labels = config.getMachine().initNodeLabels(1);
  labels[0].setKey("rack");
  labels[0].setValue("x");
  EXPECT_THAT(arguments(), Contains("--kubeconfig=/etc/kubernetes/kubeconfig-kubelet"));
  EXPECT_THAT(arguments(), Contains(StartsWith("--node-labels=")));
  EXPECT_TRUE(isRegistered(spec));
  kubelet().setSkipNodeRegistration(true);
  EXPECT_THAT(arguments(), Not(Contains(StartsWith("--kubeconfig="))));
  EXPECT_THAT(arguments(), Not(Contains(StartsWith("--node-labels="))));
  EXPECT_FALSE(isRegistered(spec));
  EXPECT_THAT(yaml(), HasSubstr("authentication:\n  webhook:\n    enabled: false\n"
                                "  anonymous:\n    enabled: false\n"
                                "authorization:\n  mode: AlwaysAllow\n"));
  EXPECT_THAT(yaml(), Not(HasSubstr("clientCAFile")));
  EXPECT_THAT(yaml(), Not(HasSubstr("serverTLSBootstrap"))) << "no API server signs it";
}

// Catches: mappings that runc does not get, or only those of users; a kubelet that is not restarted
// for them; mappings with which runc starts no kubelet.
TEST_F(KubeletKeys, IdmappedMounts) {
  auto mount = kubelet().initExtraMounts(1)[0];
  mount.setDestination("/data");
  mount.setSource("/var/data");
  auto fill = [](auto range) {
    range.setContainerID(0);
    range.setHostID(1000);
    range.setSize(2000);
  };
  yaml();
  auto secret = secrets.initRoot<rpc::KubeletSecretsSpec>();
  std::set<kj::String> digests;
  digests.insert(kubeletDigest(spec, secret));
  fill(mount.initUidMappings(1)[0]);
  yaml();
  EXPECT_EQ(0u, spec.getExtraMounts()[0].getUidMappings().size()) << "groups are not mapped";
  fill(mount.initGidMappings(1)[0]);
  yaml();
  EXPECT_TRUE(digests.insert(kubeletDigest(spec, secret)).second);
  auto container = kubeletContainer(spec);
  EXPECT_THAT(runtimeSpec(container).cStr(),
              HasSubstr("{\"destination\":\"/data\",\"type\":\"bind\",\"source\":\"/var/data\","
                        "\"options\":[\"rbind\"],"
                        "\"uidMappings\":[{\"containerID\":0,\"hostID\":1000,\"size\":2000}],"
                        "\"gidMappings\":[{\"containerID\":0,\"hostID\":1000,\"size\":2000}]}"));
  mount.getGidMappings()[0].setSize(1);
  yaml();
  EXPECT_TRUE(digests.insert(kubeletDigest(spec, secret)).second);
}

}  // namespace
}  // namespace talos::machined
