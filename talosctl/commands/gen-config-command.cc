// gen config <cluster name> <endpoint>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/config/generate.h"
#include "common/memory/zeroize.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/apply-configs.h"
#include "talosctl/commands/gen-config-on-node.h"
#include "talosctl/config/patches.h"
#include "talosctl/config/secrets-bundle.h"

namespace talos::talosctl {

namespace {

struct File {
  kj::StringPtr name;
  kj::StringPtr content;
};

void patch(kj::String& text, kj::ArrayPtr<const Patch> patches) {
  auto patched = applyPatches(text, "the generated config", patches);
  zeroize(text);
  text = kj::mv(patched);
}

kj::Promise<config::Generated> generate(Invocation& call, const config::GenerateOptions& options) {
  if (isInsecure(call)) return generateOnNode(call, options.installImage);
  auto cluster = kj::StringPtr(call.arguments[0]), endpoint = kj::StringPtr(call.arguments[1]);
  if (call.given("with-secrets")) {
    auto file = call.text("with-secrets");
    auto text = readFile(file);
    KJ_DEFER(zeroize(text));
    return config::generate(config::readSecrets(text, file), cluster, endpoint, options);
  }
  call.out("generating PKI and tokens\n");
  return config::generate(cluster, endpoint, options);
}

kj::String installImage(Invocation& call) {
  auto image = kj::str(call.text("install-image"));
  if (image.size() > 0) return image;
  auto tag = call.deps.environment("TAG").orDefault(kj::str());
  if (tag.size() == 0) return image;
  return kj::str("ghcr.io/talos-systems/installer:", tag);
}

kj::Promise<int> runGenConfig(Invocation& call) {
  if (call.text("version") != "v1alpha1") {
    fail(ErrorKind::kInvalidArgument,
         kj::str("--version: \"", call.text("version"),
                 "\" is not a valid version of machine configs; use v1alpha1"));
  }
  config::checkEndpoint(call.arguments[1]);
  auto folder = call.given("output-dir") ? kj::str(call.text("output-dir")) : kj::str(".");
  if (folder.size() == 0) fail(ErrorKind::kInvalidArgument, "--output-dir must not be empty");
  auto pathOf = [&](kj::StringPtr name) {
    return folder == "." ? kj::str(name) : kj::str(folder, "/", name);
  };
  // The files hold the only copy of a cluster's secrets: never replace them by accident.
  for (kj::StringPtr name : {"init.yaml", "controlplane.yaml", "join.yaml", "talosconfig"}) {
    if (!call.on("force") && access(pathOf(name).cStr(), F_OK) == 0) {
      fail(ErrorKind::kConflict,
           kj::str(pathOf(name),
                   " already exists; use --force to replace it and the secrets in it"));
    }
  }

  auto image = installImage(call);
  config::GenerateOptions options{.installDisk = call.text("install-disk"),
                                  .installImage = image,
                                  .additionalSans = call.list("additional-sans"),
                                  .dnsDomain = call.text("dns-domain"),
                                  .talosVersion = call.text("talos-version"),
                                  .kubernetesVersion = call.text("kubernetes-version"),
                                  .registryMirrors = call.list("registry-mirror"),
                                  .persist = call.on("persist"),
                                  .docs = call.on("with-docs"),
                                  .examples = call.on("with-examples")};
  RolePatches patches(call);  // fails on an unreadable file before keys are generated
  auto made = co_await generate(call, options);
  KJ_DEFER({
    for (auto* text : {&made.init, &made.controlplane, &made.join, &made.talosconfig})
      zeroize(*text);
  });
  for (auto* text : {&made.init, &made.controlplane}) {
    patch(*text, patches.all);
    patch(*text, patches.controlPlane);
  }
  patch(made.join, patches.all);
  patch(made.join, patches.join);
  for (auto& file : {File{"init.yaml", made.init}, File{"controlplane.yaml", made.controlplane},
                     File{"join.yaml", made.join}}) {
    KJ_IF_MAYBE (mistakes, mistakesOf(file.content, kj::str("the patched ", file.name)))
      fail(ErrorKind::kInvalidArgument, *mistakes);
  }
  makeDirectories(folder);
  for (auto& file : {File{"init.yaml", made.init}, File{"controlplane.yaml", made.controlplane},
                     File{"join.yaml", made.join}, File{"talosconfig", made.talosconfig}}) {
    writeFileAtomically(pathOf(file.name), file.content, 0600);
    call.out(kj::str("created ", pathOf(file.name), "\n"));
  }
  co_return 0;
}

}  // namespace

void addGenerateCommands(Command& root) {
  auto& gen = root.add("gen", "Generate configurations, keys and certificates");
  auto& config = gen.add(
      "config", "Generate the machine configs and the client configuration of a new cluster");
  config.arguments = "<cluster name> <https endpoint>";
  config.least = config.most = 2;
  config.details = "The files hold secrets and are readable by their owner only.";
  auto text = [&](kj::StringPtr name, kj::StringPtr fallback, kj::StringPtr help,
                  FlagKind kind = FlagKind::kText) {
    config.flag({.name = name, .kind = kind, .fallback = fallback, .help = help});
  };
  text("install-disk", "/dev/sda", "disk to install to");
  text("install-image", "", "installer image (default: that of this version)");
  text("additional-sans", "", "additional names for the certificate of the Kubernetes API",
       FlagKind::kList);
  text("dns-domain", "cluster.local", "DNS domain of the cluster");
  text("version", "v1alpha1", "version of the machine config format");
  text("talos-version", "", "generate what this version understands, such as v0.8");
  text("kubernetes-version", "", "Kubernetes version of the images, such as 1.20.6");
  text("registry-mirror", "", "host=URL: pull the images of this registry from URL",
       FlagKind::kList);
  config.flag({.name = "persist",
               .letter = "p",
               .fallback = "true",
               .help = "keep the config on the node's disk"});
  text("with-secrets", "", "use the CAs and tokens of this file from \"gen secrets\"");
  config.flag({.name = "with-docs",
               .fallback = "true",
               .help = "add the description of each key as a comment"});
  config.flag({.name = "with-examples",
               .fallback = "true",
               .help = "add an example for each absent key as a comment"});
  RolePatches::addFlags(config);
  addInsecureFlags(config);
  config.flag({.name = "output-dir",
               .letter = "o",
               .kind = FlagKind::kText,
               .help = "folder to write to (default: the current one)"});
  config.flag({.name = "force", .help = "replace existing files"});
  config.patience = 2 * kj::MINUTES;  // with --insecure; a slow node needs time for the keys
  config.run = runGenConfig;
}

}  // namespace talos::talosctl
