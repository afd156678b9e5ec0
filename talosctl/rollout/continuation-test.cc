// The command line with which an interrupted rollout continues.
#include "talosctl/rollout/continuation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "talosctl/cli/commandline.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

kj::Promise<int> neverEnds() {
  return kj::Promise<int>(kj::NEVER_DONE);
}

struct Continuations : public ::testing::Test {
  ConsoleFixture test;
  kj::Own<Command> root = newRoot();
  Continuations() {
    auto& roll = root->add("cluster", "Clusters").add("roll", "Roll");
    roll.arguments = "<file>", roll.most = 2;
    roll.flag({.name = "dry-run"});
    roll.flag({.name = "talos", .fallback = "true"});
    roll.flag({.name = "output", .letter = "o", .kind = FlagKind::kText, .fallback = "new"});
    roll.flag({.name = "patch", .kind = FlagKind::kTexts});
    roll.run = [](Invocation& call) { return untilInterrupted(call, neverEnds()); };
    declareRollout(roll);
  }
  ~Continuations() noexcept override {}

  std::string line(kj::ArrayPtr<const kj::StringPtr> words,
                   kj::ArrayPtr<const ChangedFlag> changed = nullptr) {
    auto parsed = parseCommandLine(test.deps, *root, words);
    EXPECT_EQ(parsed.mistake, nullptr);
    return commandLineOf(*parsed.call, changed).cStr();
  }
  int interrupted(kj::ArrayPtr<const kj::StringPtr> words) {
    return talosctl::run(test.deps, *root, words, kj::READY_NOW).wait(test.io.waitScope);
  }
};

// Catches: a flag that is lost or split, so that the printed command does something else; a default
// that is printed as if the user had given it.
TEST_F(Continuations, TheCommandLineIsThatOfTheCall) {
  struct {
    std::vector<kj::StringPtr> words;
    const char* line;
  } rows[] = {
      {{"cluster", "roll"}, "talosctl cluster roll"},
      {{"-n", "10.0.0.2,10.0.0.3", "cluster", "roll", "-o", "a b"},
       "talosctl cluster roll --nodes=10.0.0.2,10.0.0.3 '--output=a b'"},
      {{"cluster", "roll", "it's", "--talos=false", "--dry-run", "-n", "a", "-n", "b"},
       "talosctl cluster roll 'it'\\''s' --dry-run --nodes=a,b --talos=false"},
      {{"cluster", "roll", "-o", "x", "-o", "y", "--patch", "{a: 1}", "--patch", "[]"},
       "talosctl cluster roll --output=y '--patch={a: 1}' '--patch=[]'"},
      {{"--context", "demo", "cluster", "roll", "f"}, "talosctl cluster roll f --context=demo"},
  };
  for (auto& row : rows) {
    kj::Vector<kj::StringPtr> words;
    for (auto word : row.words) words.add(word);
    EXPECT_EQ(line(words), row.line);
  }
}

// Catches: a changed flag beside the one that the user gave, which decides if it comes later.
TEST_F(Continuations, AChangedFlagReplacesTheGivenOne) {
  ChangedFlag changed[] = {{"talos"_kj, "false"_kj}};
  EXPECT_EQ(line(kj::arr("cluster"_kj, "roll"_kj, "--talos"_kj), changed),
            "talosctl cluster roll --talos=false");
  EXPECT_EQ(line(kj::arr("cluster"_kj, "roll"_kj), changed), "talosctl cluster roll --talos=false");
}

// Catches: an interrupted rollout that looks like a success or like an error, or that does not say
// how to continue; a dry run, of which nothing is to be continued, that says so.
TEST_F(Continuations, AnInterruptPrintsHowToContinue) {
  EXPECT_EQ(interrupted(kj::arr("cluster"_kj, "roll"_kj, "f"_kj, "-n"_kj, "10.0.0.2"_kj)), 130);
  EXPECT_EQ(test.console.takeErr(),
            "interrupted\ncontinue with: talosctl cluster roll f --nodes=10.0.0.2\n");
  EXPECT_EQ(interrupted(kj::arr("cluster"_kj, "roll"_kj, "--dry-run"_kj)), 130);
  EXPECT_EQ(test.console.takeErr(), "interrupted\n");
  EXPECT_EQ(test.console.takeOut(), "");
}

}  // namespace
}  // namespace talos::talosctl
