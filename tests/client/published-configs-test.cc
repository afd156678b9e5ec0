// Machine configs as people publish them for releases from v0.7 to the newest, each with all that
// `talosctl validate` prints about it: configs/*.yaml. UPDATE_DOCS=1 rewrites that output.
//
// Words between @ stand for certificates, keys and secrets, which are made for each run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/file.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/commands/all-commands.h"
#include "tests/harness/process.h"
#include "tests/published/config-facts.h"
#include "tests/published/published-config.h"

namespace talos::talosctl {
namespace {

using published::PublishedConfig;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kLeast = 30;  // of these configs

struct PublishedConfigs : public ::testing::Test {
  ConsoleFixture test;
  kj::Own<Command> root = newRoot();
  kj::String folder;
  std::filesystem::path before = std::filesystem::current_path();
  PublishedConfigs() {
    addCommands(*root);
    char path[] = "/tmp/talosctl-published-XXXXXX";
    folder = kj::str(mkdtemp(path));
    KJ_SYSCALL(chdir(folder.cStr()));
  }
  ~PublishedConfigs() noexcept override {
    std::filesystem::current_path(before);
    removeTree(folder);
  }

  // All lines of stderr and stdout, as comments.
  std::string validate(const PublishedConfig& config, const published::Placeholders& placeholders) {
    auto name = config.name();
    auto text = published::filled(config.config, placeholders);
    writeFileAtomically(name.c_str(), kj::StringPtr(text.c_str(), text.size()), 0600);
    kj::StringPtr line[] = {"validate", "-c", name.c_str(), "-m", config.mode.c_str()};
    int status = run(test.deps, *root, line, kj::NEVER_DONE).wait(test.io.waitScope);
    auto lines = kj::str(test.console.takeErr(), test.console.takeOut());
    auto valid = std::string(lines.cStr()).find(name + " is valid for ") != std::string::npos;
    EXPECT_EQ(status, valid ? 0 : 1) << name;
    std::string said;
    std::istringstream stream(lines.cStr());
    for (std::string one; std::getline(stream, one); said += "# " + one + "\n") {
      EXPECT_THAT(one, AnyOf(StartsWith(name + ":"), StartsWith("WARNING: " + name + ":"),
                             name + " is valid for " + config.mode + " mode"));
    }
    return said;
  }
};

// Catches: a config that works with Talos and is refused, a key without effect that is not
// reported, and a problem that is not one line.
TEST_F(PublishedConfigs, AreValidOrRefusedWithWhatToChange) {
  auto placeholders = published::placeholdersFor(config::makeSecrets());
  auto all = published::readAll(SOURCE_FOLDER "/configs");
  EXPECT_GE(all.size(), kLeast);
  for (auto& config : all) {
    auto said = validate(config, placeholders);
    if (getenv("UPDATE_DOCS") != nullptr)
      std::ofstream(config.path) << config.config << published::kMark << config.mode << "\n"
                                 << said;
    EXPECT_EQ(config.expected, said) << config.path;
  }
}

// Catches: a config that tests/published does not compare with a node, a mistake in its facts that
// would otherwise come up after minutes of booting, and a key without effect that the facts leave
// out.
TEST(PublishedFacts, AreCompleteAndReadable) {
  for (auto& config : published::readAll(SOURCE_FOLDER "/configs")) {
    auto path = config.path;
    auto text = harness::slurp(path.replace_extension(".facts"));
    ASSERT_FALSE(text.empty()) << path << " is missing";
    auto file = published::parseFacts(text);
    published::fitted(file, config.config);
    bool valid = harness::contains(config.expected, config.name() + " is valid for ");
    EXPECT_EQ(file.refused.empty(), valid) << path;
    if (!valid) EXPECT_THAT(config.expected, HasSubstr(file.refused));
    size_t without = 0, facts = 0;
    for (auto& line : harness::lines(config.expected))
      without += harness::contains(line, "no effect");
    for (auto& fact : file.facts) facts += fact.kind() == "not";
    if (valid) EXPECT_EQ(facts, without) << path << ": keys without effect";
  }
}

}  // namespace
}  // namespace talos::talosctl
