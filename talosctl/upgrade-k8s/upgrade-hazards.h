// Uses of a cluster that would break with the new release, or keep it from coming up: API versions
// that it no longer serves, and admission webhooks that cannot answer. Pure; every reader accepts
// foreign bytes, and a field that is absent or of another type is empty.
//
// API versions: each API server counts, since it started, who asked for one that is deprecated
// (metric apiserver_requested_deprecated_apis, KEP-1693), with the release that removes it.
// Discovery and `kubectl get` of all versions are not counted. The objects are those whose
// managedFields say that they were written in that version.
//
// Webhooks: one that must answer (failurePolicy Fail) about objects of kube-system or about Nodes
// that an upgrade makes or changes, and whose Service has no endpoint that is ready. Those with an
// objectSelector or matchConditions are not judged, nor are those that are reached by a URL.
#pragma once

#include "common/kube/kube-api.h"
#include "talosctl/upgrade-k8s/upgrade-plan.h"

namespace talos::talosctl {

struct DeprecatedApi {
  kube::GroupVersion groupVersion;
  kj::String resource;             // flowschemas, or deployments/scale
  KubernetesVersion removedIn;     // its first release without it
  kj::Vector<kj::String> servers;  // addresses of the API servers that were asked for it
  kj::Vector<kj::String> objects;  // "default/web by kubectl": written in this version

  kj::String name() const;  // flowschemas of flowcontrol.apiserver.k8s.io/v1beta3
};

struct SilentWebhook {
  kj::String configuration, name;  // of the configuration, of the webhook in it
  kj::String nameSpace, service;   // that should answer
};

struct UpgradeHazards {
  kj::Vector<DeprecatedApi> apis;  // that the new release or a later one removes
  kj::Vector<SilentWebhook> webhooks;
  kj::Vector<kj::String> unknown;  // looks that failed, each with its error
  kj::Vector<kj::String> notes;    // of API servers that were not asked
};

constexpr size_t kMostDeprecatedApis = 200, kMostNamedObjects = 10;

// Of metrics of the API server at `server`: all, or some lines. Lines that are no such metric are
// passed over.
void addRequested(kj::Vector<DeprecatedApi>& apis, kj::StringPtr metrics, kj::StringPtr server);
// The managers that wrote this object in that version.
kj::Vector<kj::StringPtr> writersOf(const kube::Json& object, const kube::GroupVersion& in);
// Of a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration: those that an upgrade
// needs. `systemLabels`: metadata.labels of the namespace kube-system.
kj::Vector<SilentWebhook> neededWebhooks(const kube::Json& configuration,
                                         const kube::Json& systemLabels);
// Of an Endpoints object.
bool hasReadyEndpoint(const kube::Json& endpoints);

struct HazardTexts {
  kj::Maybe<kj::String> refusal;  // what has to be done first, or to be found out
  kj::Vector<kj::String> notes;   // what will be in the way of a later release
};
// `to`: API versions that are removed later are notes.
HazardTexts describe(const UpgradeHazards& hazards, const KubernetesRelease& to);

}  // namespace talos::talosctl
