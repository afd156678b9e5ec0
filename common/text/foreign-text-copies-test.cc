// The rule of foreign-text.h held over the sources: foreign text is made harmless in one place.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace talos {
namespace {

struct Idiom {
  const char* name;
  std::vector<const char*> parts;  // one of them is in such a line: an expression alone is slow
  std::regex line;
  std::string only;                               // below this folder; empty: everywhere
  std::map<std::string, std::string> exceptions;  // with the reason
};

// Each is a way in which a copy was once written.
const std::vector<Idiom>& idioms() {
  static const std::vector<Idiom> all = {
      {"replaces what is not printable",
       {"' '", "'?'", "'_'"},
       std::regex("(?=.*([<>]=? ' '|< 0x20|< 32|[<>]=? '~'|0x7f))"
                  ".*(\\? |: |[^=!<>]= |add\\()'[?_ ]'"),
       "",
       {{"common/net/ntp.cc", "four characters of a protocol"},
        {"common/disk/gpt.cc", "decodes UTF-16"},
        {"machined/disk/installer/efi-boot-option.cc", "decodes UTF-16"},
        {"common/base/waits.cc", "in place, in memory that a signal handler reads"},
        {"machined/process1/init/init-loop.cc", "process 1, in place"},
        {"logd/line-format.cc", "fields of RFC 5424 without blanks"}}},
      {"looks at each character",
       {"firstCharacter("},
       std::regex("firstCharacter\\("),
       "",
       {{"common/text/plain-text.cc", "the one place"},
        {"common/text/plain-text.h", "the one place"},
        {"common/text/foreign-text.cc", "the one place"},
        {"common/kube/json.cc", "escapes with it what a library leaves"},
        {"common/yaml/yaml-write.cc", "decides whether a text is quoted"},
        {"common/screen/canvas.cc", "cells"},
        {"machined/screen/screen-page.cc", "a font with 256 characters"},
        {"talosctl/cli/cli-text.cc", "ASCII for characters of lines and arrows"},
        {"talosctl/dashboard/page-node.cc", "columns of a log line"},
        {"talosctl/dashboard/keys.cc", "keys of the user"}}},
      {"writes \\x or \\u with digits",
       {"\\\\x", "\\\\u"},
       std::regex("\"[^\"]*\\\\\\\\(x|u|u00)(%0?[0-9]*x)?\""),
       "",
       {{"common/text/foreign-text.cc", "the one place"},
        {"machined/disk/encryption/state-keys-in-meta.cc", "JSON within a buffer for secrets"}}},
      {"has a sequence of a terminal",
       {"\\x1b", "\\033", "\\e["},
       std::regex("\\\\x1b|\\\\033|\\\\e\\["),
       "",
       {{"common/screen/look.cc", "colours"},
        {"common/screen/canvas.cc", "cells"},
        {"common/screen/drawn-text.cc", "moves"},
        {"machined/screen/virtual-terminal.cc", "the machine's own screen"},
        {"talosctl/dashboard/web-screen.cc", "keys that a page sends"}}},
      {"writes past the console",
       {"STD", "std::c", "printf(", "puts(", "write(Stream::"},
       std::regex("STD(OUT|ERR)_FILENO|std::c(out|err)|\\bf?printf\\(|\\bf?puts\\(|"
                  "write\\(Stream::"),
       "talosctl/",
       {{"talosctl/cli/standard-console.cc", "the console"},
        {"talosctl/cli/command.h", "the console"},
        {"talosctl/cluster/disks/node-disks.cc", "descriptors of a child"},
        {"talosctl/cluster/nodes/cluster-nodes.cc", "the log of the supervisor"}}},
  };
  return all;
}

// Returns the programs' own sources, by their path below the checkout.
std::map<std::string, std::string> sources() {
  std::map<std::string, std::string> found;
  std::filesystem::path root = TALOS_SOURCE_DIR;
  for (auto program :
       {"apid", "backupd", "common", "etcd-supervisor", "kubed", "logd", "machined", "manifestd",
        "networkd", "probed", "registryd", "talosctl", "trustd", "vipd"}) {
    for (auto& entry : std::filesystem::recursive_directory_iterator(root / program)) {
      auto name = entry.path().filename().string();
      bool test = name.ends_with("-test.cc") || name.starts_with("test-");
      auto kind = entry.path().extension();
      if (test || (kind != ".cc" && kind != ".h")) continue;
      std::ifstream file(entry.path());
      found[entry.path().lexically_relative(root).string()] = {std::istreambuf_iterator<char>(file),
                                                               {}};
    }
  }
  return found;
}

// Catches: another copy of the escaping, with a different policy; an exception on the list that no
// longer exists.
TEST(ForeignTextCopies, EscapingOfForeignTextHasNoOtherCopies) {
  auto files = sources();
  ASSERT_GT(files.size(), 1000u);
  for (auto& idiom : idioms()) {
    std::set<std::string> used;
    for (auto& [path, text] : files) {
      if (!path.starts_with(idiom.only)) continue;
      size_t number = 0;
      for (size_t begin = 0; begin < text.size(); ++number) {
        auto end = std::min(text.find('\n', begin), text.size());
        auto line = text.substr(begin, end - begin);
        begin = end + 1;
        auto code = line.find_first_not_of(' ');
        if (code == line.npos || line.compare(code, 2, "//") == 0) continue;
        auto isIn = [&](const char* part) { return line.find(part) != line.npos; };
        if (!std::any_of(idiom.parts.begin(), idiom.parts.end(), isIn)) continue;
        if (!std::regex_search(line, idiom.line)) continue;
        used.insert(path);
        EXPECT_TRUE(idiom.exceptions.contains(path))
            << path << ":" << number + 1 << " " << idiom.name
            << "; use common/text/foreign-text.h\n"
            << line;
      }
    }
    for (auto& [path, reason] : idiom.exceptions) {
      EXPECT_TRUE(used.contains(path)) << path << " no longer " << idiom.name;
    }
  }
}

}  // namespace
}  // namespace talos
