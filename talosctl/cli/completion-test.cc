#include "talosctl/cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

struct Completions : public ::testing::Test {
  kj::Own<Command> root = newRoot();
  Completions() {
    addCommands(*root);
    addAbsentCommands(*root);
  }
  ~Completions() noexcept override {}

  Completion complete(std::initializer_list<kj::StringPtr> words) {
    return completionFor(*root, kj::arrayPtr(words.begin(), words.size()));
  }
  std::vector<std::string> offered(std::initializer_list<kj::StringPtr> words) {
    std::vector<std::string> all;
    for (auto& candidate : complete(words).candidates) all.push_back(candidate.word.cStr());
    return all;
  }
};

// Catches offers that ignore the words before: values of flags taken for commands, forgotten
// aliases.
TEST_F(Completions, OffersWhatFits) {
  EXPECT_THAT(offered({"rebo"}), ElementsAre("reboot"));
  EXPECT_THAT(offered({"-n", "logs", "conf"}), ElementsAre("config", "confirm-upgrade"));
  EXPECT_THAT(offered({"config", "cont"}), ElementsAre("context", "contexts"));
  EXPECT_THAT(offered({"ls", "--lo"}), ElementsAre("--long"));
  EXPECT_THAT(offered({"get", "svc", "-o", ""}),
              ElementsAre("table", "yaml", "json", "tree", "jsonpath="));
  EXPECT_THAT(offered({"get", "svc", "--output=y"}), ElementsAre("--output=yaml"));
  EXPECT_THAT(offered({"get", "svc", "--output="}), Contains("--output=yaml"));
  EXPECT_THAT(offered({"dmesg", "--tail", "-o", ""}), ElementsAre("table", "yaml", "json"));
  EXPECT_THAT(offered({"logs", "--tail", "dmesg", "-o", ""}), ElementsAre("table", "yaml", "json"));
  EXPECT_THAT(offered({"services", "etcd", "rest"}), ElementsAre("restart"));
  EXPECT_THAT(offered({"completion", ""}), ElementsAre("bash", "zsh", "fish", "powershell"));
  EXPECT_THAT(offered({""}), Not(Contains("conformance")));
  EXPECT_THAT(offered({"du"}), ElementsAre("du"));  // an alias
  EXPECT_THAT(offered({"memory", "--verbose="}), ElementsAre("--verbose=true", "--verbose=false"));
}

// Catches: an unnecessary request to a node, and a request to another node than the words name.
TEST_F(Completions, SaysWhatOthersKnow) {
  auto files = complete({"-n", "10.0.0.2,10.0.0.3", "--context=c1", "ls", "-l", "/etc/ku"});
  EXPECT_EQ(files.source, Source::kNodeFiles);
  EXPECT_EQ(complete({"config", "remove", "d"}).source, Source::kContexts);
  EXPECT_EQ(complete({"config", "rename", "d"}).source, Source::kContexts);
  EXPECT_EQ(complete({"config", "rename", "demo", "d"}).source, Source::kNothing);
  EXPECT_EQ(files.typed, "/etc/ku");
  ASSERT_EQ(files.connection.size(), 2u);
  EXPECT_EQ(files.connection[0].flag, "nodes");
  EXPECT_EQ(files.connection[0].value, "10.0.0.2,10.0.0.3");
  EXPECT_EQ(files.connection[1].value, "c1");
  EXPECT_EQ(complete({"get", ""}).source, Source::kTypes);
  auto ids = complete({"get", "svc", ""});
  EXPECT_EQ(ids.source, Source::kResourceIds);
  ASSERT_EQ(ids.arguments.size(), 1u);
  EXPECT_EQ(ids.arguments[0], "svc");
  EXPECT_EQ(complete({"get", "svc", "apid", ""}).source, Source::kNothing);
  EXPECT_EQ(complete({"restart", ""}).source, Source::kContainers);
  EXPECT_FALSE(complete({"restart", ""}).kubernetes);
  EXPECT_TRUE(complete({"restart", "-k", ""}).kubernetes);
  EXPECT_EQ(complete({"logs", "-k", ""}).source, Source::kContainers);
  EXPECT_EQ(complete({"token", "revoke", ""}).source, Source::kTokens);
  EXPECT_EQ(complete({"crashes", ""}).source, Source::kCrashes);
  EXPECT_EQ(complete({"debug", "log-level", ""}).source, Source::kServices);
  EXPECT_EQ(complete({"gen", "crt", "--name", ""}).source, Source::kNothing);
  EXPECT_EQ(complete({"service", ""}).source, Source::kServices);
  EXPECT_EQ(complete({"logs", "-f", ""}).source, Source::kLogs);
  EXPECT_EQ(complete({"apply", "-f", ""}).source, Source::kLocalFiles);
  EXPECT_EQ(complete({"usage", "/a", "/b"}).source, Source::kNodeFiles);
  auto nodes = complete({"memory", "-n", "10.0.0.2,10."});
  EXPECT_EQ(nodes.source, Source::kNodes);
  EXPECT_EQ(nodes.ahead, "10.0.0.2,");
  EXPECT_EQ(nodes.typed, "10.");
}

// Catches a script that bash cannot parse, and a script that requests nothing. Other shells may not
// be installed.
TEST_F(Completions, ScriptsAskTheProgram) {
  for (auto shell : kShells) {
    auto script = completionScript(shell);
    EXPECT_NE(strstr(script.cStr(), "__complete --"), nullptr) << shell.cStr();
    auto known = kj::str("command -v ", shell == "powershell" ? "pwsh"_kj : shell, " >/dev/null");
    if (shell == "powershell" || system(known.cStr()) != 0) continue;
    char path[] = "/tmp/talosctl-completion-XXXXXX";
    close(mkstemp(path));
    writeFileAtomically(path, script, 0600);
    EXPECT_EQ(system(kj::str(shell, " -n ", path).cStr()), 0) << shell.cStr();
    unlink(path);
  }
}

// Runs the bash script as bash does when a user types. Prints the arguments with which talosctl was
// called, a "|" after each word, and then the resulting command line.
std::string typedInBash(kj::StringPtr names, kj::StringPtr line, kj::StringPtr words) {
  char folder[] = "/tmp/talosctl-completion-XXXXXX";
  KJ_ASSERT(mkdtemp(folder) != nullptr);
  writeFileAtomically(kj::str(folder, "/names"), names, 0600);
  writeFileAtomically(kj::str(folder, "/talosctl"),
                      "#!/bin/bash\nshift 2\nd=${0%/*}\nprintf '%s|' \"$@\" > $d/asked\n"
                      "cat $d/names\n"_kj,
                      0700);
  writeFileAtomically(kj::str(folder, "/line"), line, 0600);
  writeFileAtomically(kj::str(folder, "/words"), words, 0600);
  writeFileAtomically(
      kj::str(folder, "/run"),
      kj::str(completionScript("bash"), "\nd=", folder,
              "\nPATH=$d:$PATH COMP_LINE=$(cat $d/line; echo .) COMP_LINE=${COMP_LINE%.}\n"
              "mapfile -t COMP_WORDS < $d/words\n"
              "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_POINT=${#COMP_LINE}\n_talosctl\n"
              "{ cat $d/asked; printf '\\n%s' \"${COMPREPLY[@]}\"; } > $d/out\n"),
      0600);
  EXPECT_EQ(system(kj::str("bash ", folder, "/run").cStr()), 0);
  std::string out = readFile(kj::str(folder, "/out")).cStr();
  for (auto file : {"names", "talosctl", "line", "words", "run", "asked", "out"}) {
    unlink(kj::str(folder, "/", file).cStr());
  }
  rmdir(folder);
  return out;
}

// Catches: a node's names that bash executes when the user presses Enter; requests with the quotes
// of the words; words split at ":" or "=" that are not joined.
TEST_F(Completions, BashQuotesNamesAndJoinsWords) {
  EXPECT_EQ(typedInBash("/a b;$(c)\n/x'y`z`\n", "talosctl ls /", "talosctl\nls\n/\n"),
            "ls|/|\n/a\\ b\\;\\$\\(c\\)\n/x\\'y\\`z\\`");
  EXPECT_EQ(typedInBash("/a b;$(c)\n", "talosctl ls /a\\ b", "talosctl\nls\n/a\\ b\n"),
            "ls|/a b|\n/a\\ b\\;\\$\\(c\\)");
  EXPECT_EQ(typedInBash("/a \"$(c)`\\\n", "talosctl ls \"/a ", "talosctl\nls\n\"/a \n"),
            "ls|/a |\n/a \\\"\\$(c)\\`\\\\");
  EXPECT_EQ(typedInBash("/a $(c)'\n", "talosctl ls '/a", "talosctl\nls\n'/a\n"),
            "ls|/a|\n/a $(c)'\\''");
  EXPECT_EQ(
      typedInBash("fd00::10\nfd00::11\n", "talosctl -n fd00::1", "talosctl\n-n\nfd00\n::\n1\n"),
      "-n|fd00::1|\n10\n11");
  EXPECT_EQ(
      typedInBash("apid\n", "talosctl -n fd00::1  logs ", "talosctl\n-n\nfd00\n::\n1\nlogs\n\n"),
      "-n|fd00::1|logs||\napid");
  EXPECT_EQ(typedInBash("--output=yaml\tas text\n",
                        "talosctl get --output=", "talosctl\nget\n--output\n=\n"),
            "get|--output=|\nyaml");
}

}  // namespace
}  // namespace talos::talosctl
