// completion, help; docs <folder>: man pages
#include "common/base/file.h"
#include "talosctl/cli/client-version.h"
#include "talosctl/cli/completion.h"
#include "talosctl/cli/help.h"
#include "talosctl/cli/man-page.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

kj::Promise<int> runCompletion(Invocation& call) {
  auto& shell = call.arguments[0];
  for (auto known : kShells) {
    if (known != shell) continue;
    call.out(completionScript(known));
    return 0;
  }
  failUsage(kj::str("unsupported shell \"", shell, "\"; use bash, zsh, fish or powershell"));
}

kj::Promise<int> runHelp(Invocation& call) {
  auto* at = const_cast<Command*>(&call.root);
  for (auto& argument : call.arguments) {
    KJ_IF_MAYBE (next, at->child(argument)) {
      at = next;
    } else {
      failUsage(kj::str("unknown command \"", argument, "\" for \"", at->path(), "\""));
    }
  }
  call.out(helpText(*at, helpColumns(call.deps)));
  return 0;
}

}  // namespace

void addShellCommands(Command& root) {
  auto& completion = root.add("completion", "Print a completion script for a shell");
  completion.arguments = "<bash | zsh | fish | powershell>";
  completion.least = completion.most = 1;
  completion.argumentChoices = {{std::begin(kShells), std::end(kShells)}};
  completion.details =
      "To load it in bash: source <(talosctl completion bash); for other shells see the first "
      "lines of the script. It offers commands, flags, nodes, services, types of resources, and "
      "files of the node that --nodes or the context names.";
  completion.run = runCompletion;

  auto& help = root.add("help", "Show help for a command");
  help.arguments = "[command...]";
  help.most = kj::maxValue;
  help.run = runHelp;
}

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
