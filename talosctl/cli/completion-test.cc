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

// Catches offers that do not follow the words before: values of flags taken for commands, aliases
// forgotten.
TEST_F(Completions, OffersWhatFits) {
  EXPECT_THAT(offered({"rebo"}), ElementsAre("reboot"));
  EXPECT_THAT(offered({"-n", "logs", "conf"}), ElementsAre("config"));
  EXPECT_THAT(offered({"config", "cont"}), ElementsAre("context", "contexts"));
  EXPECT_THAT(offered({"ls", "--lo"}), ElementsAre("--long"));
  EXPECT_THAT(offered({"get", "svc", "-o", ""}),
              ElementsAre("table", "yaml", "json", "tree", "jsonpath="));
  EXPECT_THAT(offered({"get", "svc", "--output=y"}), ElementsAre("--output=yaml"));
  EXPECT_THAT(offered({"get", "svc", "--output", "=", "y"}), ElementsAre("yaml"));
  EXPECT_THAT(offered({"get", "svc", "--output", "="}), Contains("yaml"));
  EXPECT_THAT(offered({"dmesg", "--tail", "-o", ""}), ElementsAre("table", "json"));
  EXPECT_THAT(offered({"logs", "--tail", "dmesg", "-o", ""}), ElementsAre("table", "json"));
  EXPECT_THAT(offered({"services", "etcd", "rest"}), ElementsAre("restart"));
  EXPECT_THAT(offered({"completion", ""}), ElementsAre("bash", "zsh", "fish", "powershell"));
  EXPECT_THAT(offered({""}), Not(Contains("convert-k8s")));
  EXPECT_THAT(offered({"du"}), ElementsAre("du"));  // an alias
  EXPECT_THAT(offered({"memory", "--verbose="}), ElementsAre("--verbose=true", "--verbose=false"));
}

// Catches: a question to a node that nobody needs, and another node than the one that was named.
TEST_F(Completions, SaysWhatOthersKnow) {
  auto files = complete({"-n", "10.0.0.2,10.0.0.3", "--context=c1", "ls", "-l", "/etc/ku"});
  EXPECT_EQ(files.source, Source::kNodeFiles);
  EXPECT_EQ(files.typed, "/etc/ku");
  ASSERT_EQ(files.connection.size(), 2u);
  EXPECT_EQ(files.connection[0].flag, "nodes");
  EXPECT_EQ(files.connection[0].value, "10.0.0.2,10.0.0.3");
  EXPECT_EQ(files.connection[1].value, "c1");
  EXPECT_EQ(complete({"get", ""}).source, Source::kTypes);
  EXPECT_EQ(complete({"get", "svc", ""}).source, Source::kNothing);
  EXPECT_EQ(complete({"service", ""}).source, Source::kServices);
  EXPECT_EQ(complete({"logs", "-f", ""}).source, Source::kLogs);
  EXPECT_EQ(complete({"apply", "-f", ""}).source, Source::kLocalFiles);
  EXPECT_EQ(complete({"usage", "/a", "/b"}).source, Source::kNodeFiles);
  auto nodes = complete({"memory", "-n", "10.0.0.2,10."});
  EXPECT_EQ(nodes.source, Source::kNodes);
  EXPECT_EQ(nodes.ahead, "10.0.0.2,");
  EXPECT_EQ(nodes.typed, "10.");
}

// Catches a script that bash cannot even read, and one that asks for nothing. The other shells are
// not everywhere.
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

}  // namespace
}  // namespace talos::talosctl
