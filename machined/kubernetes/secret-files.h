// The files that the pods of the Kubernetes control plane read, below
// /system/secrets/kubernetes/<component>, and the input of the pods' annotations.
//
// Each component runs as a separate user, and only this user (and root) can read its files: 0400,
// in a folder that only this user may enter (0700), below folders that only root may enter: a pod
// that mounts the node's root cannot read them, whatever its user. A file is replaced whole. The
// files are in memory: a reboot removes them, and they are written again before the kubelet starts.
//
// A component is restarted when a file changed that it reads at its start only. It reloads
// certificates, and the API server the CAs of its clients, when they change (client-go and the API
// server do so since 1.19), so a renewal causes no restart; kubeconfigs contain certificates, and
// changing them restarts the component. The API server reads the CAs by which it verifies kubelets
// only when it starts: a separate file has them, in an order that stays when another of them signs.
// Files of the machine config (component-files.h) restart the component as a part of its config.
#pragma once

#include "common/config/rules/encryption-keys.h"
#include "common/memory/secret-array.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kKubernetesSecretsFolder = "/system/secrets/kubernetes"_kj;
// In the folder of the API server: the CAs of kubelets' serving certificates.
constexpr kj::StringPtr kKubeletCaFile = "kubelet-ca.crt"_kj;
// Files of the machine config.
constexpr kj::StringPtr kAuditPolicyFile = "auditpolicy.yaml"_kj,
                        kAdmissionFile = "admission-control-config.yaml"_kj,
                        kAuthorizationFile = "authorization-config.yaml"_kj,
                        kSchedulerConfigFile = "scheduler-config.yaml"_kj;

// A part of the control plane that runs as a static pod.
enum class Component { kApiServer, kControllerManager, kScheduler };
constexpr Component kComponents[] = {Component::kApiServer, Component::kControllerManager,
                                     Component::kScheduler};
kj::StringPtr nameOf(Component component);  // kube-apiserver
// Returns the component's user; its group has the same number. No image has this user, and no pod
// but those of the control plane runs as it unless its spec names it.
unsigned uidOf(Component component);

// Returns the encryption keys of the API server (common/config/rules/encryption-keys.h). Their
// secrets belong to `root`.
kj::Vector<config::SecretsKey> secretsKeys(rpc::RootSecretSpec::KubernetesRoot::Reader root);

// The keys and CAs of the files, as named by a component's SecretStatuses (rpc/).
struct SecretNames {
  kj::Vector<kj::String> encryptionKeys, serviceAccountKeys, aggregatorCas, etcdCas;
};
SecretNames secretNames(Component component, rpc::RootSecretSpec::KubernetesRoot::Reader root,
                        rpc::EtcdSecretsSpec::Reader etcd);

struct SecretFile {
  Component component;
  kj::StringPtr name;
  kj::Array<kj::byte> content;
  // A change of it is no change of the secrets for which the component is restarted: the program
  // reads it again, or it is a part of the component's config.
  bool causesNoRestart = false;
};
kj::Vector<SecretFile> secretFiles(rpc::RootSecretSpec::KubernetesRoot::Reader root,
                                   rpc::KubernetesSecretsSpec::Reader secrets,
                                   rpc::EtcdSecretsSpec::Reader etcd);

// Returns the files that a component's config has.
kj::Vector<SecretFile> configFiles(rpc::ControlPlaneConfigSpec::Reader config);

// Returns the content for which a component is restarted, to be hashed.
kj::Array<kj::byte> restartsFor(Component component, kj::ArrayPtr<const SecretFile> files);

// Writes missing and changed files, and removes all others. Blocking. New folders, `folder` and
// those above it, are for root only.
void writeSecretFiles(kj::StringPtr folder, kj::ArrayPtr<const SecretFile> files,
                      unsigned (*ownerOf)(Component) = uidOf);

}  // namespace talos::machined
