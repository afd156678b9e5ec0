// Whole runs of apply-config, and of calls to a machine without a config.
#include <fcntl.h>
#include <unistd.h>

#include "common/talosconfig/talosconfig.h"
#include "talosctl/configure/test-configs.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Catches: a document that is sent to one node only, changed on its way, or sent in another mode
// than the default; a success without output.
TEST_F(Configs, ApplyGivesEveryNodeTheFile) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "apply-config", "-f", file()}), 0) << err();
  for (auto address : {"10.0.0.2", "10.0.0.3"}) {
    ASSERT_EQ(config(address).applied.size(), 1u);
    EXPECT_EQ(config(address).applied[0], good("new"));
    EXPECT_EQ(config(address).mode, rpc::ApplyMode::REBOOT);
    EXPECT_FALSE(config(address).dryRun);
  }
  auto text = err();
  EXPECT_THAT(text, HasSubstr("10.0.0.2: applied: the node reboots\n"));
  EXPECT_THAT(text, HasSubstr("10.0.0.3: applied: the node reboots\n"));
  EXPECT_EQ(out(), "");
}

// Catches: the config of a node, in the output of "get", that cannot be applied again.
TEST_F(Configs, WhatGetPrintsIsApplied) {
  for (auto form : {"yaml", "json"}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "mc", "-o", form}), 0);
    auto printed = write("printed", out().c_str());
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", printed}), 0) << err();
    err();
  }
  ASSERT_EQ(config("10.0.0.2").applied.size(), 2u);
  EXPECT_THAT(config("10.0.0.2").applied[0].cStr(), HasSubstr("hostname: one"));
  EXPECT_THAT(config("10.0.0.2").applied[1].cStr(), HasSubstr("hostname: one"));
}

TEST_F(Configs, FlagsChooseTheMode) {
  struct Row {
    const char* flag;
    rpc::ApplyMode mode;
  };
  for (auto& row :
       {Row{"--mode=auto", rpc::ApplyMode::AUTO},
        Row{"--mode=no-reboot", rpc::ApplyMode::NO_REBOOT},
        Row{"--mode=reboot", rpc::ApplyMode::REBOOT}, Row{"--mode=staged", rpc::ApplyMode::STAGED},
        Row{"--immediate", rpc::ApplyMode::NO_REBOOT}, Row{"--on-reboot", rpc::ApplyMode::STAGED},
        Row{"--no-reboot", rpc::ApplyMode::STAGED}}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply", "machineConfig", "-f", file(), row.flag}), 0);
    EXPECT_EQ(config("10.0.0.2").mode, row.mode) << row.flag;
  }
  out();
  auto sent = config("10.0.0.2").applied.size();
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply", "-f", file(), "--immediate", "--on-reboot"}), 1);
  EXPECT_THAT(err(), HasSubstr("--immediate and --on-reboot cannot be used together"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply", "-f", file(), "--mode=auto", "--immediate"}), 1);
  EXPECT_THAT(err(), HasSubstr("--mode=auto and --immediate cannot be used together"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply", "staticpod", "-f", file()}), 1);
  EXPECT_THAT(err(), HasSubstr("cannot apply \"staticpod\""));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "machineconfig", "-f", file()}), 1);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply"}), 1);
  EXPECT_THAT(err(), HasSubstr("--file"));
  EXPECT_EQ(config("10.0.0.2").applied.size(), sent);
}

// Catches: an invalid file that is sent all the same, and a problem without its place.
TEST_F(Configs, AFileWithMistakesIsNotSent) {
  auto bad = write("bad.yaml", "version: v1alpha1\nmachine:\n  type: masterr\n  tokn: x\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", bad}), 1);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("/bad.yaml:3:9: machine.type: "));
  EXPECT_THAT(text, HasSubstr("/bad.yaml:4:3: machine.tokn: "));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", write("empty.yaml", "")}), 1);
  EXPECT_THAT(err(), HasSubstr("empty.yaml: contains no config"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", path("none.yaml")}), 1);
  EXPECT_THAT(err(), HasSubstr("none.yaml"));
  EXPECT_EQ(config("10.0.0.2").applied.size(), 0u);
}

// Catches: a patch that is accepted and not applied, or that changes the file itself.
TEST_F(Configs, TheFileIsPatchedBeforeItIsSent) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "-p",
                   "{machine: {network: {hostname: patched}}}"}),
            0)
      << err();
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u);
  EXPECT_EQ(config("10.0.0.2").applied[0], good("patched"));
  EXPECT_EQ(readFile(file()), good("new"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "-p", "{machine: {typo: a}}"}),
            1);
  EXPECT_EQ(config("10.0.0.2").applied.size(), 1u);
}

TEST_F(Configs, ADashIsStandardInput) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  c.deps->input = reading;
  auto run = c.start({"-n", "10.0.0.2", "apply-config", "-f", "-"});
  c.settle();  // it waits, and the event loop continues
  auto text = good("new");
  for (auto part : {text.slice(0, 10), text.slice(10, text.size())}) {
    ASSERT_EQ(::write(writing, part.begin(), part.size()), ssize_t(part.size()));
    c.settle();
  }
  writing = nullptr;
  EXPECT_EQ(c.finish(kj::mv(run)), 0) << err();
  EXPECT_EQ(config("10.0.0.2").applied[0], good("new"));
}

// Catches: an input that cannot be polled, as a file or /dev/null.
TEST_F(Configs, StandardInputMayBeAFile) {
  auto good = file();
  for (kj::StringPtr name : {kj::StringPtr(good), "/dev/null"_kj}) {
    kj::AutoCloseFd fd(open(name.cStr(), O_RDONLY));
    c.deps->input = fd;
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", "-"}), name == "/dev/null" ? 1 : 0);
  }
  EXPECT_THAT(err(), HasSubstr("standard input: contains no config"));
  EXPECT_EQ(config("10.0.0.2").applied.size(), 1u);
}

// Catches: one node's failure that hides the other's success, or that does not fail the command; an
// unknown outcome that is reported as a refusal.
TEST_F(Configs, PrintsTheOutcomeOfEachNode) {
  config("10.0.0.2").refusals.add(error(ErrorKind::kConflict, "the sequence boot runs"));
  node("10.0.0.4").hangs = true;
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2,10.0.0.3,10.0.0.4", "apply-config", "-f", file(), "--immediate"}), 1);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(),
            "10.0.0.3: nothing changed\n"
            "10.0.0.4: no answer within 30s; asking the node what became of the config\n"
            "error: 2 nodes failed:\n  10.0.0.2: the sequence boot runs\n  10.0.0.4: no "
            "answer within 30s; it is not known whether the node has applied the config\n");
}

// Catches: a dry run that changes something, or that leaves out the difference or the reason for a
// reboot.
TEST_F(Configs, ADryRunShowsWhatWouldHappen) {
  auto& it = config("10.0.0.2");
  it.warnings.add(kj::str("5:3: machine.kubelet.image: old\x1b[2J"));
  it.liveChanges.add(kj::str("machine.time.servers"));
  it.otherChanges.add(kj::str("machine.install.disk"));
  it.diff = kj::str("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\x07\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0);
  EXPECT_TRUE(it.dryRun);
  EXPECT_EQ(out(),
            "10.0.0.2: the node would reboot: machine.install.disk needs a reboot\n"
            "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\\x07\n\n"
            "CHANGE                 EFFECT\n"
            "machine.time.servers   at once\n"
            "machine.install.disk   needs a reboot\n");
  EXPECT_EQ(err(), "WARNING: 10.0.0.2: 5:3: machine.kubelet.image: old\\x1b[2J\n");
  c.test.console.terminal = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0);
  EXPECT_THAT(out(), HasSubstr("\x1b[0;1;31m-x\x1b[0m\n\x1b[0;32m+y\\x07\x1b[0m\n"));
  c.test.environment.insert(kj::str("NO_COLOR"), kj::str("1"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("\x1b")));
  c.test.console.terminal = false;
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2,10.0.0.9", "apply-config", "-f", file(), "--dry-run", "-o", "json"}),
      1);
  auto json = out();
  EXPECT_THAT(json, HasSubstr("\"node\": \"10.0.0.2\",\n    \"mode\": \"reboot\","));
  EXPECT_THAT(json, HasSubstr("\"path\": \"machine.install.disk\""));
  EXPECT_THAT(json, HasSubstr("\"node\": \"10.0.0.9\",\n    \"error\""));
}

TEST_F(Configs, ARebootIsFollowedWhenAskedFor) {
  node("10.0.0.2").answersUntilReboot = 2;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--wait"}), 0);
  EXPECT_EQ(out(), "");
  EXPECT_THAT(err(),
              AllOf(StartsWith("10.0.0.2: applied: the node reboots\n"),
                    HasSubstr("10.0.0.2: stopping\n"), HasSubstr("rebooted, all services are up")));
  node("10.0.0.2").bootId = kj::str("boot-1");
  node("10.0.0.2").answersUntilReboot = 1;
  node("10.0.0.2").stage = rpc::Status::Stage::FAILED;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--wait"}), 1);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.2: rebooted, but the boot failed"));
}

// Catches: a command that ends, or reports the config as in effect, while keys are still being
// changed; a failure after the answer that counts as a success; another operation that is taken for
// this one.
TEST_F(Configs, WhatGoesOnAfterTheAnswerIsFollowed) {
  auto& fake = config("10.0.0.2");
  fake.operation = 7;
  for (unsigned i = 0; i < 3; ++i) fake.operationStates.add(kj::str("running"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--immediate"}), 0);
  EXPECT_THAT(err(), AllOf(HasSubstr("10.0.0.2: adding the key of slot 5\n"),
                           HasSubstr("10.0.0.2: applied, without a reboot\n")));
  EXPECT_TRUE(fake.operationStates.empty());

  fake.operationStates.add(kj::str("running"));
  fake.operationStates.add(kj::str("no key of the config opens /dev/vda6"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--immediate"}), 1);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.2: no key of the config opens /dev/vda6"));
  EXPECT_EQ(out(), "");

  for (unsigned i = 0; i < 100; ++i) fake.operationStates.add(kj::str("running"));
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "--timeout", "5s", "apply-config", "-f", file(), "--immediate"}), 1);
  EXPECT_THAT(err(), HasSubstr("timed out after 5s: adding the key of slot 5; the node continues"));
}

// Catches: an apply that is given up while its node reports progress.
TEST_F(Configs, AChangeThatTakesLongerThanACallIsFollowed) {
  auto& fake = config("10.0.0.2");
  fake.operation = 7;
  for (unsigned i = 0; i < 80; ++i) fake.operationStates.add(kj::str("running"));
  node("10.0.0.2").answersUntilReboot = 1000;
  auto start = c.clock.now();
  EXPECT_EQ(c.finish(c.start({"-n", "10.0.0.2", "apply-config", "-f", file()}), 2000), 0);
  EXPECT_TRUE(c.clock.now() - start >= 40 * kj::SECONDS);
  EXPECT_EQ(err(), "10.0.0.2: adding the key of slot 5\n10.0.0.2: applied: the node reboots\n");
}

// Catches: an apply that is called unknown, because its answer was lost, although the node has the
// outcome; a failure that counts as a success.
TEST_F(Configs, AfterALostAnswerTheNodeIsAskedForTheOutcome) {
  struct Row {
    kj::StringPtr state;
    int status;
    const char* outcome;
  };
  auto& fake = config("10.0.0.2");
  fake.losesAnswer = true;
  for (auto& row :
       {Row{"done", 0,
            "WARNING: 10.0.0.2: the answer was lost, and with it the warnings of the node\n"
            "10.0.0.2: applied, without a reboot\n"},
        Row{"no key opens it", 1, "error: 10.0.0.2: no key opens it\n"}}) {
    for (kj::StringPtr state : {"running"_kj, "running"_kj, row.state}) {
      fake.operationStates.add(kj::str(state));
    }
    auto before = fake.applied.size();
    auto document = file();
    auto run = c.start({"-n", "10.0.0.2", "apply-config", "-f", document, "--immediate"});
    for (int i = 0; i < 50 && fake.applied.size() == before; ++i) c.settle();
    ASSERT_EQ(fake.applied.size(), before + 1);
    EXPECT_NE(fake.operation, 0u);
    c.restart();
    EXPECT_EQ(c.finish(kj::mv(run)), row.status);
    EXPECT_THAT(err(),
                AllOf(HasSubstr("; asking the node what became of the config\n"),
                      HasSubstr("10.0.0.2: adding the key of slot 5\n"), HasSubstr(row.outcome)));
  }
}

// Catches: a reboot that is taken for a failure, because the outcome was not read before it; a
// config that counts as applied, although the node does not run it; an operation of another boot
// that has the same number.
TEST_F(Configs, AfterARebootTheConfigOfTheNodeIsTheOutcome) {
  auto& fake = config("10.0.0.2");
  fake.operation = 7;
  for (bool applied : {true, false}) {
    node("10.0.0.2").bootId = kj::str("boot-1");
    node("10.0.0.2").answersUntilReboot = 2;
    fake.document = good(applied ? "new" : "one");
    fake.operationStates.clear();
    for (unsigned i = 0; i < 2; ++i) fake.operationStates.add(kj::str("running"));
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file()}), applied ? 0 : 1);
    EXPECT_THAT(err(),
                HasSubstr(applied ? "10.0.0.2: applied: the node has rebooted with this config\n"
                                  : "error: 10.0.0.2: the node has rebooted and does not run this "
                                    "config: it was not applied\n"));
  }
}

// Catches: a reboot of the node that still forwards a request to another node.
TEST_F(Configs, TheNodeThatForwardsComesLast) {
  for (auto name : {"127.0.0.1", "10.0.0.2"}) node(name).bootId = kj::str("boot-of-the-endpoint");
  node("10.0.0.4").hangs = true;
  for (kj::StringPtr verb : {"apply-config"_kj, "reboot"_kj}) {
    auto run = verb == "reboot"
                   ? c.start({"-n", "10.0.0.2,10.0.0.3,10.0.0.4", verb, "--wait=false"})
                   : c.start({"-n", "10.0.0.2,10.0.0.3,10.0.0.4", verb, "-f", file()});
    c.settle();
    c.clock.advanceTo(c.clock.now() + 6 * kj::SECONDS);  // one node does not report its identity
    c.settle();
    EXPECT_TRUE(node("10.0.0.3").rebooting) << verb.cStr();
    EXPECT_FALSE(node("10.0.0.2").rebooting) << verb.cStr();
    EXPECT_EQ(c.finish(kj::mv(run)), 1);
    EXPECT_TRUE(node("10.0.0.2").rebooting) << verb.cStr();
    for (auto name : {"10.0.0.2", "10.0.0.3"}) node(name).rebooting = false;
  }
}

// --- a machine without a config

struct Maintenance : public Configs {
  kj::String fingerprint;
  Maintenance() {
    auto throwAway = pki::makeAuthority({});
    auto leaf = pki::issue(throwAway.certificate, throwAway.key, {});
    fingerprint = pki::fingerprint(leaf.certificate);
    c.tls.replaceAnonymous(leaf.certificate, leaf.key);
    node("127.0.0.1");
    c.writeConfig(c.authority, "[127.0.0.3]");  // must never be read
  }
};

// Catches: a warning without the fingerprint, a warning although the user has given the
// fingerprint, a call that needs a talosconfig.
TEST_F(Maintenance, AFingerprintThatIsNotGivenIsShown) {
  EXPECT_EQ(c.run({"apply-config", "--insecure", "-n", "127.0.0.1", "-f", file(), "--talosconfig",
                   "/nonexistent/file"}),
            0);
  EXPECT_EQ(out(), "");
  auto text = err();
  EXPECT_THAT(text, AllOf(StartsWith("WARNING: "), HasSubstr(fingerprint.cStr()),
                          HasSubstr("--cert-fingerprint")));
  EXPECT_EQ(text.substr(text.find('\n') + 1),
            "127.0.0.1: applied: the machine boots with this config\n")
      << "of the warning one line";
  EXPECT_EQ(config("127.0.0.1").applied.size(), 1u);
  auto wrong = kj::encodeBase64(kj::heapArray<kj::byte>(32));
  auto both = kj::str(wrong, ",", fingerprint);
  EXPECT_EQ(
      c.run({"apply-config", "-i", "-n", "127.0.0.1", "-f", file(), "--cert-fingerprint", both}),
      0);
  EXPECT_EQ(err(), "127.0.0.1: applied: the machine boots with this config\n");
}

// Catches: a config, with all its secrets, that is sent to another machine than the intended one.
TEST_F(Maintenance, AnotherMachineGetsNothing) {
  kj::byte zeros[32] = {};
  auto wrong = kj::encodeBase64(zeros);
  EXPECT_EQ(
      c.run({"apply-config", "-i", "-n", "127.0.0.1", "-f", file(), "--cert-fingerprint", wrong}),
      1);
  EXPECT_THAT(err(), AllOf(HasSubstr(wrong.cStr()), HasSubstr(fingerprint.cStr())));
  EXPECT_EQ(config("127.0.0.1").applied.size(), 0u);
  EXPECT_EQ(c.run({"disks", "-i", "-n", "127.0.0.1", "--cert-fingerprint", "abc"}), 1);
  EXPECT_THAT(err(), HasSubstr("\"abc\" is not a valid fingerprint"));
}

TEST_F(Maintenance, WhatMakesNoSenseIsRefused) {
  struct Row {
    std::initializer_list<kj::StringPtr> words;
    const char* error;
  };
  auto f = file();
  for (auto& row :
       {Row{{"apply-config", "-i", "-n", "127.0.0.1,127.0.0.2", "-f", f}, "exactly one node"},
        Row{{"apply-config", "-i", "-f", f}, "exactly one node"},
        Row{{"apply-config", "-i", "-n", "127.0.0.1", "-e", "127.0.0.1", "-f", f}, "--endpoints"},
        Row{{"apply-config", "-i", "-n", "127.0.0.1", "-f", f, "--on-reboot"},
            "--on-reboot cannot be used"},
        Row{{"apply-config", "-i", "-n", "127.0.0.1", "-f", f, "--wait"}, "--wait"},
        Row{{"apply-config", "-n", "127.0.0.1", "-f", f, "--cert-fingerprint", "x"},
            "--cert-fingerprint needs --insecure"}}) {
    EXPECT_EQ(c.run(row.words), 1) << row.error;
    EXPECT_THAT(err(), HasSubstr(row.error));
  }
  EXPECT_EQ(config("127.0.0.1").applied.size(), 0u);
}

TEST_F(Maintenance, DisksInterfacesAndVersionAreThere) {
  EXPECT_EQ(c.run({"disks", "-i", "-n", "127.0.0.1", "--cert-fingerprint", fingerprint}), 0)
      << err();
  EXPECT_EQ(
      out(),
      "NODE        DEV        MODEL   SERIAL   TYPE   UUID   WWID   MODALIAS                  "
      "  NAME   SIZE\n127.0.0.1   /dev/vda   -       -        -      -      -      "
      "virtio:d00000002v00001AF4   -      6.4 GB\n");
  EXPECT_EQ(c.run({"interfaces", "-i", "-n", "127.0.0.1", "--cert-fingerprint", fingerprint}), 0);
  EXPECT_EQ(c.run({"version", "-i", "-n", "127.0.0.1", "--cert-fingerprint", fingerprint}), 0);
  EXPECT_THAT(out(), HasSubstr("NODE:        127.0.0.1"));
}

// Catches: confused documents, a missing document, a flag that is ignored without an error.
TEST_F(Maintenance, AMachineMakesTheConfigsOfACluster) {
  config("127.0.0.1").document = good("made");
  c.writeConfig(c.authority);
  auto talosconfig = readFile(c.configPath());
  config("127.0.0.1").talosconfig = kj::str(talosconfig);
  auto folder = path("made");
  std::initializer_list<kj::StringPtr> words = {"gen",       "config",
                                                "test",      "https://10.0.0.9:6443",
                                                "-i",        "-n",
                                                "127.0.0.1", "--cert-fingerprint",
                                                fingerprint, "--install-disk",
                                                "/dev/vdx",  "-o",
                                                folder};
  EXPECT_EQ(c.run(words), 0) << err();
  EXPECT_TRUE(readFile(kj::str(folder, "/controlplane.yaml"))
                  .startsWith("# controlplane.yaml https://10.0.0.9:6443 /dev/vdx\n"));
  EXPECT_TRUE(readFile(kj::str(folder, "/join.yaml")).startsWith("# join.yaml "));
  // Catches: an endpoint that the node has chosen, or that is no node.
  auto expected = Talosconfig::parse(talosconfig, "f");
  expected.resolve().endpoints.clear();
  EXPECT_EQ(readFile(kj::str(folder, "/talosconfig")), expected.toYaml());
  EXPECT_EQ(c.run({"gen", "config", "test", "https://10.0.0.9:6443", "-i", "-n", "127.0.0.1",
                   "--talos-version", "v0.8", "-o", path("not")}),
            1);
  EXPECT_THAT(err(), HasSubstr("--talos-version cannot be used with --insecure"));
  // Catches: a key in the node's talosconfig that only another client understands.
  config("127.0.0.1").talosconfig = kj::str(talosconfig, "        auth: {siderov1: {}}\n");
  EXPECT_EQ(c.run({"gen", "config", "test", "https://10.0.0.9:6443", "-i", "-n", "127.0.0.1",
                   "--cert-fingerprint", fingerprint, "-o", path("not")}),
            1);
  EXPECT_THAT(err(), HasSubstr("contexts.test.auth"));
  EXPECT_NE(access(path("not").cStr(), F_OK), 0);
  config("127.0.0.1").talosconfig = nullptr;
  EXPECT_EQ(c.run({"gen", "config", "test", "https://10.0.0.9:6443", "-i", "-n", "127.0.0.1",
                   "--cert-fingerprint", fingerprint, "-o", path("not")}),
            1);
  EXPECT_THAT(err(), HasSubstr("the node did not generate talosconfig"));
  EXPECT_NE(access(path("not").cStr(), F_OK), 0);
}

// Catches: "certificate required" as the whole message.
TEST_F(Configs, AMachineWithAConfigSaysThatInsecureIsWrong) {
  node("127.0.0.1");
  EXPECT_EQ(c.run({"apply-config", "-i", "-n", "127.0.0.1", "-f", file()}), 1);
  EXPECT_THAT(err(),
              HasSubstr("127.0.0.1 already has a config and requires a client certificate; use the "
                        "cluster's talosconfig, without --insecure"));
  EXPECT_EQ(config("127.0.0.1").applied.size(), 0u);
}

// Catches: "in effect" for a change that the kernel refused; a confirmation that is not sent
// because it changes nothing, or that is reported as "nothing changed".
TEST_F(Configs, WhatIsNotInEffectIsSaidAndATrialIsConfirmed) {
  auto& fake = config("10.0.0.2");
  fake.liveChanges.add(kj::str("machine.sysctls.vm.a"));
  fake.notInEffect.add(kj::str("machine.sysctls.vm.a: refused"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--mode=no-reboot"}), 0);
  EXPECT_EQ(err(), "10.0.0.2: applied: stored, but not in effect: machine.sysctls.vm.a: refused\n");
  fake.notInEffect.clear();
  fake.liveChanges.clear();
  fake.confirmed = true;
  auto sent = fake.applied.size();
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "[]", "--mode=no-reboot"}), 0) << err();
  EXPECT_EQ(fake.applied.size(), sent + 1);
  EXPECT_THAT(err(), HasSubstr("confirmed: the config that was on trial is kept"));
}

// Catches: a dry run that promises an effect which the node knows that the change will not have; a
// key whose name is the beginning of another one.
TEST_F(Configs, ADryRunSaysWhatWouldNotBeInEffect) {
  auto& fake = config("10.0.0.2");
  for (auto path : {"machine.install.disk", "machine.install.diskSelector.size", "machine.env.a"}) {
    fake.liveChanges.add(kj::str(path));
  }
  fake.notInEffect.add(kj::str("machine.install.diskSelector: acts later"));
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--mode=no-reboot", "--dry-run"}), 0);
  auto printed = out();
  EXPECT_THAT(printed, HasSubstr("10.0.0.2: would be stored, but not be in effect: "
                                 "machine.install.diskSelector: acts later\n"));
  EXPECT_THAT(printed, HasSubstr("\nmachine.install.disk                at once\n"
                                 "machine.install.diskSelector.size   not at once\n"
                                 "machine.env.a                       at once\n"));
}

// Catches: a volume "at once" on a node that makes none; a mode reboot whose dry run promises what
// the boot, too, leaves out.
TEST_F(Configs, ADryRunNamesWhatABootLeavesOut) {
  auto& fake = config("10.0.0.2");
  for (auto path : {"machine.volumes[0].selector", "machine.trims", "machine.sysctls.a"}) {
    fake.liveChanges.add(kj::str(path));
  }
  fake.notInEffect.add(kj::str("UserVolumeConfig[data]: no disks"));
  fake.notInEffect.add(kj::str("FilesystemTrimConfig: no disks"));
  auto table =
      "\nmachine.volumes[0].selector   not at once\n"
      "machine.trims                 not at once\n"
      "machine.sysctls.a             at once\n";
  constexpr auto kLeftOut =
      "; also then not in effect: UserVolumeConfig[data]: no disks; FilesystemTrimConfig: no "
      "disks\n";
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0);
  EXPECT_THAT(out(),
              AllOf(HasSubstr("the node would reboot"), HasSubstr(kLeftOut), HasSubstr(table)));
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run", "--mode", "staged"}), 0);
  EXPECT_THAT(out(), HasSubstr(std::string("would take effect at the next boot") + kLeftOut));
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run", "--mode", "no-reboot"}),
      0);
  EXPECT_THAT(out(), HasSubstr(table));
}

// Catches: a restart of an API server that surprises its operator; a word about a restart for a key
// that causes none.
TEST_F(Configs, ARestartIsNamed) {
  auto& fake = config("10.0.0.2");
  for (auto path : {"machine.sysctls.a", "cluster.apiServer.auditPolicy.rules",
                    "cluster.scheduler.extraArgs.v"}) {
    fake.liveChanges.add(kj::str(path));
  }
  fake.restarts.add(kj::str("kube-apiserver"));
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--mode=no-reboot", "--dry-run"}), 0);
  auto printed = out();
  EXPECT_THAT(printed, HasSubstr("10.0.0.2: would take effect without a reboot; would restart "
                                 "kube-apiserver\n"));
  EXPECT_THAT(printed, HasSubstr("\nmachine.sysctls.a                     at once\n"
                                 "cluster.apiServer.auditPolicy.rules   restarts kube-apiserver\n"
                                 "cluster.scheduler.extraArgs.v         at once\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--mode=no-reboot"}), 0);
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: applied: in effect, without a reboot; restarts "
                               "kube-apiserver\n"));
}

// Catches: another duration than the requested one, and an answer that does not say that the trial
// ends.
TEST_F(Configs, ATrialSaysWhenItEnds) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--mode=try"}), 0) << err();
  EXPECT_EQ(config("10.0.0.2").mode, rpc::ApplyMode::TRY);
  EXPECT_EQ(config("10.0.0.2").tryTimeoutMs, 60'000u);
  EXPECT_EQ(err(), "10.0.0.2: on trial: in effect, reverting in 1m0s unless it is confirmed\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "--mode=try", "--timeout", "1m30s", "-p",
                   R"([{"op":"replace","path":"/machine/network/hostname","value":"x"}])"}),
            0)
      << err();
  EXPECT_EQ(config("10.0.0.2").tryTimeoutMs, 90'000u);
  EXPECT_THAT(err(), HasSubstr("reverting in 1m30s unless"));
  EXPECT_EQ(c.run({"apply-config", "-i", "-n", "127.0.0.1", "-f", file(), "--mode=try"}), 1);
  EXPECT_THAT(err(), HasSubstr("--mode=try cannot be used with --insecure"));
}

// Catches: a reboot by default that is reported as requested; a requested mode that is reported as
// a default.
TEST_F(Configs, ADryRunSaysWhereTheModeComesFrom) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0) << err();
  EXPECT_THAT(out(),
              HasSubstr("the node would reboot, although nothing changes: --mode=reboot, the "
                        "default; --mode=auto would not reboot\n"));
  config("10.0.0.2").liveChanges.add(kj::str("machine.sysctls"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("the node would reboot: --mode=reboot, the default; "
                               "--mode=no-reboot would be enough\n"));
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run", "--mode", "reboot"}), 0);
  EXPECT_THAT(out(), HasSubstr("the node would reboot: --mode=reboot; --mode=no-reboot would be "
                               "enough\n"));
}

// Catches: a plan of the network that is not shown, or shown as done.
TEST_F(Configs, ADryRunShowsWhatWouldBeDoneToTheNetwork) {
  auto& there = config("10.0.0.2");
  there.liveChanges.add(kj::str("machine.network.interfaces[0].cidr"));
  there.networkPlan.add(kj::str("add address 10.5.0.9/24 to eth0"));
  there.networkProblems.add(kj::str("link \x1b[2Jdummy9: no"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0) << err();
  EXPECT_THAT(out(), AllOf(HasSubstr("\n\nNETWORK\nadd address 10.5.0.9/24 to eth0\n"),
                           HasSubstr("\n\nNETWORK PROBLEMS\nlink "), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run", "-o", "json"}), 0);
  EXPECT_THAT(out(), HasSubstr("add address 10.5.0.9/24 to eth0"));
}

// Catches: a partition that is made without having been announced; control characters of a disk on
// the terminal.
TEST_F(Configs, ADryRunShowsWhatWouldBeDoneToDisks) {
  auto& there = config("10.0.0.2");
  there.liveChanges.add(kj::str("machine.volumes[0].selector"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0) << err();
  EXPECT_THAT(out(), Not(HasSubstr("VOLUMES")));
  there.volumePlan.add(kj::str("makes partition u-data of 10 GiB on /dev/vdb"));
  there.volumePlan.add(kj::str("u-b waits: /dev/vdc: it holds ext4 \x1b[2J"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0) << err();
  EXPECT_THAT(out(), AllOf(HasSubstr("\n\nVOLUMES\nmakes partition u-data of 10 GiB on /dev/vdb\n"
                                     "u-b waits: /dev/vdc: it holds ext4 "),
                           Not(HasSubstr("\x1b"))));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run", "-o", "json"}), 0);
  EXPECT_THAT(out(), HasSubstr("makes partition u-data of 10 GiB on /dev/vdb"));
}

TEST_F(Configs, TimeComparesClocks) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "time"}), 0);
  EXPECT_EQ(
      out(),
      "NODE       NTP-SERVER   NODE-TIME                        NTP-SERVER-TIME\n"
      "10.0.0.2   10.5.0.1     2021-03-06T03:06:40.000000001Z   2021-03-06T03:06:40.250000000Z\n");
  EXPECT_EQ(node("10.0.0.2").timeServer, "");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "time", "--check", "pool.ntp.org"}), 0);
  EXPECT_EQ(node("10.0.0.2").timeServer, "pool.ntp.org");
}

}  // namespace
}  // namespace talos::talosctl
