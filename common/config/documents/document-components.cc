// Documents of the API server, the controller manager and CoreDNS: cluster.apiServer,
// cluster.controllerManager and cluster.coreDNS of the view.

#include "common/config/documents/document-components.h"

#include "common/config/kubernetes/component-settings.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-check.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr auto kApiArguments = "cluster.apiServer.extraArgs"_kj,
               kApiVolumes = "cluster.apiServer.extraVolumes"_kj,
               kManager = "cluster.controllerManager"_kj,
               kLocalManager = "machine.controlPlane.controllerManager"_kj;
constexpr auto kRoots = "/etc/ssl/certs"_kj;  // CAs that webhooks and issuers are checked with
constexpr auto kAuthenticationGroup = "apiserver.config.k8s.io/"_kj,
               kAuthenticationKind = "AuthenticationConfiguration"_kj;
// Requests without a user see only whether the server is well.
constexpr auto kAnonymousOfHealth =
    "anonymous:\n  enabled: true\n  conditions:\n    - path: /livez\n    - path: /readyz\n"
    "    - path: /healthz\n"_kj;
constexpr kj::StringPtr kAnonymous = "anonymous"_kj, kTokens = "jwt"_kj;

bool isOfAuthentication(kj::StringPtr argument) {
  return argument == kAuthenticationArgument || argument == "anonymous-auth" ||
         argument.startsWith("oidc-");
}

bool isOfAuthorization(kj::StringPtr argument) {
  return argument.startsWith("authorization-");
}

kj::String authenticationText(FreeObject::Reader configuration) {
  auto version = configuration.getApiVersion();
  kj::Vector<kj::String> parts;
  parts.add(
      kj::str("apiVersion: ",
              codec::yamlScalar(version.size() > 0 ? kj::str(version)
                                                   : kj::str(kAuthenticationGroup, "v1beta1")),
              "\nkind: ", kAuthenticationKind, "\n"));
  bool anonymous = false;
  for (auto pair : configuration.getOthers()) {
    anonymous = anonymous || pair.getKey() == kAnonymous;
    parts.add(codec::renderRawEntry(pair.getKey(), pair.getValue(), 2, 0));
  }
  if (!anonymous) parts.add(kj::str(kAnonymousOfHealth));
  return kj::strArray(parts, "");
}

void setVolume(Volume::Builder out, kj::StringPtr path) {
  out.setHostPath(path);
  out.setMountPath(path);
  out.setReadonly(true);
}

}  // namespace

void needControlPlane(DocumentDecoder& decoder, Document& document, Config::Reader view) {
  if (isControlPlane(view.getMachine().getType())) return;
  decoder.report(document, "", kj::str("only control-plane nodes have such a document"),
                 "remove it from the configs of workers");
}

void refuseBeside(DocumentDecoder& decoder, Document& document, bool isSet, kj::StringPtr key) {
  if (isSet) decoder.report(document, "", kj::str(key, " is set as well"), "remove one of the two");
}

ComponentDocuments::ComponentDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder), view(view), given(givenIn(view.asReader())) {}

ComponentDocuments::Given ComponentDocuments::givenIn(Config::Reader main) {
  auto cluster = main.getCluster();
  return Given{.apiServer = cluster.hasApiServer(),
               .controllerManager = cluster.hasControllerManager(),
               .localManager = main.getMachine().getControlPlane().hasControllerManager(),
               .coreDns = cluster.hasCoreDNS(),
               .apiPort = localApiServerPort(cluster)};
}

void ComponentDocuments::write() {
  if (authenticationFile.size() == 0) return;
  auto api = view.getCluster().getApiServer();
  auto present = api.asReader();
  kj::String path;
  Additions<Volume> volumes(present.getExtraVolumes().size());
  setVolume(volumes.add(kApiVolumes, path), kAuthenticationFolder);
  volumes.write(present.getExtraVolumes(), [&](unsigned n) { return api.initExtraVolumes(n); });
  Additions<StringPair> arguments(present.getExtraArgs().size());
  auto argument = arguments.add(kApiArguments, path);
  argument.setKey(kAuthenticationArgument);
  argument.setValue(kAuthenticationFile);
  arguments.write(present.getExtraArgs(), [&](unsigned n) { return api.initExtraArgs(n); });
  auto machine = view.getMachine();
  Additions<File> files(machine.asReader().getFiles().size());
  auto file = files.add("machine.files", path);
  file.setPath(kAuthenticationFile);
  file.setOp(FileOp::CREATE);
  file.setContent(authenticationFile);
  files.write(machine.asReader().getFiles(), [&](unsigned n) { return machine.initFiles(n); });
}

// --- the API server

void ComponentDocuments::apiServerArguments(Document& document,
                                            capnp::List<StringPair>::Reader arguments) {
  for (auto argument : arguments) {
    kj::StringPtr name = argument.getKey();
    auto key = keyPath("extraArgs", name);
    if (isOfAuthentication(name)) {
      decoder.report(document, key, kj::str("another document decides who a client is"),
                     "use KubeAuthenticationConfig");
    } else if (isOfAuthorization(name)) {
      decoder.report(document, key, kj::str("other documents decide what a client may do"),
                     "use KubeAuthorizerConfig");
    }
  }
}

// The checks of these keys would refuse the port in the main document.
void ComponentDocuments::apiServerPort(Document& document, uint16_t port) {
  auto machine = view.asReader().getMachine();
  auto balancer = machine.getFeatures().getKubePrism();
  auto taken = [&](bool used, kj::StringPtr by) {
    if (!used) return;
    decoder.report(document, "apiPort", kj::str(port, " is the port of ", by), "use another one");
  };
  if (port == kApiServerPort) return;
  beside(document, given.apiPort != kApiServerPort, "cluster.controlPlane.localAPIServerPort");
  taken(machine.hasMetrics() && machine.getMetrics().getPort() == port, "machine.metrics");
  taken(balancer.getEnabled() && balancer.getPort() == port, "KubePrism");
}

void ComponentDocuments::apiServer(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeAPIServerConfig>(document)) {
    auto errors = decoder.errors();
    onControlPlaneOnly(document);
    beside(document, given.apiServer, "cluster.apiServer");
    auto port = d->getApiPort() == 0 ? kApiServerPort : d->getApiPort();
    apiServerPort(document, port);
    apiServerArguments(document, d->getExtraArgs());
    if (d->getStartupProbes()) {
      decoder.report(document, "startupProbes",
                     kj::str("the kubelet does not probe this API server: kubed asks it for "
                             "/readyz"),
                     "remove it, or set it to false");
    }
    if (decoder.errors() > errors) return;
    auto out = view.getCluster().getApiServer();
    out.setImage(d->getImage());
    if (d->hasExtraArgs()) out.setExtraArgs(d->getExtraArgs());
    if (d->hasEnv()) out.setEnv(d->getEnv());
    if (d->hasResources()) out.setResources(d->getResources());
    if (d->hasCertExtraSANs()) out.setCertSANs(d->getCertExtraSANs());
    setVolume(out.initExtraVolumes(1)[0], kRoots);
    decoder.from(document, "", "cluster.apiServer");
    decoder.fromAllOf(document, "certExtraSANs", "cluster.apiServer.certSANs");
    if (port == kApiServerPort) return;
    view.getCluster().getControlPlane().setLocalAPIServerPort(port);
    decoder.from(document, "apiPort", "cluster.controlPlane.localAPIServerPort");
  }
}

void ComponentDocuments::besideAuthentication(Document& document) {
  auto api = view.asReader().getCluster().getApiServer();
  // Arguments of documents are refused there.
  if (!given.apiServer) return;
  for (auto argument : api.getExtraArgs()) {
    beside(document, isOfAuthentication(argument.getKey()),
           keyPath(kApiArguments, argument.getKey()));
  }
  for (auto i : kj::indices(api.getExtraVolumes())) {
    beside(document, api.getExtraVolumes()[i].getMountPath() == kAuthenticationFolder,
           kj::str(kApiVolumes, "[", i, "].mountPath"));
  }
}

void ComponentDocuments::authenticationKeys(Document& document, FreeObject::Reader configuration) {
  auto version = configuration.getApiVersion();
  if (version.size() > 0 && !version.startsWith(kAuthenticationGroup)) {
    decoder.report(
        document, "configuration.apiVersion",
        kj::str(jsonString(version), " is not the apiVersion of an ", kAuthenticationKind),
        kj::str("use ", kAuthenticationGroup, "v1beta1"));
  }
  auto kind = configuration.getKind();
  if (kind.size() > 0 && kind != kAuthenticationKind) {
    decoder.report(document, "configuration.kind",
                   kj::str(jsonString(kind), " is not the kind of the configuration"),
                   kj::str("use ", kAuthenticationKind));
  }
  for (auto pair : configuration.getOthers()) {
    kj::StringPtr key = pair.getKey();
    if (key == kAnonymous || key == kTokens) continue;
    decoder.report(document, keyPath("configuration", key),
                   kj::str("an ", kAuthenticationKind, " has no such key"),
                   kj::str("use ", kTokens, " or ", kAnonymous));
  }
}

void ComponentDocuments::authentication(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeAuthenticationConfig>(document)) {
    auto errors = decoder.errors();
    onControlPlaneOnly(document);
    besideAuthentication(document);
    authenticationKeys(document, d->getConfiguration());
    if (decoder.errors() > errors) return;
    authenticationFile = authenticationText(d->getConfiguration());
    decoder.from(document, "configuration", keyPath(kApiArguments, kAuthenticationArgument));
  }
}

// --- the others

void ComponentDocuments::controllerManager(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeControllerManagerConfig>(document)) {
    auto errors = decoder.errors();
    onControlPlaneOnly(document);
    beside(document, given.controllerManager, kManager);
    beside(document, given.localManager, kLocalManager);
    if (decoder.errors() > errors) return;
    auto out = view.getCluster().getControllerManager();
    out.setImage(d->getImage());
    if (d->hasExtraArgs()) out.setExtraArgs(d->getExtraArgs());
    if (d->hasEnv()) out.setEnv(d->getEnv());
    if (d->hasResources()) out.setResources(d->getResources());
    view.getMachine().getControlPlane().initControllerManager().setDisabled(!d->getEnabled());
    decoder.from(document, "", kManager);
    decoder.from(document, "enabled", kLocalManager);
  }
}

void ComponentDocuments::coreDns(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeCoreDNSConfig>(document)) {
    auto errors = decoder.errors();
    onControlPlaneOnly(document);
    beside(document, given.coreDns, "cluster.coreDNS");
    if (decoder.errors() > errors) return;
    auto out = view.getCluster().initCoreDNS();
    out.setDisabled(!d->getEnabled());
    if (d->getImage().size() > 0) out.setImage(d->getImage());
    decoder.from(document, "", "cluster.coreDNS");
    decoder.from(document, "enabled", "cluster.coreDNS.disabled");
  }
}

}  // namespace talos::config
