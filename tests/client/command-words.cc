#include "tests/client/command-words.h"

#include <map>
#include <set>

#include "talosctl/cluster/cluster-command.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

using Words = std::vector<std::string>;

// Values of arguments by name; any other is "x".
const std::map<std::string, std::string> kArguments = {{"key", "10"},
                                                       {"slot", "7"},
                                                       {"type", "mc"},
                                                       {"path", "/etc"},
                                                       {"https endpoint", "https://10.0.0.2:6443"},
                                                       {"endpoint", "10.0.0.2"},
                                                       {"file", "machine.yaml"}};

// Commands that need more than the required flags to reach the node.
const std::map<std::string, Words> kWords = {
    {"patch", {"-p", "[]"}},
    {"machineconfig patch", {"-p", "[]"}},
    {"apply-config", {"-f", "machine.yaml"}},
    {"apply", {"-f", "machine.yaml"}},
    {"inject serviceaccount", {"-f", "pod.yaml"}},
    {"validate", {"-c", "machine.yaml", "-m", "metal"}},
    {"config new", {"new-config"}},
    {"crashdump", {"--control-plane-nodes", "10.0.0.2"}},
    {"upgrade", {"--image", "x", "--wait=false"}},
    {"upgrade-cluster", {"--image", "x/i:v3", "--dry-run", "--kubernetes=false"}},
    {"rollback", {"--wait=false"}},
    {"upgrade-k8s", {"--to", "1.34.4"}},
    {"drain", {"--force", "--dry-run"}},
    {"events", {"--tail", "1", "--once"}},
    {"health", {"--wait-timeout", "1s"}}};

// Arguments of commands that would do harm with the arguments above.
const std::map<std::string, Words> kArgumentsOf = {{"etcd snapshot", {"etcd.snapshot"}}};

// Commands that call no node, by the start of their names.
const std::set<std::string> kLocal = {"completion", "config", "docs",     "gen",          "help",
                                      "images",     "inject", "validate", "machineconfig"};
const std::set<std::string> kRemote = {"config new"};

Words argumentsOf(const Command& command) {
  Words words;
  std::string text = command.arguments.cStr();
  size_t at = 0;
  for (unsigned i = 0; i < command.least; ++i) {
    auto open = text.find('<', at), close = text.find('>', at);
    auto name = open < close ? text.substr(open + 1, close - open - 1) : "";
    at = close == std::string::npos ? text.size() : close + 1;
    auto& choices = command.argumentChoices;
    auto known = kArguments.find(name);
    words.push_back(i < choices.size() && !choices[i].empty() ? choices[i][0].cStr()
                    : known != kArguments.end()               ? known->second
                                                              : "x");
  }
  return words;
}

Words requiredFlags(const Command& command) {
  Words words;
  for (auto& flag : command.flags) {
    if (!flag.required) continue;
    words.push_back(std::string("--") + flag.name.cStr());
    words.push_back(flag.choices.empty() ? "x" : flag.choices[0].cStr());
  }
  return words;
}

void collect(const Command& command, Words path, std::vector<Leaf>& leaves) {
  for (auto& child : command.children) {
    auto below = path;
    below.push_back(child->name.cStr());
    if (!child->children.empty()) {
      collect(*child, below, leaves);
      continue;
    }
    if (child->anyFlags) continue;
    Leaf leaf{child.get(), below, {}, {}, {}};
    for (auto& word : below) leaf.name += (leaf.name.empty() ? "" : " ") + word;
    auto own = kArgumentsOf.find(leaf.name);
    leaf.arguments = own != kArgumentsOf.end() ? own->second : argumentsOf(*child);
    auto special = kWords.find(leaf.name);
    leaf.flags = special != kWords.end() ? special->second : requiredFlags(*child);
    leaves.push_back(std::move(leaf));
  }
}

void collectAll(const Command& command, std::vector<const Command*>& all) {
  all.push_back(&command);
  for (auto& child : command.children) collectAll(*child, all);
}

}  // namespace

void addWholeTable(Command& root) {
  addCommands(root);
  addClusterCommands(root);
  addLocalDebugCommands(root);
  addAbsentCommands(root);
  addExamples(root);
}

Words Leaf::line() const {
  auto all = path;
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.insert(all.end(), flags.begin(), flags.end());
  return all;
}

bool Leaf::talksToNodes() const {
  if (kRemote.contains(name)) return true;
  if (name == "image default" || name == "image cache-create") return false;
  return !kLocal.contains(path[0]) && !actsOnHost();
}

bool Leaf::actsOnHost() const {
  return path[0] == "cluster" || name == "debug replace" || name == "debug call";
}

const Flag* Leaf::flag(kj::StringPtr wanted) const {
  for (auto& flag : command->flags) {
    if (flag.name == wanted) return &flag;
  }
  return nullptr;
}

std::vector<Leaf> leavesOf(const Command& root) {
  std::vector<Leaf> leaves;
  collect(root, {}, leaves);
  return leaves;
}

std::vector<const Command*> commandsOf(const Command& root) {
  std::vector<const Command*> all;
  collectAll(root, all);
  return all;
}

}  // namespace talos::talosctl
