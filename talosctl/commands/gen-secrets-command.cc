// gen secrets: the secrets of a new cluster as a file, for `gen config --with-secrets`
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/config/secrets-bundle.h"

namespace talos::talosctl {

namespace {

kj::Promise<int> runGenSecrets(Invocation& call) {
  auto path = call.text("output-file");
  if (!call.on("force") && access(path.cStr(), F_OK) == 0) {
    fail(ErrorKind::kConflict,
         kj::str(path, " exists already; --force replaces it and the secrets in it"));
  }
  auto folder = call.text("from-kubernetes-pki");
  auto secrets = config::makeSecrets({.talosVersion = call.text("talos-version")});
  if (call.given("from-kubernetes-pki")) {
    config::adoptKubernetesPki(
        secrets, [&](kj::StringPtr name) { return readFile(kj::str(folder, "/", name)); });
  }
  if (call.given("kubernetes-bootstrap-token"))
    config::adoptBootstrapToken(secrets, call.text("kubernetes-bootstrap-token"));
  auto text = config::writeSecrets(secrets);
  KJ_DEFER(zeroize(text));
  writeFileAtomically(path, text, 0600);
  call.out(kj::str("created ", path, "\n"));
  return 0;
}

}  // namespace

void addSecretsCommand(Command& root) {
  auto& gen = KJ_ASSERT_NONNULL(root.child("gen"));
  auto& secrets = gen.add("secrets", "Generate the secrets of a new cluster");
  secrets.details =
      "\"gen config --with-secrets\" makes the same cluster of them again. The file is readable by "
      "its owner only.";
  secrets.flag({.name = "output-file",
                .letter = "o",
                .kind = FlagKind::kText,
                .fallback = "secrets.yaml",
                .help = "where to write"});
  secrets.flag({.name = "talos-version",
                .kind = FlagKind::kText,
                .help = "be understood by this version, as v0.8"});
  secrets.flag({.name = "from-kubernetes-pki",
                .letter = "p",
                .kind = FlagKind::kText,
                .help = "folder with the authorities of a cluster of kubeadm, to take over"});
  secrets.flag({.name = "kubernetes-bootstrap-token",
                .letter = "t",
                .kind = FlagKind::kText,
                .help = "token of that cluster, to take over"});
  secrets.flag({.name = "force", .help = "replace an existing file"});
  secrets.run = runGenSecrets;
}

}  // namespace talos::talosctl
