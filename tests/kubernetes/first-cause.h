// The first cause that `talosctl diagnose` prints, and its remedy as a command line that a test
// types.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/harness/process.h"

namespace talos {

struct FirstCause {
  std::string check, layer, confidence, remedy, text;
};
// Reads the output of `diagnose -o json`; the fields are empty if nothing was found.
FirstCause firstOf(const harness::Result& answer);

// How what was made wrong becomes well again.
enum class Cure {
  kUndone,    // the fault is taken back: the remedy only shows more, or leaves a choice
  kTyped,     // the remedy is typed as it is printed
  kFilledIn,  // the remedy is typed with the operator's part of it
};
const char* nameOf(Cure cure);

// The operator's part of a remedy.
struct Answers {
  std::map<std::string, std::string> placeholders;  // values by the text between < and >
  std::string editor = {};                          // changes the file of an `edit`
};

// Returns the remedy as a command line of a shell, where a comment is no harm.
std::string lineOf(std::string remedy, const Answers& answers);

// Returns a command without the node that it calls, and without flags of time.
std::string textOf(const std::vector<std::string>& words);

// Returns true if DIAGNOSE is "all" or has the name of the illness; without DIAGNOSE, if the
// illness is tried `always`.
bool isChosen(const char* name, bool always);

}  // namespace talos
