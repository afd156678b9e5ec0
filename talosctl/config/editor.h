// The user's editor on a text that holds secrets.
//
// The text lies in a file that only the user can read, in a folder that only the user can enter (an
// editor's own copies lie there too), and both are gone when the Draft is, however that comes,
// unless it was told to keep them; only SIGKILL and SIGQUIT leave them behind, in a folder that
// begins with "talosctl-edit-".
#pragma once

#include "common/base/problem.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// TALOS_EDITOR, EDITOR or vi; with arguments, as a shell reads them.
kj::String editorOf(World& world);

class Draft {
 public:
  // Below TMPDIR, else XDG_RUNTIME_DIR (which is in memory), else /tmp. `name` of the file.
  Draft(World& world, kj::StringPtr name);
  ~Draft() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Draft);

  // Writes it, runs the editor to its end, and reads it. Rejects when the editor fails. The
  // terminal is lent to it meanwhile.
  kj::Promise<kj::String> edit(kj::StringPtr editor, kj::StringPtr text);

  // The folder stays, with this text in the file, whose path is returned: for the user.
  kj::StringPtr keep(kj::StringPtr text);

 private:
  World& world;
  kj::String folder, file;
  bool kept = false;
};

// --- pure: the comments above the text

// What stands above the text: `lines` as comments, and below them what is wrong with it. Each ends
// with a newline.
kj::String asComments(kj::ArrayPtr<const kj::String> lines);
// The text without those lines of `comments` that are still at its top.
kj::String withoutComments(kj::StringPtr text, kj::StringPtr comments);
// Whether nothing but blanks and comments is left.
bool isBlank(kj::StringPtr text);
// The same but for newlines at the end, which many editors add.
bool sameText(kj::StringPtr a, kj::StringPtr b);

}  // namespace talos::talosctl
