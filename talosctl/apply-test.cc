// Whole runs of apply-config, edit and patch, and of calls to a machine without a config.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "common/tls-unverified.h"
#include "talosctl/apply.h"
#include "talosctl/editor.h"
#include "talosctl/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Configs : public ::testing::Test {
  TestCluster c;
  ~Configs() noexcept override {}
  Configs() {
    node("10.0.0.2").config.document = good("one");
    node("10.0.0.3").config.document = good("two");
    write("good.yaml", good("new"));
    c.test.environment.insert(kj::str("TMPDIR"), kj::str(c.folder));
  }
  FakeNode& node(kj::StringPtr address) {
    return c.nodes.findOrCreate(address, [&]() -> kj::TreeMap<kj::String, FakeNode>::Entry {
      return {kj::str(address), FakeNode()};
    });
  }
  FakeConfig& config(kj::StringPtr address) { return node(address).config; }
  kj::String good(kj::StringPtr hostname) {
    return kj::str(
        "version: v1alpha1\nmachine:\n  type: worker\n  token: abcdef.0123456789abcdef\n",
        "  network:\n    hostname: ", hostname, "\n  install:\n    disk: /dev/vda\n",
        "cluster:\n  controlPlane:\n    endpoint: https://10.0.0.2:6443\n",
        "  token: abcdef.0123456789abcdef\n  ca:\n    crt: ",
        TestCluster::base64(c.authority.certificate), "\n");
  }
  kj::String path(kj::StringPtr name) { return kj::str(c.folder, "/", name); }
  kj::String write(kj::StringPtr name, kj::StringPtr text, mode_t mode = 0600) {
    writeFileAtomically(path(name), text, mode);
    return path(name);
  }
  // An editor that does these lines of shell to "$f". `runs` counts them.
  void editor(kj::StringPtr lines) {
    write("editor", kj::str("#!/bin/sh\nset -e\nf=$2\necho >>", path("runs"), "\n", lines, "\n"),
          0700);
    c.test.environment.upsert(kj::str("TALOS_EDITOR"), kj::str(path("editor"), " --flag"),
                              [](auto& old, auto&& now) { old = kj::mv(now); });
  }
  size_t runs() { return tryReadFile(path("runs")).orDefault(kj::str()).size(); }
  std::string out() { return c.test.console.takeOut().cStr(); }
  std::string err() { return c.test.console.takeErr().cStr(); }
  kj::String file() { return path("good.yaml"); }
  // Nothing of the editor's is left.
  unsigned leftovers() {
    unsigned count = 0;
    for (auto& entry : std::filesystem::directory_iterator(c.folder.cStr())) {
      if (entry.path().filename().string().starts_with("talosctl-edit-")) ++count;
    }
    return count;
  }
};

// --- apply-config

// Catches: a document that is sent to one node only, changed on its way, or in another mode than
// the default; a success that says nothing.
TEST_F(Configs, ApplyGivesEveryNodeTheFile) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "apply-config", "-f", file()}), 0) << err();
  for (auto address : {"10.0.0.2", "10.0.0.3"}) {
    ASSERT_EQ(config(address).applied.size(), 1u);
    EXPECT_EQ(config(address).applied[0], good("new"));
    EXPECT_EQ(config(address).mode, rpc::ApplyMode::REBOOT);
    EXPECT_FALSE(config(address).dryRun);
  }
  auto text = out();
  EXPECT_THAT(text, HasSubstr("10.0.0.2: applied: the node reboots\n"));
  EXPECT_THAT(text, HasSubstr("10.0.0.3: applied: the node reboots\n"));
  EXPECT_EQ(err(), "");
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
  EXPECT_THAT(err(), HasSubstr("--immediate and --on-reboot contradict each other"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply", "-f", file(), "--mode=auto", "--immediate"}), 1);
  EXPECT_THAT(err(), HasSubstr("--mode=auto and --immediate contradict each other"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply", "staticpod", "-f", file()}), 1);
  EXPECT_THAT(err(), HasSubstr("\"staticpod\" cannot be applied"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "machineconfig", "-f", file()}), 1);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply"}), 1);
  EXPECT_THAT(err(), HasSubstr("--file"));
  EXPECT_EQ(config("10.0.0.2").applied.size(), sent);
}

// Catches: a broken file that is sent all the same, and a problem without its place.
TEST_F(Configs, AFileWithMistakesIsNotSent) {
  auto bad = write("bad.yaml", "version: v1alpha1\nmachine:\n  type: masterr\n  tokn: x\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", bad}), 1);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("/bad.yaml:3:9: machine.type: "));
  EXPECT_THAT(text, HasSubstr("/bad.yaml:4:3: machine.tokn: "));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", write("empty.yaml", "")}), 1);
  EXPECT_THAT(err(), HasSubstr("empty.yaml: there is no config in it"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", path("none.yaml")}), 1);
  EXPECT_THAT(err(), HasSubstr("none.yaml"));
  EXPECT_EQ(config("10.0.0.2").applied.size(), 0u);
}

TEST_F(Configs, ADashIsStandardInput) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  c.world->input = reading;
  auto run = c.start({"-n", "10.0.0.2", "apply-config", "-f", "-"});
  c.settle();  // it waits, and the loop goes on
  auto text = good("new");
  for (auto part : {text.slice(0, 10), text.slice(10, text.size())}) {
    ASSERT_EQ(::write(writing, part.begin(), part.size()), ssize_t(part.size()));
    c.settle();
  }
  writing = nullptr;
  EXPECT_EQ(c.finish(kj::mv(run)), 0) << err();
  EXPECT_EQ(config("10.0.0.2").applied[0], good("new"));
}

// Catches: an input that cannot be watched, as a file and /dev/null cannot.
TEST_F(Configs, StandardInputMayBeAFile) {
  auto good = file();
  for (kj::StringPtr name : {kj::StringPtr(good), "/dev/null"_kj}) {
    kj::AutoCloseFd fd(open(name.cStr(), O_RDONLY));
    c.world->input = fd;
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", "-"}), name == "/dev/null" ? 1 : 0);
  }
  EXPECT_THAT(err(), HasSubstr("standard input: there is no config in it"));
  EXPECT_EQ(config("10.0.0.2").applied.size(), 1u);
}

// Catches: one node's failure that hides the other's success, or is no failure of the command; an
// unclear end that is told as a refusal.
TEST_F(Configs, EachNodesOutcomeIsTold) {
  config("10.0.0.2").refusals.add(error(ErrorKind::kConflict, "the sequence boot runs"));
  node("10.0.0.4").hangs = true;
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2,10.0.0.3,10.0.0.4", "apply-config", "-f", file(), "--immediate"}), 1);
  EXPECT_EQ(out(), "10.0.0.3: nothing changed\n");
  EXPECT_EQ(err(),
            "error: 2 nodes failed:\n  10.0.0.2: the sequence boot runs\n  10.0.0.4: no "
            "answer within 30s; whether the node has taken the config is not known\n");
}

// Catches: a dry run that changes something, or leaves out the difference, or why it would reboot.
TEST_F(Configs, ADryRunShowsWhatWouldHappen) {
  auto& it = config("10.0.0.2");
  it.warnings.add(kj::str("5:3: machine.kubelet.image: old\x1b[2J"));
  it.liveChanges.add(kj::str("machine.time.servers"));
  it.otherChanges.add(kj::str("machine.install.disk"));
  it.diff = kj::str("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\x07\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0);
  EXPECT_TRUE(it.dryRun);
  EXPECT_EQ(out(),
            "10.0.0.2: the node would reboot, machine.install.disk needs it\n"
            "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\\x07\n\n"
            "CHANGE                 EFFECT\n"
            "machine.time.servers   at once\n"
            "machine.install.disk   needs a reboot\n");
  EXPECT_EQ(err(), "WARNING: 10.0.0.2: 5:3: machine.kubelet.image: old\\x1b[2J\n");
  c.test.console.terminal = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0);
  EXPECT_THAT(out(), HasSubstr("\x1b[31m-x\x1b[m\n\x1b[32m+y\\x07\x1b[m\n"));
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
  EXPECT_EQ(out(), "10.0.0.2: applied: the node reboots\n");
  EXPECT_THAT(err(), AllOf(HasSubstr("10.0.0.2: going down\n"),
                           HasSubstr("rebooted, all services are up")));
  node("10.0.0.2").bootId = kj::str("boot-1");
  node("10.0.0.2").answersUntilReboot = 1;
  node("10.0.0.2").stage = rpc::Status::Stage::FAILED;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--wait"}), 1);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.2: rebooted, but cannot go on"));
}

// Catches: a node that reboots under the request to another one, which it forwards.
TEST_F(Configs, TheNodeThatForwardsComesLast) {
  for (auto name : {"127.0.0.1", "10.0.0.2"}) node(name).bootId = kj::str("boot-of-the-endpoint");
  node("10.0.0.4").hangs = true;
  for (kj::StringPtr verb : {"apply-config"_kj, "reboot"_kj}) {
    auto run = verb == "reboot"
                   ? c.start({"-n", "10.0.0.2,10.0.0.3,10.0.0.4", verb, "--wait=false"})
                   : c.start({"-n", "10.0.0.2,10.0.0.3,10.0.0.4", verb, "-f", file()});
    c.settle();
    c.clock.advanceTo(c.clock.now() + 6 * kj::SECONDS);  // one does not say who it is
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
    c.writeConfig(c.authority, "[127.0.0.3]");  // never read
  }
};

// Catches: a warning that does not show whom it was, one where the user had said whom to expect, a
// call that needs a talosconfig.
TEST_F(Maintenance, AFingerprintThatIsNotGivenIsShown) {
  EXPECT_EQ(c.run({"apply-config", "--insecure", "-n", "127.0.0.1", "-f", file(), "--talosconfig",
                   "/nonexistent/file"}),
            0);
  EXPECT_EQ(out(), "127.0.0.1: applied: the machine starts with this config\n");
  auto text = err();
  EXPECT_THAT(text, AllOf(StartsWith("WARNING: "), HasSubstr(fingerprint.cStr()),
                          HasSubstr("--cert-fingerprint")));
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line";
  EXPECT_EQ(config("127.0.0.1").applied.size(), 1u);
  auto wrong = kj::encodeBase64(kj::heapArray<kj::byte>(32));
  auto both = kj::str(wrong, ",", fingerprint);
  EXPECT_EQ(
      c.run({"apply-config", "-i", "-n", "127.0.0.1", "-f", file(), "--cert-fingerprint", both}),
      0);
  EXPECT_EQ(err(), "");
}

// Catches: a config, with all its secrets, that is sent to another machine than the one meant.
TEST_F(Maintenance, AnotherMachineGetsNothing) {
  kj::byte zeros[32] = {};
  auto wrong = kj::encodeBase64(zeros);
  EXPECT_EQ(
      c.run({"apply-config", "-i", "-n", "127.0.0.1", "-f", file(), "--cert-fingerprint", wrong}),
      1);
  EXPECT_THAT(err(), AllOf(HasSubstr(wrong.cStr()), HasSubstr(fingerprint.cStr())));
  EXPECT_EQ(config("127.0.0.1").applied.size(), 0u);
  EXPECT_EQ(c.run({"disks", "-i", "-n", "127.0.0.1", "--cert-fingerprint", "abc"}), 1);
  EXPECT_THAT(err(), HasSubstr("\"abc\" is no fingerprint"));
}

TEST_F(Maintenance, WhatMakesNoSenseIsRefused) {
  struct Row {
    std::initializer_list<kj::StringPtr> words;
    const char* why;
  };
  auto f = file();
  for (auto& row :
       {Row{{"apply-config", "-i", "-n", "127.0.0.1,127.0.0.2", "-f", f}, "exactly one node"},
        Row{{"apply-config", "-i", "-f", f}, "exactly one node"},
        Row{{"apply-config", "-i", "-n", "127.0.0.1", "-e", "127.0.0.1", "-f", f}, "--endpoints"},
        Row{{"apply-config", "-i", "-n", "127.0.0.1", "-f", f, "--on-reboot"},
            "--on-reboot has no meaning"},
        Row{{"apply-config", "-i", "-n", "127.0.0.1", "-f", f, "--wait"}, "--wait"},
        Row{{"apply-config", "-n", "127.0.0.1", "-f", f, "--cert-fingerprint", "x"},
            "is for --insecure"}}) {
    EXPECT_EQ(c.run(row.words), 1) << row.why;
    EXPECT_THAT(err(), HasSubstr(row.why));
  }
  EXPECT_EQ(config("127.0.0.1").applied.size(), 0u);
}

TEST_F(Maintenance, DisksInterfacesAndVersionAreThere) {
  EXPECT_EQ(c.run({"disks", "-i", "-n", "127.0.0.1", "--cert-fingerprint", fingerprint}), 0)
      << err();
  EXPECT_EQ(
      out(),
      "NODE        DEV        MODEL   SERIAL   TYPE   UUID   WWID   MODALIAS                  "
      "  SIZE\n127.0.0.1   /dev/vda   -       -        -      -      -      "
      "virtio:d00000002v00001AF4   6.4 GB\n");
  EXPECT_EQ(c.run({"interfaces", "-i", "-n", "127.0.0.1", "--cert-fingerprint", fingerprint}), 0);
  EXPECT_EQ(c.run({"version", "-i", "-n", "127.0.0.1", "--cert-fingerprint", fingerprint}), 0);
  EXPECT_THAT(out(), HasSubstr("NODE:        127.0.0.1"));
}

// Catches: documents that are mixed up, one that is missing, a flag that is silently not obeyed.
TEST_F(Maintenance, AMachineMakesTheConfigsOfACluster) {
  config("127.0.0.1").document = good("made");
  auto folder = path("made");
  std::initializer_list<kj::StringPtr> words = {"gen",       "config",
                                                "demo",      "https://10.0.0.9:6443",
                                                "-i",        "-n",
                                                "127.0.0.1", "--cert-fingerprint",
                                                fingerprint, "--install-disk",
                                                "/dev/vdx",  "-o",
                                                folder};
  EXPECT_EQ(c.run(words), 0) << err();
  EXPECT_TRUE(readFile(kj::str(folder, "/controlplane.yaml"))
                  .startsWith("# controlplane.yaml https://10.0.0.9:6443 /dev/vdx\n"));
  EXPECT_TRUE(readFile(kj::str(folder, "/join.yaml")).startsWith("# join.yaml "));
  EXPECT_EQ(readFile(kj::str(folder, "/talosconfig")), "context: demo\n");
  EXPECT_EQ(c.run({"gen", "config", "demo", "https://10.0.0.9:6443", "-i", "-n", "127.0.0.1",
                   "--talos-version", "v0.8", "-o", path("not")}),
            1);
  EXPECT_THAT(err(), HasSubstr("--talos-version has no meaning with --insecure"));
  config("127.0.0.1").withoutTalosconfig = true;
  EXPECT_EQ(c.run({"gen", "config", "demo", "https://10.0.0.9:6443", "-i", "-n", "127.0.0.1",
                   "--cert-fingerprint", fingerprint, "-o", path("not")}),
            1);
  EXPECT_THAT(err(), HasSubstr("the node made no talosconfig"));
  EXPECT_NE(access(path("not").cStr(), F_OK), 0);
}

// Catches: "certificate required" as all that the user is told.
TEST_F(Configs, AMachineWithAConfigSaysThatInsecureIsWrong) {
  node("127.0.0.1");
  EXPECT_EQ(c.run({"apply-config", "-i", "-n", "127.0.0.1", "-f", file()}), 1);
  EXPECT_THAT(err(), HasSubstr("127.0.0.1 has a config already, and asks for a certificate: leave "
                               "out --insecure"));
  EXPECT_EQ(config("127.0.0.1").applied.size(), 0u);
}

// --- edit

// Catches: a time that is not the one that was asked for, and an answer that does not say that it
// ends.
TEST_F(Configs, ATrialSaysWhenItEnds) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--mode=try"}), 0) << err();
  EXPECT_EQ(config("10.0.0.2").mode, rpc::ApplyMode::TRY);
  EXPECT_EQ(config("10.0.0.2").tryTimeoutMs, 60'000u);
  EXPECT_EQ(out(),
            "10.0.0.2: on trial: in effect, and the config of before comes back in 1m0s unless "
            "another one is applied\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "--mode=try", "--timeout", "1m30s", "-p",
                   R"([{"op":"replace","path":"/machine/network/hostname","value":"x"}])"}),
            0)
      << err();
  EXPECT_EQ(config("10.0.0.2").tryTimeoutMs, 90'000u);
  EXPECT_THAT(out(), HasSubstr("comes back in 1m30s unless"));
  EXPECT_EQ(c.run({"apply-config", "-i", "-n", "127.0.0.1", "-f", file(), "--mode=try"}), 1);
  EXPECT_THAT(err(), HasSubstr("--mode=try has no meaning with --insecure"));
}

// Catches: a plan of the network that is not shown, or shown as done.
TEST_F(Configs, ADryRunShowsWhatWouldBeDoneToTheNetwork) {
  auto& there = config("10.0.0.2");
  there.liveChanges.add(kj::str("machine.network.interfaces[0].cidr"));
  there.networkPlan.add(kj::str("add address 10.5.0.9/24 to eth0"));
  there.networkProblems.add(kj::str("link \x1b[2Jdummy9: no"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 0) << err();
  EXPECT_THAT(out(),
              AllOf(HasSubstr("\n\nNETWORK\nadd address 10.5.0.9/24 to eth0\n"),
                    HasSubstr("\n\nPROBLEMS OF THE NETWORK\nlink "), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run", "-o", "json"}), 0);
  EXPECT_THAT(out(), HasSubstr("add address 10.5.0.9/24 to eth0"));
}

// Catches: an edit that goes to all nodes, the comments sent along, a file that others can read or
// that stays behind, an editor's flag taken for part of its name.
TEST_F(Configs, EditGoesNodeByNode) {
  editor(kj::str("[ $1 = --flag ]\nstat -c '%a' $f $(dirname $f) >>", path("modes"),
                 "\nhead -1 $f >>", path("heads"), "\nsed -i 's/hostname: .*/&-edited/' $f"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc", "--immediate"}), 0) << err();
  EXPECT_EQ(config("10.0.0.2").applied[0], good("one-edited"));
  EXPECT_EQ(config("10.0.0.3").applied[0], good("two-edited"));
  EXPECT_EQ(config("10.0.0.2").mode, rpc::ApplyMode::NO_REBOOT);
  EXPECT_EQ(readFile(path("modes")), "600\n700\n600\n700\n");
  EXPECT_EQ(readFile(path("heads")),
            "# MachineConfigs.config.talos.dev v1alpha1 of the node 10.0.0.2\n"
            "# MachineConfigs.config.talos.dev v1alpha1 of the node 10.0.0.3\n");
  EXPECT_EQ(leftovers(), 0u);
}

TEST_F(Configs, NothingChangedSendsNothing) {
  editor("echo >>$f");  // a newline at the end, as editors add one
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "machineconfig", "v1alpha1"}), 0) << err();
  EXPECT_EQ(out(), "edit of the node 10.0.0.2 skipped: nothing changed\n");
  editor("sed -i '/^#/!d' $f");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc"}), 0);
  EXPECT_EQ(out(),
            "edit of the node 10.0.0.2 skipped: the text is empty\n"
            "edit of the node 10.0.0.3 skipped: the text is empty\n");
  EXPECT_EQ(config("10.0.0.2").applied.size(), 0u);
}

// Catches: a mistake that costs the user what was typed, a place that is off by the comments above
// it, an endless round with an editor that changes nothing.
TEST_F(Configs, AnInvalidEditComesBackWithItsProblems) {
  editor(kj::str(
      "cp $f ", path("seen"), "\nsed -i 's/type: worker/type: wroker/; s/: one/: mine/' $f\n",
      "if grep -q 'not applied:' $f; then sed -i 's/type: wroker/type: worker/' $f; fi"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 0) << err();
  ASSERT_EQ(runs(), 2u);
  EXPECT_EQ(config("10.0.0.2").applied[0], good("mine"));
  auto seen = readFile(path("seen"));
  EXPECT_THAT(seen.cStr(),
              AllOf(HasSubstr("# It was not applied:\n#   line "), HasSubstr("machine.type: "),
                    HasSubstr("\n  type: wroker\n"), HasSubstr("hostname: mine")));
  unsigned line = 0, named = 0;
  for (auto& text : linesOf(seen)) {
    ++line;
    auto* place = strstr(text.cStr(), "#   line ");
    if (place != nullptr) named = strtoul(place + 9, nullptr, 10);
    if (text == "  type: wroker") EXPECT_EQ(named, line);
  }
  EXPECT_GT(named, 0u);

  config("10.0.0.2").document = good("one");
  editor("sed -i 's/type: worker/type: wroker/' $f");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 1);
  EXPECT_EQ(runs(), 4u);
  EXPECT_THAT(err(), AllOf(StartsWith("error: 10.0.0.2: not applied:"), HasSubstr("machine.type")));
  EXPECT_EQ(config("10.0.0.2").applied.size(), 1u);
  EXPECT_EQ(leftovers(), 0u);
}

TEST_F(Configs, ARefusalOfTheNodeComesBackToo) {
  config("10.0.0.2")
      .refusals.add(error(ErrorKind::kFailedPrecondition, "machine.install.disk needs a reboot"));
  editor(kj::str("cp $f ", path("seen"), "\nsed -i 's/hostname: .*/&-more/' $f"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc", "--immediate"}), 0) << err();
  EXPECT_THAT(readFile(path("seen")).cStr(),
              AllOf(HasSubstr("#   machine.install.disk needs a reboot\n"),
                    HasSubstr("hostname: one-more\n")));
  EXPECT_EQ(config("10.0.0.2").applied[0], good("one-more-more"));
}

// Catches: the next node's editor that opens after a failure, and an exit status of 0.
TEST_F(Configs, WhatCannotBeMendedEndsTheEdit) {
  editor("sed -i 's/hostname: .*/&-x/' $f");
  config("10.0.0.2").refusals.add(error(ErrorKind::kPermissionDenied, "os:admin is missing"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc"}), 1);
  EXPECT_EQ(err(), "error: 10.0.0.2: os:admin is missing\n");
  EXPECT_EQ(runs(), 1u);
  editor("exit 3");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc"}), 1);
  EXPECT_THAT(err(), HasSubstr("/editor --flag\" ended with status 3; nothing was applied"));
  c.test.environment.upsert(kj::str("TALOS_EDITOR"), kj::str("/nonexistent/vi"),
                            [](auto& old, auto&& now) { old = kj::mv(now); });
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 1);
  EXPECT_THAT(err(), HasSubstr("is not there"));
  EXPECT_EQ(leftovers(), 0u);
}

// Catches: an hour of editing that is lost with the connection.
TEST_F(Configs, WithTheConnectionTheTextIsNotLost) {
  editor("sed -i 's/hostname: .*/&-x/' $f");
  config("10.0.0.2").refusals.add(error(ErrorKind::kUnavailable, "the connection was lost"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc"}), 1);
  auto told = err();
  EXPECT_THAT(told, HasSubstr("; the edited text, with its secrets, is kept in "));
  auto at = told.find(c.folder.cStr());
  ASSERT_NE(at, std::string::npos);
  auto kept = told.substr(at, told.find('\n', at) - at);
  EXPECT_EQ(readFile(kept.c_str()), good("one-x"));
  struct stat st;
  ASSERT_EQ(stat(kept.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  EXPECT_EQ(leftovers(), 1u);
}

// Catches: Ctrl-C in an editor, which the terminal sends to all, that ends the edit instead.
TEST_F(Configs, AnInterruptIsForTheEditor) {
  editor(kj::str("trap : INT; kill -INT $PPID; kill -INT $$; sed -i 's/hostname: .*/&-x/' $f"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 0) << err();
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u);
  EXPECT_FALSE(c.world->terminalLent) << "and from then on it is for us";
}

TEST_F(Configs, OnlyMachineConfigsAreEdited) {
  editor("exit 3");
  for (auto verb : {"edit", "patch"}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", verb, "services", "apid", "--mode=auto"}), 1);
    EXPECT_THAT(err(), HasSubstr("works on machine configs (mc) only"));
    EXPECT_EQ(c.run({"-n", "10.0.0.2", verb, "nonsense"}), 1);
  }
  EXPECT_EQ(runs(), 0u);
}

// Catches: somebody else's change that is overwritten because the editor was open meanwhile, and an
// edit that can never be applied after that.
TEST_F(Configs, AnEditNoticesWhatSomebodyElseDid) {
  config("10.0.0.2").version = 7;
  config("10.0.0.2").refusals.add(error(ErrorKind::kConflict, "the config was changed meanwhile"));
  // The first editor takes so long that the other one is done before.
  editor(kj::str("cp $f ", path("seen"), "\nsed -i 's/disk: .*/&-more/' $f"));
  auto run = c.start({"-n", "10.0.0.2", "edit", "mc", "--immediate"});
  while (runs() == 0) c.test.io.waitScope.poll();
  config("10.0.0.2").document = good("other");
  config("10.0.0.2").version = 8;
  EXPECT_EQ(run.wait(c.test.io.waitScope), 0) << err();
  EXPECT_THAT(readFile(path("seen")).cStr(),
              AllOf(HasSubstr("#   the config was changed meanwhile\n"),
                    HasSubstr("# Somebody else has changed the node's config meanwhile"),
                    HasSubstr("#   -    hostname: one\n#   +    hostname: other\n"),
                    HasSubstr("\n    hostname: one\n"), HasSubstr("disk: /dev/vda-more\n")));
  EXPECT_EQ(config("10.0.0.2").ifVersion, 8u);
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u);
  EXPECT_EQ(leftovers(), 0u);
}

// --- patch

// Catches: a patch of a config that is not the one that it was made from.
TEST_F(Configs, APatchSaysWhatItWasMadeFrom) {
  config("10.0.0.2").version = 7;
  std::string patch = R"([{"op":"replace","path":"/machine/network/hostname","value":"x"}])";
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", patch.c_str()}), 0) << err();
  EXPECT_EQ(config("10.0.0.2").ifVersion, 7u);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file()}), 0) << err();
  EXPECT_EQ(config("10.0.0.2").ifVersion, 0u);
}

// Catches: one node's patched config that is sent to the others.
TEST_F(Configs, PatchChangesEachNodesOwn) {
  EXPECT_EQ(
      c.run(
          {"-n", "10.0.0.2,10.0.0.3", "patch", "mc", "--immediate", "-p",
           R"([{"op": "replace", "path": "/machine/type", "value": "join"}, {"op": "add", "path": "/machine/sysctls", "value": {"a.b": "1,2"}}])"}),
      0)
      << err();
  for (auto address : {"10.0.0.2", "10.0.0.3"}) {
    ASSERT_EQ(config(address).applied.size(), 1u);
    EXPECT_THAT(config(address).applied[0].cStr(),
                AllOf(HasSubstr(address[7] == '2' ? "hostname: one" : "hostname: two"),
                      HasSubstr("join"), HasSubstr("1,2")));
  }
  auto text = out();
  EXPECT_THAT(text, AllOf(HasSubstr("patched mc at the node 10.0.0.2\n"),
                          HasSubstr("patched mc at the node 10.0.0.3\n")));
}

TEST_F(Configs, PatchesComeFromWordsAndFiles) {
  auto first = write("first.yaml", "machine:\n  network:\n    hostname: three\n");
  auto second = write(
      "second.json",
      R"([{"op": "test", "path": "/machine/network/hostname", "value": "three"}, {"op": "replace", "path": "/machine/network/hostname", "value": "four"}])");
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "patch", "mc", kj::str("--patch=@", first), "--patch-file", second}),
      0)
      << err();
  EXPECT_THAT(config("10.0.0.2").applied[0].cStr(), HasSubstr("hostname: four"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{machine: {sysctls: {vm.a: 1}}}", "-p",
                   "{machine: {sysctls: {vm.b: 2}}}"}),
            0)
      << err();
  EXPECT_THAT(config("10.0.0.2").applied[1].cStr(),
              AllOf(HasSubstr("vm.a: 1"), HasSubstr("vm.b: 2")));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc"}), 1);
  EXPECT_THAT(err(), HasSubstr("--patch-file"));
}

// Catches: a node that is patched although another one's config does not take the patch; a problem
// that does not say in which of the patches it is.
TEST_F(Configs, APatchThatCannotBeDoneSendsNothing) {
  config("10.0.0.3").document = kj::str(good("two"), "debug: true\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "patch", "mc", "-p",
                   R"([{"op": "remove", "path": "/debug"}])"}),
            1);
  EXPECT_THAT(err(), AllOf(HasSubstr("nothing was sent"), HasSubstr("10.0.0.2: --patch:1:"),
                           HasSubstr("/debug")));
  EXPECT_EQ(config("10.0.0.3").applied.size(), 0u);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{machine: {type: masterr}}"}), 1);
  EXPECT_THAT(err(), HasSubstr("machine.type"));
  EXPECT_EQ(config("10.0.0.2").applied.size(), 0u);
}

// Catches: the mistakes of a config that runs and that nobody touches.
TEST_F(Configs, APatchThatChangesNothingIsNotJudged) {
  config("10.0.0.2").document = kj::str("machine:\n  type: wroker\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "[]"}), 0) << err();
  EXPECT_EQ(out(), "patch of the node 10.0.0.2 skipped: nothing changed\n");
}

// Catches: a doubt about something that cannot have happened.
TEST_F(Configs, ADryRunThatFailsChangedNothing) {
  config("10.0.0.2").refusals.add(error(ErrorKind::kUnavailable, "the connection was lost"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 1);
  EXPECT_EQ(err(), "error: 10.0.0.2: the connection was lost\n");
}

// Catches: "patched" of a node that refused, or of one that had nothing to change.
TEST_F(Configs, OnlySuccessIsCalledPatched) {
  config("10.0.0.2").refusals.add(error(ErrorKind::kConflict, "the sequence boot runs"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{debug: true}"}), 1);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(), "error: 10.0.0.2: the sequence boot runs\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{machine: {network: {hostname: one}}}"}),
            0);
  EXPECT_EQ(out(), "patch of the node 10.0.0.2 skipped: nothing changed\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{debug: true}", "--dry-run"}), 0);
  EXPECT_THAT(out(), Not(HasSubstr("patched")));
}

// --- time

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

// --- the comments above an edited text

TEST(EditorText, OnlyOurCommentsAreTaken) {
  auto ours = asComments(kj::arr(kj::str("one"), kj::str("two")));
  EXPECT_EQ(withoutComments(kj::str(ours, "# mine\na: 1\n"), ours), "# mine\na: 1\n");
  EXPECT_EQ(withoutComments("# two\na: 1\n# one\n", ours), "a: 1\n# one\n");
  EXPECT_EQ(withoutComments("# one\n# two", ours), "");
  EXPECT_EQ(withoutComments("", ours), "");
  // Catches: an editor that takes blanks off the ends of lines, or makes them those of Windows.
  auto gap = asComments(kj::arr(kj::str("one"), kj::str(), kj::str("  two ")));
  EXPECT_EQ(withoutComments("# one\n#\n#   two\na: 1\n", gap), "a: 1\n");
  EXPECT_EQ(withoutComments("# one\r\n#\r\n#   two\r\na: 1\r\n", gap), "a: 1\r\n");
  EXPECT_TRUE(isBlank("  \n# x\n\t# y"));
  EXPECT_FALSE(isBlank("# x\na"));
  EXPECT_TRUE(sameText("a\n", "a\n\n"));
  EXPECT_FALSE(sameText("a\n", " a\n"));
}

}  // namespace
}  // namespace talos::talosctl
