#include "talosctl/convert-k8s/convert-run.h"

#include <gmock/gmock.h>
#include <kj/debug.h>

#include "common/testing/virtual-time.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/convert-k8s/test-self-hosted.h"

namespace talos::talosctl {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kBefore =
    "discovered master nodes [\"10.5.0.2\" \"10.5.0.3\" \"10.5.0.4\"]\n"
    "current self-hosted status: true\n"
    "gathering control plane configuration\n"
    "aggregator CA key can't be recovered from bootkube-boostrapped control plane, generating new "
    "CA\n"
    "patching master node \"10.5.0.2\" configuration\n"
    "patching master node \"10.5.0.3\" configuration\n"
    "patching master node \"10.5.0.4\" configuration\n"
    "waiting for static pod definitions to be generated\n"
    "waiting for manifests to be generated\n"
    "Talos generated control plane static pod definitions and bootstrap manifests, please verify "
    "them with commands:\n"
    "    talosctl -n <master node IP> get StaticPods.kubernetes.talos.dev\n"
    "    talosctl -n <master node IP> get Manifests.kubernetes.talos.dev\n"
    "\n"
    "in order to remove self-hosted control plane, pod-checkpointer component needs to be "
    "disabled\n"
    "once pod-checkpointer is disabled, the cluster shouldn't be rebooted until the entire "
    "conversion process is complete\n";
constexpr const char* kCheckpointer =
    "disabling pod-checkpointer\n"
    "deleting daemonset \"pod-checkpointer\"\n"
    "checking for active pod checkpoints\n";
constexpr const char* kPresent =
    "waiting for static pods for \"kube-apiserver\" to be present in the API server state\n"
    "waiting for static pods for \"kube-controller-manager\" to be present in the API server "
    "state\n"
    "waiting for static pods for \"kube-scheduler\" to be present in the API server state\n";
constexpr const char* kReplaced =
    "deleting daemonset \"kube-apiserver\"\n"
    "waiting for static pods for \"kube-apiserver\" to be present in the API server state\n"
    "deleting daemonset \"kube-controller-manager\"\n"
    "waiting for static pods for \"kube-controller-manager\" to be present in the API server "
    "state\n"
    "deleting daemonset \"kube-scheduler\"\n"
    "waiting for static pods for \"kube-scheduler\" to be present in the API server state\n"
    "conversion process completed successfully\n";
constexpr const char* kAskFirst =
    "confirm disabling pod-checkpointer to proceed with control plane update [yes/no]: ";
constexpr const char* kAskSecond =
    "confirm applying static pod definitions and manifests [yes/no]: ";

class ConvertK8sRuns : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  TestConsole console;
  FixedClock clock;
  std::string out, err;

  ~ConvertK8sRuns() noexcept override {}

  // Returns the error of the run; empty if it succeeded; "killed" if `until` stopped it.
  std::string convert(
      ModelSelfHosted& cluster, std::vector<std::string> answers, bool force = false,
      std::function<bool()> until = [] { return false; }) {
    RolloutLines lines(console, EventFormat::kText);
    kube::KubeClient client(
        timer, [] { return 0.0; }, cluster.kube.dialer(), kube::ModelKube::access());
    size_t next = 0;
    ConvertRun run(timer, clock, client, cluster, lines,
                   [&]() -> kj::Promise<kj::Maybe<kj::String>> {
                     if (next == answers.size()) return kj::Maybe<kj::String>(nullptr);
                     return kj::Maybe<kj::String>(kj::str(answers[next++].c_str()));
                   });
    out = err = "";
    auto running = run.run(force);
    for (unsigned i = 0; i < 8 * 3600; ++i) {
      cluster.pass();
      bool done = running.poll(scope);
      out += console.takeOut().cStr();
      err += console.takeErr().cStr();
      if (done) break;
      if (until()) return "killed";
      advance(timer, scope, 250 * kj::MILLISECONDS);
    }
    auto failure = kj::runCatchingExceptions([&]() { running.wait(scope); });
    KJ_IF_MAYBE (e, failure) return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    return "";
  }
};

// Scripts and readers match these lines: the document's lines, in its order.
TEST_F(ConvertK8sRuns, PrintsAsTheDocumentDoes) {
  ModelSelfHosted cluster(timer);
  EXPECT_EQ(convert(cluster, {"yes", "yes"}), "");
  EXPECT_EQ(out, std::string(kBefore) + kCheckpointer + "removing self-hosted initialized key\n" +
                     kPresent + kReplaced);
  EXPECT_THAT(err, HasSubstr(kAskFirst));
  EXPECT_THAT(err, EndsWith(std::string(
                       "2021/03/06 03:06:40 retrying error: found 3 pods of the DaemonSet: "
                       "[kube-scheduler-x1 kube-scheduler-x2 kube-scheduler-x3]\n")));
  auto checkpoints = err.find(
      "2021/03/06 03:06:40 retrying error: found 3 active pod checkpoints: [checkpoint-0 "
      "checkpoint-1 checkpoint-2]\n2021/03/06 03:06:40 retrying error: found 1 active pod "
      "checkpoints: [checkpoint-2]\n");
  EXPECT_NE(checkpoints, std::string::npos) << err;
  EXPECT_LT(checkpoints, err.find(kAskSecond));
  EXPECT_TRUE(cluster.converted());
  EXPECT_EQ(cluster.log, "patch 10.5.0.2\npatch 10.5.0.3\npatch 10.5.0.4\nkey 10.5.0.2\n");
}

// Catches: another key of service accounts than the cluster's, a separate aggregator CA on each
// node, a certificate that is not a CA, the image of a sidecar.
TEST_F(ConvertK8sRuns, TheConfigsGetWhatTheClusterHas) {
  ModelSelfHosted cluster(timer);
  cluster.conflicts = 2;
  EXPECT_EQ(convert(cluster, {"no"}), "FailedPrecondition: aborted");
  auto& patch = cluster.configs[0].patch;
  EXPECT_EQ(cluster.configs[1].patch, patch);
  EXPECT_EQ(cluster.configs[2].patch, patch);
  auto json = kube::readJson(kj::StringPtr(patch.c_str()), "the patch")["cluster"];
  EXPECT_EQ(json["serviceAccount"]["key"],
            std::string(kj::encodeBase64(cluster.accountKey.bytes()).cStr()));
  EXPECT_EQ(json["apiServer"]["image"], "k8s.gcr.io/kube-apiserver:v1.20.6");
  EXPECT_EQ(json["controllerManager"]["image"], "k8s.gcr.io/kube-controller-manager:v1.20.6");
  EXPECT_EQ(json["scheduler"]["image"], "k8s.gcr.io/kube-scheduler:v1.20.6");
  auto authority = pki::inspect(cluster.configs[0].certificate.c_str());
  EXPECT_EQ(authority.commonName, "front-proxy"_kj);
  EXPECT_TRUE(authority.authority);
  EXPECT_THAT(err, HasSubstr("retrying error: another apply runs\n"));
}

TEST_F(ConvertK8sRuns, QuestionsAreAskedUntilTheyAreAnswered) {
  for (auto yes : {"yes", "y", "YES", "Yes", "Y", "yes \r"}) {
    ModelSelfHosted cluster(timer);
    EXPECT_EQ(convert(cluster, {"", "perhaps", "yess", yes, "n"}), "FailedPrecondition: aborted");
    std::string asked;
    for (unsigned i = 0; i < 4; ++i) asked += kAskFirst;
    EXPECT_THAT(err, HasSubstr(asked)) << yes;
    EXPECT_THAT(err, Not(HasSubstr(asked + kAskFirst)));
    EXPECT_THAT(err, EndsWith(kAskSecond));
    EXPECT_FALSE(cluster.hasDaemonSet("pod-checkpointer"));
    EXPECT_TRUE(cluster.key);
  }
  for (auto no : {"no", "n", "NO", "No", "N"}) {
    ModelSelfHosted cluster(timer);
    EXPECT_EQ(convert(cluster, {no, "yes"}), "FailedPrecondition: aborted") << no;
    EXPECT_TRUE(cluster.hasDaemonSet("pod-checkpointer"));
    EXPECT_THAT(out, EndsWith("process is complete\n"));
  }
  ModelSelfHosted cluster(timer);
  EXPECT_EQ(convert(cluster, {"what"}),
            "FailedPrecondition: aborted: standard input has ended without yes or no; --force asks "
            "nothing");
  EXPECT_TRUE(cluster.hasDaemonSet("pod-checkpointer"));
}

TEST_F(ConvertK8sRuns, ForceAsksNothing) {
  ModelSelfHosted cluster(timer);
  EXPECT_EQ(convert(cluster, {}, true), "");
  EXPECT_THAT(err, Not(HasSubstr("[yes/no]")));
  EXPECT_TRUE(cluster.converted());
}

// Catches: a step that cannot be repeated; a second run with another aggregator CA or another key;
// a run that asks about, or waits for, a step that is already complete.
TEST_F(ConvertK8sRuns, ARunThatWasKilledAtAnyLineIsContinued) {
  ModelSelfHosted whole(timer);
  ASSERT_EQ(convert(whole, {"yes", "yes"}), "");
  auto lines = std::count(out.begin(), out.end(), '\n');
  ASSERT_GT(lines, 25);
  for (auto line = 1; line < lines; ++line) {
    ModelSelfHosted cluster(timer);
    cluster.away = 30 * kj::SECONDS;
    auto ended = convert(cluster, {"yes", "yes"}, false,
                         [&] { return std::count(out.begin(), out.end(), '\n') >= line; });
    auto before = out;
    auto certificate = cluster.configs[0].certificate;
    bool keyWasGone = !cluster.keyIsKnown();
    if (line == lines - 1 && ended == "") continue;  // the last two lines are printed together
    ASSERT_EQ(ended, "killed") << line;
    EXPECT_EQ(convert(cluster, {"yes", "yes"}), "") << before << "---\n" << out << err;
    EXPECT_TRUE(cluster.converted()) << before << "---\n" << out;
    if (!certificate.empty()) {
      EXPECT_EQ(cluster.configs[0].certificate, certificate);
      EXPECT_EQ(cluster.configs[2].certificate, certificate);
    }
    EXPECT_EQ(err.find("[yes/no]") == std::string::npos, keyWasGone) << before;
    // Runs once more: nothing is left to do, and the run reports this.
    EXPECT_EQ(convert(cluster, {}), "");
    EXPECT_THAT(err, HasSubstr("there is nothing to convert\n"));
  }
}

// Catches: a cluster of static pods that counts as just converted.
TEST_F(ConvertK8sRuns, AClusterOfStaticPodsHasNothingToConvert) {
  ModelSelfHosted cluster(timer);
  ASSERT_EQ(convert(cluster, {"y", "y"}), "");
  cluster.requests = cluster.log = "";
  EXPECT_EQ(convert(cluster, {}), "");
  EXPECT_EQ(out,
            "discovered master nodes [\"10.5.0.2\" \"10.5.0.3\" \"10.5.0.4\"]\n"
            "current self-hosted status: false\n" +
                std::string(kPresent));
  EXPECT_EQ(err, "no part of the control plane is self-hosted: there is nothing to convert\n");
  EXPECT_THAT(cluster.requests, Not(HasSubstr("DELETE")));
  EXPECT_EQ(cluster.log, "");
}

// Catches: a config that is changed although the run ends there; a refusal without a reason.
TEST_F(ConvertK8sRuns, WhatIsMissingIsSaidBeforeAnythingChanges) {
  auto secret = ModelSelfHosted::at("api/v1", "secrets", "kube-controller-manager");
  auto refusal = [&](auto change) {
    ModelSelfHosted cluster(timer);
    change(cluster);
    auto said = convert(cluster, {"yes", "yes"});
    EXPECT_EQ(cluster.log, "") << said;
    EXPECT_TRUE(cluster.hasDaemonSet("pod-checkpointer"));
    EXPECT_TRUE(cluster.key);
    return said;
  };
  EXPECT_THAT(refusal([&](auto& c) { c.kube.drop(secret); }),
              AllOf(StartsWith("FailedPrecondition: Kubernetes at model:6443: cannot get "),
                    EndsWith("; this is not a control plane that bootkube made")));
  EXPECT_THAT(refusal([&](auto& c) { KJ_ASSERT_NONNULL(c.kube.find(secret)).erase("data"); }),
              HasSubstr("has no service-account.key; without the key"));
  auto wrong = [&](const char* text) {
    return refusal([&](auto& c) {
      KJ_ASSERT_NONNULL(c.kube.find(secret))["data"]["service-account.key"] = text;
    });
  };
  EXPECT_THAT(wrong("###"), HasSubstr("that is not base64"));
  EXPECT_THAT(wrong("bm8ga2V5"), HasSubstr("that is no key: "));
  EXPECT_THAT(refusal([&](auto& c) {
                c.kube.drop(ModelSelfHosted::at("apis/apps/v1", "daemonsets", "kube-scheduler"));
              }),
              HasSubstr("kube-scheduler"));
  EXPECT_THAT(refusal([&](auto& c) { c.putDaemonSet("kube-scheduler", false, ""); }),
              EndsWith("the DaemonSet kube-system/kube-scheduler names no image"));
  EXPECT_THAT(refusal([&](auto& c) { c.configs[2].persists = false; }),
              StartsWith("FailedPrecondition: 10.5.0.4: machine config has persist: false"));
  EXPECT_EQ(refusal([&](auto& c) { c.refusing = "10.5.0.4"; }),
            "FailedPrecondition: 10.5.0.4 would refuse the config: needs a reboot; nothing was "
            "changed");
  EXPECT_THAT(refusal([&](auto& c) { c.known = false; }),
              StartsWith("FailedPrecondition: 10.5.0.2 does not know yet who runs the control"));
  EXPECT_THAT(refusal([&](auto& c) {
                for (auto i : {1, 2, 3}) c.kube.drop(kj::str("/api/v1/nodes/m-", i));
              }),
              HasSubstr("no node of the cluster is labelled as a control plane"));
}

// Catches: a CA of the user that is replaced, nodes with different CAs.
TEST_F(ConvertK8sRuns, AnAggregatorCaThatIsThereStays) {
  ModelSelfHosted cluster(timer);
  auto own = pki::makeAuthority({.commonName = "own", .keyType = pki::KeyType::kEcdsaP256});
  cluster.configs[1].certificate = own.certificate.cStr();
  cluster.configs[1].key = own.key.clone();
  cluster.configs[2].certificate = "a certificate without its key";
  EXPECT_EQ(convert(cluster, {"n"}), "FailedPrecondition: aborted");
  EXPECT_THAT(out, Not(HasSubstr("generating new CA")));
  EXPECT_THAT(err, HasSubstr("using the aggregator CA of the config of 10.5.0.3\n"));
  for (auto& config : cluster.configs) EXPECT_EQ(config.certificate, own.certificate.cStr());
}

// Catches: a wait for a checkpoint that no program will end; a running checkpoint that is deleted,
// or that counts as gone.
TEST_F(ConvertK8sRuns, CheckpointsThatNeverStartedAreDeleted) {
  ModelSelfHosted cluster(timer);
  cluster.staysPending = true;
  EXPECT_EQ(convert(cluster, {"yes", "n"}), "FailedPrecondition: aborted");
  EXPECT_THAT(err, HasSubstr("\ndeleting pending pod checkpoints: [checkpoint-2]\n"));
  EXPECT_THAT(cluster.requests, Not(HasSubstr("DELETE /api/v1/namespaces/kube-system/pods/"
                                              "checkpoint-1")));
  EXPECT_EQ(cluster.pods("checkpoint-2"), 0u);
}

// Catches: a run that ends because the API server does not answer while it is replaced.
TEST_F(ConvertK8sRuns, TheApiServerMayBeAway) {
  ModelSelfHosted cluster(timer);
  cluster.away = 4 * kj::MINUTES;
  EXPECT_EQ(convert(cluster, {"yes", "yes"}), "");
  EXPECT_THAT(err, HasSubstr("retrying error: Kubernetes at model:6443: cannot list pods"));
  EXPECT_TRUE(cluster.converted());
}

// Catches: a DaemonSet that is deleted although nothing is ready to replace it; a wait without end
// beside a DaemonSet that occupies the ports.
TEST_F(ConvertK8sRuns, StaticPodsAreReadyBeforeADaemonSetGoes) {
  ModelSelfHosted none(timer);
  none.podsStart = false;
  EXPECT_THAT(convert(none, {"yes", "yes"}),
              StartsWith("DeadlineExceeded: timed out after 3m0s waiting for static pods of "
                         "kube-apiserver: found 0 static pods of kube-apiserver, expected 3; "));
  for (auto part : kConvertedParts) EXPECT_TRUE(none.hasDaemonSet(part));
  none.podsStart = true;
  EXPECT_EQ(convert(none, {}), "");
  EXPECT_TRUE(none.converted());

  ModelSelfHosted occupied(timer);
  occupied.putDaemonSet("kube-scheduler", true, "k8s.gcr.io/kube-scheduler:v1.20.6");
  EXPECT_EQ(convert(occupied, {"yes", "yes"}), "");

  ModelSelfHosted ungenerated(timer);
  ungenerated.generates = false;
  EXPECT_THAT(convert(ungenerated, {"yes", "yes"}),
              HasSubstr("static pod definitions: 10.5.0.2 has 0 of 3 static pod definitions"));
  EXPECT_TRUE(ungenerated.hasDaemonSet("pod-checkpointer"));
}

}  // namespace
}  // namespace talos::talosctl
