// kubeconfig
#include "common/text/foreign-text.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/kube/connect-kubernetes.h"
#include "talosctl/kube/kube-commands.h"
#include "talosctl/kube/kubeconfig-file.h"

namespace talos::talosctl {
namespace {

// Asks until the user gives a valid answer.
kj::Promise<kube::MergeChoice> askWhich(Invocation& call, const kube::MergeKind& kind,
                                        kj::StringPtr name) {
  constexpr size_t kMostAnswer = 16;
  for (;;) {
    call.err(
        kj::str(kind.asked, " \"", printableText(name), "\" already exists [rename/overwrite]: "));
    auto line = co_await readLine(call.deps, kMostAnswer);
    if (line == nullptr) fail(ErrorKind::kFailedPrecondition, "not answered; nothing was written");
    auto& said = KJ_ASSERT_NONNULL(line);
    if (said == "r" || said == "rename") co_return kube::MergeChoice::kRename;
    if (said == "o" || said == "overwrite") co_return kube::MergeChoice::kOverwrite;
  }
}

// Fetches the kubeconfig of the node, with the host of --endpoint as its server.
kj::Promise<kube::ReceivedKubeconfig> fetchForHost(Invocation& call, Session& session) {
  auto received =
      co_await fetchKubeconfig(session.client, session.client.nodes()[0], session.deadline);
  auto host = call.text("endpoint");
  co_return host.size() > 0 ? throughHost(kj::mv(received), host) : kj::mv(received);
}

// Handles "-": prints only the cluster's kubeconfig on standard output.
kj::Promise<int> printKubeconfig(Invocation& call) {
  if ((call.given("merge") && call.on("merge")) || call.given("force-context-name")) {
    failUsage("standard output cannot be merged into; leave out --merge and --force-context-name");
  }
  if (formatOf(call) != Format::kTable) failUsage("a kubeconfig is YAML; leave out --output");
  auto session = co_await openSingle(call);
  auto received = co_await fetchForHost(call, *session);
  call.outBytes(kj::StringPtr(received.text()));
  co_return 0;
}

}  // namespace

kj::Promise<int> runKubeconfig(Invocation& call) {
  if (call.given("endpoint")) checkHost(call.text("endpoint"), "endpoint");
  if (call.arguments.size() > 0 && call.arguments[0] == "-") {
    co_return co_await printKubeconfig(call);
  }
  if (call.given("force-context-name") && !call.on("merge")) {
    failUsage("--force-context-name names the context when merging; it needs --merge");
  }
  KubeconfigTarget target;
  target.merge = call.on("merge");
  target.force = call.on("force");
  target.contextName = kj::str(call.text("force-context-name"));
  auto home = call.deps.environment("HOME");
  auto given = call.arguments.size() > 0 ? kj::StringPtr(call.arguments[0]) : ""_kj;
  auto list = call.deps.environment("KUBECONFIG").orDefault(kj::str());
  target.path = kubeconfigPath(
      given, target.merge, home.map([](kj::String& text) { return kj::StringPtr(text); }), list);
  auto path = kj::str(target.path);
  auto session = co_await openSingle(call);
  auto received = co_await fetchForHost(call, *session);
  auto decide = [&call, force = target.force](
                    const kube::MergeKind& kind,
                    kj::StringPtr name) -> kj::Promise<kube::MergeChoice> {
    if (force) return kube::MergeChoice::kOverwrite;
    auto& console = call.deps.console;
    bool seen = console.outIsTerminal() && console.errIsTerminal() && console.inIsTerminal();
    if (!seen) return kube::MergeChoice::kRename;
    return askWhich(call, kind, name);
  };
  auto stored =
      co_await storeKubeconfig(call.deps.timer, kj::mv(target), kj::mv(received), kj::mv(decide));
  for (auto& entry : stored.replaced) call.err(printableText(kj::str(entry, "\n")));
  printDone(call, session->client.nodes()[0],
            {{"path"_kj, jsonString(path)}, {"notes"_kj, jsonList(stored.renames)}});
  if (formatOf(call) == Format::kTable) {
    for (auto& rename : stored.renames) call.out(printableText(kj::str(rename, "\n")));
    call.done = kj::str(call.on("merge") ? "merged into " : "wrote ", path);
  }
  co_return 0;
}

void addKubeconfigCommand(Command& root) {
  auto& command = root.add("kubeconfig", "Fetch an admin kubeconfig from a control-plane node");
  command.arguments = "[<local-path> | -]", command.most = 1;
  command.details =
      "Merged into the first file of $KUBECONFIG, else into ~/.kube/config, or into the file at "
      "the "
      "path; with --merge=false written to ./kubeconfig or to the path. In a directory the file is "
      "called kubeconfig. Works before "
      "Kubernetes does.";
  command.flag({.name = "endpoint",
                .kind = FlagKind::kText,
                .help = "host of the Kubernetes API, port 6443 (default: that of the cluster; of a "
                        "local cluster the address of this host that leads to it)"});
  command.flag({.name = "force",
                .letter = "f",
                .help = "replace an existing file or, when merging, existing entries"});
  command.flag({.name = "merge",
                .letter = "m",
                .fallback = "true",
                .help = "merge with an existing kubeconfig"});
  command.flag({.name = "force-context-name",
                .kind = FlagKind::kText,
                .help = "name of the context when merging"});
  addOutputFlag(command);
  command.run = runKubeconfig;
}

}  // namespace talos::talosctl
