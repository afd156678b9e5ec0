// docs/talosctl-flags.md: every flag of every command, made from the table of commands, and the
// letters and names that mean several things, each with the reason. UPDATE_DOCS=1 writes the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "tests/client/command-words.h"

namespace talos::talosctl {
namespace {

struct Reason {
  const char *flag, *reason;
};
// Letters that stand for flags with different names.
constexpr Reason kLetters[] = {
    {"c", "both are Talos'"},
    {"d", "both are Talos'"},
    {"f", "all three are Talos'"},
    {"i", "all four are Talos'; `upgrade-cluster` has the letter of `upgrade`"},
    {"k", "both are Talos'"},
    {"l", "both are Talos', as `ls` and `ss` have them"},
    {"m", "all three are Talos'"},
    {"o", "`gen secrets` writes only a file, and is Talos'"},
    {"p", "all are Talos', but for `logs`, where it is that of `kubectl logs`"},
    {"r", "both are Talos'"},
    {"s", "all three are Talos'"},
    {"t", "all five are Talos'"},
    {"w", "all three are Talos'"},
    {"y", "both switch off a question; `config remove` has Talos' name for it"},
};
// Names of flags with different kinds, choices or defaults.
constexpr Reason kNames[] = {
    {"dry-run", "`rotate-ca` changes nothing unless it is switched off, as Talos does"},
    {"duration", "Talos': `pcap` ends after it, `events` begins that long ago"},
    {"etcd-ca", "`rotate-ca` selects this CA, `cluster recover` takes a file with it"},
    {"health-timeout", "the same: `upgrade` and `rollback` leave the default to the node"},
    {"hours", "Talos': a CA is valid for ten years, a certificate for a day"},
    {"init-node", "Talos': `rotate-ca` takes several"},
    {"ipv4", "Talos': `netstat` filters, nodes of a cluster have IPv4 unless it is switched off"},
    {"kubernetes",
     "containers of pods; `rotate-ca` and `upgrade-cluster` include Kubernetes by default"},
    {"mode", "Talos': how a config takes effect, how a machine reboots, where it runs"},
    {"name", "Talos': the name of a file, or of a cluster"},
    {"namespace", "Talos': of resources, and of images"},
    {"output", "Talos': a file of commands that write one, the format of the others"},
    {"roles", "Talos': each command has its default; `gen crt` takes them from the request"},
    {"tail", "Talos': a number of lines; `dmesg` shows only new ones"},
    {"wait", "Talos': a reboot is awaited, a config that was sent is not"},
};

struct Use {
  std::string command;
  const Flag* flag;
};

bool isHidden(const Command& command) {
  for (auto* at = &command; at != nullptr; at = at->parent) {
    if (at->hidden) return true;
  }
  return false;
}

std::string nameOf(const Command& command) {
  auto path = std::string(command.path().cStr());
  auto blank = path.find(' ');
  return blank == std::string::npos ? "all" : path.substr(blank + 1);
}

// By the flag's name.
std::map<std::string, std::vector<Use>> usesOf(const Command& root) {
  std::map<std::string, std::vector<Use>> uses;
  for (auto* command : commandsOf(root)) {
    if (isHidden(*command)) continue;
    for (auto& flag : command->flags) {
      if (!flag.hidden) uses[flag.name.cStr()].push_back({nameOf(*command), &flag});
    }
  }
  return uses;
}

std::string valueOf(const Flag& flag) {
  if (!flag.choices.empty()) {
    std::string all;
    for (auto& choice : flag.choices) all += (all.empty() ? "" : ", ") + std::string(choice.cStr());
    return all;
  }
  switch (flag.kind) {
    case FlagKind::kBool:
      return "";
    case FlagKind::kText:
      return "text";
    case FlagKind::kNumber:
      return "number";
    case FlagKind::kList:
      return "list";
    case FlagKind::kTexts:
      return "text, repeatable";
    case FlagKind::kDuration:
      return "duration";
  }
  return "";
}

std::string defaultOf(const Flag& flag) {
  bool none =
      flag.fallback.size() == 0 || (flag.kind == FlagKind::kBool && flag.fallback == "false");
  return none ? "" : flag.fallback.cStr();
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string flagText(const Flag& flag) {
  auto name = std::string("`--") + flag.name.cStr() + "`";
  return flag.letter.size() > 0 ? std::string("`-") + flag.letter.cStr() + "`, " + name : name;
}

// The names of the flags that have a letter.
std::map<std::string, std::set<std::string>> lettersOf(
    const std::map<std::string, std::vector<Use>>& uses) {
  std::map<std::string, std::set<std::string>> letters;
  for (auto& [name, all] : uses) {
    for (auto& use : all) {
      if (use.flag->letter.size() > 0) letters[use.flag->letter.cStr()].insert(name);
    }
  }
  std::erase_if(letters, [](auto& row) { return row.second.size() < 2; });
  return letters;
}

// The different values of the flags of one name.
std::map<std::string, std::set<std::string>> severalOf(
    const std::map<std::string, std::vector<Use>>& uses) {
  std::map<std::string, std::set<std::string>> several;
  for (auto& [name, all] : uses) {
    for (auto& use : all) {
      auto value = valueOf(*use.flag), fallback = defaultOf(*use.flag);
      several[name].insert((value.empty() ? "switch" : value) +
                           (fallback.empty() ? "" : " (default " + fallback + ")"));
    }
  }
  std::erase_if(several, [](auto& row) { return row.second.size() < 2; });
  return several;
}

template <typename Reasons>
std::string reasonOf(const Reasons& reasons, const std::string& flag) {
  for (auto& row : reasons) {
    if (flag == row.flag) return row.reason;
  }
  return "";
}

// A row for each letter, name and meaning.
void addFlags(std::ostream& page, const std::map<std::string, std::vector<Use>>& uses) {
  page << "| Flag | Value | Meaning | Commands |\n|---|---|---|---|\n";
  for (auto& [name, all] : uses) {
    std::vector<std::pair<std::string, std::string>> rows;  // cells before the commands, commands
    for (auto& use : all) {
      auto& flag = *use.flag;
      auto fallback = defaultOf(flag);
      auto head = flagText(flag) + " | " + cell(valueOf(flag)) + " | " + cell(flag.help.cStr()) +
                  (flag.required ? " (required)" : "") +
                  (fallback.empty() ? "" : " (default " + fallback + ")");
      auto same =
          std::find_if(rows.begin(), rows.end(), [&](auto& row) { return row.first == head; });
      auto command = "`" + use.command + "`";
      if (same == rows.end()) {
        rows.emplace_back(head, command);
      } else {
        same->second += ", " + command;
      }
    }
    for (auto& [head, commands] : rows) page << "| " << head << " | " << commands << " |\n";
  }
}

std::string pageOf(const Command& root) {
  auto uses = usesOf(root);
  std::ostringstream page;
  page << "# Flags of talosctl\n\n"
          "Which commands have a flag, and what does it mean there? Made from the table of "
          "commands\n"
          "by `make docs`; flags that are refused with a reason are in\n"
          "[talosctl-differences.md](evidence/talosctl-differences.md).\n\n";
  addFlags(page, uses);
  page << "\n## Letters with several meanings\n\n| Letter | Flags | Why |\n|---|---|---|\n";
  for (auto& [letter, names] : lettersOf(uses)) {
    page << "| `-" << letter << "` | ";
    std::string gap;
    for (auto& name : names) page << std::exchange(gap, ", ") << "`--" << name << "`";
    page << " | " << reasonOf(kLetters, letter) << " |\n";
  }
  page << "\n## Names with several kinds of values or defaults\n\n"
          "| Name | Values | Why |\n|---|---|---|\n";
  for (auto& [name, values] : severalOf(uses)) {
    page << "| `--" << name << "` | ";
    std::string gap;
    for (auto& value : values) page << std::exchange(gap, "; ") << value;
    page << " | " << reasonOf(kNames, name) << " |\n";
  }
  return page.str();
}

struct FlagsPage : public ::testing::Test {
  kj::Own<Command> root = newRoot();
  FlagsPage() { addWholeTable(*root); }
  ~FlagsPage() noexcept override {}
};

// Catches: a flag that the page lacks, or describes otherwise than the help.
TEST_F(FlagsPage, IsThatOfTheTableOfCommands) {
  constexpr auto kPath = DOCS_FOLDER "/talosctl-flags.md";
  auto page = pageOf(*root);
  if (getenv("UPDATE_DOCS") != nullptr) std::ofstream(kPath) << page;
  std::ifstream file(kPath);
  std::string written((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(page == written) << kPath << " is not up to date; run `make docs`";
}

template <typename Found, typename Reasons>
void expectReasons(const Found& found, const Reasons& reasons) {
  std::set<std::string> expected, explained;
  for (auto& row : found) expected.insert(row.first);
  for (auto& row : reasons) explained.insert(row.flag);
  EXPECT_EQ(explained, expected);
}

// Catches: a new flag whose letter or name already means something else, without a reason; a reason
// for flags that agree.
TEST_F(FlagsPage, SeveralMeaningsHaveAReason) {
  auto uses = usesOf(*root);
  expectReasons(lettersOf(uses), kLetters);
  expectReasons(severalOf(uses), kNames);
}

}  // namespace
}  // namespace talos::talosctl
