// The table of commands as the program has it, and for each command words that its parser takes:
// made from the table, so a new command is in every test of this folder by itself.
#pragma once

#include <string>
#include <vector>

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Adds what main.cc adds.
void addWholeTable(Command& root);

struct Leaf {
  const Command* command;
  std::vector<std::string> path;       // "etcd", "alarm", "list"
  std::vector<std::string> arguments;  // the least of them
  std::vector<std::string> flags;      // those that are required
  std::string name;                    // "etcd alarm list"

  std::vector<std::string> line() const;  // all of them
  // True when it calls nodes; those that do not are listed in command-words.cc.
  bool talksToNodes() const;
  // True when it changes this host: virtual machines, networks, files outside of this folder.
  bool actsOnHost() const;
  const Flag* flag(kj::StringPtr name) const;
};

// Every command that can be run, hidden ones too, but not those that are absent.
std::vector<Leaf> leavesOf(const Command& root);
// Every command and group.
std::vector<const Command*> commandsOf(const Command& root);

}  // namespace talos::talosctl
