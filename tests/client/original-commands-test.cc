// Every command and flag of Talos' clients is one of ours, or is refused with a reason: a
// script for those clients never meets an unknown word. docs/evidence/clients-commands.md is made
// from the same table; UPDATE_DOCS=1 writes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "tests/client/users-lines.h"
#include "tests/client/whole-client.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPage = DOCS_FOLDER "/evidence/clients-commands.md";

struct OriginalFlag {
  std::string letter, name;
};

struct Original {
  std::string command, releases, verdict;
  std::vector<OriginalFlag> flags;
};

std::vector<std::vector<std::string>> columnsOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream stream(line);
    std::vector<std::string> row;
    for (std::string column; std::getline(stream, column, '\t');) row.push_back(column);
    rows.push_back(row);
  }
  return rows;
}

// "-f/--force" or "--wait".
OriginalFlag flagOf(const std::string& text) {
  if (text.starts_with("--")) return {"", text.substr(2)};
  return {text.substr(1, text.find('/') - 1), text.substr(text.find("--") + 2)};
}

std::vector<Original> originals() {
  std::vector<Original> all;
  for (auto& row : columnsOf(SOURCE_FOLDER "/original-commands.txt")) {
    Original original{row.at(0), row.at(1), row.at(3), {}};
    std::istringstream flags(row.at(2) == "-" ? "" : row.at(2));
    for (std::string flag; flags >> flag;) original.flags.push_back(flagOf(flag));
    all.push_back(original);
  }
  return all;
}

// Returns the flag of the command or of a group above it; nullptr if neither has it.
const Flag* findFlag(const Command& command, const std::string& name) {
  for (auto* at = &command; at != nullptr; at = at->parent) {
    for (auto& flag : at->flags) {
      if (flag.name == name.c_str()) return &flag;
    }
  }
  return nullptr;
}

struct OriginalCommands : public WholeClient {
  kj::Maybe<Command&> find(const std::string& command) {
    return commandAt(*c.root, command == "talosctl" ? "" : command.c_str());
  }
};

// Catches: a command or flag of Talos that is an unknown word to us, or that is accepted and
// does nothing although the table refuses it.
TEST_F(OriginalCommands, AreHereOrRefusedWithAReason) {
  for (auto& original : originals()) {
    SCOPED_TRACE(original.command);
    if (original.verdict.starts_with("refused")) {
      auto found = run(shellWords(original.command));
      EXPECT_EQ(found.status, 1);
      EXPECT_THAT(found.err, HasSubstr("is not available in this version of talosctl: "));
      EXPECT_THAT(found.err, Not(HasSubstr("unknown")));
      continue;
    }
    auto& command = KJ_ASSERT_NONNULL(find(original.command), original.command.c_str());
    for (auto& flag : original.flags) {
      auto own = findFlag(command, flag.name);
      EXPECT_NE(own, nullptr) << "--" << flag.name;
      if (own == nullptr) continue;
      if (flag.letter.empty()) continue;  // ours may have one
      EXPECT_EQ(std::string(own->letter.cStr()), flag.letter) << "--" << flag.name;
    }
  }
}

// Catches: a refused flag that is accepted, and a flag that a script passes with its default value
// and that ends the script.
TEST_F(OriginalCommands, RefusedFlagsSayWhy) {
  size_t refused = 0;
  for (auto& leaf : leaves) {
    for (auto& flag : leaf.command->flags) {
      if (flag.refused.size() == 0) continue;
      ++refused;
      SCOPED_TRACE(leaf.name + " --" + flag.name.cStr());
      bool isOff = flag.kind == FlagKind::kBool && flag.fallback != "true";
      auto wanted = flag.kind != FlagKind::kBool ? "=something" : isOff ? "=true" : "=false";
      auto name = std::string("--") + flag.name.cStr();
      auto found = run(with(leaf.line(), {name + wanted}));
      EXPECT_EQ(found.status, 1);
      EXPECT_THAT(found.err, HasSubstr("flag " + name + " is not available: "));
      auto nothing = flag.fallback.size() > 0 ? std::string(flag.fallback.cStr())
                     : isOff                  ? std::string("false")
                                              : std::string();
      auto accepted = run(with(leaf.line(), {name + "=" + nothing, "--help"}));
      EXPECT_EQ(accepted.status, 0);
      EXPECT_THAT(accepted.out, Not(HasSubstr(name + " "))) << "it is in the help";
    }
  }
  EXPECT_GT(refused, 10u);
}

// "silent", or "result" and "notes" as streams.txt has them for the command's first row.
std::map<std::string, std::string> streamsOf(const std::vector<Leaf>& leaves) {
  std::map<std::string, std::string> streams;
  for (auto& row : columnsOf(SOURCE_FOLDER "/streams.txt")) {
    std::string name;
    for (auto& leaf : leaves) {
      bool isOf = row[0] == leaf.name || row[0].starts_with(leaf.name + " ");
      if (isOf && leaf.name.size() > name.size()) name = leaf.name;
    }
    auto text = row[1].starts_with("not: ")      ? std::string("not tried")
                : row[1] == "-" && row[2] == "-" ? std::string("silent")
                : row[1] == "-"                  ? std::string("notes on stderr")
                : row[2] == "-"                  ? std::string("result")
                                                 : std::string("result, notes on stderr");
    streams.emplace(name, text);
  }
  return streams;
}

std::string flagsText(const Original& original, const Command& command) {
  std::string text, refused;
  for (auto& flag : original.flags) {
    auto own = findFlag(command, flag.name);
    auto shown = (flag.letter.empty() ? "`--" : "`-" + flag.letter + " --") + flag.name + "`";
    if (own != nullptr && own->refused.size() > 0) {
      refused += (refused.empty() ? "" : "; ") + shown + ": " + own->refused.cStr();
    } else {
      text += (text.empty() ? "" : " ") + shown;
    }
  }
  if (!refused.empty()) text += std::string(text.empty() ? "" : ". ") + "Refused: " + refused;
  return text;
}

// Catches: a page that differs from the table and the program.
TEST_F(OriginalCommands, AreOnThePage) {
  auto streams = streamsOf(leaves);
  std::ostringstream page;
  page << "# The commands of Talos' clients, and ours\n\n"
          "Each command of the talosctl of Talos 0.9 and 1.9 with its flags, and what ours prints "
          "on "
          "success. Differences in\nbehaviour: [talosctl-differences.md](talosctl-differences.md). "
          "Written with `UPDATE_DOCS=1` by `client-test` from\n"
          "[original-commands.txt](../../tests/client/original-commands.txt) and "
          "[streams.txt](../../tests/client/streams.txt), whose rows\n"
          "the tests beside them try on a model of a cluster.\n\n"
          "| Command | Talos | Flags | Prints | Here |\n|---|---|---|---|---|\n";
  for (auto& original : originals()) {
    auto verdict = original.verdict;
    std::string flags, printed;
    KJ_IF_MAYBE (command, find(original.command)) {
      flags = flagsText(original, *command);
      auto known = streams.find(original.command);
      if (known != streams.end()) printed = known->second;
    }
    if (verdict.starts_with("refused")) {
      auto said = run(shellWords(original.command)).err;
      auto from = said.find("talosctl: ");
      verdict = "refused: " + said.substr(from + 10, said.find('\n', from) - from - 10);
      printed = "";
    }
    page << "| `" << original.command << "` | " << original.releases << " | " << flags << " | "
         << printed << " | " << verdict << " |\n";
  }
  if (getenv("UPDATE_DOCS") != nullptr) std::ofstream(kPage) << page.str();
  std::ifstream file(kPage);
  std::string written((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(written, page.str()) << "run it with UPDATE_DOCS=1";
}

}  // namespace
}  // namespace talos::talosctl
