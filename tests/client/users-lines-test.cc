// Every command line of the users' documents, parsed by the real table: no line becomes outdated
// unnoticed, and none is refused for another reason than the recorded one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "common/base/error.h"
#include "common/wire/resource-registry.h"
#include "talosctl/cli/commandline.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "tests/client/command-words.h"
#include "tests/client/users-lines.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

// Returns the words as a reader of the document types them, with placeholders filled in.
std::vector<std::string> typed(const std::string& text) {
  auto filled = std::regex_replace(text, std::regex(",\\.\\.\\. "), " ");
  filled = std::regex_replace(filled, std::regex("<[^>]*>"), "10.0.0.2");
  auto words = clientWords(filled);
  EXPECT_FALSE(words.empty()) << text;
  return words;
}

std::vector<UsersLine> readLines() {
  return readUsersLines(SOURCE_FOLDER "/users-lines.txt");
}

struct UsersLines : public ::testing::Test {
  ConsoleFixture test;
  kj::Own<Command> root = newRoot();
  UsersLines() { addWholeTable(*root); }
  ~UsersLines() noexcept override {}

  static kj::Array<kj::StringPtr> pointers(const std::vector<std::string>& words) {
    return KJ_MAP(word, words) {
      return kj::StringPtr(word.c_str(), word.size());
    };
  }
};

// Catches: a flag, an alias or a resource type of the documents that goes.
TEST_F(UsersLines, AreAccepted) {
  Registry registry;
  unsigned count = 0;
  for (auto& line : readLines()) {
    if (line.verdict == "refused") continue;
    SCOPED_TRACE(line.origin + ": " + line.text);
    ++count;
    auto given = typed(line.text);
    auto words = pointers(given);
    auto parsed = parseCommandLine(test.deps, *root, words);
    auto& command = parsed.call->command;
    EXPECT_TRUE(command.run != nullptr || line.verdict == "named");
    EXPECT_NE(command.parent, nullptr);
    EXPECT_FALSE(command.anyFlags) << "not available";
    if (line.verdict == "named") continue;
    EXPECT_TRUE(line.verdict == "works" || (line.verdict == "differs" && !line.why.empty()));
    KJ_IF_MAYBE (mistake, parsed.mistake) ADD_FAILURE() << mistake->cStr();
    bool typed = command.name == "get" || command.name == "edit" || command.name == "patch";
    if (typed && parsed.call->arguments.size() > 0) {
      EXPECT_NO_THROW(registry.find(parsed.call->arguments[0]));
    }
  }
  EXPECT_GE(count, 100u);
}

// Catches: an existing command that is still listed as missing, and an unknown command.
TEST_F(UsersLines, AreRefusedForTheReasonThatIsWritten) {
  unsigned count = 0;
  for (auto& line : readLines()) {
    if (line.verdict != "refused") continue;
    SCOPED_TRACE(line.origin + ": " + line.text);
    ++count;
    auto given = typed(line.text);
    auto words = pointers(given);
    EXPECT_EQ(talosctl::run(test.deps, *root, words, kj::NEVER_DONE).wait(test.io.waitScope), 1);
    EXPECT_THAT(test.console.takeErr().cStr(), HasSubstr(line.why));
    EXPECT_EQ(test.console.takeOut(), "");
  }
  EXPECT_GE(count, 1u);
}

// Catches: a line that is not run, without a reason.
TEST_F(UsersLines, AreRunOnAClusterOrHaveAReasonWhyNot) {
  for (auto& line : readLines()) {
    SCOPED_TRACE(line.origin + ": " + line.text);
    bool runs = line.verdict == "works" || line.verdict == "differs";
    if (!runs) {
      EXPECT_EQ(line.run, "-");
    } else if (line.run == "not") {
      EXPECT_NE(line.reason, "");
    } else {
      EXPECT_TRUE(line.run == "first" || line.run == "here" || line.run == "end" ||
                  (line.run == "fails" && !line.printed.empty()))
          << line.run;
    }
  }
}

// Catches: the list in the document that is not that of the data.
TEST_F(UsersLines, ThoseThatDifferAreInTheDocument) {
  std::ifstream file(DOCS_FOLDER "/evidence/talosctl-differences.md");
  std::string document((std::istreambuf_iterator<char>(file)), {});
  for (auto& line : readLines()) {
    if (line.verdict == "differs") {
      EXPECT_THAT(document, HasSubstr("| " + line.why + " |")) << line.text;
    } else if (line.verdict == "refused") {
      EXPECT_THAT(document, HasSubstr(line.why)) << line.text;
    }
  }
}

}  // namespace
}  // namespace talos::talosctl
