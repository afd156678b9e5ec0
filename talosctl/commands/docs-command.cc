// docs <folder>: man pages
#include "common/base/file.h"
#include "talosctl/cli/client-version.h"
#include "talosctl/cli/man-page.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

kj::Promise<int> runDocs(Invocation& call) {
  auto& folder = call.arguments[0];
  makeDirectories(folder, 0755);
  for (auto& page : manPages(call.root, clientVersion().tag)) {
    writeFileAtomically(kj::str(folder, "/", page.file), page.text, 0644);
    call.out(kj::str(folder, "/", page.file, "\n"));
  }
  return 0;
}

}  // namespace

void addDocsCommand(Command& root) {
  auto& docs = root.add("docs", "Write the man pages of all commands");
  docs.arguments = "<folder>";
  docs.least = docs.most = 1;
  docs.hidden = true;
  docs.details = "To read one: man -l FOLDER/talosctl-get.1";
  docs.run = runDocs;
}

}  // namespace talos::talosctl
