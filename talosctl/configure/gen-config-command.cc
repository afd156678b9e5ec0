// gen config <cluster name> <endpoint>
#include <sys/stat.h>

#include <filesystem>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "common/base/version.h"
#include "common/config/config-generate.h"
#include "common/config/kubernetes/kubernetes-images.h"
#include "common/memory/zeroize.h"
#include "common/talosconfig/talosconfig.h"
#include "rpc/configuration.capnp.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/config/patches.h"
#include "talosctl/config/secrets-bundle.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/configure-commands.h"

namespace talos::talosctl {

namespace {

struct File {
  kj::StringPtr name;
  kj::StringPtr content;
};

void patch(kj::String& text, kj::ArrayPtr<const Patch> patches, kj::Vector<kj::String>& warnings) {
  auto patched = applyPatches(text, "the generated config", patches, Patched::kGenerated, warnings);
  zeroize(text);
  text = kj::mv(patched);
}

kj::String takeDocument(capnp::List<rpc::GeneratedFile>::Reader documents, kj::StringPtr name) {
  for (auto document : documents) {
    if (document.getName() == name) return kj::heapString(document.getContent().asChars());
  }
  fail(ErrorKind::kInternal, kj::str("the node did not generate ", name));
}

void checkInsecureFlags(Invocation& call) {
  for (auto flag : {"talos-version", "registry-mirror", "persist", "with-secrets", "with-docs",
                    "with-examples"}) {
    if (call.given(flag)) {
      failUsage(
          kj::str("--", flag, " cannot be used with --insecure: the node generates the configs"));
    }
  }
}

// `gen config --insecure`: a node without a config generates the configs of a new cluster, for its
// own version. A usage error for flags that cannot be sent to the node. Throws if a document is
// missing. Uses only the identity of the node's talosconfig.
kj::Promise<config::Generated> generateOnNode(Invocation& call, kj::StringPtr installImage) {
  checkInsecureFlags(call);
  auto session = co_await openSession(call);
  auto generate =
      session->client.node("").configurationRequest().send().getConfiguration().generateRequest();
  auto request = generate.initRequest();
  request.setClusterName(call.arguments[0]);
  request.setEndpoint(call.arguments[1]);
  request.setInstallDisk(call.text("install-disk"));
  request.setInstallImage(installImage);
  request.setKubernetesVersion(call.text("kubernetes-version"));
  request.setDnsDomain(call.text("dns-domain"));
  auto names = call.list("additional-sans");
  fillTexts(request.initAdditionalSans(names.size()), names);
  kj::Promise<capnp::Response<rpc::Configuration::GenerateResults>> answer = generate.send();
  auto response = co_await within(call.deps.timer, session->deadline, kj::mv(answer));
  auto documents = response.getDocuments();
  auto talosconfig = takeDocument(documents, "talosconfig");
  KJ_DEFER(zeroize(talosconfig));
  auto identity =
      Talosconfig::parseReceived(talosconfig, "the talosconfig from the node", call.arguments[0]);
  identity.resolve().endpoints.clear();  // nodes of earlier releases name 127.0.0.1
  co_return config::Generated{takeDocument(documents, "init.yaml"),
                              takeDocument(documents, "controlplane.yaml"),
                              takeDocument(documents, "join.yaml"), identity.toYaml()};
}

kj::Promise<config::Generated> generate(Invocation& call, const config::GenerateOptions& options) {
  if (isInsecure(call)) return generateOnNode(call, options.installImage);
  auto cluster = kj::StringPtr(call.arguments[0]), endpoint = kj::StringPtr(call.arguments[1]);
  if (call.given("with-secrets")) {
    auto file = call.text("with-secrets");
    auto text = readFile(file);
    KJ_DEFER(zeroize(text));
    kj::Vector<kj::String> warnings;
    auto secrets = config::readSecrets(text, file, warnings);
    printWarnings(call, warnings);
    return config::generate(secrets, cluster, endpoint, options);
  }
  call.err("generating PKI and tokens\n");
  return config::generate(cluster, endpoint, options);
}

kj::String installImage(Invocation& call) {
  auto image = kj::str(call.text("install-image"));
  if (image.size() > 0) return image;
  auto tag = call.deps.environment("TAG").orDefault(kj::str());
  if (tag.size() == 0) return image;
  return kj::str(installerRepository(), ":", tag);
}

struct OutputType {
  kj::StringPtr name, file;
  kj::String config::Generated::* text;
};
constexpr OutputType kOutputTypes[] = {
    {"init"_kj, "init.yaml"_kj, &config::Generated::init},
    {"controlplane"_kj, "controlplane.yaml"_kj, &config::Generated::controlplane},
    {"join"_kj, "join.yaml"_kj, &config::Generated::join},
    {"worker"_kj, "worker.yaml"_kj, &config::Generated::join},
    {"talosconfig"_kj, "talosconfig"_kj, &config::Generated::talosconfig}};

struct Output {
  const OutputType& type;
  kj::String path;  // "-" for standard output
};

bool isFolder(kj::StringPtr path) {
  struct stat found;
  return path.endsWith("/") || (stat(path.cStr(), &found) == 0 && S_ISDIR(found.st_mode));
}

kj::StringPtr placeOf(Invocation& call) {
  if (call.given("output") && call.given("output-dir")) {
    failUsage("--output-dir is --output under its earlier name; use one of them");
  }
  for (auto flag : {"output"_kj, "output-dir"_kj}) {
    if (!call.given(flag)) continue;
    if (call.text(flag).size() == 0) failUsage(kj::str("--", flag, " must not be empty"));
    return call.text(flag);
  }
  return "."_kj;
}

// Returns the files to write. Several types go to a folder; a single type goes to an existing
// folder, a file, or standard output.
kj::Vector<Output> outputsOf(Invocation& call) {
  auto place = placeOf(call);
  auto types = call.list("output-types");
  if (types.size() == 0) failUsage("at least one output type must be specified");
  if (place == "-" && types.size() > 1) failUsage("can't use multiple output types with stdout");
  bool toFile = types.size() == 1 && !isFolder(place);
  kj::Vector<Output> outputs;
  for (auto& wanted : types) {
    bool known = false;
    for (auto& type : kOutputTypes) {
      if (type.name != wanted) continue;
      known = true;
      auto path = toFile         ? kj::str(place)
                  : place == "." ? kj::str(type.file)
                                 : kj::str(place, place.endsWith("/") ? "" : "/", type.file);
      outputs.add(Output{type, kj::mv(path)});
    }
    if (!known) {
      failUsage(kj::str("invalid output type: \"", wanted,
                        "\"; use init, controlplane, join, worker or talosconfig"));
    }
  }
  return outputs;
}

void write(Invocation& call, const Output& output, const config::Generated& made) {
  auto& text = made.*output.type.text;
  if (output.path == "-") return call.outBytes(text);
  writePrivateFile(output.path, text);
  auto whole = std::filesystem::absolute(output.path.cStr()).lexically_normal();
  call.err(kj::str("Created ", whole.c_str(), "\n"));
}

kj::Promise<int> runGenConfig(Invocation& call) {
  if (call.text("version") != "v1alpha1") {
    fail(ErrorKind::kInvalidArgument,
         kj::str("--version: \"", call.text("version"),
                 "\" is not a valid version of machine configs; use v1alpha1"));
  }
  config::checkEndpoint(call.arguments[1]);
  auto outputs = outputsOf(call);
  // The files hold the only copy of a cluster's secrets, so they must never be overwritten by
  // accident.
  for (auto& output : outputs) {
    if (output.path != "-") refuseExisting(call, output.path);
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
  kj::Vector<kj::String> warnings;
  KJ_IF_MAYBE (warning, config::unsupportedRelease(options.kubernetesVersion)) {
    warnings.add(kj::mv(*warning));
  }
  for (auto* text : {&made.init, &made.controlplane}) {
    patch(*text, patches.all, warnings);
    patch(*text, patches.controlPlane, warnings);
  }
  patch(made.join, patches.all, warnings);
  patch(made.join, patches.join, warnings);
  printWarnings(call, warnings);
  for (auto& file : {File{"init.yaml", made.init}, File{"controlplane.yaml", made.controlplane},
                     File{"join.yaml", made.join}}) {
    requireGood(call, file.content, kj::str("the patched ", file.name));
  }
  for (auto& output : outputs) write(call, output, made);
  co_return 0;
}

}  // namespace

void declareGenConfig(Command& config) {
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
  text("kubernetes-version", config::kDefaultKubernetesText,
       "Kubernetes version of the images in the configs; if empty, the configs name no images and "
       "a node runs the default of its release");
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
  config.flag({.name = "output",
               .letter = "o",
               .kind = FlagKind::kText,
               .help =
                   "folder to write to (default: the current one); of one type a file, or - for "
                   "standard output"});
  config.flag({.name = "output-dir",
               .kind = FlagKind::kText,
               .help = "--output under its earlier name",
               .hidden = true});
  config.flag({.name = "output-types",
               .letter = "t",
               .kind = FlagKind::kList,
               .fallback = "init,controlplane,join,worker,talosconfig",
               .help = "files to write; worker is the later name of join"});
  config.timeout = 2 * kj::MINUTES;  // with --insecure; a slow node needs time to generate the keys
  config.run = runGenConfig;
}

Flag forceFlag() {
  return {.name = "force",
          .letter = "f",
          .help = "replace existing files, and the keys and secrets in them"};
}

void addGenerateCommands(Command& root) {
  auto& gen = root.add("gen", "Generate configurations, keys and certificates");
  gen.flag(forceFlag());
  declareGenConfig(gen.add(
      "config", "Generate the machine configs and the client configuration of a new cluster"));
}

}  // namespace talos::talosctl
