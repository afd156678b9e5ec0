// inject serviceaccount
#include "common/base/error.h"
#include "common/kube/json-yaml.h"
#include "common/wire/roles.h"
#include "talosctl/cli/help.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/kube/inject-account.h"
#include "talosctl/kube/kube-commands.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostManifestBytes = 8u << 20;

kj::Promise<int> runInject(Invocation& call) {
  auto file = call.text("file");
  auto roles = call.list("roles");
  if (roles.size() == 0) failUsage("no role given; leave out --roles for os:reader");
  checkClientRoles(roles, "--roles");
  auto text = co_await readFileOrInput(call.deps, file, kMostManifestBytes);
  auto name = nameOfInput(file);
  kj::Maybe<InjectedManifests> injected;
  auto failure = kj::runCatchingExceptions(
      [&] { injected = injectAccounts(kube::readYaml(text, name), roles); });
  KJ_IF_MAYBE (e, failure) {
    auto message = messageOf(*e);
    // A YAML error already contains the file's name.
    if (!message.startsWith(name)) message = kj::str(name, ": ", message);
    fail(kindOf(*e), message);
  }
  auto& result = KJ_ASSERT_NONNULL(injected);
  for (auto& document : result.documents) {
    call.out(kj::str(kube::writeYaml(document), "---\n"));
  }
  if (result.accounts == 0) {
    call.err(kj::str("no object in ", name, " runs pods; nothing was injected\n"));
  }
  co_return 0;
}

}  // namespace

void addInjectCommand(Command& root) {
  auto& group = root.add("inject", "Give manifests of Kubernetes access to the machine API");
  auto& command =
      group.add("serviceaccount", "Add a ServiceAccount of talos.dev to the pods of manifests");
  command.aliases = {"tsa"};
  command.details =
      "Prints the manifests with an account for each object that runs pods, and its Secret as a "
      "volume of all containers. There talosctl finds its client configuration. The nodes must "
      "allow it: machine.features.kubernetesTalosAPIAccess.";
  command.flag({.name = "file",
                .letter = "f",
                .kind = FlagKind::kText,
                .help = "file with the manifests, or - for standard input",
                .required = true});
  command.flag({.name = "roles",
                .letter = "r",
                .kind = FlagKind::kList,
                .fallback = "os:reader",
                .help = "roles of the accounts"});
  command.run = runInject;
}

}  // namespace talos::talosctl
