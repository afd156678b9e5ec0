#include "tests/cluster/terminal.h"

#include <gtest/gtest.h>

#include <chrono>
#include <regex>
#include <stdexcept>

namespace talos {

Terminal::Terminal(const harness::Cluster& cluster, const std::string& name,
                   const std::string& columns, const std::string& rows,
                   std::vector<std::string> arguments)
    : socket(cluster.folder() + "/tmux-" + name) {
  std::string command;
  for (auto& word : cluster.command(std::move(arguments))) command += "'" + word + "' ";
  // The first Ctrl-C would be tmux' own otherwise; and UTF-8 whatever the locale is.
  auto made =
      tmux({"-u", "-f", "/dev/null", "new-session", "-d", "-s", "it", "-x", columns, "-y", rows,
            "env TERM=screen-256color " + command + "; echo ended with $?; sleep 600"});
  EXPECT_EQ(made.status, 0) << made.err;
}

Terminal::~Terminal() {
  tmux({"kill-server"});
}

Terminal::Shown Terminal::shows(const std::string& pattern, double deadline) const {
  std::regex expression(pattern);
  auto began = std::chrono::steady_clock::now();
  Shown shown{};
  bool is = harness::eventually(
      [&] {
        auto text = screen();
        std::smatch match;
        if (!std::regex_search(text, match, expression)) return false;
        shown.group = match.size() > 1 ? match[1].str() : match[0].str();
        return true;
      },
      deadline, 0.05);
  if (!is) throw std::runtime_error("/" + pattern + "/ is not on\n" + screen());
  shown.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return shown;
}

harness::Result Terminal::tmux(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"tmux", "-S", socket});
  return harness::run(arguments, 20);
}

}  // namespace talos
