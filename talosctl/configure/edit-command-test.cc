// Whole runs of edit and patch.
#include <fcntl.h>
#include <kj/debug.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/lines.h"
#include "talosctl/config/editor.h"
#include "talosctl/configure/test-configs.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Catches: an edit that goes to all nodes, comments that are sent, a file that others can read or
// that remains, an editor's flag taken for part of its name.
TEST_F(Configs, EditGoesNodeByNode) {
  editor(kj::str("[ $1 = --flag ]\nstat -c '%a' $f $(dirname $f) >>", path("modes"),
                 "\nhead -1 $f >>", path("heads"), "\nsed -i 's/hostname: .*/&-edited/' $f"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc", "--immediate"}), 0) << err();
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u) << err();
  EXPECT_EQ(config("10.0.0.2").applied[0], good("one-edited"));
  ASSERT_EQ(config("10.0.0.3").applied.size(), 1u) << err();
  EXPECT_EQ(config("10.0.0.3").applied[0], good("two-edited"));
  EXPECT_EQ(config("10.0.0.2").mode, rpc::ApplyMode::NO_REBOOT);
  EXPECT_EQ(readFile(path("modes")), "600\n700\n600\n700\n");
  EXPECT_EQ(readFile(path("heads")),
            "# MachineConfigs.config.talos.dev v1alpha1 of the node 10.0.0.2\n"
            "# MachineConfigs.config.talos.dev v1alpha1 of the node 10.0.0.3\n");
  EXPECT_EQ(leftovers(), 0u);
}

// Catches: vi in a pipeline, which waits forever or writes its screen into the pipe; a refusal
// after the config, with its secrets, was read; a script as the editor that is refused.
TEST_F(Configs, EditWithoutATerminalNeedsAnEditorThatIsNamed) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 1);
  EXPECT_EQ(err(),
            "error: cannot edit: standard input is not a terminal; use `talosctl patch`, or set "
            "TALOS_EDITOR or EDITOR to a program that changes the file without a terminal\n");
  EXPECT_EQ(config("10.0.0.2").readings, 0u);
  EXPECT_EQ(leftovers(), 0u);
  c.test.environment.insert(kj::str("EDITOR"), kj::str("true"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 0);
  EXPECT_EQ(err(), "10.0.0.2: Apply was skipped: no changes detected.\n");
}

TEST_F(Configs, NothingChangedSendsNothing) {
  editor("echo >>$f");  // a newline at the end, which editors add
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "machineconfig", "v1alpha1"}), 0) << err();
  EXPECT_EQ(err(), "10.0.0.2: Apply was skipped: no changes detected.\n");
  editor("sed -i '/^#/!d' $f");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc"}), 0);
  EXPECT_EQ(err(),
            "10.0.0.2: Apply was skipped: empty file.\n"
            "10.0.0.3: Apply was skipped: empty file.\n");
  EXPECT_EQ(out(), "");
  EXPECT_EQ(config("10.0.0.2").applied.size(), 0u);
}

// Catches: a script as the editor that is started forever, and a text that is lost with it.
TEST_F(Configs, AScriptThatKeepsFailingIsStartedThreeTimes) {
  editor("echo \"nonsense: $(date +%N)\" >>$f");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 1);
  EXPECT_EQ(runs(), 3u);
  auto text = err();
  EXPECT_THAT(text, AllOf(HasSubstr("nonsense"), HasSubstr("the editor was opened 3 times")));
  auto from = text.find("is kept in ");
  ASSERT_NE(from, std::string::npos);
  auto kept = text.substr(from + 11, text.find('\n', from) - from - 11);
  EXPECT_THAT(readFile(kept.c_str()).cStr(), HasSubstr("nonsense: "));
}

// Catches: a mistake that loses the user's text, a line number that ignores the comments above, an
// endless round with an editor that changes nothing.
TEST_F(Configs, AnInvalidEditComesBackWithItsProblems) {
  editor(kj::str(
      "cp $f ", path("seen"), "\nsed -i 's/type: worker/type: wroker/; s/: one/: mine/' $f\n",
      "if grep -q 'not applied:' $f; then sed -i 's/type: wroker/type: worker/' $f; fi"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 0) << err();
  ASSERT_EQ(runs(), 2u);
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u) << err();
  EXPECT_EQ(config("10.0.0.2").applied[0], good("mine"));
  auto seen = readFile(path("seen"));
  EXPECT_THAT(seen.cStr(), AllOf(HasSubstr("# The config was not applied:\n#   line "),
                                 HasSubstr("machine.type: "), HasSubstr("\n  type: wroker\n"),
                                 HasSubstr("hostname: mine")));
  unsigned line = 0, named = 0;
  for (auto& text : linesOf(seen)) {
    ++line;
    auto* place = strstr(text.cStr(), "#   line ");
    if (place != nullptr) named = strtoul(place + 9, nullptr, 10);
    if (text == "  type: wroker") EXPECT_EQ(named, line);
  }
  EXPECT_GT(named, 0u);
  EXPECT_EQ(err(), "10.0.0.2: applied: the node reboots\n");

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
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u) << err();
  EXPECT_EQ(config("10.0.0.2").applied[0], good("one-more-more"));
}

// Catches: an editor for the next node after a failure, and an exit status of 0.
TEST_F(Configs, WhatCannotBeMendedEndsTheEdit) {
  editor("sed -i 's/hostname: .*/&-x/' $f");
  config("10.0.0.2").refusals.add(error(ErrorKind::kPermissionDenied, "os:admin is missing"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc"}), 1);
  EXPECT_EQ(err(), "error: 10.0.0.2: os:admin is missing\n");
  EXPECT_EQ(runs(), 1u);
  editor("exit 3");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc"}), 1);
  EXPECT_THAT(err(), HasSubstr("/editor --flag\" exited with status 3; nothing was applied"));
  c.test.environment.upsert(kj::str("TALOS_EDITOR"), kj::str("/nonexistent/vi"),
                            [](auto& old, auto&& now) { old = kj::mv(now); });
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 1);
  EXPECT_THAT(err(), HasSubstr("was not found"));
  EXPECT_EQ(leftovers(), 0u);
}

// Catches: an hour of editing that is lost with the connection.
TEST_F(Configs, WithTheConnectionTheTextIsNotLost) {
  editor("sed -i 's/hostname: .*/&-x/' $f");
  config("10.0.0.2").refusals.add(error(ErrorKind::kUnavailable, "the connection was lost"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "edit", "mc"}), 1);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("; the edited text, with its secrets, is kept in "));
  auto at = text.find(c.folder.cStr());
  ASSERT_NE(at, std::string::npos);
  auto kept = text.substr(at, text.find('\n', at) - at);
  EXPECT_EQ(readFile(kept.c_str()), good("one-x"));
  struct stat st;
  ASSERT_EQ(stat(kept.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  EXPECT_EQ(leftovers(), 1u);
}

// Catches: Ctrl-C in an editor, which the terminal sends to all programs, that ends the edit.
TEST_F(Configs, AnInterruptIsForTheEditor) {
  editor(kj::str("trap : INT; kill -INT $PPID; kill -INT $$; sed -i 's/hostname: .*/&-x/' $f"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "edit", "mc"}), 0) << err();
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u);
  EXPECT_FALSE(c.deps->terminalLent) << "and from then on it is for us";
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

// Catches: another client's change that is overwritten because the editor was open meanwhile, and
// an edit that can never be applied after it.
TEST_F(Configs, AnEditNoticesWhatSomebodyElseDid) {
  config("10.0.0.2").version = 7;
  config("10.0.0.2").refusals.add(error(ErrorKind::kConflict, "the config was changed meanwhile"));
  // The first editor runs until the other one has ended.
  auto gate = path("gate");
  KJ_SYSCALL(mkfifo(gate.cStr(), 0600));
  int fd;
  KJ_SYSCALL(fd = open(gate.cStr(), O_RDWR | O_CLOEXEC));
  kj::AutoCloseFd other(fd);
  editor(kj::str("[ -e ", gate, " ] && read done < ", gate, " && rm ", gate, "\ncp $f ",
                 path("seen"), "\nsed -i 's/disk: .*/&-more/' $f"));
  auto run = c.start({"-n", "10.0.0.2", "edit", "mc", "--immediate"});
  while (runs() == 0) c.test.io.waitScope.poll();
  EXPECT_TRUE(c.deps->terminalLent) << "Ctrl-C is for the editor";
  config("10.0.0.2").document = good("other");
  config("10.0.0.2").version = 8;
  KJ_SYSCALL(::write(other.get(), "\n", 1));
  EXPECT_EQ(run.wait(c.test.io.waitScope), 0) << err();
  EXPECT_THAT(readFile(path("seen")).cStr(),
              AllOf(HasSubstr("#   the config was changed meanwhile\n"),
                    HasSubstr("# The node's config has been changed by another client meanwhile"),
                    HasSubstr("#   -    hostname: one\n#   +    hostname: other\n"),
                    HasSubstr("\n    hostname: one\n"), HasSubstr("disk: /dev/vda-more\n")));
  EXPECT_EQ(config("10.0.0.2").ifVersion, 8u);
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u);
  EXPECT_EQ(leftovers(), 0u);
}

TEST(EditorText, OnlyOurCommentsAreTaken) {
  auto ours = asComments(kj::arr(kj::str("one"), kj::str("two")));
  EXPECT_EQ(withoutComments(kj::str(ours, "# mine\na: 1\n"), ours), "# mine\na: 1\n");
  EXPECT_EQ(withoutComments("# two\na: 1\n# one\n", ours), "a: 1\n# one\n");
  EXPECT_EQ(withoutComments("# one\n# two", ours), "");
  EXPECT_EQ(withoutComments("", ours), "");
  // Catches: an editor that removes blanks at the ends of lines, or writes Windows line ends.
  auto gap = asComments(kj::arr(kj::str("one"), kj::str(), kj::str("  two ")));
  EXPECT_EQ(withoutComments("# one\n#\n#   two\na: 1\n", gap), "a: 1\n");
  EXPECT_EQ(withoutComments("# one\r\n#\r\n#   two\r\na: 1\r\n", gap), "a: 1\r\n");
  EXPECT_TRUE(isBlank("  \n# x\n\t# y"));
  EXPECT_FALSE(isBlank("# x\na"));
  EXPECT_TRUE(sameText("a\n", "a\n\n"));
  EXPECT_FALSE(sameText("a\n", " a\n"));
}

// Catches: a patch of another config than the one from which it was made.
TEST_F(Configs, APatchSaysWhatItWasMadeFrom) {
  config("10.0.0.2").version = 7;
  std::string patch = R"([{"op":"replace","path":"/machine/network/hostname","value":"x"}])";
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", patch.c_str()}), 0) << err();
  EXPECT_EQ(config("10.0.0.2").ifVersion, 7u);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file()}), 0) << err();
  EXPECT_EQ(config("10.0.0.2").ifVersion, 0u);
}

// Catches: of eight clients that patch at once, six that are refused; a retry with the config that
// was read first, which loses the changes of the others.
TEST_F(Configs, APatchIsMadeAgainFromWhatOthersHaveChanged) {
  for (int i = 1; i <= 7; ++i) {
    config("10.0.0.2")
        .others.add(kj::str(good("other"), "debug: ", i % 2 == 1 ? "true" : "false", "\n"));
  }
  config("10.0.0.2").liveChanges.add(kj::str("machine.sysctls"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "--immediate", "-p",
                   "{machine: {sysctls: {vm.a: 1}}}"}),
            0)
      << err();
  EXPECT_EQ(err(),
            "patched mc at the node 10.0.0.2\n10.0.0.2: applied: in effect, without a reboot\n");
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u);
  EXPECT_THAT(config("10.0.0.2").applied[0].cStr(),
              AllOf(HasSubstr("vm.a: 1"), HasSubstr("hostname: other"), HasSubstr("debug: true")));
  EXPECT_EQ(config("10.0.0.2").ifVersion, 8u);
}

// Catches: a patch that is forced on a config to which it does not apply, or sent although the
// other client has made the same change.
TEST_F(Configs, APatchThatNoLongerAppliesIsRefused) {
  config("10.0.0.2").others.add(good("other"));
  EXPECT_EQ(
      c.run(
          {"-n", "10.0.0.2", "patch", "mc", "-p",
           R"([{"op": "test", "path": "/machine/network/hostname", "value": "one"}, {"op": "add", "path": "/debug", "value": true}])"}),
      1);
  EXPECT_THAT(err(),
              AllOf(HasSubstr("10.0.0.2: --patch:1:"), HasSubstr("/machine/network/hostname")));
  config("10.0.0.3").others.add(kj::str(good("two"), "debug: true\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.3", "patch", "mc", "-p", "{debug: true}"}), 0);
  EXPECT_EQ(err(), "10.0.0.3: Apply was skipped: no changes detected.\n");
  for (auto address : {"10.0.0.2", "10.0.0.3"}) EXPECT_EQ(config(address).applied.size(), 0u);
}

// Catches: one node's patched config that is sent to the others.
TEST_F(Configs, PatchChangesEachNodesOwn) {
  for (auto address : {"10.0.0.2", "10.0.0.3"}) config(address).diff = kj::str("+ a.b: 1,2\n");
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
  auto text = err();
  EXPECT_THAT(text, AllOf(HasSubstr("patched mc at the node 10.0.0.2\n"),
                          HasSubstr("patched mc at the node 10.0.0.3\n")));
}

// Catches: a line that depends on the spelling of the type; the documents print "mc" for each.
TEST_F(Configs, PatchedIsThatOfTheDocuments) {
  for (kj::StringPtr type :
       {"mc"_kj, "machineconfig"_kj, "machineconfigs"_kj, "MachineConfigs.config.talos.dev"_kj}) {
    config("10.0.0.2").document = good("one");
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", type, "-p", "{debug: true}"}), 0);
    EXPECT_EQ(err(), "patched mc at the node 10.0.0.2\n10.0.0.2: applied: the node reboots\n")
        << type.cStr();
    EXPECT_EQ(out(), "");
  }
}

TEST_F(Configs, PatchesComeFromArgumentsAndFiles) {
  auto first = write("first.yaml", "machine:\n  network:\n    hostname: three\n");
  auto second = write(
      "second.json",
      R"([{"op": "test", "path": "/machine/network/hostname", "value": "three"}, {"op": "replace", "path": "/machine/network/hostname", "value": "four"}])");
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "patch", "mc", kj::str("--patch=@", first), "--patch-file", second}),
      0)
      << err();
  ASSERT_EQ(config("10.0.0.2").applied.size(), 1u) << err();
  EXPECT_THAT(config("10.0.0.2").applied[0].cStr(), HasSubstr("hostname: four"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{machine: {sysctls: {vm.a: 1}}}", "-p",
                   "{machine: {sysctls: {vm.b: 2}}}"}),
            0)
      << err();
  ASSERT_EQ(config("10.0.0.2").applied.size(), 2u) << err();
  EXPECT_THAT(config("10.0.0.2").applied[1].cStr(),
              AllOf(HasSubstr("vm.a: 1"), HasSubstr("vm.b: 2")));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc"}), 1);
  EXPECT_THAT(err(), HasSubstr("--patch-file"));
}

// Catches: patch or apply-config that loses the documents of a patch; an empty patch that is sent
// or refused.
TEST_F(Configs, PatchesHaveDocumentsOrNothing) {
  auto two = kj::str("@", write("two.yaml",
                                "machine: {nodeLabels: {a: b}}\n---\napiVersion: v1alpha1\n"
                                "kind: DiscoveryServiceConfig\nname: data\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", two}), 0) << err();
  EXPECT_EQ(c.run({"-n", "10.0.0.3", "apply-config", "-f", file(), "-p", two}), 0) << err();
  for (auto node : {"10.0.0.2"_kj, "10.0.0.3"_kj}) {
    ASSERT_EQ(config(node).applied.size(), 1u) << node.cStr();
    EXPECT_THAT(
        config(node).applied[0].cStr(),
        AllOf(
            HasSubstr("a: b\n"),
            HasSubstr("\n---\napiVersion: v1alpha1\nkind: DiscoveryServiceConfig\nname: data\n")));
  }
  err();
  auto empty = kj::str("@", write("empty.yaml", "# machine:\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", empty}), 0);
  EXPECT_THAT(err(), AllOf(HasSubstr("the patch is empty"), HasSubstr("no changes detected")));
  EXPECT_EQ(config("10.0.0.2").applied.size(), 1u);
}

// Catches: a node that is patched although the patch fails for another node's config; a problem
// that does not name its patch.
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

// Catches: errors in a part of the running config that the patch does not change.
TEST_F(Configs, APatchThatChangesNothingIsNotJudged) {
  config("10.0.0.2").document = kj::str("machine:\n  type: wroker\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "[]"}), 0) << err();
  EXPECT_EQ(err(), "10.0.0.2: Apply was skipped: no changes detected.\n");
}

// Catches: a doubt about a change that cannot have happened.
TEST_F(Configs, ADryRunThatFailsChangedNothing) {
  config("10.0.0.2").refusals.add(error(ErrorKind::kUnavailable, "the connection was lost"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "apply-config", "-f", file(), "--dry-run"}), 1);
  EXPECT_EQ(err(), "error: 10.0.0.2: the connection was lost\n");
}

// Catches: "patched" for a node that refused, or that had nothing to change.
TEST_F(Configs, OnlySuccessIsCalledPatched) {
  for (int i = 0; i < 20; ++i) {
    config("10.0.0.2").refusals.add(error(ErrorKind::kConflict, "the sequence boot runs"));
  }
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{debug: true}"}), 1);
  EXPECT_EQ(config("10.0.0.2").refusals.size(), 8u) << "a conflict is tried 12 times";
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(), "error: 10.0.0.2: the sequence boot runs\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{machine: {network: {hostname: one}}}"}),
            0);
  EXPECT_EQ(err(), "10.0.0.2: Apply was skipped: no changes detected.\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "{debug: true}", "--dry-run"}), 0);
  EXPECT_THAT(out() + err(), Not(HasSubstr("patched")));
}

// Catches: the name of a file without its @, which is answered with the grammar of patches.
TEST_F(Configs, APatchThatIsTheNameOfAFileIsNamed) {
  auto file = kj::str(c.folder, "/p.yaml");
  writeFileAtomically(file, "debug: true\n"_kj, 0600);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", file}), 1);
  EXPECT_EQ(err(),
            kj::str("error: --patch: \"", file, "\" is a file; use --patch @", file, "\n").cStr());
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "patch", "mc", "-p", "no-such-file.yaml"}), 1);
  EXPECT_EQ(
      err(),
      "error: --patch: \"no-such-file.yaml\" is neither a patch nor a file; use JSON, YAML or "
      "@FILE\n");
}

}  // namespace
}  // namespace talos::talosctl
