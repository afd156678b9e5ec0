// The program's table of commands, and for each command words that its parser accepts. The words
// are made from the table, so that every test of this folder includes a new command.
#pragma once

#include <string>
#include <vector>

#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Adds the commands that main.cc adds.
void addWholeTable(Command& root);

struct Leaf {
  const Command* command;
  std::vector<std::string> path;       // "etcd", "alarm", "list"
  std::vector<std::string> arguments;  // least arguments that it needs
  std::vector<std::string> flags;      // required flags
  std::string name;                    // "etcd alarm list"

  std::vector<std::string> line() const;  // all of them
  // Returns true if the command calls nodes; the others are listed in command-words.cc.
  bool talksToNodes() const;
  // Returns true if it changes this host: virtual machines, networks, files outside of this folder.
  bool actsOnHost() const;
  const Flag* flag(kj::StringPtr name) const;
};

// Returns every command that can be run, including hidden ones, but not absent ones.
std::vector<Leaf> leavesOf(const Command& root);
// Returns every command and group.
std::vector<const Command*> commandsOf(const Command& root);

}  // namespace talos::talosctl
