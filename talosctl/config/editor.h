// Runs the user's editor on a text that holds secrets.
//
// The text is in a file that only the user can read, in a folder that only the user can enter
// (which also protects the editor's own copies). The Draft's destructor removes both, unless keep()
// was called; only SIGKILL and SIGQUIT leave them in place, in a folder that begins with
// "talosctl-edit-".
#pragma once

#include "common/base/problem.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Returns TALOS_EDITOR, EDITOR or vi; with arguments, as a shell reads them. FailedPrecondition if
// neither variable is set and there is no terminal for vi. A program that a variable names runs
// without a terminal, because scripts let such a program change the text, as they do with kubectl.
kj::String editorOf(Dependencies& deps);

class Draft {
 public:
  // Creates the folder below TMPDIR, otherwise XDG_RUNTIME_DIR (which is in memory), otherwise
  // /tmp. `name`: name of the file.
  Draft(Dependencies& deps, kj::StringPtr name);
  ~Draft() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Draft);

  // Writes the file, runs the editor to its end, and reads the file. Rejects if the editor fails.
  // The editor has the terminal meanwhile.
  kj::Promise<kj::String> edit(kj::StringPtr editor, kj::StringPtr text);

  // Keeps the folder, with this text in the file, and returns the file's path.
  kj::StringPtr keep(kj::StringPtr text);

 private:
  Dependencies& deps;
  kj::String folder, file;
  bool kept = false;
};

// --- pure: the comments above the text

// Returns the comments above the text, one for each of `lines`. Each ends with a newline.
kj::String asComments(kj::ArrayPtr<const kj::String> lines);
// Returns the text without those lines of `comments` that are still at its top.
kj::String withoutComments(kj::StringPtr text, kj::StringPtr comments);
// Returns true if only blanks and comments are left.
bool isBlank(kj::StringPtr text);
// Compares the texts without newlines at the end, which many editors add.
bool sameText(kj::StringPtr a, kj::StringPtr b);

}  // namespace talos::talosctl
