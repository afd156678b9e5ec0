// config … and gen config, on files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/talosconfig/talosconfig.h"
#include "common/tls/pki.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Config : public ::testing::Test {
  ConsoleFixture test;
  kj::Own<Command> root = newRoot();
  kj::String folder;
  Config() {
    addCommands(*root);
    char path[] = "/tmp/talosctl-config-XXXXXX";
    folder = kj::str(mkdtemp(path));
    test.environment.insert(kj::str("HOME"), kj::str(folder));
  }
  ~Config() noexcept override { removeTree(folder); }

  kj::String in(kj::StringPtr name) { return kj::str(folder, "/", name); }
  int run(std::initializer_list<kj::StringPtr> words) {
    return talosctl::run(test.deps, *root, kj::arrayPtr(words.begin(), words.size()),
                         kj::NEVER_DONE)
        .wait(test.io.waitScope);
  }
  std::string out() { return test.console.takeOut().cStr(); }
  std::string err() { return test.console.takeErr().cStr(); }
  mode_t mode(kj::StringPtr path) {
    struct stat s = {};
    stat(path.cStr(), &s);
    return s.st_mode & 07777;
  }
  // Adds a context with the command, with real certificates.
  void add(kj::StringPtr name, kj::Duration lifetime = 24 * kj::HOURS) {
    auto authority = pki::makeAuthority({.organization = "talos"});
    auto leaf = pki::issue(authority.certificate, authority.key,
                           {.organizations = kj::arr(kj::str("os:admin")), .lifetime = lifetime});
    writeFileAtomically(in("ca"), authority.certificate, 0600);
    writeFileAtomically(in("crt"), leaf.certificate, 0600);
    writeFileAtomically(in("key"), kj::StringPtr(leaf.key), 0600);
    ASSERT_EQ(
        run({"config", "add", name, "--ca", in("ca"), "--crt", in("crt"), "--key", in("key")}), 0)
        << err();
  }
};

// Catches a private key that others may read, and a file that is read from another path than it is
// written to.
TEST_F(Config, IsMadeWhereItIsReadAndForItsOwnerOnly) {
  add("one");
  EXPECT_EQ(mode(in(".talos/config")), 0600u);
  EXPECT_EQ(mode(in(".talos")), 0700u);
  EXPECT_EQ(run({"config", "endpoint", " 10.0.0.2 ", "node.example"}), 0);
  EXPECT_EQ(run({"config", "node", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}), 0);
  EXPECT_EQ(run({"config", "contexts"}), 0);
  EXPECT_EQ(out(),
            "CURRENT   NAME   ENDPOINTS               NODES\n"
            "*         one    10.0.0.2,node.example   10.0.0.2,10.0.0.3,10.0.0.4...\n");
  EXPECT_EQ(run({"config", "node"}), 0);  // no argument clears the list
  EXPECT_EQ(run({"config", "contexts", "-o", "json"}), 0);
  EXPECT_EQ(out(),
            "[\n    {\"name\": \"one\", \"current\": true, \"endpoints\": [\"10.0.0.2\", "
            "\"node.example\"], "
            "\"nodes\": []}\n]\n");
  EXPECT_EQ(run({"config", "contexts", "-o", "yaml"}), 0);
  EXPECT_EQ(out(),
            "- name: \"one\"\n  current: true\n  endpoints: [\"10.0.0.2\", \"node.example\"]\n"
            "  nodes: []\n");
}

TEST_F(Config, ContextsAreSwitched) {
  add("one");
  add("two");
  EXPECT_EQ(run({"config", "context", "two"}), 0);
  EXPECT_EQ(run({"config", "contexts"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("\n          one"), HasSubstr("\n*         two")));
  EXPECT_EQ(run({"config", "context", "three"}), 1);
  EXPECT_THAT(err(), HasSubstr("three"));
  EXPECT_EQ(run({"config", "info", "--context", "one"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("Current context:     one\n"),
                           HasSubstr("Roles:               os:admin\n")));
  // Changes another context than the current one.
  EXPECT_EQ(run({"config", "endpoint", "--context", "one", "10.0.0.9"}), 0) << err();
  EXPECT_EQ(run({"config", "node", "--context", "one", "10.0.0.8"}), 0) << err();
  EXPECT_EQ(run({"config", "contexts"}), 0);
  EXPECT_THAT(out(), HasSubstr("\n          one    10.0.0.9    10.0.0.8\n*         two"));
  // Writes two files at once, or none.
  auto all = in("all");
  EXPECT_EQ(run({"config", "merge", "--talosconfig", all, in(".talos/config"), in("nothing")}), 1);
  EXPECT_EQ(tryReadFile(all), nullptr);
}

// Catches: the current context that a pattern removes, a removal without the user's consent, and a
// dry run that changes the file.
TEST_F(Config, RemoveTakesThePatternsContextsButNotTheCurrentOne) {
  for (kj::StringPtr name : {"demo"_kj, "test-1"_kj, "test-2"_kj, "other"_kj}) add(name);
  auto before = readFile(in(".talos/config"));
  struct {
    std::vector<kj::StringPtr> arguments;
    int status;
    kj::StringPtr out, err;
  } unchanged[] = {
      {{"nothing-*", "-y"}, 1, ""_kj, "no contexts matched \"nothing-*\""_kj},
      {{"demo", "-y"}, 1, ""_kj, "cannot remove \"demo\": it is the current context; switch"_kj},
      {{"d?mo", "-y"}, 0, ""_kj, "skipping removal of current context \"demo\"; switch"_kj},
      {{"other"}, 1, ""_kj, "there is no terminal; use --noconfirm"_kj},
      {{"test-*", "--dry-run"},
       0,
       "would remove context \"test-1\"\nwould remove context \"test-2\"\n"_kj,
       ""_kj}};
  for (auto& row : unchanged) {
    kj::Vector<kj::StringPtr> words;
    words.addAll(kj::arr("config"_kj, "remove"_kj));
    for (auto word : row.arguments) words.add(word);
    EXPECT_EQ(talosctl::run(test.deps, *root, words, kj::NEVER_DONE).wait(test.io.waitScope),
              row.status);
    EXPECT_EQ(out(), row.out.cStr());
    EXPECT_THAT(err(), HasSubstr(row.err.cStr()));
    EXPECT_EQ(readFile(in(".talos/config")), before);
  }
  EXPECT_EQ(run({"config", "remove", "*t*", "--noconfirm"}), 0);
  EXPECT_EQ(err(),
            "removing context \"other\"\nremoving context \"test-1\"\nremoving context "
            "\"test-2\"\n");
  EXPECT_EQ(run({"config", "contexts", "-o", "json"}), 0);
  EXPECT_THAT(out(), HasSubstr("[\n    {\"name\": \"demo\", \"current\": true"));
}

// Catches: an answer of no, or none, that removes a context; a question that does not name it.
TEST_F(Config, RemoveAsksForEachContext) {
  for (kj::StringPtr name : {"demo"_kj, "a"_kj, "b"_kj, "c"_kj}) add(name);
  test.console.terminal = true;
  auto answers = in("answers");
  writeFileAtomically(answers, "n\ny\n"_kj, 0600);
  int fd;
  KJ_SYSCALL(fd = open(answers.cStr(), O_RDONLY | O_CLOEXEC));
  kj::AutoCloseFd input(fd);
  test.deps.input = input;
  EXPECT_EQ(run({"config", "remove", "?"}), 0);
  EXPECT_EQ(err(),
            "remove context \"a\"? [y/N] remove context \"b\"? [y/N] remove context \"c\"? [y/N] ");
  test.console.terminal = false;
  EXPECT_EQ(run({"config", "contexts"}), 0);
  auto left = out();
  EXPECT_THAT(left, AllOf(HasSubstr("  a  "), HasSubstr("  c  "), Not(HasSubstr("  b  "))));
}

TEST_F(Config, RenameKeepsTheCurrentContext) {
  add("one");
  add("two");
  EXPECT_EQ(run({"config", "rename", "one", "three"}), 0) << err();
  EXPECT_EQ(run({"config", "contexts"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("\n*         three"), HasSubstr("\n          two")));
  EXPECT_EQ(run({"config", "rename", "three", "two"}), 1);
  EXPECT_THAT(err(), HasSubstr("the context \"two\" already exists; use another name"));
  EXPECT_EQ(run({"config", "rename", "one", "four"}), 1);
  EXPECT_THAT(err(), HasSubstr("unknown context \"one\""));
}

// Catches: a certificate of an hour whose remaining time is "0 days"; an expired certificate that
// seems valid.
TEST_F(Config, InfoSaysHowLongTheCertificateIsValid) {
  add("one", 1 * kj::HOURS);
  auto ends = pki::inspect(readFile(in("crt"))).notAfter;
  auto says = [&](kj::Date now) {
    test.clock.time = now;
    EXPECT_EQ(run({"config", "info"}), 0) << err();
    auto text = out();
    auto at = text.find("Certificate expires: ");
    return at == std::string::npos ? text : text.substr(at + 21, text.find(" (") - at - 21);
  };
  EXPECT_EQ(says(ends - 59 * kj::MINUTES), "59 minutes from now");
  EXPECT_EQ(says(ends - 90 * kj::MINUTES), "1 hour from now");
  EXPECT_EQ(says(ends - 49 * kj::HOURS), "2 days from now");
  EXPECT_EQ(says(ends + 30 * kj::SECONDS), "30 seconds ago");
}

// Catches: two concurrent commands, of which one loses the entry that the other wrote.
TEST_F(Config, WaitsForAnotherProgramThatChangesTheFile) {
  add("one");
  writeFileAtomically(in(".talos/config.lock"), ""_kj, 0600);
  for (auto verb : {"endpoint"_kj, "node"_kj}) {
    kj::StringPtr words[] = {"config", verb, "10.0.0.2"};
    auto before = readFile(in(".talos/config"));
    auto waiting = talosctl::run(test.deps, *root, words, kj::NEVER_DONE);
    EXPECT_FALSE(waiting.poll(test.io.waitScope)) << verb.cStr();
    EXPECT_EQ(readFile(in(".talos/config")), before);
    KJ_SYSCALL(unlink(in(".talos/config.lock").cStr()));
    EXPECT_EQ(waiting.wait(test.io.waitScope), 0) << err();
    EXPECT_EQ(tryReadFile(in(".talos/config.lock")), nullptr);
    writeFileAtomically(in(".talos/config.lock"), ""_kj, 0600);
  }
  KJ_SYSCALL(unlink(in(".talos/config.lock").cStr()));
  EXPECT_EQ(run({"config", "contexts"}), 0);
  EXPECT_THAT(out(), HasSubstr("one    10.0.0.2    10.0.0.2\n"));
}

TEST_F(Config, NamesEachMistake) {
  EXPECT_EQ(run({"config", "endpoint", "10.0.0.2"}), 1);  // there is no context yet
  EXPECT_NE(err(), "");
  add("one");
  EXPECT_EQ(run({"config", "endpoint", "10.0.0.2:50000"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("must not have a port"), HasSubstr("use \"10.0.0.2\"")));
  EXPECT_EQ(run({"config", "endpoint", "fd00::1"}), 0);
  EXPECT_EQ(run({"config", "add", "two", "--ca", in("ca"), "--crt", in("ca"), "--key", in("key")}),
            1);
  EXPECT_NE(err(), "");  // key and certificate do not belong together
  EXPECT_EQ(run({"config", "add", "two", "--ca", in("ca")}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("required flag --"), HasSubstr("Usage:")));
  EXPECT_EQ(run({"config", "merge", in("nothing")}), 1);
  EXPECT_THAT(err(), HasSubstr("nothing"));
  EXPECT_EQ(run({"config", "generate", "--anything"}), 1);
  EXPECT_THAT(err(), HasSubstr("gen config"));
}

// Catches a cluster's only secrets that are overwritten without a message, and files that others
// may read.
TEST_F(Config, GenConfigWritesUsableFiles) {
  EXPECT_EQ(run({"gen", "config", "demo", "https://10.0.0.2:6443", "-o", in("out")}), 0) << err();
  EXPECT_EQ(out(), "");
  auto created = kj::str("\nCreated ", folder, "/out/");
  EXPECT_EQ(err(),
            kj::str("generating PKI and tokens", created, "init.yaml", created, "controlplane.yaml",
                    created, "join.yaml", created, "worker.yaml", created, "talosconfig\n")
                .cStr());
  EXPECT_EQ(readFile(in("out/join.yaml")), readFile(in("out/worker.yaml")));
  for (kj::StringPtr name : {"out/init.yaml", "out/talosconfig"}) EXPECT_EQ(mode(in(name)), 0600u);
  auto before = readFile(in("out/talosconfig"));
  EXPECT_EQ(run({"gen", "config", "demo", "https://10.0.0.2:6443", "-o", in("out")}), 1);
  EXPECT_EQ(err(), kj::str("error: file \"", folder,
                           "/out/init.yaml\" already exists, use --force to overwrite\n")
                       .cStr());
  EXPECT_EQ(readFile(in("out/talosconfig")), before);

  EXPECT_EQ(run({"config", "merge", in("out/talosconfig")}), 0) << err();
  EXPECT_EQ(run({"config", "merge", in("out/talosconfig")}), 0);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(), "renamed talosconfig context \"demo\" -> \"demo-1\"\n");
  test.clock.time = kj::systemPreciseCalendarClock().now() - 1 * kj::MINUTES;
  EXPECT_EQ(run({"config", "info"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("demo-1"), HasSubstr("os:admin"),
                           HasSubstr("Endpoints:           not defined"),
                           HasSubstr("Certificate expires: 1 year from now")));
}

// Catches: a new client configuration whose commands try an address that is no node, instead of
// naming what the user has to set.
TEST_F(Config, ANewClusterNeedsEndpointsFirst) {
  EXPECT_EQ(
      run({"gen", "config", "demo", "https://10.0.0.2:6443", "-t", "talosconfig", "-o", in("tc")}),
      0)
      << err();
  auto file = in("tc");
  struct {
    std::initializer_list<kj::StringPtr> arguments;
  } table[] = {{{"--talosconfig", file, "-n", "10.0.0.5", "version"}},
               {{"--talosconfig", file, "-n", "10.0.0.5", "memory"}},
               {{"--talosconfig", file, "-n", "10.0.0.5,10.0.0.6", "get", "members"}},
               {{"--talosconfig", file, "-n", "10.0.0.5", "services"}},
               {{"--talosconfig", file, "config", "renew"}}};
  for (auto& row : table) {
    err();
    EXPECT_EQ(run(row.arguments), 1);
    EXPECT_THAT(err(), AllOf(HasSubstr("the context has no endpoint; use --endpoints, or set one"),
                             HasSubstr("talosctl config endpoint")));
  }
  EXPECT_EQ(run({"--talosconfig", file, "config", "endpoint", "10.0.0.5"}), 0) << err();
  EXPECT_THAT(readFile(file).cStr(), HasSubstr("endpoints:\n            - 10.0.0.5\n"));
}

// Catches: another type than the requested one, a key on stdout after other text, a file that was
// not requested.
TEST_F(Config, OneOfTheConfigsGoesToAFileOrStdout) {
  EXPECT_EQ(
      run({"gen", "config", "demo", "https://10.0.0.2:6443", "-t", "worker", "-o", in("w.yaml")}),
      0)
      << err();
  EXPECT_THAT(std::string(readFile(in("w.yaml")).cStr()), HasSubstr("type: worker"));
  EXPECT_EQ(err(), kj::str("generating PKI and tokens\nCreated ", in("w.yaml"), "\n").cStr());
  EXPECT_EQ(run({"gen", "config", "demo", "https://10.0.0.2:6443", "--output-types", "talosconfig",
                 "-o", "-"}),
            0);
  EXPECT_EQ(out().find("context: demo"), 0u);
  EXPECT_EQ(run({"gen", "config", "demo", "https://10.0.0.2:6443", "-o", "-"}), 1);
  EXPECT_THAT(err(), HasSubstr("can't use multiple output types with stdout"));
  EXPECT_EQ(run({"gen", "config", "demo", "https://10.0.0.2:6443", "--output-types", ""}), 1);
  EXPECT_THAT(err(), HasSubstr("at least one output type must be specified"));
  EXPECT_EQ(run({"gen", "config", "demo", "https://10.0.0.2:6443", "-t", "worker", "--output-dir",
                 in("old")}),
            0);
  EXPECT_EQ(readFile(in("old")).size() > 0, true);
  EXPECT_EQ(run({"gen", "config", "demo", "https://10.0.0.2:6443", "-t", "worker", "--output-dir",
                 in("old"), "-o", "-"}),
            1);
  EXPECT_THAT(err(), HasSubstr("--output-dir is --output under its earlier name"));
  EXPECT_EQ(run({"gen", "config", "demo", "https://10.0.0.2:6443", "-t", "master"}), 1);
  EXPECT_THAT(err(), HasSubstr("invalid output type: \"master\"; use init, controlplane, join, "
                               "worker or talosconfig"));
}

TEST_F(Config, GenConfigRefusesBeforeItWrites) {
  EXPECT_EQ(run({"gen", "config", "demo", "10.0.0.2", "-o", in("out")}), 1);
  EXPECT_THAT(err(), HasSubstr("https://10.0.0.2:6443"));
  EXPECT_EQ(
      run({"gen", "config", "demo", "https://10.0.0.2:6443", "--version", "v2", "-o", in("out")}),
      1);
  EXPECT_THAT(err(), HasSubstr("v1alpha1"));
  EXPECT_EQ(tryReadFile(in("out/talosconfig")), nullptr);
}

}  // namespace
}  // namespace talos::talosctl
