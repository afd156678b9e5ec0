// Shell completion: candidates for the word that a user types, and the shell scripts that request
// them.
//
// The scripts hold no table. They call `talosctl __complete -- WORD...`, which prints one candidate
// per line, followed by a tab and its help if it has help, and `:files` to request names of local
// files. This unit answers from the table of commands and is pure. Source names what the table does
// not know (names of nodes and services, files of a node); talosctl/commands/complete-command.cc
// requests these names.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

struct Candidate {
  kj::String word;
  kj::String help;
};

// Names beyond the table of commands that complete the candidates.
enum class Source {
  kNothing,
  kLocalFiles,
  kNodes,      // nodes of the context
  kEndpoints,  // endpoints of the context
  kContexts,
  kTypes,        // types of resources
  kServices,     // services of the node
  kLogs,         // services and other logs of the node
  kNodeFiles,    // paths of files on the node
  kContainers,   // containers of the node
  kTokens,       // ids of the cluster's join tokens
  kCrashes,      // names of the node's crash reports
  kClusters,     // local clusters
  kResourceIds,  // ids of the resources of a type
};

struct Completion {
  kj::Vector<Candidate> candidates;  // candidates that begin with the typed word
  Source source = Source::kNothing;
  kj::String typed;  // prefix that names from the sources must have
  kj::String ahead;  // text before these names, such as "--output="
  // Values of the flags that select the node for the request: --nodes, --endpoints, --context,
  // --talosconfig.
  struct FlagValue {
    kj::StringPtr flag;
    kj::String value;
  };
  kj::Vector<FlagValue> connection;
  kj::Vector<kj::String> arguments;  // those before the typed word
  bool kubernetes = false;           // --kubernetes is given
};

// Completes `words`, which exclude the program's name; the last word is being typed and may be
// empty.
Completion completionFor(const Command& root, kj::ArrayPtr<const kj::StringPtr> words);

constexpr kj::StringPtr kShells[] = {"bash"_kj, "zsh"_kj, "fish"_kj, "powershell"_kj};
// Returns the script for a shell of kShells; its first line says how to load it.
kj::String completionScript(kj::StringPtr shell);

}  // namespace talos::talosctl
