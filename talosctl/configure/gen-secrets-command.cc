// gen secrets: the secrets of a new cluster as a file, for `gen config --with-secrets`
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "talosctl/config/secrets-bundle.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/configure-commands.h"

namespace talos::talosctl {

namespace {

config::Secrets secretsToStartWith(Invocation& call) {
  if (!call.given("from-controlplane-config"))
    return config::makeSecrets({.talosVersion = call.text("talos-version")});
  auto file = call.text("from-controlplane-config");
  auto config = readFile(file);
  KJ_DEFER(zeroize(config));
  kj::Vector<kj::String> warnings;
  auto secrets = config::secretsFrom(config, file, warnings);
  printWarnings(call, warnings);
  return secrets;
}

kj::Promise<int> runGenSecrets(Invocation& call) {
  auto path = call.text("output-file");
  refuseExisting(call, path);
  auto folder = call.text("from-kubernetes-pki");
  if (call.given("from-controlplane-config") && call.given("from-kubernetes-pki"))
    failUsage("--from-controlplane-config and --from-kubernetes-pki cannot be used together");
  if (call.given("from-controlplane-config") && call.given("talos-version"))
    failUsage("--from-controlplane-config and --talos-version cannot be used together");
  auto secrets = secretsToStartWith(call);
  if (call.given("from-kubernetes-pki")) {
    config::adoptKubernetesPki(
        secrets, [&](kj::StringPtr name) { return readFile(kj::str(folder, "/", name)); });
  }
  if (call.given("kubernetes-bootstrap-token")) {
    kj::Vector<kj::String> warnings;
    config::adoptBootstrapToken(secrets, call.text("kubernetes-bootstrap-token"), warnings);
    printWarnings(call, warnings);
  }
  auto text = config::writeSecrets(secrets);
  KJ_DEFER(zeroize(text));
  writePrivateFile(path, text);
  call.wrote(path);
  return 0;
}

}  // namespace

void addSecretsCommand(Command& root) {
  auto& gen = KJ_ASSERT_NONNULL(root.child("gen"));
  auto& secrets = gen.add("secrets", "Generate the secrets of a new cluster");
  secrets.details =
      "With \"gen config --with-secrets\" the same cluster can be generated again. The file is "
      "readable by its owner only.";
  secrets.flag({.name = "output-file",
                .letter = "o",
                .kind = FlagKind::kText,
                .fallback = "secrets.yaml",
                .help = "file to write"});
  secrets.flag({.name = "talos-version",
                .kind = FlagKind::kText,
                .help = "generate what this version understands, such as v0.8"});
  secrets.flag({.name = "from-controlplane-config",
                .kind = FlagKind::kText,
                .help = "take the secrets of the cluster of this control-plane config"});
  secrets.flag({.name = "from-kubernetes-pki",
                .letter = "p",
                .kind = FlagKind::kText,
                .help = "import the CAs of a kubeadm cluster from this folder"});
  secrets.flag({.name = "kubernetes-bootstrap-token",
                .letter = "t",
                .kind = FlagKind::kText,
                .help = "import this bootstrap token; also the command that \"kubeadm token create "
                        "--print-join-command\" prints, or a line of \"kubeadm token list\""});
  secrets.run = runGenSecrets;
}

}  // namespace talos::talosctl
