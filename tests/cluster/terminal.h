// A program of a cluster's user in a terminal, as a person has it: a separate tmux server.
#pragma once

#include <string>
#include <vector>

#include "tests/harness/cluster.h"

namespace talos {

constexpr double kShows = 180;  // s, beside other tests

class Terminal {
 public:
  // Runs talosctl with these arguments. `name` tells this terminal from others of the test's
  // cluster.
  Terminal(const harness::Cluster& cluster, const std::string& name, const std::string& columns,
           const std::string& rows, std::vector<std::string> arguments);
  ~Terminal();
  Terminal(const Terminal&) = delete;

  std::string screen() const { return tmux({"capture-pane", "-p", "-t", "it"}).out; }
  void press(const std::string& key) const { tmux({"send-keys", "-t", "it", key}); }
  // Waits until the screen matches, or fails the test with the screen after `deadline` seconds.
  // Returns the seconds that it took, and the first group of the pattern.
  struct Shown {
    double seconds;
    std::string group;
  };
  Shown shows(const std::string& pattern, double deadline = kShows) const;

 private:
  std::string socket;
  harness::Result tmux(std::vector<std::string> arguments) const;
};

}  // namespace talos
