// `talosctl convert-k8s` for real: the document "Converting Control Plane", line by line, on a
// self-hosted control plane of the release that it is about. $KUBERNETES_IMAGES has that when
// `make e2e` has compiled it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/kubernetes/self-hosted.h"
#include "tests/kubernetes/web-servers.h"

namespace talos {
namespace {

using harness::Background;
using harness::contains;
using harness::eventually;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr double kStep = 420;  // seconds, of a conversion from one line to another
constexpr const char* kAskFirst =
    "confirm disabling pod-checkpointer to proceed with control plane update [yes/no]: ";
constexpr const char* kAskSecond =
    "confirm applying static pod definitions and manifests [yes/no]: ";
const std::vector<std::string> kParts = {"kube-apiserver", "kube-controller-manager",
                                         "kube-scheduler"};

// A conversion whose questions the test answers.
class Conversion {
 public:
  Conversion(const SelfHosted& hosted, const std::string& name) {
    auto pipe = hosted.cluster.talos.folder() + "/" + name;
    EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    std::vector<std::string> words = {"sh", "-c", "exec \"$@\" <\"$0\"", pipe};
    auto& first = hosted.cluster.nodes[0];
    auto command = hosted.cluster.talos.command(hosted.cluster.at(first, {"convert-k8s"}));
    words.insert(words.end(), command.begin(), command.end());
    program = std::make_unique<Background>(words);
    answers = open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_GE(answers, 0);
  }
  ~Conversion() { close(answers); }
  Conversion(const Conversion&) = delete;

  void say(const std::string& line) {
    EXPECT_EQ(::write(answers, line.data(), line.size()), ssize_t(line.size()));
  }
  void awaitOut(const std::string& text) {
    EXPECT_TRUE(program->waitFor([&](auto& out, auto&) { return contains(out, text); }, kStep))
        << "no line " << text << ":\n"
        << program->out() << program->err();
  }
  void awaitQuestion(const std::string& text) {
    EXPECT_TRUE(program->waitFor([&](auto&, auto& err) { return err.ends_with(text); }, kStep))
        << "no question " << text << ":\n"
        << program->out() << program->err();
  }
  int finish() { return program->finish(2 * kStep); }
  std::string out() const { return program->out(); }
  std::string err() const { return program->err(); }

 private:
  std::unique_ptr<Background> program;
  int answers;
};

std::string squeezed(const std::string& text) {
  return std::regex_replace(text, std::regex(" +"), " ");
}

class Convert : public KubeHost {
 protected:
  std::unique_ptr<SelfHosted> hosted;

  void TearDown() override {
    hosted = nullptr;
    KubeHost::TearDown();
  }
  const KubeCluster& cluster() const { return hosted->cluster; }
  bool begin(const std::string& name, unsigned masters, unsigned workers) {
    hosted = std::make_unique<SelfHosted>(name, masters, workers);
    if (HasFailure()) return false;
    cluster().apply(kWebServers);
    cluster().awaitPods("default", "app=web", masters + workers, kPodsUp);
    // The token of an account, as a pod has it.
    auto name64 = cluster().ok(
        {"-n", "kube-system", "get", "sa", "coredns", "-o", "jsonpath={.secrets[0].name}"});
    token = cluster().ok({"-n", "kube-system", "get", "secret", name64, "-o",
                          "go-template={{.data.token | base64decode}}"});
    EXPECT_FALSE(token.empty());
    return !HasFailure();
  }
  std::string token;

  std::string discovered() const {
    std::string all;
    for (auto& node : hosted->masters()) {
      all += std::string(all.empty() ? "" : " ") + "\"" + node.address + "\"";
    }
    return "discovered master nodes [" + all + "]\n";
  }
  std::string patching() const {
    std::string all;
    for (auto& node : hosted->masters()) {
      all += "patching master node \"" + node.address + "\" configuration\n";
    }
    return all;
  }
  // The document's output down to the first question.
  std::string before(const std::string& authority) const {
    return discovered() +
           "current self-hosted status: true\ngathering control plane configuration\n" + authority +
           patching() +
           R"(waiting for static pod definitions to be generated
waiting for manifests to be generated
Talos generated control plane static pod definitions and bootstrap manifests, please verify them with commands:
    talosctl -n <master node IP> get StaticPods.kubernetes.talos.dev
    talosctl -n <master node IP> get Manifests.kubernetes.talos.dev

in order to remove self-hosted control plane, pod-checkpointer component needs to be disabled
once pod-checkpointer is disabled, the cluster shouldn't be rebooted until the entire conversion process is complete
)";
  }
  static constexpr const char* kNewAuthority =
      "aggregator CA key can't be recovered from bootkube-boostrapped control plane, generating "
      "new CA\n";
  static constexpr const char* kDisabling =
      "disabling pod-checkpointer\ndeleting daemonset \"pod-checkpointer\"\n"
      "checking for active pod checkpoints\n";
  static std::string presence(const std::string& part) {
    return "waiting for static pods for \"" + part + "\" to be present in the API server state\n";
  }
  static std::string behindTheKey() {
    std::string all;
    for (auto& part : kParts) all += presence(part);
    for (auto& part : kParts) all += "deleting daemonset \"" + part + "\"\n" + presence(part);
    return all + "conversion process completed successfully\n";
  }

  void checkStillSelfHosted() {
    for (auto& node : hosted->masters()) {
      EXPECT_EQ(hosted->selfHosted(node), "true");
      EXPECT_THAT(hosted->ownStaticPods(node), IsEmpty());
    }
    // A pod that has lost its lease on a busy host starts again.
    auto all = std::to_string(hosted->masters().size());
    for (auto& part : kParts) {
      std::string ready;
      EXPECT_TRUE(eventually(
          [&] {
            ready = cluster().ok(
                {"-n", "kube-system", "get", "ds", part, "-o", "jsonpath={.status.numberReady}"});
            return ready == all;
          },
          kPodsUp))
          << part << ": " << ready << " of " << all << " ready";
    }
  }
  // Runs the three commands of the document that show the generated objects.
  void verifyGenerated() {
    for (auto& node : hosted->masters()) {
      auto pods = cluster().talos.ok(cluster().at(node, {"get", "staticpods", "-o", "yaml"}));
      for (auto& part : kParts) EXPECT_THAT(pods, HasSubstr("k8s.gcr.io/" + part + ":v1.20.6"));
      EXPECT_THAT(pods,
                  AllOf(HasSubstr("talos.dev/config-version"), HasSubstr("id: kube-apiserver")));
      auto manifests = squeezed(cluster().talos.ok(
          cluster().at(node, {"get", "manifests", "--namespace", "controlplane"})));
      for (auto id :
           {"00-kubelet-bootstrapping-token", "03-default-pod-security-policy", "10-kube-proxy",
            "11-core-dns", "11-core-dns-svc", "11-kube-config-in-cluster"}) {
        EXPECT_THAT(manifests, HasSubstr(std::string("controlplane Manifest ") + id + " "));
      }
      cluster().talos.ok(cluster().at(node, {"get", "manifests", "--namespace=extras"}));
    }
  }
  void checkConverted() {
    auto masters = hosted->masters();
    for (auto& node : masters) {
      EXPECT_EQ(hosted->selfHosted(node), "false");
      EXPECT_THAT(hosted->ownStaticPods(node),
                  ElementsAre("talos-kube-apiserver.yaml", "talos-kube-controller-manager.yaml",
                              "talos-kube-scheduler.yaml"));
    }
    for (auto& part : kParts) {
      cluster().awaitPods("kube-system", "k8s-app=" + part, masters.size(), kPodsUp);
      EXPECT_EQ(cluster().kubectl({"-n", "kube-system", "get", "ds", part}).status, 1);
      for (auto& node : masters) {
        EXPECT_EQ(cluster().ok({"-n", "kube-system", "get", "pod", part + "-" + node.name, "-o",
                                "jsonpath={.metadata.ownerReferences[0].kind}"}),
                  "Node");
      }
    }
    // Accounts are known by tokens of before; pods are created and reach each other.
    auto known =
        cluster().kubectl({"--token", token, "--client-certificate=", "--client-key=", "auth",
                           "can-i", "list", "endpoints"});
    EXPECT_EQ(known.out, "yes\n") << known.err;
    cluster().ok({"delete", "pods", "-l", "app=web", "--wait=false"});
    cluster().awaitPods("default", "app=web", cluster().nodes.size(), kPodsUp);
    checkPodNetwork(cluster());
    auto health = cluster().talos.talosctl({"-n", "10.5.0.2", "health"}, 300);
    EXPECT_EQ(health.status, 0) << health.err;
  }
};

// Catches: a line that is not the document's; static pods or manifests before the key is gone; a
// control plane that loses its tokens, its pods or its quorum by the conversion.
TEST_F(Convert, AsTheDocumentSays) {
  TALOS_NEEDS_RELEASE(kSelfHostedRelease);
  if (!begin("con", 1, 1)) return;
  auto nodes = squeezed(cluster().ok({"get", "nodes", "-o", "wide"}));
  EXPECT_THAT(nodes,
              AllOf(HasSubstr("con-master-1 Ready control-plane,master"), HasSubstr("v1.20.6")));
  auto upgrade = cluster().talos.talosctl({"-n", "10.5.0.2", "upgrade-k8s", "--to", "1.20.6"});
  EXPECT_EQ(upgrade.status, 1);
  EXPECT_THAT(upgrade.err, HasSubstr("convert it first, with \"talosctl convert-k8s\""));
  Conversion conversion(*hosted, "answers");
  conversion.awaitQuestion(kAskFirst);
  EXPECT_EQ(conversion.out(), before(kNewAuthority));
  verifyGenerated();
  checkStillSelfHosted();
  if (HasFailure()) return;
  conversion.say("yes\n");
  conversion.awaitQuestion(kAskSecond);
  EXPECT_THAT(
      conversion.err(),
      testing::ContainsRegex("[0-9/]+ [0-9:]+ retrying error: found 1 active pod checkpoints: "
                             "\\[pod-checkpointer-[a-z0-9]+-con-master-1\\]"));
  checkStillSelfHosted();
  conversion.say("yes\n");
  EXPECT_EQ(conversion.finish(), 0) << conversion.out() << conversion.err() << cluster().overview();
  EXPECT_EQ(conversion.out(), before(kNewAuthority) + kDisabling +
                                  "removing self-hosted initialized key\n" + behindTheKey());
  checkConverted();
  auto again = cluster().talos.talosctl({"-n", "10.5.0.2", "convert-k8s"}, 120);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("there is nothing to convert"));
}

// Catches: a run that cannot be continued from where it was killed; another CA by the next one; a
// question whose "no" does something.
TEST_F(Convert, KilledAndContinued) {
  TALOS_NEEDS_RELEASE(kSelfHostedRelease);
  if (!begin("cnt", 3, 1)) return;
  {
    Conversion conversion(*hosted, "killed-after-a-patch");
    conversion.awaitOut("patching master node \"10.5.0.3\" configuration\n");
  }
  {
    Conversion conversion(*hosted, "says-no");
    conversion.awaitQuestion(kAskFirst);
    EXPECT_EQ(conversion.out(), before(""));
    EXPECT_THAT(conversion.err(), HasSubstr("using the aggregator CA of the config of 10.5.0.2"));
    conversion.say("maybe\nNo\n");
    EXPECT_EQ(conversion.finish(), 1);
    EXPECT_THAT(conversion.err(), testing::EndsWith("error: aborted\n"));
  }
  verifyGenerated();
  checkStillSelfHosted();
  EXPECT_EQ(cluster().kubectl({"-n", "kube-system", "get", "ds", "pod-checkpointer"}).status, 0);
  {
    Conversion conversion(*hosted, "killed-in-front-of-checkpoints");
    conversion.say("Y\n");
    conversion.awaitOut("checking for active pod checkpoints\n");
  }
  {
    Conversion conversion(*hosted, "killed-at-the-second-question");
    conversion.say("yes\n");
    conversion.awaitQuestion(kAskSecond);
  }
  checkStillSelfHosted();
  if (HasFailure()) return;
  {
    Conversion conversion(*hosted, "killed-after-the-key");
    conversion.say("y\nyes\n");
    conversion.awaitOut(presence(kParts[0]));
  }
  for (auto& part : {kParts[0], kParts[1]}) {
    Conversion conversion(*hosted, "killed-by-" + part);
    conversion.awaitOut("deleting daemonset \"" + part + "\"\n");
    EXPECT_THAT(conversion.out(), HasSubstr("current self-hosted status: false\n"));
  }
  Conversion conversion(*hosted, "to-the-end");
  EXPECT_EQ(conversion.finish(), 0) << conversion.out() << conversion.err() << cluster().overview();
  EXPECT_EQ(conversion.out(),
            discovered() + "current self-hosted status: false\n" + behindTheKey());
  EXPECT_THAT(conversion.err(), Not(HasSubstr("[yes/no]")));
  checkConverted();
}

// The second half of the document.
TEST_F(Convert, ByHand) {
  TALOS_NEEDS_RELEASE(kSelfHostedRelease);
  if (!begin("hand", 1, 1)) return;
  auto& talos = cluster().talos;
  EXPECT_THAT(squeezed(talos.ok({"-n", "10.5.0.2", "get", "bs"})),
              testing::ContainsRegex("NODE NAMESPACE TYPE ID VERSION SELF HOSTED\n10.5.0.2 runtime "
                                     "BootstrapStatus control-plane [0-9]+ true\n"));
  auto early = talos.talosctl({"-n", "10.5.0.2", "convert-k8s", "--remove-initialized-key"});
  EXPECT_EQ(early.status, 1);
  EXPECT_THAT(early.err, HasSubstr("10.5.0.2 has 0 of 3 static pod definitions"));
  auto key = cluster().ok({"-n", "kube-system", "get", "secrets", "kube-controller-manager", "-o",
                           R"(jsonpath={.data.service\-account\.key})"});
  EXPECT_EQ(key, hosted->serviceAccountKey());
  auto patch = [&](const std::string& path, const std::string& value) {
    auto done =
        talos.talosctl({"-n", "10.5.0.2", "patch", "mc", "--immediate", "-p",
                        R"([{"op": "add", "path": ")" + path + R"(", "value": {)" + value + "}}]"});
    EXPECT_THAT(done.err, HasSubstr("patched mc at the node 10.5.0.2"));
  };
  patch("/cluster/serviceAccount", R"("key": ")" + key + "\"");
  auto folder = talos.folder() + "/front-proxy";
  auto made = harness::run({"bash", "-c",
                            "mkdir \"$0\" && cd \"$0\" && openssl req -x509 -newkey ec -pkeyopt "
                            "ec_paramgen_curve:prime256v1 -nodes -subj /CN=front-proxy -days 3650 "
                            "-keyout key -out crt && openssl ec -in key -out ec.key",
                            folder});
  EXPECT_EQ(made.status, 0) << made.err;
  auto base64 = [&](const std::string& name) {
    auto out = harness::run({"base64", "-w0", folder + "/" + name}).out;
    return out;
  };
  patch("/cluster/aggregatorCA",
        R"("crt": ")" + base64("crt") + R"(", "key": ")" + base64("ec.key") + "\"");
  // Images of the config are the release's defaults here.
  EXPECT_TRUE(eventually(
      [&] {
        auto pods = talos.talosctl({"-n", "10.5.0.2", "get", "staticpods"}).out;
        return contains(pods, "kube-apiserver") && contains(pods, "kube-scheduler");
      },
      60, 1));
  verifyGenerated();
  checkStillSelfHosted();
  EXPECT_THAT(talos.ok({"-n", "10.5.0.2", "logs", "controller-runtime"}),
              HasSubstr("the control plane is self-hosted: no static pods are written; convert it "
                        "with \"talosctl convert-k8s\""));
  EXPECT_EQ(cluster().ok({"-n", "kube-system", "delete", "ds", "pod-checkpointer"}),
            "daemonset.apps \"pod-checkpointer\" deleted\n");
  EXPECT_TRUE(eventually(
      [&] {
        auto pods = cluster().kubectl({"-n", "kube-system", "get", "pods"});
        return pods.status == 0 && !contains(pods.out, "pod-checkpointer");
      },
      kPodsUp, 1))
      << cluster().overview();
  if (HasFailure()) return;
  EXPECT_EQ(talos.ok({"-n", "10.5.0.2", "convert-k8s", "--remove-initialized-key"}),
            "removing self-hosted initialized key\n");
  auto isReady = [&](const std::string& part) {
    return cluster()
               .kubectl({"-n", "kube-system", "get", "pod", part + "-hand-master-1", "-o",
                         "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}"})
               .out == "True";
  };
  for (auto& part : kParts) {
    EXPECT_TRUE(eventually(
        [&] {
          return contains(cluster().kubectl({"get", "pods", "-n", "kube-system"}).out,
                          part + "-hand-master-1");
        },
        kPodsUp, 1))
        << cluster().overview();
  }
  for (auto& part : kParts) {
    EXPECT_EQ(cluster().ok({"-n", "kube-system", "delete", "daemonset", part}),
              "daemonset.apps \"" + part + "\" deleted\n");
    EXPECT_TRUE(eventually([&] { return isReady(part); }, kClusterUp, 1)) << cluster().overview();
  }
  checkConverted();
}

}  // namespace
}  // namespace talos
