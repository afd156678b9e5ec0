#include "machined/kubernetes/component-files.h"

#include <capnp/message.h>

#include "common/config/kubernetes/component-settings.h"
#include "common/yaml/yaml-codec.h"
#include "common/yaml/yaml.h"
#include "machined/kubernetes/secret-files.h"

namespace talos::machined {
namespace {

using config::Authorizer;
using config::AuthorizerType;

constexpr unsigned kIndent = 2;
constexpr kj::StringPtr kProfiling = "enableProfiling"_kj, kKubeconfig = "kubeconfig"_kj;

codec::WriteOptions optionsAt(unsigned column) {
  return {.indent = kIndent, .startColumn = column, .empties = codec::Empties::kOmit};
}

bool hasType(config::ApiServer::Reader api, AuthorizerType type) {
  for (auto authorizer : api.getAuthorizationConfig()) {
    if (authorizer.getType() == type) return true;
  }
  return false;
}

// Returns an item of a list of mappings, whose keys are two columns from the left.
kj::String asItem(kj::StringPtr mapping) {
  return kj::str("- ", mapping.slice(kIndent));
}

kj::String authorizerItem(Authorizer::Reader authorizer) {
  if (authorizer.getType() == AuthorizerType::WEBHOOK) {
    return asItem(codec::writeYaml(authorizer, optionsAt(kIndent)));
  }
  capnp::MallocMessageBuilder message;
  auto plain = message.initRoot<Authorizer>();
  plain.setType(authorizer.getType());
  plain.setName(authorizer.getName());
  return asItem(codec::writeYaml(plain.asReader(), optionsAt(kIndent)));
}

bool isSet(capnp::List<config::RawPair>::Reader list, kj::StringPtr key) {
  for (auto pair : list) {
    if (pair.getKey() == key) return true;
  }
  return false;
}

kj::StringPtr schedulerApi(KubernetesVersion version) {
  return has(version, KubeFact::kSchedulerConfigV1) ? "v1"_kj : "v1beta1"_kj;
}

}  // namespace

kj::String auditPolicyFile(config::ApiServer::Reader api) {
  if (!api.hasAuditPolicy()) return kj::String();
  capnp::MallocMessageBuilder message;
  message.setRoot(api.getAuditPolicy());
  auto policy = message.getRoot<config::AuditPolicy>();
  policy.disownMetadata();  // has no effect
  return codec::writeYaml(policy.asReader(), optionsAt(0));
}

kj::String admissionFile(config::ApiServer::Reader api) {
  auto plugins = api.getAdmissionControl();
  if (plugins.size() == 0) return kj::String();
  kj::Vector<kj::String> parts;
  parts.add(
      kj::str("apiVersion: apiserver.config.k8s.io/v1\n"
              "kind: AdmissionConfiguration\n"
              "plugins:\n"));
  for (auto plugin : plugins) {
    parts.add(kj::str("- name: ", codec::yamlScalar(plugin.getName()), "\n"));
    if (!plugin.hasConfiguration()) continue;
    parts.add(
        codec::writeYamlEntry("configuration", plugin.getConfiguration(), optionsAt(kIndent)));
  }
  return kj::strArray(parts, "");
}

kj::Vector<kj::StringPtr> configuredPlugins(config::ApiServer::Reader api) {
  kj::Vector<kj::StringPtr> names;
  for (auto plugin : api.getAdmissionControl()) {
    if (plugin.getName() != config::kPodSecurityPlugin) names.add(plugin.getName());
  }
  return names;
}

kj::String authorizationFile(config::ApiServer::Reader api, KubernetesVersion version) {
  auto authorizers = api.getAuthorizationConfig();
  if (authorizers.size() == 0) return kj::String();
  kj::Vector<kj::String> parts;
  parts.add(kj::str("apiVersion: apiserver.config.k8s.io/",
                    has(version, KubeFact::kAuthorizationConfigV1) ? "v1" : "v1beta1",
                    "\nkind: AuthorizationConfiguration\nauthorizers:\n"));
  auto precede = [&](AuthorizerType type, kj::StringPtr text) {
    if (!api.getOnlyGivenAuthorizers() && !hasType(api, type)) parts.add(kj::str(text));
  };
  precede(AuthorizerType::NODE, "- type: Node\n  name: node\n");
  precede(AuthorizerType::RBAC, "- type: RBAC\n  name: rbac\n");
  for (auto authorizer : authorizers) parts.add(authorizerItem(authorizer));
  return kj::strArray(parts, "");
}

kj::String schedulerFile(config::Scheduler::Reader scheduler, KubernetesVersion version) {
  auto config = scheduler.getConfig();
  if (config::isEmpty(config)) return kj::String();
  auto api = config.getApiVersion().size() > 0
                 ? kj::str(config.getApiVersion())
                 : kj::str(config::kSchedulerApiGroup, "/", schedulerApi(version));
  kj::Vector<kj::String> parts;
  auto addRaw = [&](config::RawPair::Reader pair, unsigned column) {
    parts.add(codec::renderRawEntry(pair.getKey(), pair.getValue(), kIndent, column));
  };
  parts.add(kj::str("apiVersion: ", codec::yamlScalar(api), "\nkind: ", config::kSchedulerKind,
                    "\nclientConnection:\n  kubeconfig: ", kKubernetesSecretsFolder, "/",
                    nameOf(Component::kScheduler), "/kubeconfig\n"));
  for (auto pair : config.getClientConnection()) {
    if (pair.getKey() != kKubeconfig) addRaw(pair, kIndent);
  }
  if (!isSet(config.getOthers(), kProfiling)) parts.add(kj::str(kProfiling, ": false\n"));
  for (auto pair : config.getOthers()) addRaw(pair, 0);
  return kj::strArray(parts, "");
}

}  // namespace talos::machined
