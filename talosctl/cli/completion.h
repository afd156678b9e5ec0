// Shell completion: candidates for the word that a user types, and the scripts of shells that ask
// for them.
//
// The scripts hold no table. They call `talosctl __complete -- WORD...`, which prints a candidate a
// line, with a tab and its help where it has one, and `:files` in the place of names of local
// files. The table of commands answers here, purely; what it cannot know (names of nodes, services,
// files of a node) is named by Source, and talosctl/commands/complete-command.cc asks for it.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

struct Candidate {
  kj::String word;
  kj::String help;
};

// Names that complete the candidates.
enum class Source {
  kNothing,
  kLocalFiles,
  kNodes,      // of the context
  kEndpoints,  // of the context
  kContexts,
  kTypes,      // of resources
  kServices,   // of the node
  kLogs,       // of the node: services and other logs
  kNodeFiles,  // of the node
};

struct Completion {
  kj::Vector<Candidate> candidates;  // each begins with the word that is typed
  Source source = Source::kNothing;
  kj::String typed;  // what the others must begin with
  kj::String ahead;  // in front of them, such as "--output="
  // Values of the flags that say which node would be asked: --nodes, --endpoints, --context,
  // --talosconfig.
  struct FlagValue {
    kj::StringPtr flag;
    kj::String value;
  };
  kj::Vector<FlagValue> connection;
};

// `words`: those behind the program's name; the last one is being typed and may be empty.
Completion completionFor(const Command& root, kj::ArrayPtr<const kj::StringPtr> words);

constexpr kj::StringPtr kShells[] = {"bash"_kj, "zsh"_kj, "fish"_kj, "powershell"_kj};
// For one of kShells; how to load it is its first line.
kj::String completionScript(kj::StringPtr shell);

}  // namespace talos::talosctl
