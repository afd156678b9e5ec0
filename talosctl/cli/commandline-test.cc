#include "talosctl/cli/commandline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct CommandLine : public ::testing::Test {
  ConsoleFixture test;
  kj::Own<Command> root = newRoot();
  CommandLine() {
    addCommands(*root);
    addAbsentCommands(*root);
  }
  ~CommandLine() noexcept override {}

  Parsed parse(std::initializer_list<kj::StringPtr> words) {
    return parseCommandLine(test.deps, *root, kj::arrayPtr(words.begin(), words.size()));
  }
  // Returns the error message, or "" if there is no error.
  std::string mistake(std::initializer_list<kj::StringPtr> words) {
    auto parsed = parse(words);
    KJ_IF_MAYBE (m, parsed.mistake) return m->cStr();
    return "";
  }
  int run(std::initializer_list<kj::StringPtr> words) {
    return talosctl::run(test.deps, *root, kj::arrayPtr(words.begin(), words.size()),
                         kj::NEVER_DONE)
        .wait(test.io.waitScope);
  }
};

std::string joined(kj::ArrayPtr<const kj::String> list) {
  return kj::strArray(list, "|").cStr();
}

// Catches persistent flags that only work in one place.
TEST_F(CommandLine, PersistentFlagsStandAnywhere) {
  for (auto words : {std::initializer_list<kj::StringPtr>{"-n", "10.0.0.2", "logs", "etcd", "-f"},
                     {"logs", "-n", "10.0.0.2", "-f", "etcd"},
                     {"logs", "-f", "etcd", "--nodes=10.0.0.2"},
                     {"logs", "etcd", "-fn", "10.0.0.2"},
                     {"logs", "etcd", "-f", "-n10.0.0.2"},
                     {"logs", "etcd", "-f", "-n=10.0.0.2"}}) {
    auto parsed = parse(words);
    EXPECT_EQ(mistake(words), "");
    EXPECT_EQ(parsed.call->command.name, "logs");
    EXPECT_EQ(joined(parsed.call->list("nodes")), "10.0.0.2");
    EXPECT_EQ(joined(parsed.call->arguments), "etcd");
    EXPECT_TRUE(parsed.call->on("follow"));
  }
}

// Catches lists that keep only one of comma-separated and repeated values, or that consume the
// words after the values.
TEST_F(CommandLine, ListsAreCsvAndRepeated) {
  auto parsed = parse({"-n", "a,b", "-n", "\"c,d\"", "version", "--nodes", "e"});
  EXPECT_EQ(joined(parsed.call->list("nodes")), "a|b|c,d|e");
  EXPECT_EQ(parsed.call->command.name, "version");
  EXPECT_EQ(joined(splitCsv("a,\"b \"\"q\"\"\",,")), "a|b \"q\"||");
  EXPECT_EQ(splitCsv("").size(), 0u);
}

// Catches numbers with a sign being taken for flags, and the first of two values winning.
TEST_F(CommandLine, ScalarsTakeTheLastValue) {
  auto parsed = parse({"logs", "etcd", "--tail", "7", "--tail", "-1"});
  EXPECT_EQ(parsed.call->number("tail"), -1);
  EXPECT_EQ(parse({"logs", "etcd"}).call->number("tail"), -1);
  EXPECT_FALSE(parse({"logs", "etcd"}).call->given("tail"));
  EXPECT_EQ(parse({"get", "svc", "--namespace="}).call->text("namespace"), "");
  EXPECT_EQ(mistake({"get", "svc", "--namespace="}), "");
}

TEST_F(CommandLine, BoolsCanBeSwitchedOff) {
  EXPECT_TRUE(parse({"reboot"}).call->on("wait"));
  EXPECT_FALSE(parse({"reboot", "--wait=false"}).call->on("wait"));
  EXPECT_THAT(mistake({"reboot", "--wait=maybe"}), HasSubstr("use true or false"));
}

// Catches words after "--", in brackets or with a leading dash that are changed by the parser.
TEST_F(CommandLine, WordsBehindDashesAreArguments) {
  auto parsed = parse({"read", "--", "--follow"});
  EXPECT_EQ(parsed.mistake, nullptr);
  EXPECT_EQ(joined(parsed.call->arguments), "--follow");
  EXPECT_EQ(joined(parse({"read", "[a,b]"}).call->arguments), "[a,b]");
  EXPECT_EQ(joined(parse({"version", "-e", "[fd00::1]"}).call->list("endpoints")), "[fd00::1]");
}

TEST_F(CommandLine, AliasesMeanTheirCommand) {
  for (auto [alias, name] :
       std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>>{{"ls", "list"},
                                                                      {"du", "usage"},
                                                                      {"ps", "processes"},
                                                                      {"p", "processes"},
                                                                      {"free", "memory"},
                                                                      {"m", "memory"},
                                                                      {"services", "service"},
                                                                      {"cp", "copy"},
                                                                      {"g", "get"},
                                                                      {"mount", "mounts"},
                                                                      {"route", "routes"}}) {
    EXPECT_EQ(parse({alias}).call->command.name, name) << alias.cStr();
  }
}

// Catches guessing from a prefix, and messages without the closest known word.
TEST_F(CommandLine, UnknownWordsNameTheClosest) {
  EXPECT_EQ(mistake({"versoin"}),
            "unknown command \"versoin\" for \"talosctl\"; did you mean \"version\"?");
  EXPECT_EQ(mistake({"vers"}).find("unknown command"), 0u);
  EXPECT_EQ(mistake({"logs", "etcd", "--folow"}),
            "unknown flag --folow for \"talosctl logs\"; did you mean \"--follow\"?");
  EXPECT_EQ(mistake({"logs", "etcd", "--foll"}).find("unknown flag"), 0u);
  EXPECT_EQ(mistake({"version", "--node=x"}),
            "unknown flag --node for \"talosctl version\"; did you mean \"--nodes\"?");
  EXPECT_THAT(mistake({"version", "-q"}), HasSubstr("unknown flag -q"));
}

// Catches: "did you mean" followed by the same flag; --insecure that looks like a typing mistake.
TEST_F(CommandLine, AFlagInTheWrongPlaceIsNamedWithTheRightOne) {
  EXPECT_EQ(mistake({"--insecure", "version", "-n", "10.0.0.2"}),
            "flag --insecure stands before its command; write \"talosctl version --insecure\"");
  EXPECT_EQ(mistake({"-i", "-n", "10.0.0.2", "version"}),
            "flag -i stands before its command; write \"talosctl version -i\"");
  EXPECT_EQ(mistake({"--tail", "5", "logs", "etcd"}),
            "flag --tail stands before its command; write \"talosctl logs --tail\"");
  EXPECT_EQ(
      mistake({"logs", "etcd", "--insecure"}),
      "flag --insecure is not available for \"talosctl logs\": a node without a config answers "
      "version, status, interfaces, disks, gen config, machineconfig gen, apply-config, apply "
      "only");
  EXPECT_THAT(mistake({"get", "links", "--insecure"}),
              HasSubstr("a node without a config answers"));
}

TEST_F(CommandLine, ValuesAreChecked) {
  EXPECT_THAT(mistake({"get", "svc", "-o", "xml"}), HasSubstr("must be one of table, yaml, json"));
  EXPECT_THAT(mistake({"logs", "etcd", "--tail", "ten"}), HasSubstr("use a whole number"));
  EXPECT_THAT(mistake({"version", "--timeout", "soon"}), HasSubstr("use a duration such as"));
  EXPECT_THAT(mistake({"version", "--timeout"}), HasSubstr("needs a value"));
  EXPECT_THAT(mistake({"read"}), HasSubstr("accepts 1 arg(s) (<path>), received 0"));
  EXPECT_THAT(mistake({"version", "extra"}), HasSubstr("arg(s)"));
  EXPECT_THAT(mistake({"get"}), HasSubstr("accepts 1 to 2 arg(s)"));
}

TEST_F(CommandLine, Durations) {
  EXPECT_EQ(parseDuration("90"), 90 * kj::SECONDS);
  EXPECT_EQ(parseDuration("1m30s"), 90 * kj::SECONDS);
  EXPECT_EQ(parseDuration("500ms"), 500 * kj::MILLISECONDS);
  EXPECT_EQ(parseDuration("1.5h"), 90 * kj::MINUTES);
  EXPECT_EQ(parseDuration("1d12h"), 36 * kj::HOURS);
  EXPECT_EQ(parseDuration("2592000s"), 30 * kj::DAYS);
  for (kj::StringPtr bad : {"", "s", "-1s", "1w", "1m30", "0x10s", "1e9s", "9999999999h",
                            "900000h900000h", "41667d", "1 s"}) {
    EXPECT_EQ(parseDuration(bad), nullptr) << bad.cStr();
  }
}

// Catches usage on stdout (scripts read it as output) and a status other than 1.
TEST_F(CommandLine, MistakesGoToStderrWithUsage) {
  EXPECT_EQ(run({"versoin"}), 1);
  EXPECT_EQ(test.console.takeOut(), "");
  EXPECT_THAT(test.console.takeErr().cStr(),
              HasSubstr("did you mean \"version\"?\n\nUsage:\n  talosctl"));
  EXPECT_EQ(run({"completion", "tcsh"}), 1);
  EXPECT_THAT(test.console.takeErr().cStr(), HasSubstr("Usage:\n  talosctl completion"));
}

// Catches: an error that scrolls away above the full help of its command.
TEST_F(CommandLine, AMistakeIsShownWithoutTheFlags) {
  EXPECT_EQ(run({"reboot", "--no-such-flag"}), 1);
  EXPECT_EQ(test.console.takeErr(),
            "error: unknown flag --no-such-flag for \"talosctl reboot\"\n\n"
            "Usage:\n  talosctl reboot [flags]\n\n"
            "Use \"talosctl reboot --help\" for its flags.\n"_kj);
}

// Catches control characters of an argument that reach the terminal in a message.
TEST_F(CommandLine, MessagesAreEscaped) {
  EXPECT_EQ(run({"\x1b[31mred"}), 1);
  auto text = test.console.takeErr();
  EXPECT_EQ(text.findFirst('\x1b'), nullptr);
  EXPECT_THAT(text.cStr(), HasSubstr("\\x1b[31mred"));
}

TEST_F(CommandLine, HelpIsOutput) {
  for (auto words :
       {std::initializer_list<kj::StringPtr>{"logs", "--help"}, {"help", "logs"}, {"-h", "logs"}}) {
    EXPECT_EQ(run(words), 0);
    auto text = test.console.takeOut();
    EXPECT_THAT(text.cStr(), HasSubstr("Usage:\n  talosctl logs [<id>] [flags]\n"));
    EXPECT_THAT(text.cStr(), HasSubstr("-f, --follow"));
    EXPECT_THAT(text.cStr(), HasSubstr("--nodes list"));
    EXPECT_EQ(test.console.takeErr(), "");
  }
  EXPECT_EQ(run({}), 0);
  EXPECT_THAT(test.console.takeOut().cStr(), HasSubstr("Change nodes:"));
  EXPECT_EQ(run({"config"}), 0);
  EXPECT_THAT(test.console.takeOut().cStr(), HasSubstr("merge"));
}

// Catches commands of the documents that look like typing mistakes instead of saying that they are
// missing.
TEST_F(CommandLine, AbsentCommandsSaySo) {
  EXPECT_EQ(run({"recover", "--source", "etcd", "-n", "10.0.0.2"}), 1);
  EXPECT_THAT(test.console.takeErr().cStr(), HasSubstr("\"talosctl recover\" is not available"));
  EXPECT_EQ(run({"conformance", "kubernetes"}), 1);
  EXPECT_THAT(
      test.console.takeErr().cStr(),
      HasSubstr("\"talosctl conformance\" is not available in this version of talosctl: run "
                "Hydrophone or Sonobuoy"));
  EXPECT_EQ(run({"help"}), 0);
  EXPECT_THAT(test.console.takeOut().cStr(), Not(HasSubstr("conformance")));
}

// Catches commands or aliases with the same name, and flags with the same letter within reach of
// one command: CLI11 would take the first without an error.
void checkTree(const Command& command) {
  std::vector<std::string> words;
  for (auto& child : command.children) {
    words.push_back(child->name.cStr());
    for (auto& alias : child->aliases) words.push_back(alias.cStr());
  }
  std::vector<std::string> flags;
  for (auto* c = &command; c != nullptr; c = c->parent) {
    for (auto& flag : c->flags) {
      flags.push_back(std::string("--") + flag.name.cStr());
      if (flag.letter.size() > 0) flags.push_back(std::string("-") + flag.letter.cStr());
    }
  }
  for (auto* list : {&words, &flags}) {
    std::sort(list->begin(), list->end());
    auto twice = std::adjacent_find(list->begin(), list->end());
    EXPECT_EQ(twice, list->end()) << *twice << " twice in " << command.path().cStr();
  }
  EXPECT_EQ(command.run == nullptr, !command.children.empty()) << command.path().cStr();
  for (auto& child : command.children) checkTree(*child);
}
TEST_F(CommandLine, NamesAreUnique) {
  checkTree(*root);
}

}  // namespace
}  // namespace talos::talosctl
