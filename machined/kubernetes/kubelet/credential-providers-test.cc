#include "machined/kubernetes/kubelet/credential-providers.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "machined/kubernetes/kubelet/kubelet-files.h"
#include "machined/system/credential-programs.h"

namespace talos::machined {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr auto kAllMayExecute = 0755;

struct CredentialProviders : public testing::Test {
  TestTree tree;
  capnp::MallocMessageBuilder message, specs, secretsMessage;
  config::Config::Builder config = message.initRoot<config::Config>();
  rpc::KubeletSpecSpec::Builder spec = specs.initRoot<rpc::KubeletSpecSpec>();
  rpc::KubeletSecretsSpec::Builder secrets = secretsMessage.initRoot<rpc::KubeletSecretsSpec>();
  KubeletNodeContext at;

  ~CredentialProviders() noexcept override {}
  CredentialProviders() {
    auto machine = config.initMachine();
    machine.setType(config::MachineType::WORKER);
    auto cluster = config.initCluster();
    cluster.initControlPlane().setEndpoint("https://10.5.0.2:6443");
    cluster.setToken("abcdef.0123456789abcdef");
    cluster.initCa().setCrt("CA\n"_kj.asBytes());
    machine.initKubelet().setImage("kubelet:v1.34.4");
    at.hostname = kj::str("worker-1");
    at.addresses.add(kj::str("10.5.0.3"));
  }
  config::Kubelet::Builder kubelet() { return config.getMachine().getKubelet(); }
  config::CredentialProvider::Builder add(kj::StringPtr name) {
    auto provider = kubelet().initCredentialProviderConfig().initProviders(1)[0];
    provider.setName(name);
    provider.initMatchImages(1).set(0, "*.registry.example.org");
    provider.setDefaultCacheDuration("12h");
    return provider;
  }
  std::vector<std::string> plan() {
    EXPECT_TRUE(planKubelet(config, at, nullptr, spec) == nullptr);
    EXPECT_TRUE(planKubeletSecrets(config, secrets) == nullptr);
    std::vector<std::string> arguments;
    for (auto argument : spec.getArguments()) arguments.push_back(argument.cStr());
    return arguments;
  }
  std::string yaml() {
    plan();
    return secrets.getCredentialProviders().cStr();
  }
  std::string mounts() { return runtimeSpec(kubeletContainer(spec)).cStr(); }
  // Returns the error of a start, or the file that it has written.
  std::string written() {
    std::string result = "no file";
    auto failure = kj::runCatchingExceptions(
        [&] { writeKubeletFiles(tree.root, spec, secrets, nullptr, kj::UNIX_EPOCH); });
    KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
    KJ_IF_MAYBE (text, tryReadFile(tree.at(kCredentialProviderConfig.slice(1)))) {
      result = text->cStr();
    }
    return result;
  }
  void make(const char* name, mode_t mode) {
    auto path = kj::str(kCredentialPrograms.slice(1), "/", name);
    tree.directory(kCredentialPrograms.slice(1));
    tree.file(path, "program");
    KJ_SYSCALL(chmod(tree.at(path).cStr(), mode));
  }
};

// Catches: a kubelet whose flags name programs although the config does not, and does not start
// without the folder; a variable with a token in a record that readers see.
TEST_F(CredentialProviders, AreInTheArgumentsAndTheContainerIfTheConfigNamesThem) {
  for (auto& argument : plan()) EXPECT_THAT(argument, Not(StartsWith("--image-credential")));
  EXPECT_EQ(yaml(), "");
  auto before = kubeletDigest(spec, secrets);
  EXPECT_THAT(mounts(), Not(HasSubstr("credentialproviders")));
  auto variable = add("example-provider").initEnv(1)[0];
  variable.setName("TOKEN");
  variable.setValue("a secret");
  auto arguments = plan();
  EXPECT_THAT(arguments, Contains("--image-credential-provider-bin-dir=/usr/local/lib/kubelet/"
                                  "credentialproviders"));
  EXPECT_THAT(arguments, Contains("--image-credential-provider-config=/etc/kubernetes/"
                                  "kubelet-credentialproviderconfig.yaml"));
  EXPECT_THAT(mounts(),
              HasSubstr("{\"destination\":\"/usr/local/lib/kubelet/credentialproviders\",\"type\":"
                        "\"bind\",\"source\":\"/usr/local/lib/kubelet/credentialproviders\","
                        "\"options\":[\"bind\",\"ro\"]}"));
  EXPECT_THAT(kj::str(spec.asReader()).cStr(), Not(HasSubstr("a secret")));
  auto with = kubeletDigest(spec, secrets);
  EXPECT_NE(before, with);
  variable.setValue("another one");
  plan();
  EXPECT_NE(with, kubeletDigest(spec, secrets)) << "the kubelet is not restarted";
}

// Catches: a version that the kubelet of the release does not know; one of the config that is
// replaced; a key of a later release that is lost; flags for a kubelet without programs.
TEST_F(CredentialProviders, TheFileHasTheVersionsOfTheRelease) {
  auto provider = add("example-provider");
  provider.initArgs(1).set(0, "get");
  auto other = provider.initOthers(1)[0];
  other.setKey("tokenAttributes");
  other.setValue("{requireServiceAccount: true}");
  EXPECT_EQ(yaml(),
            "apiVersion: kubelet.config.k8s.io/v1\n"
            "kind: CredentialProviderConfig\n"
            "providers:\n"
            "    - name: example-provider\n"
            "      matchImages:\n"
            "        - \"*.registry.example.org\"\n"
            "      defaultCacheDuration: 12h\n"
            "      apiVersion: credentialprovider.kubelet.k8s.io/v1\n"
            "      args:\n"
            "        - get\n"
            "      tokenAttributes:\n"
            "        {requireServiceAccount: true}\n");
  kubelet().setImage("kubelet:v1.25.3");
  EXPECT_THAT(yaml(), HasSubstr("kubelet.config.k8s.io/v1beta1\n"));
  EXPECT_THAT(yaml(), HasSubstr("credentialprovider.kubelet.k8s.io/v1beta1\n"));
  provider.setApiVersion("credentialprovider.kubelet.k8s.io/v1alpha1");
  EXPECT_THAT(yaml(), HasSubstr("credentialprovider.kubelet.k8s.io/v1alpha1\n"));
  kubelet().setImage("kubelet:v1.20.6");
  EXPECT_EQ(yaml(), "");
  for (auto& argument : plan()) EXPECT_THAT(argument, Not(StartsWith("--image-credential")));
}

// Catches: a kubelet that is started without its program, and dies again and again without a word
// of this node; a file with a token that others read, or that stays when the config has no program.
TEST_F(CredentialProviders, AStartWithoutTheProgramSaysSo) {
  add("example-provider");
  plan();
  EXPECT_EQ(written(),
            "machine.kubelet.credentialProviderConfig: this system has no /usr/local/lib/kubelet/"
            "credentialproviders/example-provider; remove example-provider, or upgrade to a system "
            "that has it");
  make("example-provider", 0644);
  EXPECT_THAT(written(), HasSubstr("credentialproviders/example-provider is not a program"));
  make("example-provider", kAllMayExecute);
  EXPECT_EQ(written(), yaml());
  struct stat info = {};
  auto path = tree.at(kCredentialProviderConfig.slice(1));
  KJ_SYSCALL(stat(path.cStr(), &info), path);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  kubelet().disownCredentialProviderConfig();
  plan();
  EXPECT_EQ(written(), "no file");
}

// Catches: a folder that counts as a program; a wrong place in the message about a list.
TEST_F(CredentialProviders, MissingProgramsAreNamedByTheirPlace) {
  make("there", kAllMayExecute);
  tree.directory(kj::str(kCredentialPrograms.slice(1), "/folder"));
  kj::String names[] = {kj::str("there"), kj::str("absent"), kj::str("folder")};
  auto missing = missingPrograms(tree.root, names);
  ASSERT_EQ(missing.size(), 2u);
  EXPECT_EQ(missing[0].entry, 1u);
  EXPECT_EQ(missing[0].name, "absent");
  EXPECT_EQ(missing[1].entry, 2u);
  EXPECT_THAT(missing[1].problem.cStr(), HasSubstr("is not a program"));
}

}  // namespace
}  // namespace talos::machined
