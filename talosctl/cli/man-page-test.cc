#include "talosctl/cli/man-page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct ManPages : public ::testing::Test {
  kj::Own<Command> root = newRoot();
  kj::Vector<ManPage> pages;
  ManPages() {
    addCommands(*root);
    addAbsentCommands(*root);
    addExamples(*root);
    pages = manPages(*root, "v0.9.0");
  }
  ~ManPages() noexcept override {}

  std::string page(kj::StringPtr file) {
    for (auto& p : pages) {
      if (p.file == file) return p.text.cStr();
    }
    return "";
  }
};

TEST_F(ManPages, SayWhatTheHelpSays) {
  auto get = page("talosctl-get.1");
  EXPECT_THAT(get, StartsWith(".TH TALOSCTL\\-GET 1 \"\" \"talosctl v0.9.0\" \"Talos\"\n"
                              ".SH NAME\ntalosctl\\-get \\- Show resources of nodes\n"));
  EXPECT_THAT(get, HasSubstr("\n.B talosctl get\n<type> [<id>] [\\fIflags\\fR]\n"));
  EXPECT_THAT(get, HasSubstr("\n.TP\n.B \\-w, \\-\\-watch\nwatch for changes\n"));
  EXPECT_THAT(get, HasSubstr(".SH GLOBAL OPTIONS\n"));
  EXPECT_THAT(get, HasSubstr("(default 30s)"));
  EXPECT_THAT(get, HasSubstr("\n.SH EXAMPLES\n.nf\ntalosctl \\-n 10.0.0.2 get members\ntalosctl "));
  EXPECT_THAT(get, HasSubstr(".SH SEE ALSO\n.BR talosctl (1)\n"));
  EXPECT_THAT(get,
              HasSubstr(".SH EXIT STATUS\n0 on success and when interrupted, 1 on any error."));
  EXPECT_THAT(page("talosctl-reboot.1"),
              HasSubstr(".SH EXIT STATUS\n0 on success, 1 on any error, 130 when interrupted."));
  EXPECT_THAT(page("talosctl-config.1"),
              HasSubstr(".TP\n.BR talosctl\\-config\\-merge (1)\nMerge the contexts"));
  EXPECT_EQ(page("talosctl-recover.1"), "");  // hidden
}

// Catches: text that roff takes for a request, an undefined macro, a page without its parts.
TEST_F(ManPages, AreValidRoff) {
  const std::set<std::string> macros = {".TH", ".SH", ".TP", ".B", ".BR", ".PP", ".nf", ".fi"};
  EXPECT_GT(pages.size(), 60u);
  for (auto& p : pages) {
    SCOPED_TRACE(p.file.cStr());
    std::string text = p.text.cStr();
    for (auto part : {"NAME", "SYNOPSIS", "DESCRIPTION", "GLOBAL OPTIONS", "EXIT STATUS"}) {
      EXPECT_THAT(text, HasSubstr(std::string(".SH ") + part + "\n"));
    }
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_NE(line, "");
      EXPECT_NE(line[0], '\'');
      if (line[0] == '.') EXPECT_TRUE(macros.contains(line.substr(0, line.find(' ')))) << line;
      for (size_t i = 0; i < line.size(); ++i) {
        if (line[i] != '\\') continue;
        EXPECT_NE(std::string("-e&f").find(line[++i]), std::string::npos) << line;
      }
    }
  }
}

}  // namespace
}  // namespace talos::talosctl
