// Uses of a cluster that would break with the new release, or prevent its start: API versions that
// the release no longer serves, and admission webhooks that cannot answer. Pure; every reader
// accepts foreign bytes, and a field that is missing or of another type counts as empty.
//
// API versions: each API server reports the deprecated versions requested since its start (metric
// apiserver_requested_deprecated_apis, KEP-1693), with the release that removes each. Discovery and
// `kubectl get` of all versions do not count. The affected objects are those whose managedFields
// have an entry in this version.
//
// Webhooks: a webhook is reported if it must answer (failurePolicy Fail) about objects of
// kube-system or about Nodes that an upgrade creates or changes, and its Service has no ready
// endpoint. Webhooks with an objectSelector or matchConditions are not judged, nor are webhooks
// that are called by a URL.
#pragma once

#include "common/kube/kube-api.h"
#include "talosctl/upgrade-k8s/upgrade-plan.h"

namespace talos::talosctl {

struct DeprecatedApi {
  kube::GroupVersion groupVersion;
  kj::String resource;             // such as flowschemas, or deployments/scale
  KubernetesVersion removedIn;     // first release without the version
  kj::Vector<kj::String> servers;  // addresses of the API servers that received requests for it
  kj::Vector<kj::String> objects;  // objects written in this version: "default/web by kubectl"

  kj::String name() const;  // such as flowschemas of flowcontrol.apiserver.k8s.io/v1beta3
};

struct SilentWebhook {
  kj::String configuration, name;  // names of the configuration and of the webhook in it
  kj::String nameSpace, service;   // Service that should answer
};

struct UpgradeHazards {
  kj::Vector<DeprecatedApi> apis;  // API versions that the new release or a later one removes
  kj::Vector<SilentWebhook> webhooks;
  kj::Vector<kj::String> unknown;  // checks that failed, each with its error
  kj::Vector<kj::String> notes;    // API servers that were not called
};

constexpr size_t kMostDeprecatedApis = 200, kMostNamedObjects = 10;

// Reads metrics of the API server at `server`: all, or some lines. Skips lines of other metrics.
void addRequested(kj::Vector<DeprecatedApi>& apis, kj::StringPtr metrics, kj::StringPtr server);
// Returns the managers that wrote this object in this version.
kj::Vector<kj::StringPtr> writersOf(const kube::Json& object, const kube::GroupVersion& in);
// Returns the webhooks of a ValidatingWebhookConfiguration or a MutatingWebhookConfiguration that
// an upgrade needs. `systemLabels`: metadata.labels of the namespace kube-system.
kj::Vector<SilentWebhook> neededWebhooks(const kube::Json& configuration,
                                         const kube::Json& systemLabels);
// Returns true if an Endpoints object has a ready endpoint.
bool hasReadyEndpoint(const kube::Json& endpoints);

struct HazardTexts {
  kj::Maybe<kj::String> refusal;  // hazards to remove or to clarify before the upgrade
  kj::Vector<kj::String> notes;   // hazards for a later release
};
// Describes the hazards for the release `to`; API versions that a later release removes are notes.
HazardTexts describe(const UpgradeHazards& hazards, const KubernetesRelease& to);

}  // namespace talos::talosctl
