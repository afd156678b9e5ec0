#include "machined/kubernetes/secret-files.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/control-plane-users.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/memory/secret-buffer.h"
#include "common/tls/authorities.h"
#include "common/tls/pki.h"
#include "common/tls/public-key.h"
#include "machined/kubernetes/component-files.h"
#include "machined/system/secret-file-of-user.h"

namespace talos::machined {
namespace {

struct ComponentRow {
  kj::StringPtr name;
  unsigned uid;
};
constexpr ComponentRow kRows[] = {
    {"kube-apiserver"_kj, kApiServerUid},
    {"kube-controller-manager"_kj, kControllerManagerUid},
    {"kube-scheduler"_kj, kSchedulerUid},
};

// Secrets are written with the first provider, and read with the provider that wrote them.
kj::Array<kj::byte> encryptionConfig(rpc::RootSecretSpec::KubernetesRoot::Reader root) {
  SecretBuffer text;
  text.add(
      "apiVersion: apiserver.config.k8s.io/v1\n"
      "kind: EncryptionConfiguration\n"
      "resources:\n"
      "  - resources:\n"
      "      - secrets\n"
      "    providers:\n"_kj);
  for (auto& key : secretsKeys(root)) {
    for (auto part : {"      - "_kj, key.provider, ":\n          keys:\n            - name: "_kj,
                      key.name.asPtr(), "\n              secret: "_kj, key.secret, "\n"_kj}) {
      text.add(part);
    }
  }
  text.add("      - identity: {}\n"_kj);
  auto pem = text.copyText();
  KJ_DEFER(zeroize(pem.asArray()));
  return secretArray(pem.asBytes());
}

class FileList {
 public:
  explicit FileList(Component component) : component(component) {}
  kj::Vector<SecretFile> files;

  void add(kj::StringPtr name, kj::ArrayPtr<const kj::byte> content, bool causesNoRestart = false) {
    files.add(SecretFile{component, name, secretArray(content), causesNoRestart});
  }
  // The program reloads both when one of them changes.
  void addPair(kj::StringPtr crt, kj::StringPtr key, rpc::KeyPair::Reader pair) {
    add(key, pair.getKey(), true);
    add(crt, pair.getCrt(), true);
  }

 private:
  Component component;
};

// Returns the CAs of the API server's clients.
kj::String clientCas(rpc::RootSecretSpec::KubernetesRoot::Reader root) {
  return pki::authoritiesOf(kj::str(root.getCa().getCrt().asChars()),
                            kj::str(root.getAcceptedCAs().asChars()))
      .trusted;
}

// Returns the CAs of kubelets' serving certificates: the same, in an order that stays when another
// of them becomes the CA that signs.
kj::String kubeletCas(rpc::RootSecretSpec::KubernetesRoot::Reader root) {
  auto all = pki::certificatesIn(clientCas(root));
  std::sort(all.begin(), all.end());
  return kj::strArray(all, "");
}

// Returns the CAs of clients of aggregated API servers.
kj::String aggregatorCas(rpc::RootSecretSpec::KubernetesRoot::Reader root) {
  return pki::authoritiesOf(kj::str(root.getAggregatorCA().getCrt().asChars()),
                            kj::str(root.getAcceptedAggregatorCAs().asChars()))
      .trusted;
}

// Returns the public keys, the first of which signs.
kj::Vector<kj::String> serviceAccountKeys(rpc::RootSecretSpec::KubernetesRoot::Reader root) {
  kj::Vector<kj::String> keys;
  keys.add(pki::publicKeyOf(pki::Pem(kj::str(root.getServiceAccountKey().asChars()))));
  auto own = pki::tokenKeyId(keys[0]);
  for (auto& key : pki::publicKeysIn(kj::str(root.getAcceptedServiceAccountKeys().asChars()))) {
    if (pki::tokenKeyId(key) != own) keys.add(kj::mv(key));
  }
  return keys;
}

kj::Vector<kj::String> hashesOf(kj::StringPtr authorities) {
  kj::Vector<kj::String> hashes;
  for (auto& one : pki::certificatesIn(authorities)) hashes.add(pki::authorityHash(one));
  return hashes;
}

kj::Vector<SecretFile> filesOfApiServer(rpc::RootSecretSpec::KubernetesRoot::Reader root,
                                        rpc::KubernetesSecretsSpec::Reader secrets,
                                        rpc::EtcdSecretsSpec::Reader etcd) {
  FileList list(Component::kApiServer);
  list.add("etcd-client-ca.crt", etcd.getCa());
  list.addPair("etcd-client.crt", "etcd-client.key", etcd.getClient());
  list.add("ca.crt", clientCas(root).asBytes(), true);
  list.add(kKubeletCaFile, kubeletCas(root).asBytes());
  list.addPair("apiserver.crt", "apiserver.key", secrets.getApiServer());
  list.addPair("apiserver-kubelet-client.crt", "apiserver-kubelet-client.key",
               secrets.getApiServerKubeletClient());
  list.add("service-account.pub", kj::strArray(serviceAccountKeys(root), "").asBytes());
  list.add("service-account.key", root.getServiceAccountKey());
  list.add("aggregator-ca.crt", aggregatorCas(root).asBytes());
  list.addPair("front-proxy-client.crt", "front-proxy-client.key", secrets.getFrontProxy());
  list.add("encryptionconfig.yaml", encryptionConfig(root));
  return kj::mv(list.files);
}

// Makes a private folder, and corrects the rights of an existing one.
void makePrivateFolder(kj::StringPtr path, unsigned uid) {
  makeDirectories(path, 0700);
  int raw;
  KJ_SYSCALL(raw = open(path.cStr(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path);
  kj::AutoCloseFd folder(raw);
  KJ_SYSCALL(fchown(folder, uid, uid), path);
  KJ_SYSCALL(fchmod(folder, 0700), path);
}

bool isWanted(Component component, kj::StringPtr name, kj::ArrayPtr<const SecretFile> files) {
  for (auto& file : files) {
    if (file.component == component && file.name == name) return true;
  }
  return false;
}

}  // namespace

kj::StringPtr nameOf(Component component) {
  return kRows[static_cast<size_t>(component)].name;
}
unsigned uidOf(Component component) {
  return kRows[static_cast<size_t>(component)].uid;
}

kj::Vector<config::SecretsKey> secretsKeys(rpc::RootSecretSpec::KubernetesRoot::Reader root) {
  kj::Vector<kj::StringPtr> accepted;
  for (auto one : root.getAcceptedEncryptionSecrets()) accepted.add(one);
  return config::secretsKeys(root.getSecretboxEncryptionSecret(), root.getAesCBCEncryptionSecret(),
                             accepted);
}

SecretNames secretNames(Component component, rpc::RootSecretSpec::KubernetesRoot::Reader root,
                        rpc::EtcdSecretsSpec::Reader etcd) {
  SecretNames names;
  if (component == Component::kScheduler) return names;
  for (auto& key : serviceAccountKeys(root)) {
    names.serviceAccountKeys.add(pki::tokenKeyId(key));
    // The controller manager only signs.
    if (component == Component::kControllerManager) return names;
  }
  for (auto& key : secretsKeys(root)) names.encryptionKeys.add(storedPrefix(key));
  names.aggregatorCas = hashesOf(aggregatorCas(root));
  names.etcdCas = hashesOf(kj::str(etcd.getCa().asChars()));
  std::sort(names.etcdCas.begin(), names.etcdCas.end());
  return names;
}

kj::Vector<SecretFile> secretFiles(rpc::RootSecretSpec::KubernetesRoot::Reader root,
                                   rpc::KubernetesSecretsSpec::Reader secrets,
                                   rpc::EtcdSecretsSpec::Reader etcd) {
  auto files = filesOfApiServer(root, secrets, etcd);
  FileList manager(Component::kControllerManager);
  manager.add("ca.crt", root.getCa().getCrt());
  manager.add("ca.key", root.getCa().getKey());
  manager.add("service-account.key", root.getServiceAccountKey());
  manager.add("kubeconfig", secrets.getControllerManagerKubeconfig().asBytes());
  for (auto& file : manager.files) files.add(kj::mv(file));
  FileList scheduler(Component::kScheduler);
  scheduler.add("kubeconfig", secrets.getSchedulerKubeconfig().asBytes());
  for (auto& file : scheduler.files) files.add(kj::mv(file));
  return files;
}

kj::Vector<SecretFile> configFiles(rpc::ControlPlaneConfigSpec::Reader config) {
  kj::Vector<SecretFile> files;
  auto add = [&](Component component, kj::StringPtr name, kj::StringPtr text) {
    if (text.size() > 0) files.add(SecretFile{component, name, secretArray(text.asBytes()), true});
  };
  if (config.isApiServer()) {
    auto api = config.getApiServer();
    kj::StringPtr policy = api.getAuditPolicy();
    add(Component::kApiServer, kAuditPolicyFile, policy.size() > 0 ? policy : kUsualAuditPolicy);
    add(Component::kApiServer, kAdmissionFile, api.getAdmissionControl());
    add(Component::kApiServer, kAuthorizationFile, api.getAuthorizationConfig());
  } else if (config.isScheduler()) {
    add(Component::kScheduler, kSchedulerConfigFile, config.getScheduler().getConfig());
  }
  return files;
}

kj::Array<kj::byte> restartsFor(Component component, kj::ArrayPtr<const SecretFile> files) {
  SecretBuffer all;
  for (auto& file : files) {
    if (file.component != component || file.causesNoRestart) continue;
    // Hashed with sizes, so that two lists never have the same content.
    all.add(kj::str(file.name, " ", file.content.size(), "\n"));
    all.add(file.content.asChars());
  }
  auto text = all.copyText();
  KJ_DEFER(zeroize(text.asArray()));
  return secretArray(text.asBytes());
}

void writeSecretFiles(kj::StringPtr folder, kj::ArrayPtr<const SecretFile> files,
                      unsigned (*ownerOf)(Component)) {
  makePrivateFolder(folder, getuid());
  for (auto component : kComponents) {
    auto own = kj::str(folder, "/", nameOf(component));
    makePrivateFolder(own, ownerOf(component));
    for (auto& file : files) {
      if (file.component != component) continue;
      writeOwnedFile(kj::str(own, "/", file.name), file.content, ownerOf(component));
    }
    for (auto& name : namesIn(own)) {
      if (!isWanted(component, name, files)) removeTree(kj::str(own, "/", name));
    }
  }
}

}  // namespace talos::machined
