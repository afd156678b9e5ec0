#include "talosctl/cli/completion.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

struct Completion : public ::testing::Test {
  kj::Own<Command> root = newRoot();
  kj::String script;
  Completion() {
    addCommands(*root);
    addAbsentCommands(*root);
    char path[] = "/tmp/talosctl-completion-XXXXXX";
    close(mkstemp(path));
    script = kj::str(path);
    writeFileAtomically(script, bashCompletion(*root), 0600);
  }
  ~Completion() noexcept override { unlink(script.cStr()); }

  // What bash offers for the words, the last of which is being typed; sorted, one a line.
  std::string offered(kj::StringPtr words) {
    auto command = kj::str("bash -c 'source ", script, "; COMP_WORDS=(", words,
                           "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _talosctl; printf \"%s\\n\" "
                           "\"${COMPREPLY[@]}\"' | sort");
    FILE* pipe = popen(command.cStr(), "r");
    std::string text;
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, n);
    pclose(pipe);
    return text;
  }
};

// Catches a script that bash cannot even read.
TEST_F(Completion, IsValidBash) {
  EXPECT_EQ(system(kj::str("bash -n ", script).cStr()), 0);
}

// Catches offers that do not follow the words before: values of flags taken for commands, aliases
// forgotten.
TEST_F(Completion, OffersWhatFits) {
  EXPECT_EQ(offered("talosctl rebo"), "reboot\n");
  EXPECT_EQ(offered("talosctl -n logs conf"), "config\n");
  EXPECT_EQ(offered("talosctl config cont"), "context\ncontexts\n");
  EXPECT_EQ(offered("talosctl ls --lo"), "--long\n");
  EXPECT_EQ(offered("talosctl get svc -o \"\""), "json\ntable\ntree\nyaml\n");
  EXPECT_EQ(offered("talosctl dmesg --tail -o \"\""),
            "json\ntable\n");  // here --tail takes no value
  EXPECT_EQ(offered("talosctl logs --tail dmesg -o \"\""), "json\ntable\n");
  EXPECT_EQ(offered("talosctl completion \"\""), "bash\nzsh\n");
  EXPECT_EQ(offered("talosctl services etcd rest"), "restart\n");
  EXPECT_THAT(offered("talosctl \"\""), ::testing::Not(::testing::HasSubstr("convert-k8s")));
}

TEST_F(Completion, ZshUsesTheSame) {
  auto zsh = zshCompletion(*root);
  EXPECT_TRUE(zsh.startsWith("#compdef talosctl\n"));
  EXPECT_THAT(zsh.cStr(), ::testing::HasSubstr("bashcompinit"));
}

}  // namespace
}  // namespace talos::talosctl
