// Runs every command of the table, in each of its forms, against nodes that answer every call with
// control sequences. A command without an entry in the table below is run without arguments and has
// to print some text of the nodes, so a new command fails this test until its arguments are added.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/config/config-generate.h"
#include "common/text/plain-text.h"
#include "talosctl/commands/test-cluster.h"
#include "talosctl/commands/test-hostile-node.h"

namespace talos::talosctl {
namespace {

// Arguments with which a command reaches a node; {} stands for a folder of the test.
const std::map<std::string, std::vector<const char*>> kArguments = {
    {"apply", {"--file", "{}/config.yaml"}},
    {"apply-config", {"--file", "{}/config.yaml"}},
    {"config new", {"{}/new"}},
    {"copy", {"/etc", "-"}},
    {"debug profile", {"apid", "--length", "1s"}},
    {"debug stack", {"apid", "--symbols", "{}"}},
    {"edit", {"mc"}},
    {"encryption recovery-key", {"STATE", "1"}},
    {"etcd remove-member", {"1"}},
    {"etcd snapshot", {"{}/snapshot"}},
    {"gen secrets", {"--output-file", "{}/secrets.yaml"}},
    {"get", {"links"}},
    {"image pull", {"x.org/y:1"}},
    {"kubeconfig", {"-"}},
    {"logs", {"apid"}},
    {"meta delete", {"10"}},
    {"meta write", {"10", "x"}},
    {"patch", {"mc", "--patch", "[{\"op\":\"add\",\"path\":\"/debug\",\"value\":true}]"}},
    {"pcap", {"--output", "-"}},
    {"read", {"/etc/hosts"}},
    {"restart", {"x"}},
    {"service", {"apid"}},
    {"token revoke", {"abcdef"}},
    {"upgrade", {"--image", "x.org/y:1"}},
    {"upgrade-cluster", {"--image", "x.org/y:1"}},
    {"upgrade-k8s", {"--to", "1.35.0"}},
    {"wipe disk", {"vdb"}},
};

// Commands that call no node when run here, so that they print only their own text.
const std::set<std::string> kAskNoNode = {
    "__complete",
    "completion",
    "docs",
    "help",  // text of this program
    "config add",
    "config context",
    "config contexts",
    "config endpoint",
    "config generate",  // a hint
    "config info",
    "config merge",
    "config node",
    "config remove",
    "config rename",  // the client's own file
    "gen ca",
    "gen config",
    "gen crt",
    "gen csr",
    "gen key",
    "gen keypair",
    "gen secrets",
    "inject serviceaccount",
    "machineconfig gen",
    "machineconfig patch",
    "validate",            // files
    "image cache-create",  // it asks registries
    "image default",
    "images",  // a list of this program
};

struct Form {
  std::string output;  // value of -o; empty: the command has no -o
  Hostility hostility;
  bool terminal;
};

struct HostileAnswers : public ClusterTest {
  ~HostileAnswers() noexcept override {}
  HostileAnswers() {
    auto config = config::machineConfig(config::makeSecrets(), config::MachineType::WORKER, "c",
                                        "https://10.5.0.2:6443");
    writeFileAtomically(kj::str(c.folder, "/config.yaml"), config, 0600);
    for (auto [name, value] : {std::pair("EDITOR", "true"), std::pair("HOME", c.folder.cStr())}) {
      c.test.environment.insert(kj::str(name), kj::str(value));
    }
  }

  // Returns stdout and stderr of one run. A run that waits forever ends when nothing happens any
  // more.
  std::pair<std::string, std::string> shownBy(kj::StringPtr path, const Form& form) {
    c.bootstrap = [hostility = form.hostility]() { return HostileServer::cluster(hostility); };
    c.restart();
    c.test.console.terminal = form.terminal;
    kj::Vector<kj::String> words;
    for (auto word : {"-n", "10.0.0.2", "--timeout", "2s"}) words.add(kj::str(word));
    for (auto rest = path; rest.size() > 0;) {
      auto end = rest.findFirst(' ').orDefault(rest.size());
      words.add(kj::heapString(rest.slice(0, end)));
      rest = rest.slice(kj::min(end + 1, rest.size()));
    }
    if (auto known = kArguments.find(path.cStr()); known != kArguments.end()) {
      for (std::string word : known->second) {
        if (auto at = word.find("{}"); at != word.npos) word.replace(at, 2, c.folder.cStr());
        words.add(kj::str(word.c_str()));
      }
    }
    if (form.output.size() > 0) words.add(kj::str("--output=", form.output.c_str()));
    auto views = KJ_MAP(word, words) {
      return kj::StringPtr(word);
    };
    c.finish(c.start(views), kMostRounds);
    auto first = out();
    return {kj::mv(first), err()};
  }

  static constexpr int kMostRounds = 25;
};

// Visits every command that can be run, with its flags.
void eachCommand(const Command& at, kj::StringPtr path,
                 kj::Function<void(kj::StringPtr, const Command&)>& visit) {
  if (at.run != nullptr) visit(path, at);
  for (auto& child : at.children) {
    auto below = path.size() == 0 ? kj::str(child->name) : kj::str(path, " ", child->name);
    eachCommand(*child, below, visit);
  }
}

std::vector<Form> formsOf(const Command& command) {
  std::vector<std::string> outputs;
  for (auto& flag : command.flags) {
    if (flag.name != "output") continue;
    for (auto choice : flag.choices) {
      outputs.push_back(choice == "jsonpath=" ? "jsonpath={.spec}" : choice.cStr());
    }
  }
  if (outputs.empty()) outputs.push_back("");
  std::vector<Form> forms;
  for (auto& output : outputs) {
    for (auto hostility : {Hostility::kAnswers, Hostility::kOtherAnswers, Hostility::kFails}) {
      // Outside of a terminal, a file or a document is printed byte for byte.
      forms.push_back({output, hostility, true});
      if (hostility == Hostility::kAnswers) forms.push_back({output, hostility, false});
    }
  }
  return forms;
}

std::string withoutOurSequences(const std::string& text) {
  static const std::regex kOurs(
      "\x1b\\[([0-9]*[AKJ]|0(;[0-9]+)*m|\\?(1049|25)[hl]|[0-9]+;[0-9]+H|2J)|\r");
  return std::regex_replace(text, kOurs, "");
}

bool isPlain(const std::string& text) {
  for (auto rest = kj::StringPtr(text.c_str(), text.size()).asBytes(); rest.size() > 0;) {
    auto character = firstCharacter(rest);
    if (!character.plain && rest[0] != '\n' && rest[0] != '\t') return false;
    rest = rest.slice(character.bytes, rest.size());
  }
  return true;
}

// Catches: a command, or a form of a command, that passes a node's control sequences on to a
// terminal; invalid JSON because only the console escapes it.
TEST_F(HostileAnswers, NoCommandPassesThemOnToATerminal) {
  std::set<std::string> bytes = {"copy", "pcap", "read", "kubeconfig", "get"};
  kj::Function<void(kj::StringPtr, const Command&)> visit = [&](kj::StringPtr path,
                                                                const Command& command) {
    std::string all;
    for (auto& form : formsOf(command)) {
      auto [shown, noted] = shownBy(path, form);
      auto name = kj::str(path, " -o ", form.output.c_str(), form.terminal ? " on a terminal" : "",
                          ", ", static_cast<int>(form.hostility));
      bool verbatim = !form.terminal && (form.output == "yaml" || bytes.contains(path.cStr()));
      if (form.terminal) shown = withoutOurSequences(shown), noted = withoutOurSequences(noted);
      EXPECT_TRUE(verbatim || isPlain(shown)) << name.cStr() << "\n"
                                              << testing::PrintToString(shown);
      EXPECT_TRUE(isPlain(noted)) << name.cStr() << "\n" << testing::PrintToString(noted);
      static const std::regex kNoJson("(^|[^\\\\])(\\\\\\\\)*\\\\x");
      if (form.output == "json" && !verbatim) {
        EXPECT_FALSE(std::regex_search(shown, kNoJson)) << name.cStr() << "\n" << shown;
      }
      all += shown + noted;
    }
    bool shows = all.find(kMark.cStr()) != all.npos;
    EXPECT_NE(shows, kAskNoNode.contains(path.cStr()))
        << "`" << path.cStr() << "`: name its arguments in kArguments, or itself in kAskNoNode\n"
        << all.substr(0, 400);
  };
  auto table = newRoot();  // without the commands that only report their absence
  addCommands(*table);
  eachCommand(*table, "", visit);
}

}  // namespace
}  // namespace talos::talosctl
