// Every command of the table, in the situations in which people meet it: help, a wrong line, no
// node, a node that is down or silent, a narrow terminal, Ctrl-C, and output for programs. A new
// command is tested without a line here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "talosctl/cli/commandline.h"
#include "talosctl/cli/progress-lines.h"
#include "tests/client/users-lines.h"
#include "tests/client/whole-client.h"

namespace talos::talosctl {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr kj::StringPtr kDown = "127.0.0.3"_kj, kSilent = "127.0.0.5"_kj;

// These need no --nodes: the endpoint signs; the cluster lists its nodes; a flag names them.
const std::set<std::string> kHasNodesOfItsOwn = {"config new", "dashboard", "diagnose", "rotate-ca",
                                                 "crashdump"};

struct EveryCommand : public WholeClient {};

// Catches: a command whose help is silent, or goes to stderr; lines that a narrow terminal breaks
// wherever it likes.
TEST_F(EveryCommand, HasHelpThatFitsTheTerminal) {
  c.test.environment.insert(kj::str("COLUMNS"), kj::str("60"));
  for (auto* command : commandsOf(*c.root)) {
    SCOPED_TRACE(command->path().cStr());
    auto found = run(with(wordsOf(*command), {"-h"}));
    EXPECT_EQ(found.status, 0);
    EXPECT_EQ(found.err, "");
    EXPECT_THAT(found.out, HasSubstr("Usage:"));
    EXPECT_THAT(found.out, HasSubstr("Global flags:"));
    std::istringstream lines(found.out);
    for (std::string line; std::getline(lines, line);) {
      auto text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      bool oneWord = text.find(' ') == std::string::npos;
      // The name of a flag and that of its value stay together.
      bool oneFlag = text.starts_with("--") && std::count(text.begin(), text.end(), ' ') == 1;
      EXPECT_TRUE(line.size() <= 60 || oneWord || oneFlag) << line;
    }
  }
}

// Catches: a command that the list lacks, or has twice; a name in the list without a command.
TEST_F(EveryCommand, HasAPlaceInTheListOfCommands) {
  std::multiset<std::string> listed;
  for (auto& theme : c.root->themes) {
    for (auto name : theme.commands) listed.insert(name.cStr());
  }
  std::multiset<std::string> shown;
  for (auto& child : c.root->children) {
    if (!child->hidden) shown.insert(child->name.cStr());
  }
  EXPECT_EQ(listed, shown);
  auto help = run({}).out;
  EXPECT_EQ(help, run({"--help"}).out);
  size_t at = 0;
  for (auto& theme : c.root->themes) {
    at = help.find(std::string("\n\n") + theme.title.cStr() + ":\n", at);
    ASSERT_NE(at, std::string::npos) << theme.title.cStr();
  }
  EXPECT_THAT(help, Not(HasSubstr("Other commands")));
  EXPECT_THAT(help, HasSubstr("\n  routes            List routes\n"));
}

// Catches: a deadline of a command's own that its help does not show.
TEST_F(EveryCommand, TellsItsTimeout) {
  for (auto& leaf : leaves) {
    SCOPED_TRACE(leaf.name);
    auto text = run(with(leaf.path, {"-h"})).out;
    auto at = text.find("--timeout duration");
    ASSERT_NE(at, std::string::npos);
    auto minutes = leaf.command->timeout / kj::MINUTES;
    auto hours = minutes < 60 ? std::string() : std::to_string(minutes / 60) + "h";
    auto expected = leaf.command->timeout == kDeadline
                        ? std::string("(default 30s)")
                        : "(default " + hours + std::to_string(minutes % 60) + "m)";
    EXPECT_THAT(text.substr(at), HasSubstr(expected));
  }
}

TEST_F(EveryCommand, RefusesAnUnknownFlag) {
  for (auto& leaf : leaves) {
    SCOPED_TRACE(leaf.name);
    auto found = run(with(leaf.line(), {"--no-such-flag"}));
    EXPECT_EQ(found.status, 1);
    EXPECT_EQ(found.out, "");
    EXPECT_THAT(found.err, StartsWith("error: unknown flag --no-such-flag for \"talosctl " +
                                      leaf.name + "\""));
    EXPECT_THAT(found.err, HasSubstr("\nUsage:\n"));
  }
}

// Catches: an ignored argument, a missing argument that becomes an empty text.
TEST_F(EveryCommand, RefusesTooManyAndTooFewArguments) {
  for (auto& leaf : leaves) {
    SCOPED_TRACE(leaf.name);
    auto refused = [&](const Words& words) {
      auto found = run(words);
      EXPECT_EQ(found.status, 1);
      EXPECT_EQ(found.out, "");
      EXPECT_THAT(found.err, StartsWith("error: \"talosctl " + leaf.name + "\" accepts "));
      EXPECT_THAT(found.err, HasSubstr("arg(s)"));
    };
    if (leaf.command->most != kj::maxValue) {
      refused(with(leaf.line(), Words(leaf.command->most + 1, "surplus")));
    }
    if (leaf.command->least > 0) refused(with(leaf.path, leaf.flags));
  }
}

// Catches: a value of a flag that is not looked at.
TEST_F(EveryCommand, RefusesWrongValuesOfFlags) {
  for (auto& leaf : leaves) {
    for (auto& flag : leaf.command->flags) {
      bool closed = !flag.choices.empty() || flag.kind == FlagKind::kBool ||
                    flag.kind == FlagKind::kNumber || flag.kind == FlagKind::kDuration;
      if (!closed) continue;
      SCOPED_TRACE(leaf.name + " --" + flag.name.cStr());
      auto found = run(with(leaf.line(), {std::string("--") + flag.name.cStr() + "=no-value"}));
      EXPECT_EQ(found.status, 1);
      EXPECT_EQ(found.out, "");
      EXPECT_THAT(found.err, HasSubstr("\"no-value\""));
      EXPECT_THAT(found.err, AnyOf(HasSubstr("use "), HasSubstr("must be one of ")));
    }
  }
}

TEST_F(EveryCommand, SaysWhatIsMissingWithoutANode) {
  auto empty = std::string(c.folder.cStr()) + "/empty";
  writeFileAtomically(empty.c_str(), ""_kj, 0600);
  for (auto& leaf : leaves) {
    if (!leaf.talksToNodes()) continue;
    SCOPED_TRACE(leaf.name);
    auto noConfig = run(with(leaf.line(), {"--talosconfig", empty}));
    EXPECT_EQ(noConfig.status, 1);
    EXPECT_THAT(noConfig.err + noConfig.out,
                HasSubstr("the client configuration is empty; use `talosctl config"));
    auto missing = run(with(leaf.line(), {"--talosconfig", "/no/such/file"}));
    EXPECT_EQ(missing.status, 1);
    EXPECT_THAT(missing.err + missing.out,
                HasSubstr("--talosconfig names \"/no/such/file\", which does not exist; use "));
    if (kHasNodesOfItsOwn.contains(leaf.name)) continue;
    auto noNode = run(leaf.line());
    EXPECT_EQ(noNode.status, 1);
    EXPECT_THAT(noNode.err, HasSubstr("; use --nodes"));
  }
}

// Catches: a command that hangs, continues, or is silent when no node answers.
TEST_F(EveryCommand, SaysThatTheNodeIsDown) {
  for (auto& leaf : leaves) {
    if (!leaf.talksToNodes()) continue;
    SCOPED_TRACE(leaf.name);
    auto found = run(with(leaf.line(), {"-e", kDown.cStr(), "-n", "10.0.0.2"}));
    EXPECT_EQ(found.status, 1);
    unlink("support.zip");
    EXPECT_THAT(found.err + found.out, HasSubstr("refused"));
    EXPECT_THAT(found.err + found.out, HasSubstr(kDown.cStr()));
  }
}

// Catches: a wait that --timeout does not end.
TEST_F(EveryCommand, EndsWithItsTimeoutWhenNobodyAnswers) {
  auto listener = listenTcp(kSilent, c.port);  // does not accept
  for (auto& leaf : leaves) {
    if (!leaf.talksToNodes()) continue;
    SCOPED_TRACE(leaf.name);
    auto begin = c.clock.now();
    auto found =
        run(with(leaf.line(), {"-e", kSilent.cStr(), "-n", "10.0.0.2", "--timeout", "1s"}));
    EXPECT_EQ(found.status, 1);
    unlink("support.zip");
    EXPECT_THAT(found.err + found.out, HasSubstr(kSilent.cStr()));
    EXPECT_THAT(found.err + found.out, AnyOf(HasSubstr("no answer within"), HasSubstr("timed out"),
                                             HasSubstr("not tried")));
    EXPECT_LE(c.clock.now() - begin, 3 * kj::SECONDS);  // of the virtual clock
  }
}

// Catches: a command that Ctrl-C does not end while it waits.
TEST_F(EveryCommand, EndsWhenItIsInterrupted) {
  auto listener = listenTcp(kSilent, c.port);
  for (auto& leaf : leaves) {
    if (!leaf.talksToNodes()) continue;
    SCOPED_TRACE(leaf.name);
    auto found = run(with(leaf.line(), {"-e", kSilent.cStr(), "-n", "10.0.0.2"}), 0);
    bool success = leaf.command->interrupt == Interrupt::kIsSuccess;
    EXPECT_EQ(found.status, success ? 0 : 130);
    EXPECT_THAT(found.err, HasSubstr("interrupted"));
  }
}

// Catches: a command that is silent on a terminal while it waits, or does not name the node; a line
// about waiting on stdout, or after the end.
TEST_F(EveryCommand, ShowsOnATerminalThatItWaits) {
  auto listener = listenTcp(kSilent, c.port);
  c.test.console.terminal = true;
  for (auto& leaf : leaves) {
    if (!leaf.talksToNodes()) continue;
    SCOPED_TRACE(leaf.name);
    WaitLine console(c.test.console, c.clock);
    c.deps = kj::heap<Dependencies>(Dependencies{.lowLevel = c.deps->lowLevel,
                                                 .port = c.deps->port,
                                                 .timer = c.clock,
                                                 .clock = c.deps->clock,
                                                 .console = console,
                                                 .environment = kj::mv(c.deps->environment),
                                                 .apiPort = c.port});
    auto found =
        run(with(leaf.line(), {"-e", kSilent.cStr(), "-n", "10.0.0.2", "--timeout", "3s"}));
    unlink("support.zip");
    EXPECT_EQ(found.status, 1);
    auto from = found.err.find("connecting to 127.0.0.5: 1s");
    EXPECT_NE(from, std::string::npos) << found.err;
    auto drawn = found.err.rfind(": 2s\x1b[K"), erased = found.err.rfind("\r\x1b[K");
    EXPECT_TRUE(drawn == std::string::npos || (erased != std::string::npos && erased > drawn));
    EXPECT_THAT(found.out, Not(HasSubstr("connecting to")));
  }
}

// Reads a sequence of JSON values.
std::vector<kube::Json> valuesOf(const std::string& text) {
  std::vector<kube::Json> values;
  std::istringstream stream(text);
  while (stream >> std::ws && !stream.eof()) {
    kube::Json value;
    stream >> value;
    values.push_back(kj::mv(value));
  }
  return values;
}

bool writes(const Leaf& leaf, kj::StringPtr form) {
  auto flag = leaf.flag("output");
  if (flag == nullptr) return false;
  for (auto& choice : flag->choices) {
    if (choice == form) return true;
  }
  return false;
}
bool writesJson(const Leaf& leaf) {
  return writes(leaf, "json");
}

// Catches: a command with one of the two forms for programs only.
TEST_F(EveryCommand, WithJsonHasYaml) {
  for (auto& leaf : leaves) EXPECT_EQ(writesJson(leaf), writes(leaf, "yaml")) << leaf.name;
}

// Catches: invalid JSON, text between JSON values, and no output where a program waits for an
// answer.
TEST_F(EveryCommand, WritesJsonThatIsParsed) {
  // The model of a node has all that these ask of one.
  const std::set<std::string> whole = {"cordon",   "drain",           "etcd snapshot", "health",
                                       "uncordon", "upgrade-cluster", "upgrade-k8s"};
  for (auto& leaf : leaves) {
    if (!writesJson(leaf) || leaf.actsOnHost()) continue;
    SCOPED_TRACE(leaf.name);
    freshNode();
    auto words = with(leaf.line(), {"-o", "json"});
    if (leaf.talksToNodes()) words = with(words, {"-n", "10.0.0.2"});
    // A stream only ends when it is interrupted.
    bool streams = leaf.command->interrupt == Interrupt::kIsSuccess;
    auto found = run(words, streams ? 30 : 400);
    EXPECT_GE(found.status, 0);
    std::vector<kube::Json> values;
    try {
      values = valuesOf(found.out);
    } catch (const kube::Json::exception& e) {
      ADD_FAILURE() << e.what() << "\n" << found.out;
    }
    EXPECT_FALSE(values.empty()) << found.err;
    if (whole.contains(leaf.name)) EXPECT_EQ(found.status, 0) << found.out << found.err;
  }
}

// Catches: invalid YAML, documents that run together, and no document of a rollout, of a command
// without a result, or of one that leaves a node as it is.
TEST_F(EveryCommand, WritesYamlThatIsParsed) {
  const std::set<std::string> tried = {"cordon",  "uncordon", "drain",       "upgrade-cluster",
                                       "edit",    "logs",     "upgrade-k8s", "meta write",
                                       "restart", "validate", "etcd defrag"};
  for (auto& leaf : leaves) {
    if (!tried.contains(leaf.name)) continue;
    SCOPED_TRACE(leaf.name);
    freshNode();
    auto words = with(leaf.line(), {"-o", "yaml"});
    if (leaf.talksToNodes()) words = with(words, {"-n", "10.0.0.2"});
    bool streams = leaf.command->interrupt == Interrupt::kIsSuccess;
    auto found = run(words, streams ? 30 : 400);
    kj::Vector<kube::Json> documents;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                   documents = kube::readYaml(kj::StringPtr(found.out.c_str(), found.out.size()),
                                              "the output");
                 })) {
      ADD_FAILURE() << messageOf(*e).cStr() << "\n" << found.out;
    }
    EXPECT_FALSE(documents.empty()) << found.err;
    for (auto& document : documents) EXPECT_TRUE(document.is_object()) << found.out;
  }
}

// Catches: a command without output for programs that the document does not name, and a named
// command that has such output.
TEST_F(EveryCommand, WithoutJsonIsInTheDocument) {
  std::ifstream file(DOCS_FOLDER "/talosctl.md");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  auto from = text.find("| Without `-o json` |"), to = text.find("\n\n", from);
  ASSERT_NE(from, std::string::npos);
  auto table = text.substr(from, to - from);
  for (auto& leaf : leaves) {
    bool named = table.find("`" + leaf.name + "`") != std::string::npos;
    EXPECT_EQ(named, !writesJson(leaf) && !leaf.command->hidden) << leaf.name;
  }
}

// The words of an example up to a pipe or a redirection, as a shell splits them.
Words wordsOfExample(const std::string& line) {
  auto words = shellWords(line);
  Words own;
  for (auto& word : words) {
    if (word == "|" || word.starts_with(">")) break;
    own.push_back(word);
  }
  return own;
}

// Catches: a command without an example; an example of another command, or with a flag or a number
// of arguments that the command refuses.
TEST_F(EveryCommand, HasExamplesThatItsParserAccepts) {
  for (auto& leaf : leaves) {
    if (leaf.command->hidden && leaf.command->examples.size() == 0) continue;
    SCOPED_TRACE(leaf.name);
    std::istringstream lines(leaf.command->examples.cStr());
    unsigned count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      auto words = wordsOfExample(line);
      ASSERT_GT(words.size(), 1u);
      EXPECT_EQ(words[0], "talosctl");
      auto pointers = KJ_MAP(word, kj::arrayPtr(words.data() + 1, words.size() - 1)) {
        return kj::StringPtr(word.c_str(), word.size());
      };
      auto parsed = parseCommandLine(*c.deps, *c.root, pointers);
      EXPECT_EQ(&parsed.call->command, leaf.command) << line;
      KJ_IF_MAYBE (mistake, parsed.mistake) ADD_FAILURE() << line << ": " << mistake->cStr();
    }
    EXPECT_GT(count, 0u);
  }
  EXPECT_THAT(run({"logs", "-h"}).out,
              HasSubstr("\nExamples:\n  talosctl -n 10.0.0.2 logs kubelet"));
  c.test.environment.insert(kj::str("COLUMNS"), kj::str("40"));
  EXPECT_THAT(run({"logs", "-h"}).out,
              HasSubstr("\n  talosctl -n 10.0.0.2 logs kubelet \\\n    --tail 100\n"));
}

// Catches: a command that is missing in the differences from Talos, and an empty row.
TEST_F(EveryCommand, IsComparedWithTheOriginal) {
  std::ifstream file(DOCS_FOLDER "/evidence/talosctl-differences.md");
  std::set<std::string> compared;
  const std::set<std::string> verdicts = {"same",    "better",   "new",
                                          "differs", "not here", "refused"};
  bool rows = false;
  for (std::string line; std::getline(file, line);) {
    rows = rows || line == "## Command by command";
    if (!rows || !line.starts_with("| `")) continue;
    auto names = line.substr(2, line.find(" | ") - 2);
    auto verdict = line.substr(names.size() + 5);
    EXPECT_TRUE(verdicts.contains(verdict.substr(0, verdict.find(" |")))) << line;
    // The first words of the texts in backquotes.
    for (size_t at = 0; (at = names.find('`', at)) != std::string::npos;) {
      auto end = names.find('`', at + 1);
      auto name = names.substr(at + 1, end - at - 1);
      compared.insert(name.substr(0, name.find(' ')));
      at = end + 1;
    }
  }
  for (auto& child : c.root->children) {
    if (!child->hidden) EXPECT_TRUE(compared.contains(child->name.cStr())) << child->name.cStr();
  }
}

}  // namespace
}  // namespace talos::talosctl
