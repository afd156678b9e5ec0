#include "machined/kubernetes/kubernetes-secrets.h"

#include <kj/encoding.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/config/rules/encryption-keys.h"
#include "common/kube/kube-access.h"
#include "common/testing/test-tree.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "machined/config/trust/stored-names.h"
#include "machined/kubernetes/test-kubernetes-controllers.h"

namespace talos::machined {
namespace {

// Catches: a client that does not trust the API server by the name that it uses; a component with
// more rights than it needs.
TEST_F(KubernetesControllers, EachCertificateIsOfItsOwn) {
  begin();
  auto api = inspect(stored().getApiServer());
  EXPECT_EQ("kube-apiserver", std::string(api.commonName.cStr()));
  EXPECT_EQ("kube-master", joined(api.organizations));
  EXPECT_EQ("10.5.0.2 10.5.0.9 10.96.0.1 127.0.0.1 ::1", joined(api.addresses));
  EXPECT_EQ(
      "kubernetes kubernetes.default kubernetes.default.svc "
      "kubernetes.default.svc.cluster.local localhost master-1",
      joined(api.dnsNames));
  EXPECT_EQ("system:masters", joined(inspect(stored().getApiServerKubeletClient()).organizations));
  auto front = crt(stored().getFrontProxy());
  EXPECT_EQ("front-proxy-client", std::string(pki::inspect(front).commonName.cStr()));
  EXPECT_TRUE(pki::isSignedBy(front, secrets.aggregatorAuthority.certificate));
  auto who = [](kj::StringPtr kubeconfig) {
    auto access = kube::readAccess(kubeconfig, "test");
    EXPECT_EQ("127.0.0.1:6443", std::string(access.name().cStr()));
    auto info = pki::inspect(access.certificate);
    return std::string(kj::str(info.commonName, "/", joined(info.organizations)).cStr());
  };
  EXPECT_EQ("talos:admin/system:masters", who(stored().getAdminKubeconfig()));
  EXPECT_EQ("system:kube-controller-manager/system:kube-controller-manager",
            who(stored().getControllerManagerKubeconfig()));
  EXPECT_EQ("system:kube-scheduler/system:kube-scheduler", who(stored().getSchedulerKubeconfig()));
}

// The quirk of Talos: new certificates, and with them other pods, on every wake-up.
TEST_F(KubernetesControllers, EachIsMadeAnewForAReasonOfItsOwn) {
  begin();
  auto first = stored().version();
  auto kubelet = crt(stored().getApiServerKubeletClient());
  renew();
  EXPECT_EQ(first, stored().version());
  // Addresses of pods and of services, and shared ones, do not belong to the node.
  putAddresses({"10.5.0.2", "10.244.0.1", "10.96.0.1"});
  settle();
  EXPECT_EQ(first, stored().version());
  putAddresses({"10.5.0.2", "10.5.0.3"});
  settle();
  EXPECT_EQ(first + 1, stored().version());
  EXPECT_EQ(kubelet, crt(stored().getApiServerKubeletClient()));
  EXPECT_EQ("1 1 1 1 ", versions()) << "a program reads such a certificate again by itself";
  clock.time += 200 * kj::DAYS;
  renew();
  EXPECT_EQ(first + 2, stored().version());
  EXPECT_NE(kubelet, crt(stored().getApiServerKubeletClient()));
  EXPECT_EQ("2 1 2 2 ", versions()) << "kubeconfigs are read once";
}

// Catches: a lifetime that applies to some of them only, or only to their renewal.
TEST_F(KubernetesControllers, TheirLifetimeIsTheOneThatWasGiven) {
  lifetime = 10 * kj::MINUTES;
  begin();
  auto first = stored().version();
  auto info = pki::inspect(crt(stored().getApiServer()));
  // Certificates have whole seconds.
  auto about = [](kj::Duration is, kj::Duration wanted) {
    return is <= wanted && is > wanted - 2 * kj::SECONDS;
  };
  EXPECT_TRUE(about(info.notAfter - clock.now(), 10 * kj::MINUTES));
  EXPECT_EQ(pki::inspect(crt(stored().getFrontProxy())).notAfter, info.notAfter);
  EXPECT_TRUE(about(halfLife(stored()) - clock.now(), 5 * kj::MINUTES));
  clock.time += 4 * kj::MINUTES;
  renew();
  EXPECT_EQ(first, stored().version());
  clock.time += 2 * kj::MINUTES;
  renew();
  EXPECT_EQ(first + 1, stored().version());
}

// Catches: pods that are restarted after each reboot because their kubeconfigs are new.
TEST_F(KubernetesControllers, AfterARebootTheyAreAsTheyWere) {
  begin();
  auto api = crt(stored().getApiServer()), kubeconfig = kj::str(stored().getSchedulerKubeconfig());
  struct stat found;
  ASSERT_EQ(0, stat(keptFile.cStr(), &found));
  EXPECT_EQ(0600u, found.st_mode & 07777);
  auto kept = KJ_ASSERT_NONNULL(readKeptSecrets(keptFile));
  capnp::MallocMessageBuilder message;
  auto again = message.initRoot<Secrets>();
  auto identity = [&]() {
    auto root = KJ_ASSERT_NONNULL(store.tryGet<rpc::RootSecretSpec>(kKubernetesRootId));
    return identityOf(root.getK8s(), 6443, storedNames(store, nullptr), nullptr);
  };
  EXPECT_FALSE(
      renewKubernetesSecrets(identity(), kept->getRoot<Secrets>().asReader(), clock.now(), again));
  EXPECT_EQ(api, crt(again.getApiServer()));
  EXPECT_EQ(kubeconfig, kj::StringPtr(again.getSchedulerKubeconfig()));
  // A damaged certificate is issued again, without the others.
  auto damaged = kept->getRoot<Secrets>();
  damaged.getApiServer().setCrt("damaged"_kj.asBytes());
  damaged.setAdminKubeconfig("damaged");
  EXPECT_TRUE(renewKubernetesSecrets(identity(), damaged.asReader(), clock.now(), again));
  EXPECT_NE(api, crt(again.getApiServer()));
  EXPECT_EQ(kubeconfig, kj::StringPtr(again.getSchedulerKubeconfig()));
  writeFileAtomically(keptFile, "damaged damaged damaged"_kj, 0600);
  EXPECT_THROW(readKeptSecrets(keptFile), kj::Exception);
}

// Catches: a key that is made again for another name in the text of a kubeconfig; a kubeconfig that
// keeps the old name.
TEST_F(KubernetesControllers, AnotherNameOfTheClusterKeepsTheKeysOfKubeconfigs) {
  begin();
  auto root = KJ_ASSERT_NONNULL(store.tryGet<rpc::RootSecretSpec>(kKubernetesRootId));
  auto identity = identityOf(root.getK8s(), 6443, storedNames(store, nullptr), nullptr);
  std::string before = kj::str(stored().getAdminKubeconfig()).cStr();
  auto keyOf = [](const std::string& kubeconfig) {
    auto at = kubeconfig.find("client-key-data");
    return kubeconfig.substr(at, kubeconfig.find('\n', at) - at);
  };
  identity.cluster = kj::str("another");
  capnp::MallocMessageBuilder message;
  auto renewed = message.initRoot<Secrets>();
  EXPECT_TRUE(renewKubernetesSecrets(identity, stored(), clock.now(), renewed));
  std::string after = kj::str(renewed.getAdminKubeconfig()).cStr();
  EXPECT_NE(std::string::npos, after.find("another"));
  EXPECT_EQ(keyOf(before), keyOf(after));
}

TEST_F(KubernetesControllers, ANewAuthorityIsANewCertificate) {
  begin();
  auto front = crt(stored().getFrontProxy()), api = crt(stored().getApiServer());
  auto other = config::makeSecrets({});
  secrets.aggregatorAuthority = kj::mv(other.aggregatorAuthority);
  publish(document());
  settle();
  EXPECT_NE(front, crt(stored().getFrontProxy()));
  EXPECT_EQ(api, crt(stored().getApiServer()));
  secrets.kubernetesAuthority = kj::mv(other.kubernetesAuthority);
  publish(document());
  settle();
  EXPECT_TRUE(
      pki::isSignedBy(crt(stored().getApiServer()), secrets.kubernetesAuthority.certificate));
}

// Catches: a client of either CA that is refused while one replaces the other; a new key for
// another chain; an API server that does not learn the CAs of kubelets, which it reads once, or is
// restarted for another order of them; a client of the API server that is not restarted.
TEST_F(KubernetesControllers, AnotherAuthorityIsAcceptedBesideIt) {
  begin();
  auto accepting = [&](std::initializer_list<kj::StringPtr> list) {
    kj::Vector<kj::String> items;
    for (auto one : list) {
      items.add(kj::str("{crt: ", kj::encodeBase64(one.asBytes()), "}"));
    }
    publishWith({kj::str("acceptedCAs: [", kj::strArray(items, ", "), "]")});
  };
  auto clientCas = [&] { return readFile(kj::str(folder, "/kube-apiserver/ca.crt")); };
  auto kubeletCas = [&] { return readFile(kj::str(folder, "/kube-apiserver/kubelet-ca.crt")); };
  auto old = kj::str(secrets.kubernetesAuthority.certificate);
  auto oldKey = secrets.kubernetesAuthority.key.clone();
  auto other =
      pki::makeAuthority({.organization = "kubernetes", .keyType = pki::KeyType::kEcdsaP256});
  auto oldByNew = pki::crossSign(other.certificate, other.key, old);
  auto newByOld = pki::crossSign(old, oldKey, other.certificate);
  auto leaf = crt(stored().getApiServer());
  auto key = kj::str(stored().getApiServer().getKey().asChars());
  EXPECT_EQ(old, clientCas());
  accepting({other.certificate, oldByNew});
  EXPECT_EQ(kj::str(old, other.certificate), clientCas());
  EXPECT_EQ(kj::str(leaf, oldByNew), crt(stored().getApiServer()));
  EXPECT_EQ(key, kj::str(stored().getApiServer().getKey().asChars()));
  EXPECT_EQ("2 2 1 1 ", versions()) << "it verifies kubelets of both CAs";
  auto both = kubeletCas();
  EXPECT_EQ(2u, pki::certificatesIn(both).size());

  secrets.kubernetesAuthority = {kj::str(other.certificate), other.key.clone()};
  accepting({old, newByOld});
  EXPECT_EQ(kj::str(other.certificate, old), clientCas());
  auto now = pki::certificatesIn(crt(stored().getApiServer()));
  ASSERT_EQ(now.size(), 2u);
  EXPECT_TRUE(pki::isSignedBy(now[0], other.certificate));
  EXPECT_EQ(now[1], newByOld);
  EXPECT_EQ("3 2 3 2 ", versions()) << "for the CA and its kubeconfig; the API server reads again";
  EXPECT_EQ(both, kubeletCas());
  auto trusted = kube::readAccess(stored().getSchedulerKubeconfig(), "test");
  EXPECT_EQ(trusted.authority, other.certificate);
  EXPECT_EQ(other.certificate, readFile(kj::str(folder, "/kube-controller-manager/ca.crt")))
      << "it signs with one CA";

  accepting({newByOld});
  EXPECT_EQ(other.certificate, clientCas());
  EXPECT_EQ(kj::str(now[0], newByOld), crt(stored().getApiServer()));
  EXPECT_EQ("3 3 3 2 ", versions()) << "kubelets of the old CA are not verified";
  EXPECT_EQ(other.certificate, kubeletCas());
}

// A machine without a clock chip begins in 1970. Catches: certificates of 1970, twice at each boot.
TEST_F(KubernetesControllers, AClockThatNobodyHasSetMakesNothing) {
  auto right = clock.time;
  // The CA is older than the certificates that it signs.
  right += 300 * kj::DAYS;
  clock.time = kj::UNIX_EPOCH + 1 * kj::DAYS;
  begin();
  EXPECT_TRUE(store.tryGet<Secrets>(kKubernetesSecretsId) == nullptr);
  clock.time = right;
  put<rpc::TimeStatusSpec>("node", [](auto spec) { spec.setSynced(true); });
  settle();
  auto first = stored().version();
  put<rpc::TimeStatusSpec>("node", [](auto spec) { spec.setSynced(false); });
  clock.time = right - 1 * kj::HOURS;
  renew();
  EXPECT_EQ(first, stored().version());
  put<rpc::TimeStatusSpec>("node", [](auto spec) { spec.setSynced(true); });
  settle();
  EXPECT_EQ(first + 1, stored().version()) << "the clock was set back";
}

// Catches: a reboot with a slow clock, and certificates of long ago because of it.
TEST_F(KubernetesControllers, AClockThatIsBehindRenewsNothing) {
  begin();
  clock.time += 200 * kj::DAYS;
  renew();
  auto first = stored().version();
  clock.time -= 100 * kj::DAYS;  // it was not set since then
  renew();
  EXPECT_EQ(first, stored().version());
  put<rpc::TimeStatusSpec>("node", [](auto spec) { spec.setSynced(true); });
  settle();
  EXPECT_EQ(first + 1, stored().version()) << "they are of the future";
}

// The state of a node of v0.8 before its control plane is converted.
TEST_F(KubernetesControllers, WhatTheConfigLacksIsSaid) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<rpc::RootSecretSpec>().initK8s();
  auto pair = [](rpc::KeyPair::Builder out) {
    out.setCrt("crt"_kj.asBytes());
    out.setKey("key"_kj.asBytes());
  };
  auto text = [&]() {
    auto e = kj::runCatchingExceptions([&] { identityOf(root, 6443, NodeNames(), nullptr); });
    return std::string(messageOf(KJ_ASSERT_NONNULL(e)).cStr());
  };
  EXPECT_EQ("missing cluster.ca secret", text());
  pair(root.initCa());
  EXPECT_EQ("missing cluster.aggregatorCA secret", text());
  pair(root.initAggregatorCA());
  EXPECT_EQ("missing cluster.serviceAccount secret", text());
}

// Catches: a file that another user can read; a key that a component gets without need; a status
// before the files.
TEST_F(KubernetesControllers, FilesAreOfTheirComponentAlone) {
  begin();
  auto names = [&](kj::StringPtr component) {
    return std::string(kj::strArray(namesIn(kj::str(folder, "/", component)), " ").cStr());
  };
  EXPECT_EQ(
      "aggregator-ca.crt apiserver-kubelet-client.crt apiserver-kubelet-client.key apiserver.crt "
      "apiserver.key auditpolicy.yaml ca.crt encryptionconfig.yaml etcd-client-ca.crt "
      "etcd-client.crt etcd-client.key front-proxy-client.crt front-proxy-client.key "
      "kubelet-ca.crt service-account.key service-account.pub",
      names("kube-apiserver"));
  EXPECT_EQ("ca.crt ca.key kubeconfig service-account.key", names("kube-controller-manager"));
  EXPECT_EQ("kubeconfig", names("kube-scheduler"));
  struct stat found;
  for (auto part :
       {""_kj, "/kube-apiserver"_kj, "/kube-controller-manager"_kj, "/kube-scheduler"_kj}) {
    ASSERT_EQ(0, stat(kj::str(folder, part).cStr(), &found));
    EXPECT_EQ(0700u, found.st_mode & 07777) << part.cStr();
  }
  auto path = kj::str(folder, "/kube-apiserver/encryptionconfig.yaml");
  ASSERT_EQ(0, stat(path.cStr(), &found));
  EXPECT_EQ(0400u, found.st_mode & 07777);
  EXPECT_EQ(kj::str("apiVersion: apiserver.config.k8s.io/v1\n"
                    "kind: EncryptionConfiguration\n"
                    "resources:\n"
                    "  - resources:\n"
                    "      - secrets\n"
                    "    providers:\n"
                    "      - aescbc:\n"
                    "          keys:\n"
                    "            - name: key1\n"
                    "              secret: ",
                    kj::StringPtr(secrets.encryptionSecret), "\n      - identity: {}\n"),
            readFile(path));
  EXPECT_EQ(pki::publicKeyOf(secrets.serviceAccountKey),
            readFile(kj::str(folder, "/kube-apiserver/service-account.pub")));
  // The user "nobody" of most images, and the next numbers.
  for (auto component : kComponents)
    EXPECT_GT(uidOf(component), 65536u) << nameOf(component).cStr();
  EXPECT_NE(uidOf(Component::kApiServer), uidOf(Component::kControllerManager));
  EXPECT_NE(uidOf(Component::kControllerManager), uidOf(Component::kScheduler));
}

// Catches: folders of an earlier release, which others could enter, that stay as they are.
TEST(SecretFiles, CloseFoldersThatAreThere) {
  TestTree tree;
  for (auto path : {"secrets"_kj, "secrets/kube-apiserver"_kj}) {
    tree.directory(path);
    KJ_SYSCALL(chmod(tree.at(path).cStr(), 0755));
  }
  writeSecretFiles(tree.at("secrets"), nullptr, [](Component) { return unsigned(getuid()); });
  for (auto path : {"secrets"_kj, "secrets/kube-apiserver"_kj, "secrets/kube-scheduler"_kj}) {
    struct stat found;
    ASSERT_EQ(0, stat(tree.at(path).cStr(), &found));
    EXPECT_EQ(0700u, found.st_mode & 07777) << path.cStr();
  }
}

// Catches: a secretbox key that is not used, or that makes earlier encrypted data unreadable.
TEST_F(KubernetesControllers, SecretboxEncryptsAndTheOtherKeyStillReads) {
  secrets.secretboxSecret = pki::Pem(kj::str("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="));
  begin();
  auto text = readFile(kj::str(folder, "/kube-apiserver/encryptionconfig.yaml"));
  auto providers = text.slice(KJ_ASSERT_NONNULL(text.findFirst('-')));
  EXPECT_EQ(kj::str("- resources:\n      - secrets\n    providers:\n"
                    "      - secretbox:\n          keys:\n            - name: key2\n"
                    "              secret: ",
                    kj::StringPtr(secrets.secretboxSecret),
                    "\n      - aescbc:\n          keys:\n            - name: key1\n"
                    "              secret: ",
                    kj::StringPtr(secrets.encryptionSecret),
                    "\n      - secretbox:\n          keys:\n            - name: ",
                    config::ownKeyName(kj::StringPtr(secrets.secretboxSecret)),
                    "\n              secret: ", kj::StringPtr(secrets.secretboxSecret),
                    "\n      - identity: {}\n"),
            providers);
  // In the terms of the machine config.
  auto config = document();
  for (auto line :
       {"secretboxEncryptionSecret: AAEC", "aescbcEncryptionSecret: ", "clusterName: demo\n"}) {
    EXPECT_NE(nullptr, strstr(config.cStr(), line)) << line;
  }
  auto root = KJ_ASSERT_NONNULL(store.tryGet<rpc::RootSecretSpec>(kKubernetesRootId));
  EXPECT_EQ(kj::StringPtr("demo"), root.getK8s().getName());
}

// Catches: a key for reading that also writes; a key that writes under the name of the previous
// key; a forgotten key; a state that does not say which keys the files have.
TEST_F(KubernetesControllers, KeysOfSecretsThatAreReplaced) {
  constexpr kj::StringPtr kNext = "HB0eHyAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs="_kj;
  auto next = config::ownKeyName(kNext);
  auto stored = [](kj::StringPtr provider, kj::StringPtr name) {
    return kj::str("k8s:enc:", provider, ":v1:", name, ":");
  };
  auto keys = [&] {
    auto status = KJ_ASSERT_NONNULL(store.tryGet<rpc::SecretStatusSpec>("kube-apiserver"), log);
    kj::Vector<kj::String> list;
    for (auto key : status.getEncryptionKeys()) list.add(kj::str(key));
    return kj::strArray(list, " ");
  };
  auto accepting = [&] { publishWith({kj::str("acceptedEncryptionSecrets: [", kNext, "]")}); };
  begin();
  EXPECT_EQ(keys(), stored("aescbc", "key1"));
  accepting();
  EXPECT_EQ(keys(), kj::str(stored("aescbc", "key1"), " ", stored("secretbox", next), " ",
                            stored("secretbox", "key2")));
  EXPECT_EQ("2 2 1 1 ", versions());
  secrets.secretboxSecret = pki::Pem(kj::str(kNext));
  accepting();
  EXPECT_EQ(keys(), kj::str(stored("secretbox", next), " ", stored("aescbc", "key1"), " ",
                            stored("secretbox", "key2")));
  auto text = readFile(kj::str(folder, "/kube-apiserver/encryptionconfig.yaml"));
  auto first = strstr(text.cStr(), "- name: ");
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(kj::StringPtr(first).startsWith(
      kj::str("- name: ", next, "\n              secret: ", kNext)));
}

// Catches: a token of either key that is refused while one replaces the other; a controller manager
// that gets keys it does not sign with; a state that does not say which keys the files have.
TEST_F(KubernetesControllers, KeysOfServiceAccountsThatAreReplaced) {
  auto ids = [&](kj::StringPtr component) {
    auto status = KJ_ASSERT_NONNULL(store.tryGet<rpc::SecretStatusSpec>(component), log);
    return std::string(kj::strArray(status.getServiceAccountKeys(), " ").cStr());
  };
  auto accepting = [&](std::initializer_list<kj::StringPtr> list) {
    auto items = KJ_MAP(one, list) {
      return kj::str("{key: ", kj::encodeBase64(one.asBytes()), "}");
    };
    publishWith({kj::str("acceptedServiceAccountKeys: [", kj::strArray(items, ", "), "]")});
  };
  auto file = [&] { return readFile(kj::str(folder, "/kube-apiserver/service-account.pub")); };
  auto next = pki::makeKey(pki::KeyType::kEcdsaP256);
  auto oldPublic = pki::publicKeyOf(secrets.serviceAccountKey), newPublic = pki::publicKeyOf(next);
  auto oldId = std::string(pki::tokenKeyId(oldPublic).cStr()),
       newId = std::string(pki::tokenKeyId(newPublic).cStr());
  begin();
  EXPECT_EQ(ids("kube-apiserver"), oldId);
  accepting({newPublic});
  EXPECT_EQ(file(), kj::str(oldPublic, newPublic));
  EXPECT_EQ(ids("kube-apiserver"), oldId + " " + newId);
  EXPECT_EQ(ids("kube-controller-manager"), oldId);
  EXPECT_EQ(ids("kube-scheduler"), "");
  EXPECT_EQ("2 2 1 1 ", versions());
  secrets.serviceAccountKey = kj::mv(next);
  accepting({oldPublic, newPublic});
  EXPECT_EQ(file(), kj::str(newPublic, oldPublic));
  EXPECT_EQ(ids("kube-apiserver"), newId + " " + oldId);
  EXPECT_EQ(ids("kube-controller-manager"), newId);
  EXPECT_EQ("3 3 2 1 ", versions());
  publish(document());
  settle();
  EXPECT_EQ(ids("kube-apiserver"), newId);
  EXPECT_EQ("4 4 2 1 ", versions());
}

// Catches: aggregated API servers that refuse an API server while the CA is replaced; an API server
// whose certificate for them stays, or whose state does not say which CAs it has.
TEST_F(KubernetesControllers, TheAggregatorsCaThatIsReplaced) {
  auto hashes = [&](bool ofEtcd) {
    auto status = KJ_ASSERT_NONNULL(store.tryGet<rpc::SecretStatusSpec>("kube-apiserver"), log);
    return kj::strArray(ofEtcd ? status.getEtcdCAs() : status.getAggregatorCAs(), " ");
  };
  auto accepting = [&](kj::StringPtr one, kj::StringPtr cross) {
    publishWith({kj::str("acceptedAggregatorCAs: [{crt: ", kj::encodeBase64(one.asBytes()),
                         "}, {crt: ", kj::encodeBase64(cross.asBytes()), "}]")});
  };
  auto file = [&] { return readFile(kj::str(folder, "/kube-apiserver/aggregator-ca.crt")); };
  auto old = kj::str(secrets.aggregatorAuthority.certificate);
  auto oldKey = secrets.aggregatorAuthority.key.clone();
  auto next =
      pki::makeAuthority({.commonName = "front-proxy", .keyType = pki::KeyType::kEcdsaP256});
  auto oldHash = pki::authorityHash(old), newHash = pki::authorityHash(next.certificate);
  begin();
  EXPECT_EQ(hashes(false), oldHash);
  EXPECT_EQ(hashes(true), pki::authorityHash(etcdAuthority.certificate));
  accepting(next.certificate, pki::crossSign(next.certificate, next.key, old));
  EXPECT_EQ(file(), kj::str(old, next.certificate));
  EXPECT_EQ(hashes(false), kj::str(oldHash, " ", newHash));
  EXPECT_EQ("2 2 1 1 ", versions());
  secrets.aggregatorAuthority = {kj::str(next.certificate), next.key.clone()};
  accepting(old, pki::crossSign(old, oldKey, next.certificate));
  EXPECT_EQ(file(), kj::str(next.certificate, old));
  EXPECT_EQ(hashes(false), kj::str(newHash, " ", oldHash));
  EXPECT_TRUE(pki::isSignedBy(crt(stored().getFrontProxy()), next.certificate));
  publish(document());
  settle();
  EXPECT_EQ(file(), next.certificate);
  EXPECT_EQ("4 4 1 1 ", versions());
}

// Catches: an API server that continues with the old key, or that is restarted for a certificate of
// etcd.
TEST_F(KubernetesControllers, VersionsRiseWithWhatIsReadOnce) {
  begin();
  EXPECT_EQ("1 1 1 1 ", versions());
  putEtcd();
  settle();
  EXPECT_EQ("1 1 1 1 ", versions());
  secrets.encryptionSecret = config::makeSecrets({}).encryptionSecret.clone();
  publish(document());
  settle();
  EXPECT_EQ("2 2 1 1 ", versions());
  secrets.serviceAccountKey = pki::makeKey(pki::KeyType::kEcdsaP256);
  publish(document());
  settle();
  EXPECT_EQ("3 3 2 1 ", versions());
}

}  // namespace
}  // namespace talos::machined
