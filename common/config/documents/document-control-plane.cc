// Documents of the Kubernetes control plane: cluster.apiServer and cluster.scheduler of the view.

#include "common/config/documents/document-reader.h"
#include "common/config/rules/config-check.h"

namespace talos::config {
namespace {

constexpr auto kPolicy = "cluster.apiServer.auditPolicy"_kj,
               kAdmission = "cluster.apiServer.admissionControl"_kj,
               kAuthorization = "cluster.apiServer.authorizationConfig"_kj,
               kScheduler = "cluster.scheduler"_kj, kLocal = "machine.controlPlane.scheduler"_kj;

}  // namespace

ControlPlaneDocuments::ControlPlaneDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      plugins(main().getAdmissionControl().size()),
      authorizers(main().getAuthorizationConfig().size()),
      mainPlugins(main().getAdmissionControl().size()),
      mainAuthorizers(main().getAuthorizationConfig().size()) {}

ApiServer::Reader ControlPlaneDocuments::main() const {
  return view.asReader().getCluster().getApiServer();
}

void ControlPlaneDocuments::dropSince(Mark mark) {
  plugins.keepFirst(mark.plugins);
  authorizers.keepFirst(mark.authorizers);
}

void ControlPlaneDocuments::write() {
  plugins.write(main().getAdmissionControl(), [&](unsigned size) {
    return view.getCluster().getApiServer().initAdmissionControl(size);
  });
  if (authorizers.size() > 0) view.getCluster().getApiServer().setOnlyGivenAuthorizers(true);
  authorizers.write(main().getAuthorizationConfig(), [&](unsigned size) {
    return view.getCluster().getApiServer().initAuthorizationConfig(size);
  });
}

bool ControlPlaneDocuments::refuses(Document& document, bool isSet, kj::StringPtr key) {
  if (!isControlPlane(view.getMachine().getType())) {
    decoder.report(document, "", kj::str("only control-plane nodes have such a document"),
                   "remove it from the configs of workers");
    return true;
  }
  if (isSet) {
    decoder.report(document, "", kj::str(key, " is set as well"), "remove one of the two");
  }
  return isSet;
}

void ControlPlaneDocuments::auditPolicy(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeAuditPolicyConfig>(document)) {
    if (refuses(document, main().hasAuditPolicy(), kPolicy)) return;
    view.getCluster().getApiServer().setAuditPolicy(d->getConfiguration());
    decoder.from(document, "configuration", kPolicy);
  }
}

void ControlPlaneDocuments::admission(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeAdmissionControlConfig>(document)) {
    if (refuses(document, mainPlugins > 0, kAdmission)) return;
    kj::String path;
    auto plugin = plugins.add(kAdmission, path);
    plugin.setName(d->getName());
    if (d->hasConfiguration()) plugin.setConfiguration(d->getConfiguration());
    decoder.from(document, "", path);
  }
}

void ControlPlaneDocuments::authorizer(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeAuthorizerConfig>(document)) {
    if (refuses(document, mainAuthorizers > 0, kAuthorization)) return;
    kj::String path;
    auto authorizer = authorizers.add(kAuthorization, path);
    authorizer.setName(d->getName());
    authorizer.setType(d->getType());
    authorizer.setWebhook(d->getWebhook());
    decoder.from(document, "", path);
  }
}

void ControlPlaneDocuments::scheduler(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::KubeSchedulerConfig>(document)) {
    auto old = view.asReader();
    if (refuses(document, old.getCluster().hasScheduler(), kScheduler)) return;
    if (refuses(document, old.getMachine().getControlPlane().hasScheduler(), kLocal)) return;
    auto out = view.getCluster().initScheduler();
    out.setImage(d->getImage());
    out.setExtraArgs(d->getExtraArgs());
    out.setEnv(d->getEnv());
    out.setResources(d->getResources());
    out.setConfig(d->getConfig());
    view.getMachine().getControlPlane().initScheduler().setDisabled(!d->getEnabled());
    decoder.from(document, "", kScheduler);
    decoder.from(document, "enabled", kLocal);
  }
}

}  // namespace talos::config
